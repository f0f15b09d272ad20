#include "config_place.h"

#include <algorithm>
#include <map>
#include <system_error>

#include "config/stages.h"
#include "gguf/gguf.h"
#include "rotary/choice.h"
#include "tensors/formats.h"
#include "text/descriptors.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary {

namespace {

namespace fs = std::filesystem;
using files::environment;
using files::home_folder;
using files::is_pipe;
using files::printable;

// ---- streams ----

std::string_view text_of_stream(const std::string& config) {
  const std::vector<std::byte>& bytes = tools::bytes_of_stream(config);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Adds the stream's name, which parse_config's errors do not know.
Model read_config_stream(const std::string& config, const ConfigOptions& options) {
  const std::string_view text = text_of_stream(config);
  const std::string name = printable(files::stream_name(files::path_of(config)));
  if (text.empty()) throw Error(Code::FILE, "read_config", "must hold a config but is empty", name);
  if (text.starts_with("GGUF"))
    throw Error(Code::FILE, "read_config", "must be JSON but is a GGUF: name the file", name);
  try {
    return parse_config(text, options);
  } catch (const Error& error) {
    throw error.about(name);
  }
}

// ---- the cache ----

// The folder that a variable names; a leading ~ is the home folder, as in huggingface_hub.
std::string folder_variable(const char* name) {
  const std::string folder = environment(name);
  return folder == "~" || folder.starts_with("~/") ? home_folder() + folder.substr(1) : folder;
}

fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string folder = folder_variable(name); !folder.empty()) return files::path_of(folder);
  }
  if (const std::string home = folder_variable("HF_HOME"); !home.empty()) return files::path_of(home) / "hub";
  const std::string cache = folder_variable("XDG_CACHE_HOME");
  return (cache.empty() ? files::path_of(home_folder()) / ".cache" : files::path_of(cache)) / "huggingface" / "hub";
}

struct Repository {
  std::string id;        // "org/name"
  std::string revision;  // "" if none is named
};

bool is_name(std::string_view text) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text.size() <= 96 && text.front() != '.' && text.front() != '-' &&
         text.find_first_not_of(letters) == text.npos;
}

bool names_file(std::string_view text) {
  return text.ends_with(".json") || text.ends_with(".gguf") || text.ends_with(".safetensors") || text.ends_with(".npy");
}

// The repository of an id; nothing if the word cannot be one.
std::optional<Repository> repository_of(const std::string& config) {
  const auto at = config.find('@');
  const std::string id = config.substr(0, at);
  const std::string revision = at == std::string::npos ? "" : config.substr(at + 1);
  const auto slash = id.find('/');
  const bool named = is_name(id.substr(0, slash)) && (slash == std::string::npos || is_name(id.substr(slash + 1)));
  if (!named || names_file(id) || (at != std::string::npos && revision.empty())) return std::nullopt;
  if (revision.find("..") != std::string::npos || revision.starts_with('/')) return std::nullopt;
  return Repository{id, revision};
}

std::string first_line(const fs::path& file) {
  std::string text;
  try {
    text = files::InputFile("read_config", file).text();
  } catch (const Error&) {
    return "";
  }
  return text.substr(0, text.find_first_of("\r\n \t"));
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool holds_config(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.json", ignored) || fs::exists(folder / "params.json", ignored);
}

// The folder models--org--name/snapshots/COMMIT; refs/REVISION has the commit of a branch or tag.
std::optional<fs::path> snapshot_of(const Repository& repository) {
  std::string name = "models--" + repository.id;
  if (const auto slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  const fs::path folder = cache_folder() / files::path_of(name);
  const std::string revision = repository.revision.empty() ? "main" : repository.revision;
  const std::string commit = first_line(folder / "refs" / files::path_of(revision));
  const fs::path snapshot = folder / "snapshots" / files::path_of(commit.empty() ? revision : commit);
  return is_folder(snapshot) && holds_config(snapshot) ? std::optional(snapshot) : std::nullopt;
}

}  // namespace

fs::path config_path(const std::string& config) {
  const fs::path path = files::path_of(config);
  std::error_code ignored;
  if (is_pipe(path) || fs::exists(path, ignored)) return path;
  if (config.starts_with("https://") || config.starts_with("http://")) {
    fail(Code::FILE, "read_config", "CONFIG must be on this machine, or - for standard input, but got ",
         files::in_quotes(config), ": curl -L URL | rotary inspect -");
  }
  if (names_file(config)) return path;  // a missing file
  const std::optional<Repository> repository = repository_of(config);
  std::string fetch, cache;
  if (repository) {
    if (const auto snapshot = snapshot_of(*repository)) return *snapshot;
    const bool whole = repository->id.find('/') != std::string::npos;
    if (whole) cache = " " + files::in_quotes(files::path_text(cache_folder()));
    fetch = ": to fetch it, hf download " + (whole ? "" : std::string("OWNER/")) + repository->id + " config.json" +
            (repository->revision.empty() ? "" : " --revision " + repository->revision);
  }
  fail(Code::FILE, "read_config",
       "CONFIG must be a config.json, the folder that holds one, or OWNER/NAME of the Hugging Face cache",
       cache, ", but ", files::in_quotes(config), " is none of them",
       fetch);
}

std::string config_text_at(const std::string& config) {
  if (is_pipe(files::path_of(config))) {
    const std::string_view text = text_of_stream(config);
    return std::string(text.starts_with("GGUF") ? "" : text);
  }
  fs::path path = config_path(config);
  std::error_code ignored;
  if (is_folder(path)) path /= fs::exists(path / "config.json", ignored) ? "config.json" : "params.json";
  const files::InputFile file("read_config", path);
  return files::is_gguf(file) ? "" : files::json_file_text("read_config", file);
}

namespace tools {

const std::vector<std::byte>& bytes_of_stream(const std::string& config) {
  static std::map<std::string, std::vector<std::byte>> streams;
  const auto known = streams.find(config);
  if (known != streams.end()) return known->second;
  return streams[config] = files::read_stream(files::path_of(config), files::max_json_bytes + 1);
}

Model read_config_at(const std::string& config, const ConfigOptions& options) {
  if (is_pipe(files::path_of(config))) return read_config_stream(config, options);
  const fs::path path = config_path(config);
  Model model = read_config(path, options);
  if (options.pairing || !is_folder(path)) return model;
  try {
    files::apply_weights_pairing(model, path);
  } catch (const Error&) {  // only the config is requested: unreadable weights are ignored
  }
  return model;
}

}  // namespace tools

}  // namespace rotary
