#include "checkpoint.h"

#include <string_view>

#include "rotary/error.h"
#include "text/io.h"
#include "text/json.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// The names that transformers, Mistral, Meta, diffusers and adapters have.
constexpr const char* default_names[] = {"model.safetensors",
                                         "model.safetensors.index.json",
                                         "consolidated.safetensors",
                                         "consolidated.safetensors.index.json",
                                         "diffusion_pytorch_model.safetensors",
                                         "diffusion_pytorch_model.safetensors.index.json",
                                         "adapter_model.safetensors"};

std::filesystem::path file_in(const std::filesystem::path& folder) {
  if (const auto found = weights_in(folder)) return *found;
  fail(Code::FILE, "weights",
       "a folder must hold model.safetensors, diffusion_pytorch_model.safetensors or the index.json of one but ",
       in_quotes(path_text(folder)), " holds neither");
}

// Whether name is a file of the same folder: an index must not name files elsewhere.
bool is_plain_name(std::string_view name) {
  constexpr std::string_view separators("/\\\0", 3);
  return !name.empty() && name != "." && name != ".." && name.find_first_of(separators) == std::string_view::npos &&
         !path_of(name).has_root_name();  // a drive of Windows'
}

}  // namespace

std::optional<std::filesystem::path> weights_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : default_names) {
    if (std::filesystem::exists(folder / name, ignored)) return folder / name;
  }
  return std::nullopt;
}

// {"weight_map": {"tensor": "model-00001-of-00002.safetensors", ...}}
std::map<std::string, std::string> read_weight_map(const char* operation, const std::filesystem::path& path) {
  const auto fail = [&](const auto&... rule) { detail::fail(Code::FORMAT, operation, path_text(path), ": ", rule...); };
  const Json index = parse_json(json_file_text(operation, path));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) fail("an index must have the object weight_map but it is missing");
  if (map->empty()) fail("an index must have the object weight_map but it is empty");
  std::map<std::string, std::string> files;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_name(shard.get_ref<const std::string&>())) {
      fail("weight_map must name files beside the index but ", in_quotes(name), " is in ", shown(shard));
    }
    files[name] = shard.get<std::string>();
  }
  return files;
}

Checkpoint::Checkpoint(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) path_ = file_in(path);
  if (path_.extension() == ".json") {
    shards_ = read_weight_map("weights", path_);
    for (const auto& [name, shard] : shards_) names_.push_back(name);
  } else {
    const SafetensorsFile& file = open_.try_emplace("", path_).first->second;
    for (const TensorInfo& tensor : file.tensors()) names_.push_back(tensor.name);
  }
}

const SafetensorsFile& Checkpoint::file_of(const std::string& name) const {
  if (shards_.empty()) return open_.at("");
  const auto shard = shards_.find(name);
  if (shard == shards_.end()) {
    fail(Code::TENSOR, "weights", path_text(path_), ": no tensor is named ", in_quotes(name));
  }
  return open_.try_emplace(shard->second, path_.parent_path() / path_of(shard->second)).first->second;
}

TensorInfo Checkpoint::info(const std::string& name) const {
  const SafetensorsFile& file = file_of(name);
  const TensorInfo* found = file.find(name);
  if (found == nullptr) {
    fail(Code::TENSOR, "weights", path_text(path_), ": the file that the index names for ", in_quotes(name),
         " must hold it but does not");
  }
  return *found;
}

Tensor Checkpoint::read(const std::string& name) const { return file_of(name).read(name); }

std::string Checkpoint::metadata(const std::string& key) const {
  for (const std::string& name : names_) {
    const auto shard = shards_.find(name);
    std::error_code ignored;
    if (shard != shards_.end() && !std::filesystem::exists(path_.parent_path() / path_of(shard->second), ignored))
      continue;
    const std::map<std::string, std::string>& all = file_of(name).metadata();
    const auto found = all.find(key);
    return found == all.end() ? std::string() : found->second;
  }
  return {};
}

}  // namespace rotary::files
