#include <cerrno>
#include <map>
#include <system_error>
#include <tuple>

#include "plan.h"
#include "tensors/checkpoint.h"
#include "text/descriptors.h"

namespace rotary::conversion {
namespace {

namespace fs = std::filesystem;

using files::Sink;

constexpr const char* partial_ending = ".partial-";

[[noreturn]] void refuse(const fs::path& path, const std::string& rule) {
  fail(Code::FILE, operation, path_text(path), ": ", rule);
}

std::string changed_config(const Plan& plan) {
  if (plan.config.empty()) return plan.config_text;
  files::OrderedJson config = files::parse_to_edit(plan.config_text);
  files::OrderedJson& part = *files::object_at(config, plan.text.path);
  for (const ChangedKey& change : plan.config)
    part[change.key.substr(change.key.rfind('.') + 1)] = files::OrderedJson::parse(change.after);
  return files::config_text(config);
}

// A shard with its listed tensors changed, and metadata that say the pairing now.
void rewrite(const Plan& plan, std::size_t index, const Sink& sink) {
  const Shard& shard = plan.folder.shards[index];
  std::map<std::string, std::string> metadata = shard.header.header.metadata;
  metadata[files::pairing_key] = name(plan.to);
  if (!plan.text.path.empty()) metadata[files::part_key] = plan.text.path;
  if (plan.own_indexer) metadata[own_indexer_key] = "true";
  std::vector<const TensorInfo*> infos;
  for (const files::Entry& entry : shard.entries()) infos.push_back(&entry.info);
  const std::string header = files::make_header(infos, metadata);
  sink(files::bytes_of(header));
  std::map<std::size_t, const Change*> changes;
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.shard == index) changes[tensor.entry] = &tensor.change;
  }
  for (std::size_t e = 0; e < shard.entries().size(); ++e) {
    const files::Entry& entry = shard.entries()[e];
    const std::uint64_t begin = shard.header.data + entry.begin;
    const auto found = changes.find(e);
    if (found == changes.end()) {
      shard.file->copy(begin, shard.header.data + entry.end, sink);
      continue;
    }
    const Reader read = [&](std::uint64_t offset, std::span<std::byte> out) { shard.file->read(begin + offset, out); };
    stream_changed(entry.info, *found->second, read, sink);
  }
}

// Code stays executable.
void copy_permissions(const fs::path& from, const fs::path& to) {
  constexpr fs::perms run = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  std::error_code ignored;
  const fs::perms given = fs::status(from, ignored).permissions();
  if (!ignored && (given & run) != fs::perms::none) fs::permissions(to, given & run, fs::perm_options::add, ignored);
}

// Writes all files into the partial folder; error sentences name the place that a file has in the end.
void write_files(const Plan& plan, const fs::path& partial, const fs::path& output,
                 const std::function<void(std::uint64_t)>& progress) {
  const auto write = [&](const std::string& name, const std::function<void(const Sink&)>& produce) {
    const auto counted = [&](const Sink& sink) {
      produce([&](std::span<const std::byte> bytes) {
        sink(bytes);
        progress(bytes.size());
      });
    };
    files::write_whole_as(operation, partial / path_of(name), output / path_of(name), counted);
  };
  const Folder& folder = plan.folder;
  for (std::size_t i = 0; i < folder.shards.size(); ++i)
    write(folder.shards[i].name, [&](const Sink& sink) { rewrite(plan, i, sink); });
  for (const std::string& name : folder.subfolders) {
    std::error_code error;
    fs::create_directories(partial / path_of(name), error);
    if (error) refuse(output / path_of(name), "cannot be made: " + error.message());
  }
  for (const std::string& name : folder.others) {
    const files::InputFile file(operation, folder.path / path_of(name));
    write(name, [&](const Sink& sink) { file.copy(0, file.size(), sink); });
    copy_permissions(folder.path / path_of(name), partial / path_of(name));
  }
  // Last: a folder without its config is no checkpoint.
  const std::string config = changed_config(plan);
  files::write_whole_as(operation, partial / path_of(folder.config), output / path_of(folder.config),
                        [&](const Sink& sink) { sink(files::bytes_of(config)); });
}

// The folder's own path, without "." and a slash at its end. A link is followed.
fs::path normal_path(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  std::error_code missing;
  const fs::path own = normal.has_filename() ? normal : normal.parent_path(), there = fs::canonical(own, missing);
  return missing ? own : there;
}

