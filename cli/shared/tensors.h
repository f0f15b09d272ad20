// A file of tensors in memory, and views of its tensors as heads.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/tensors.h"
#include "tensors/formats.h"

namespace rotary::cli {

using files::InputTensors;
using files::is_dash;
using files::is_pipe;
using files::label;
using files::layout_of;
using files::layout_words;

// The format of an output by the ending of its name. Throws FORMAT, with a sentence of its own for /dev/stdout.
files::Format output_format(std::string_view operation, const std::filesystem::path&);

// A copy of the values.
template <class T>
Tensor tensor_of(const std::string& name, std::vector<std::int64_t> shape, std::span<const T> values) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = detail::element_of(static_cast<T*>(nullptr));
  tensor.shape = std::move(shape);
  tensor.bytes = values.size_bytes();
  const auto bytes = std::as_bytes(values);
  tensor.data.assign(bytes.begin(), bytes.end());
  return tensor;
}

// Writes the whole file or nothing; "-" is standard output, as safetensors.
void save(const std::filesystem::path&, const std::vector<Tensor>&, const std::map<std::string, std::string>& metadata);

// Throws FILE if the folder does not exist, or if "-" is a terminal, so that the error comes before the work. json:
// standard output is taken by the command's JSON, and "-" is a UsageError.
void check_output(const std::filesystem::path&, bool json = false);

// The one f32 tensor of an .npy, or the tensor of that name in a safetensors file. Throws TENSOR, DTYPE, SHAPE.
Tensor load_rows(std::string_view operation, const std::filesystem::path&, const std::string& name);

}  // namespace rotary::cli
