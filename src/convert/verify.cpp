#include "verify.h"

#include <map>
#include <tuple>

#include "files/text/paths.h"
#include "values/fail.h"

namespace rotary::conversion {
namespace {

constexpr const char* operation = "convert";

struct OpenFile {
  explicit OpenFile(const std::filesystem::path& path) : file(operation, path), header(files::read_header(file)) {}
  files::InputFile file;
  files::FileHeader header;
};

Bytes bytes_of(const files::InputFile& file, const files::FileHeader& header, std::size_t entry) {
  const files::Entry& place = header.header.entries.at(entry);
  Bytes bytes(static_cast<std::size_t>(place.end - place.begin));
  file.read(header.data + place.begin, bytes);
  return bytes;
}

}  // namespace

std::vector<VerifiedLayer> verify(const Plan& plan, const std::optional<std::filesystem::path>& converted,
                                  const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  std::vector<std::unique_ptr<OpenFile>> written;
  for (const Shard& shard : plan.folder.shards)
    if (converted) written.push_back(std::make_unique<OpenFile>(*converted / files::path_of(shard.name)));
  std::map<std::tuple<std::string, int, std::string>, std::vector<const TensorPlan*>> layers;
  for (const TensorPlan& tensor : plan.tensors)
    layers[{tensor.name.stack, tensor.name.layer, tensor.name.module}].push_back(&tensor);
  std::vector<VerifiedLayer> verified;
  for (const auto& [place, tensors] : layers) {
    for (const TensorPlan* tensor : tensors) {
      const TensorInfo& info = plan.info(*tensor);
      const Shard& shard = plan.folder.shards[tensor->shard];
      const Bytes source = bytes_of(*shard.file, shard.header, tensor->entry);
      const Bytes result = converted
                               ? bytes_of(written[tensor->shard]->file, written[tensor->shard]->header, tensor->entry)
                               : changed(info, tensor->change, source);
      if (result.size() == source.size() && changed(info, inverse(tensor->change), result) == source) continue;
      fail(Code::CHECK, operation,
           "a converted tensor must give its source's bytes when its change is undone but " +
               files::in_quotes(info.name) + " differs");
    }
    const auto& [stack, layer, module] = place;
    verified.push_back({.layer = stack + "." + std::to_string(layer) + (module.empty() ? "" : "." + module),
                        .tensors = static_cast<int>(tensors.size())});
    if (progress) progress(verified.size(), layers.size());
  }
  return verified;
}

}  // namespace rotary::conversion
