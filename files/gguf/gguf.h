// GGUF, versions 2 and 3: the metadata and the location of each tensor. Little-endian files only.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rotary/config.h"
#include "text/io.h"
#include "text/json.h"

namespace rotary::files {

struct GgufTensor {
  std::vector<std::int64_t> shape;  // as in the file: the fastest axis first
  std::uint32_t type = 0;           // ggml_type
  std::uint64_t offset = 0;         // in the file
  std::uint64_t bytes = 0;          // 0 for an unknown type
};

bool is_gguf(const InputFile&);  // whether the file begins with "GGUF"

// Reads everything before the data at once. Every count and length is checked against the file's size before anything
// is allocated; duplicate keys and names, overlaps, and keys, names and texts that are not UTF-8 are refused. Arrays of
// text (vocabularies) and of more than 4096 elements are skipped, and so are arrays of numbers after the first 2^20
// values; metadata() has a text in their place. The file must outlive this. Throws FILE, FORMAT, and TENSOR from
// numbers().
class Gguf {
 public:
  explicit Gguf(const InputFile&);
  const Json& metadata() const noexcept { return metadata_; }  // one flat object, keys as in the file
  const GgufTensor* find(const std::string& name) const noexcept;
  // The values of a tensor with one axis, the type F32, F16, BF16 or F64, and at most `max` elements.
  std::vector<double> numbers(const std::string& name, std::int64_t max) const;

 private:
  void check_tensors(std::uint64_t header_bytes);

  const InputFile& file_;
  Json metadata_ = Json::object();
  std::map<std::string, GgufTensor> tensors_;
};

// A file's metadata as a Model: the stage of read_config for files that begin with "GGUF". Throws CONFIG_KEY,
// CONFIG_VALUE, CONFIG_MISSING, MODEL_TYPE, ROPE, TENSOR.
Model read_gguf(const InputFile&, const ConfigOptions&);

}  // namespace rotary::files
