// The tensors of a model: one safetensors file, or the files that an index names.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rotary/tensors.h"

namespace rotary::files {

// Reads an index: for each tensor name the file with the tensor; it is not empty. All files are in the index's folder.
// operation is the word in brackets in error sentences. Throws FILE, FORMAT, JSON.
std::map<std::string, std::string> read_weight_map(const char* operation, const std::filesystem::path& index);

// The metadata key of the files of a checkpoint whose q and k rotary convert has reordered: "half", "interleaved".
inline constexpr const char* pairing_key = "rotary.pairing";
inline constexpr const char* part_key = "rotary.pairing_part";  // "text_config"; absent: the whole model

// The weights in a folder, a file or an index, of a model or else of an adapter; empty if there are none.
std::optional<std::filesystem::path> weights_in(const std::filesystem::path& folder);

// A checkpoint. Opens only the files with requested tensors, and each of them once.
class Checkpoint {
 public:
  // From a safetensors file, its index (.json), or the folder of either. Throws FILE, FORMAT, JSON.
  explicit Checkpoint(const std::filesystem::path&);

  const std::filesystem::path& path() const noexcept { return path_; }  // the file, or the index
  const std::vector<std::string>& names() const noexcept { return names_; }
  TensorInfo info(const std::string& name) const;  // both throw TENSOR
  Tensor read(const std::string& name) const;
  std::string metadata(const std::string& key) const;  // from the first file that has the key; "" if none has it

 private:
  const SafetensorsFile& file_of(const std::string& name) const;

  std::filesystem::path path_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> shards_;  // file names by tensor; empty: path_ has all tensors
  mutable std::map<std::string, SafetensorsFile> open_;
};

}  // namespace rotary::files
