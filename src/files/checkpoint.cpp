#include "checkpoint.h"

#include "io.h"
#include "json.h"
#include "rotary/error.h"

namespace rotary::files {
namespace {

constexpr const char* usual_names[] = {"model.safetensors", "model.safetensors.index.json", "consolidated.safetensors",
                                       "consolidated.safetensors.index.json"};

std::filesystem::path file_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : usual_names) {
    if (std::filesystem::exists(folder / name, ignored)) return folder / name;
  }
  throw Error("FILE", "[weights] a folder must hold model.safetensors or model.safetensors.index.json but " +
                          in_quotes(folder.string()) + " holds neither");
}

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) path_ = file_in(path);
  if (path_.extension() == ".json") {
    read_index();
  } else {
    const SafetensorsFile& file = open_.try_emplace("", path_).first->second;
    for (const TensorInfo& tensor : file.tensors()) names_.push_back(tensor.name);
  }
}

// {"weight_map": {"tensor": "model-00001-of-00002.safetensors", ...}}
void Checkpoint::read_index() {
  const InputFile file("weights", path_);
  const auto fail = [this](const std::string& rule) {
    throw Error("FORMAT", "[weights] " + path_.string() + ": " + rule);
  };
  if (file.size() > (16u << 20))
    fail("an index must be at most 16 MB but has " + std::to_string(file.size()) + " bytes");
  const Json index = parse_json(file.text());
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) fail("an index must have the object weight_map but it is missing");
  for (const auto& [name, shard] : map->items()) {
    const std::string text = shard.is_string() ? shard.get<std::string>() : "";
    if (text.empty() || text.find_first_of("/\\") != std::string::npos || text == "..") {
      fail("weight_map must name files beside the index but " + in_quotes(name) + " is in " + shown(shard));
    }
    names_.push_back(name);
    shards_[name] = text;
  }
}

const SafetensorsFile& Checkpoint::file_of(const std::string& name) const {
  if (shards_.empty()) return open_.at("");
  const auto shard = shards_.find(name);
  if (shard == shards_.end()) {
    throw Error("TENSOR", "[weights] " + path_.string() + ": no tensor is named " + in_quotes(name));
  }
  return open_.try_emplace(shard->second, path_.parent_path() / shard->second).first->second;
}

TensorInfo Checkpoint::info(const std::string& name) const {
  const SafetensorsFile& file = file_of(name);
  const TensorInfo* found = file.find(name);
  if (found == nullptr) {
    throw Error("TENSOR", "[weights] " + path_.string() + ": the file that the index names for " + in_quotes(name) +
                              " must hold it but does not");
  }
  return *found;
}

Tensor Checkpoint::read(const std::string& name) const { return file_of(name).read(name); }

}  // namespace rotary::files
