#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "plan.h"
#include "tensors/checkpoint.h"

namespace rotary::conversion {
namespace {

namespace fs = std::filesystem;

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&name](std::string_view end) { return name.ends_with(end); });
}

// Whether a file has weights in an unsupported form, which would be in the wrong pairing in a converted folder.
bool is_other_weights(const std::string& name) {
  return ends_with_any(name, {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".onnx_data", ".gguf", ".npz",
                              ".tflite", ".ot", ".safetensors", ".bin.index.json", ".safetensors.index.json"});
}

using Names = std::set<std::string>;

[[noreturn]] void refuse_listing(const fs::path& folder, const std::error_code& error) {
  fail(Code::FILE, operation, path_text(folder), ": cannot be listed: ", error.message());
}

Names names_in(const fs::path& folder, bool folders) {
  Names names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) == folders) names.insert(path_text(entry->path().filename()));
  }
  if (error) refuse_listing(folder, error);
  return names;
}

// The folders of modules.json (sentence-transformers) that follow the model, such as "2_Dense": their weights have no
// heads.
Names modules_behind(const fs::path& folder, const Names& names) {
  Names found;
  if (!names.contains("modules.json")) return found;
  const files::Json modules = files::parse_json(files::json_file_text(operation, folder / "modules.json"));
  for (const files::Json& module : modules)
    if (!files::string_of(module, "type").ends_with("Transformer")) found.insert(files::string_of(module, "path"));
  return found;
}

// Adds the files and folders below a subfolder ("1_Pooling/config.json"). A folder that is hidden, or has weights among
// its files where there may be none, is left out, as is a link that leads to no file.
void add_subfolder(Folder& folder, const std::string& name, bool may_hold_weights) {
  bool left_out = name.starts_with('.');
  Names files, folders = {name}, others;  // others: links to folders, which may lead in a circle, and to nothing
  std::error_code error;
  fs::recursive_directory_iterator entry(folder.path / path_of(name), error), end;
  for (; !left_out && !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const std::string inside = path_text(entry->path().lexically_relative(folder.path));
    const bool is_folder = entry->is_directory(ignored);
    if (entry->is_regular_file(ignored)) {
      files.insert(inside);
      left_out = is_other_weights(inside) && !may_hold_weights;
    } else if (is_folder && !entry->is_symlink(ignored)) {
      folders.insert(inside);
    } else {
      others.insert(inside + (is_folder ? "/" : ""));
    }
  }
  if (left_out) return folder.left_out.push_back(name + "/");
  if (error) refuse_listing(folder.path / path_of(name), error);
  folder.others.insert(folder.others.end(), files.begin(), files.end());
  folder.subfolders.insert(folder.subfolders.end(), folders.begin(), folders.end());
  folder.left_out.insert(folder.left_out.end(), others.begin(), others.end());
}

struct Weights {
  std::vector<std::string> files;  // the .safetensors files
  Names indices;
  std::map<std::string, std::string> map;  // from the indices: the file of each tensor
};

void read_index(const fs::path& folder, const std::string& index, Weights& weights) {
  Names named;
  for (const auto& [tensor, file] : files::read_weight_map(operation, folder / path_of(index))) {
    weights.map[tensor] = file;
    named.insert(file);
  }
  for (const std::string& file : named) {
    std::error_code ignored;
    if (!fs::exists(folder / path_of(file), ignored)) {
      fail(Code::FILE, operation, path_text(folder / path_of(file)), ": every file that ", index,
           " names must be there but this one is missing");
    }
    weights.files.push_back(file);
  }
  weights.indices.insert(index);
}