class PartialFolder {
 public:
  explicit PartialFolder(const fs::path& output) {
    path_ = output;
    path_ += partial_ending + std::to_string(files::process_id());
    std::error_code error;
    if (!fs::create_directory(path_, error)) {
      refuse(path_, error ? "cannot be made: " + error.message() : "must not be there but is");
    }
  }
  ~PartialFolder() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(path_, ignored);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const fs::path& path() const { return path_; }
  void become(const fs::path& output) {
    std::error_code error, ignored;
    fs::rename(path_, output, error);  // also over an empty folder, but on Windows
    if (error && fs::is_directory(output, ignored) && fs::remove(output, ignored)) fs::rename(path_, output, error);
    if (error) refuse(output, "cannot be made of " + path_text(path_) + ": " + error.message());
    kept_ = true;
    if (!files::sync_folder(output.parent_path()))
      refuse(output, "the folder cannot be written to the disk: " + std::generic_category().message(errno));
  }

 private:
  fs::path path_;
  bool kept_ = false;
};

void check_output_folder(const Plan& plan, const fs::path& given) {
  const fs::path output = normal_path(given);
  std::error_code ignored;
  if (fs::equivalent(output, plan.folder.path, ignored))
    refuse(given, "the output must be another folder than the input");
  for (fs::path above = fs::weakly_canonical(output.parent_path(), ignored); !above.empty();) {
    if (fs::equivalent(above, plan.folder.path, ignored)) refuse(given, "the output must not lie in the input");
    above = above.has_relative_path() ? above.parent_path() : fs::path();
  }
  if (fs::exists(fs::symlink_status(output, ignored))) {
    if (!fs::is_directory(output, ignored)) refuse(given, "the output must be a new folder but is a file");
    if (!fs::is_empty(output, ignored)) refuse(given, "the output must be a new folder but holds files already");
  }
  if (!fs::is_directory(output.parent_path(), ignored))
    refuse(given, "the output's parent folder must be there but is not");
  std::error_code unknown;
  const fs::space_info space = fs::space(output.parent_path(), unknown);
  const std::uint64_t needed = bytes_to_write(plan);
  if (!unknown && space.available < needed) {
    refuse(given, "the disk must have room for " + std::to_string(needed) + " bytes but has " +
                      std::to_string(space.available) + " free");
  }
}

}  // namespace

std::vector<fs::path> left_behind(const fs::path& given) {
  const fs::path output = normal_path(given);
  const std::string prefix = path_text(output.filename()) + partial_ending;
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(output.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = path_text(entry->path().filename());
    if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
    if (name.find_first_not_of("0123456789", prefix.size()) == name.npos) found.push_back(entry->path());
  }
  return found;
}

std::uint64_t bytes_to_write(const Plan& plan) {
  std::uint64_t bytes = 0;
  for (const Shard& shard : plan.folder.shards) bytes += shard.file->size();
  for (const std::string& name : plan.folder.others) {
    std::error_code ignored;
    const std::uintmax_t size = fs::file_size(plan.folder.path / path_of(name), ignored);
    if (!ignored) bytes += size;
  }
  return bytes;
}

void write_folder(const Plan& plan, const fs::path& given, const std::function<void(std::uint64_t)>& progress,
                  const std::function<void(const fs::path&)>& check) {
  check_output_folder(plan, given);
  for (const std::string& name : plan.folder.others) files::InputFile(operation, plan.folder.path / path_of(name));
  const fs::path output = normal_path(given);
  PartialFolder partial(output);
  write_files(plan, partial.path(), given, progress);
  if (check) check(partial.path());
  partial.become(output);
}

std::vector<VerifiedLayer> verify(const Plan& plan, const std::optional<std::filesystem::path>& converted,
                                  const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  std::vector<Shard> written;
  for (const Shard& shard : plan.folder.shards)
    if (converted) written.push_back(open_shard(*converted / path_of(shard.name)));
  std::map<std::tuple<std::string, int, std::string>, std::vector<const TensorPlan*>> layers;
  for (const TensorPlan& tensor : plan.tensors)
    layers[{tensor.name.stack, tensor.name.layer, tensor.name.module}].push_back(&tensor);
  std::vector<VerifiedLayer> verified;
  for (const auto& [place, tensors] : layers) {
    for (const TensorPlan* tensor : tensors) {
      const TensorInfo& info = tensor->shown.info;
      const Bytes source = bytes_of(plan.folder.shards[tensor->shard], tensor->entry);
      const Bytes result =
          converted ? bytes_of(written[tensor->shard], tensor->entry) : changed(info, tensor->change, source);
      if (result.size() == source.size() && changed(info, inverse(tensor->change), result) == source) continue;
      fail(Code::CHECK, operation, "a converted tensor must give its source's bytes when its change is undone but ",
           in_quotes(info.name), " differs");
    }
    const TensorName& name = tensors.front()->name;
    verified.push_back({.layer = name.layer_name() + (name.module.empty() ? "" : "." + name.module),
                        .tensors = static_cast<int>(tensors.size())});
    if (progress) progress(verified.size(), layers.size());
  }
  return verified;
}

}  // namespace rotary::conversion
