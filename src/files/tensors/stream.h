// Bytes of tensors from a pipe and to standard output, where no name says the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats.h"

namespace rotary::files {

// Reads to the end; path "-" is standard input. A stream that begins as neither format does is read up to `most` bytes.
// Throws FILE.
std::vector<std::byte> read_stream(const std::filesystem::path& path, std::size_t most = SIZE_MAX);
std::string stream_name(const std::filesystem::path& path);  // for error sentences: "standard input", or path

// By the first bytes; empty if they are of neither format.
std::optional<Format> format_of(std::span<const std::byte>) noexcept;

// Throws FILE.
void write_to_standard_output(std::span<const std::byte>);

}  // namespace rotary::files
