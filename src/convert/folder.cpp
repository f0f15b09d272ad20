#include "folder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "change.h"
#include "files/tensors/checkpoint.h"
#include "files/text/json.h"
#include "files/text/paths.h"
#include "values/fail.h"

namespace rotary::conversion {
namespace {

namespace fs = std::filesystem;
using files::path_text;

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&name](std::string_view end) { return name.ends_with(end); });
}

// Weights in a form that is not read here: in a converted folder they would be in the wrong pairing.
bool is_other_weights(const std::string& name) {
  return ends_with_any(name, {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".onnx_data", ".gguf", ".npz",
                              ".tflite", ".ot", ".safetensors", ".bin.index.json", ".safetensors.index.json"});
}

std::vector<std::string> names_in(const fs::path& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) == folders) names.push_back(path_text(entry->path().filename()));
  }
  if (error) fail(Code::FILE, operation, path_text(folder) + ": cannot be listed: " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

struct Subfolder {
  std::vector<std::string> files;    // "1_Pooling/config.json"
  std::vector<std::string> folders;  // "1_Pooling"
};

// The folders of modules.json (sentence-transformers) that come behind the model, as "2_Dense": their weights have no
// heads.
std::set<std::string> modules_behind(const fs::path& folder, const std::vector<std::string>& names) {
  std::set<std::string> found;
  if (!std::binary_search(names.begin(), names.end(), "modules.json")) return found;
  const files::Json modules = files::parse_json(files::json_file_text(operation, folder / "modules.json"));
  for (const files::Json& module : modules)
    if (!files::string_of(module, "type").ends_with("Transformer")) found.insert(files::string_of(module, "path"));
  return found;
}

// Empty if it is hidden, or if weights are among its files where none may be.
std::optional<Subfolder> plain_subfolder(const fs::path& folder, const std::string& name, bool may_hold_weights) {
  if (name.starts_with('.')) return std::nullopt;
  Subfolder found{.files = {}, .folders = {name}};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder / files::path_of(name), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const std::string inside = path_text(entry->path().lexically_relative(folder));
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) found.folders.push_back(inside);
    if (!entry->is_regular_file(ignored)) continue;
    if (is_other_weights(inside) && !may_hold_weights) return std::nullopt;
    found.files.push_back(inside);
  }
  if (error)
    fail(Code::FILE, operation, path_text(folder / files::path_of(name)) + ": cannot be listed: " + error.message());
  std::sort(found.files.begin(), found.files.end());
  std::sort(found.folders.begin(), found.folders.end());
  return found;
}

struct Weights {
  std::vector<std::string> files;  // .safetensors
  std::vector<std::string> indices;
  std::map<std::string, std::string> map;  // of the indices: the file of each tensor
};

void read_index(const fs::path& folder, const std::string& index, Weights& weights) {
  std::set<std::string> named;
  for (const auto& [tensor, file] : files::read_weight_map(operation, folder / files::path_of(index))) {
    weights.map[tensor] = file;
    named.insert(file);
  }
  for (const std::string& file : named) {
    std::error_code ignored;
    if (!fs::exists(folder / files::path_of(file), ignored)) {
      fail(Code::FILE, operation,
           path_text(folder / files::path_of(file)) + ": every file that " + index +
               " names must be there but this one is missing");
    }
    weights.files.push_back(file);
  }
  weights.indices.push_back(index);
}

// The weights that a framework loads: of transformers, or where these are missing the native ones; and an
// adapter's. A single file of another name is taken too.
Weights find_weights(const fs::path& folder, const std::vector<std::string>& names) {
  const auto has = [&names](std::string_view name) { return std::binary_search(names.begin(), names.end(), name); };
  Weights weights;
  const auto take = [&](const std::string& stem) {
    if (has(stem + ".safetensors")) {
      weights.files.push_back(stem + ".safetensors");
    } else if (has(stem + ".safetensors.index.json")) {
      read_index(folder, stem + ".safetensors.index.json", weights);
    }
  };
  take("model");
  if (weights.files.empty()) take("consolidated");
  take("adapter_model");
  if (!weights.files.empty()) return weights;
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors")) weights.files.push_back(name);
  }
  if (weights.files.size() == 1) return weights;
  const bool pickled = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return ends_with_any(name, {".bin", ".pt", ".pth"});
  });
  fail(Code::FILE, operation,
       weights.files.empty()
           ? path_text(folder) + ": must hold model.safetensors or model.safetensors.index.json but holds neither" +
                 (pickled ? "; PyTorch's own files must be saved as safetensors first" : "")
           : path_text(folder) +
                 ": several .safetensors files must have a model.safetensors.index.json but it is "
                 "missing");
}

