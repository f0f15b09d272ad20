// The files of a checkpoint.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "files/tensors/safetensors_header.h"
#include "files/text/io.h"

namespace rotary::conversion {

// One .safetensors file, open.
struct Shard {
  std::string name;  // in the folder
  std::unique_ptr<files::InputFile> file;
  files::FileHeader header;

  const std::vector<files::Entry>& entries() const { return header.header.entries; }
};

Shard open_shard(const std::filesystem::path& file, const std::string& name = {});

struct Folder {
  std::filesystem::path path;
  std::string config;    // config.json, or params.json of Mistral's native form
  bool adapter = false;  // an adapter of PEFT, LoRA or DoRA, and no weights of a model
  std::vector<Shard> shards;
  std::vector<std::string> others;      // files that are copied as they are: indices, tokenizer ...
  std::vector<std::string> subfolders;  // of the others, and empty ones
  std::vector<std::string> left_out;    // other forms of the weights, and folders
};

// Opens a checkpoint and checks it: that every file of an index is there, whole, and holds the tensors that the index
// says. Throws FILE, FORMAT, JSON, TENSOR, MODEL_TYPE (an adapter of another type than LORA).
Folder open_folder(const std::filesystem::path&);

// The value of a metadata key, which all shards must have in common; "": none has it. Throws FORMAT.
std::string common_metadata(const Folder&, const char* key);

}  // namespace rotary::conversion
