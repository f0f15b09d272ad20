// The tensors of a model: one safetensors file, or the many that an index names.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "rotary/files.h"

namespace rotary::files {

// Of an index: the file that holds each tensor, by the tensor's name; at least one. Each lies beside the index.
// operation is the word in brackets of the sentences. Throws FILE, FORMAT, JSON.
std::map<std::string, std::string> read_weight_map(const char* operation, const std::filesystem::path& index);

// Only the files that hold what is asked for are opened, and those once.
class Checkpoint {
 public:
  // A safetensors file, its index (.json), or a folder that holds either. Throws FILE, FORMAT, JSON.
  explicit Checkpoint(const std::filesystem::path&);

  const std::filesystem::path& path() const noexcept { return path_; }  // the file, or the index
  const std::vector<std::string>& names() const noexcept { return names_; }
  TensorInfo info(const std::string& name) const;  // both throw TENSOR
  Tensor read(const std::string& name) const;

 private:
  const SafetensorsFile& file_of(const std::string& name) const;

  std::filesystem::path path_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> shards_;  // by tensor; empty: path_ holds all
  mutable std::map<std::string, SafetensorsFile> open_;
};

}  // namespace rotary::files