void open_shards(Folder& folder, const Weights& weights) {
  std::map<std::string, std::string> holders;
  for (const std::string& name : weights.files) {
    Shard shard = open_shard(folder.path / files::path_of(name), name);
    for (const files::Entry& entry : shard.entries()) {
      const auto [holder, fresh] = holders.emplace(entry.info.name, name);
      if (!fresh) {
        fail(Code::TENSOR, operation,
             "a tensor must be in one file but " + files::in_quotes(entry.info.name) + " is in " + holder->second +
                 " and " + name);
      }
    }
    folder.shards.push_back(std::move(shard));
  }
  for (const auto& [tensor, file] : weights.map) {
    const auto holder = holders.find(tensor);
    if (holder != holders.end() && holder->second == file) continue;
    fail(Code::TENSOR, operation,
         path_text(folder.path / files::path_of(file)) + ": must hold the tensor " + files::in_quotes(tensor) +
             ", as the index says, but does not");
  }
}

void check_adapter(const fs::path& folder) {
  const files::Json json = files::parse_json(files::json_file_text(operation, folder / "adapter_config.json"));
  const std::string type = files::string_of(json, "peft_type");
  if (type.empty() || type == "LORA") return;
  fail(Code::MODEL_TYPE, operation,
       "an adapter must be of the type LORA (with DoRA too), or be merged into its model first, but is of " +
           files::in_quotes(type));
}

}  // namespace

Shard open_shard(const fs::path& file, const std::string& name) {
  Shard shard{.name = name, .file = std::make_unique<files::InputFile>(operation, file), .header = {}};
  shard.header = files::read_header(*shard.file);
  return shard;
}

Folder open_folder(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) fail(Code::FILE, operation, path_text(path), ": there is no such folder");
  if (!fs::is_directory(path, ignored)) {
    fail(Code::FORMAT, operation, "a checkpoint must be named by its folder, which holds its config.json, ",
         "but got the file '", path_text(path),
         "' (keys of a cache and tables of cos and sin: docs/convert.md shows the lines of numpy)");
  }
  const std::vector<std::string> names = names_in(path, false);
  const auto has = [&names](std::string_view name) { return std::binary_search(names.begin(), names.end(), name); };
  Folder folder;
  folder.path = path;
  const bool adapter = has("adapter_config.json");
  folder.config = has("config.json") ? "config.json" : "params.json";
  if (!has(folder.config)) {
    fail(Code::FILE, operation,
         path_text(path) + ": must hold config.json" +
             (adapter ? ", that of the adapter's base model, beside adapter_config.json" : "") + " but does not");
  }
  const Weights weights = find_weights(path, names);
  open_shards(folder, weights);
  folder.adapter = std::all_of(weights.files.begin(), weights.files.end(),
                               [](const std::string& name) { return name.starts_with("adapter_model"); });
  for (const std::string& name : names) {
    const bool is_weights = std::find(weights.files.begin(), weights.files.end(), name) != weights.files.end();
    if (is_weights || name == folder.config) continue;
    const bool index = std::find(weights.indices.begin(), weights.indices.end(), name) != weights.indices.end();
    (is_other_weights(name) && !index ? folder.left_out : folder.others).push_back(name);
  }
  const std::set<std::string> modules = modules_behind(path, names);
  for (const std::string& name : names_in(path, true)) {
    const std::optional<Subfolder> inside = plain_subfolder(path, name, modules.count(name) != 0);
    if (!inside) {
      folder.left_out.push_back(name + "/");
      continue;
    }
    folder.others.insert(folder.others.end(), inside->files.begin(), inside->files.end());
    folder.subfolders.insert(folder.subfolders.end(), inside->folders.begin(), inside->folders.end());
  }
  if (adapter) check_adapter(path);
  return folder;
}

std::string common_metadata(const Folder& folder, const char* key) {
  std::string common;
  for (const Shard& shard : folder.shards) {
    const auto found = shard.header.header.metadata.find(key);
    const std::string value = found == shard.header.header.metadata.end() ? "" : found->second;
    if (&shard != &folder.shards.front() && value != common) {
      const auto said = [](const std::string& text) { return text.empty() ? "missing" : files::in_quotes(text); };
      fail(Code::FORMAT, operation,
           "all files of a checkpoint must have been converted but " + std::string(key) + " is " + said(common) +
               " in " + folder.shards.front().name + " and " + said(value) + " in " + shard.name);
    }
    common = value;
  }
  return common;
}

}  // namespace rotary::conversion
