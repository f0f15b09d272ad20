// The JSON header of a .safetensors file, which has the location of each tensor.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "rotary/tensors.h"
#include "text/io.h"

namespace rotary::files {

constexpr std::uint64_t longest_header = 100'000'000;  // bytes of JSON, the format's own limit
constexpr const char* metadata_name = "__metadata__";  // the key of the metadata among the names of tensors

struct Entry {
  TensorInfo info;
  std::uint64_t begin = 0;  // in bytes after the header
  std::uint64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;  // by increasing begin; they cover [0, data_bytes) without hole or overlap
  std::map<std::string, std::string> metadata;
};

struct FileHeader {
  std::uint64_t data = 0;  // the offset of the first byte after it
  Header header;
};

// Reads and checks a file's header. Throws FILE, FORMAT.
FileHeader read_header(const InputFile&);

// The beginning of a file: the header's length, the JSON, spaces up to a multiple of 8. Each tensor has info.bytes
// bytes. Throws FORMAT.
std::string make_header(std::span<const TensorInfo* const>, const std::map<std::string, std::string>& metadata);
// The header of tensors in memory, whose sizes are checked. Throws FORMAT, SHAPE.
std::string make_header(std::span<const Tensor* const> tensors, const std::map<std::string, std::string>& metadata);

}  // namespace rotary::files
