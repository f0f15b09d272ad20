// The public functions: the steps in order, the report, and its JSON.
#include "plan.h"

namespace rotary {
namespace {

using files::OrderedJson;

OrderedJson object_of(const ConvertedTensor& tensor) {
  return {{"name", tensor.info.name},
          {"file", tensor.file},
          {"layer", tensor.layer},
          {"what", tensor.what},
          {"dtype", name(tensor.info.type)},
          {"shape", tensor.info.shape},
          {"q_heads", tensor.q_heads},
          {"k_heads", tensor.k_heads},
          {"head_dim", tensor.head_dim},
          {"first", tensor.first},
          {"rotary_dim", tensor.rotary_dim}};
}

OrderedJson parsed(const std::string& json) { return json.empty() ? OrderedJson() : OrderedJson::parse(json); }

}  // namespace

ConvertResult convert(const ConvertRequest& request) {
  using namespace conversion;
  if (request.to != Pairing::half && request.to != Pairing::interleaved)
    fail(Code::PAIRING, operation, "the pairing to convert to must be half or interleaved");
  const Plan plan = make_plan(request.input, request.to, request.from);
  ConvertResult result{.model_type = plan.text.model_type,
                       .from = plan.from,
                       .to = plan.to,
                       .dry_run = request.dry_run,
                       .output = request.output,
                       .bytes = bytes_to_write(plan)};
  for (const TensorPlan& tensor : plan.tensors) result.tensors.push_back(tensor.shown);
  for (const Shard& shard : plan.folder.shards) {
    result.files.push_back(shard.name);
    result.all_tensors += shard.entries().size();
  }
  result.config_file = plan.folder.config;
  result.config = plan.config;
  result.copied = plan.folder.others;
  result.left_out = plan.folder.left_out;
  result.notes = plan.notes;
  const auto check = [&](const std::optional<std::filesystem::path>& folder) {
    if (!request.verify) return;
    result.verified = verify(plan, folder, [&](std::uint64_t done, std::uint64_t layers) {
      if (request.progress) request.progress(true, done, layers);
    });
  };
  if (request.dry_run) {
    check(std::nullopt);
    return result;
  }
  for (const std::filesystem::path& folder : left_behind(request.output)) {
    if (request.left_behind) request.left_behind(folder);
  }
  std::uint64_t done = 0;
  const auto written = [&](std::uint64_t bytes) {
    done += bytes;
    if (request.progress) request.progress(false, done, result.bytes);
  };
  write_folder(plan, request.output, written, check);
  return result;
}

std::string to_json(const ConvertResult& result) {
  OrderedJson report = {{"model_type", result.model_type},
                        {"from", name(result.from)},
                        {"to", name(result.to)},
                        {"dry_run", result.dry_run},
                        {"output", result.dry_run ? OrderedJson() : OrderedJson(conversion::path_text(result.output))},
                        {"bytes", result.bytes},
                        {"tensors", OrderedJson::array()},
                        {"config", OrderedJson::array()}};
  for (const ConvertedTensor& tensor : result.tensors) report["tensors"].push_back(object_of(tensor));
  for (const ChangedKey& change : result.config) {
    report["config"].push_back(
        {{"key", change.key}, {"before", parsed(change.before)}, {"after", parsed(change.after)}});
  }
  report["files"] = result.files;
  report["copied"] = result.copied;
  report["left_out"] = result.left_out;
  report["notes"] = result.notes;
  if (result.verified) {
    report["verified"] = OrderedJson::array();
    for (const VerifiedLayer& layer : *result.verified)
      report["verified"].push_back({{"layer", layer.layer}, {"tensors", layer.tensors}, {"equal", true}});
  }
  return files::json_text(report);
}

}  // namespace rotary
