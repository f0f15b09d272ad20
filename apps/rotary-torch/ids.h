// Token ids in .npy files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

namespace rotary::cli {

// int64 [batch, tokens] from integers of any width, at least one of them, each from 0 to vocabulary - 1. Throws FILE,
// FORMAT, DTYPE, SHAPE, VALUE; operation is the word in brackets.
at::Tensor read_ids(const char* operation, const std::filesystem::path& path, std::int64_t vocabulary);

// As int64; writes the whole file or nothing. Throws FILE.
void write_ids(const std::filesystem::path& path, const at::Tensor& ids);

}  // namespace rotary::cli