// The weights that a framework loads: those of transformers or, if they are missing, the native ones; and those of an
// adapter. A single file of another name is also accepted.
Weights find_weights(const fs::path& folder, const Names& names) {
  Weights weights;
  const auto take = [&](const std::string& stem) {
    const std::string file = stem + ".safetensors", index = file + ".index.json";
    if (names.contains(file)) {
      weights.files.push_back(file);
    } else if (names.contains(index)) {
      read_index(folder, index, weights);
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
  if (!weights.files.empty()) {
    fail(Code::FILE, operation, path_text(folder),
         ": several .safetensors files must have a model.safetensors.index.json but it is missing");
  }
  const bool pickled = std::ranges::any_of(names, [](const std::string& name) {
    return ends_with_any(name, {".bin", ".pt", ".pth"});
  });
  fail(Code::FILE, operation, path_text(folder),
       ": must hold model.safetensors or model.safetensors.index.json but holds neither",
       pickled ? "; PyTorch's own files must be saved as safetensors first" : "");
}

void open_shards(Folder& folder, const Weights& weights) {
  std::map<std::string, std::string> holders;
  for (const std::string& name : weights.files) {
    Shard shard = open_shard(folder.path / path_of(name), name);
    for (const files::Entry& entry : shard.entries()) {
      const auto [holder, fresh] = holders.emplace(entry.info.name, name);
      if (!fresh) {
        fail(Code::TENSOR, operation, "a tensor must be in one file but ", in_quotes(entry.info.name), " is in ",
             holder->second, " and ", name);
      }
    }
    folder.shards.push_back(std::move(shard));
  }
  for (const auto& [tensor, file] : weights.map) {
    const auto holder = holders.find(tensor);
    if (holder != holders.end() && holder->second == file) continue;
    fail(Code::TENSOR, operation, path_text(folder.path / path_of(file)), ": must hold the tensor ", in_quotes(tensor),
         ", as the index says, but does not");
  }
}

void check_adapter(const fs::path& folder) {
  const files::Json json = files::parse_json(files::json_file_text(operation, folder / "adapter_config.json"));
  const std::string type = files::string_of(json, "peft_type");
  if (type.empty() || type == "LORA") return;
  fail(Code::MODEL_TYPE, operation,
       "an adapter must be of the type LORA (with DoRA too), or be merged into its model first, but is of ",
       in_quotes(type));
}

}  // namespace

Shard open_shard(const fs::path& file, const std::string& name) {
  Shard shard{.name = name, .file = std::make_unique<files::InputFile>(operation, file), .header = {}};
  shard.header = files::read_header(*shard.file);
  return shard;
}

Bytes bytes_of(const Shard& shard, std::size_t entry) {
  const files::Entry& place = shard.entries().at(entry);
  Bytes bytes(static_cast<std::size_t>(place.end - place.begin));
  shard.file->read(shard.header.data + place.begin, bytes);
  return bytes;
}

Folder open_folder(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) fail(Code::FILE, operation, path_text(path), ": there is no such folder");
  if (!fs::is_directory(path, ignored)) {
    fail(Code::FORMAT, operation, "a checkpoint must be named by its folder, which holds its config.json, ",
         "but got the file '", path_text(path),
         "' (keys of a cache and tables of cos and sin: docs/convert.md shows the lines of numpy)");
  }
  const Names names = names_in(path, false);
  const bool adapter = names.contains("adapter_config.json");
  Folder folder{.path = path, .config = names.contains("config.json") ? "config.json" : "params.json"};
  if (!names.contains(folder.config)) {
    fail(Code::FILE, operation, path_text(path), ": must hold config.json",
         adapter ? ", the config of the adapter's base model, beside adapter_config.json" : "", " but does not");
  }
  const Weights weights = find_weights(path, names);
  open_shards(folder, weights);
  const auto is_native = [](const std::string& name) { return name.starts_with("consolidated"); };
  if (names.contains("params.json") && std::ranges::any_of(weights.files, is_native)) folder.config = "params.json";
  folder.adapter =
      std::ranges::all_of(weights.files, [](const std::string& name) { return name.starts_with("adapter_model"); });
  for (const std::string& name : names) {
    if (std::ranges::count(weights.files, name) != 0 || name == folder.config) continue;
    const bool left_out = is_other_weights(name) && !weights.indices.contains(name);
    (left_out ? folder.left_out : folder.others).push_back(name);
  }
  const Names modules = modules_behind(path, names);
  for (const std::string& name : names_in(path, true)) add_subfolder(folder, name, modules.contains(name));
  if (adapter) check_adapter(path);
  return folder;
}

std::string common_metadata(const Folder& folder, const char* key) {
  std::string common;
  for (const Shard& shard : folder.shards) {
    const auto found = shard.header.header.metadata.find(key);
    const std::string value = found == shard.header.header.metadata.end() ? "" : found->second;
    if (&shard != &folder.shards.front() && value != common) {
      const auto shown = [](const std::string& text) { return text.empty() ? "missing" : in_quotes(text); };
      fail(Code::FORMAT, operation, "all files of a checkpoint must have been converted but ", key, " is ",
           shown(common), " in ", folder.shards.front().name, " and ", shown(value), " in ", shard.name);
    }
    common = value;
  }
  return common;
}

}  // namespace rotary::conversion
