// The public functions: which of the three an input is, the report of a checkpoint, and the JSON of all.
#include "rotary/convert.h"

#include "files/text/paths.h"
#include "steps.h"
#include "values/fail.h"

namespace rotary {
namespace conversion {
namespace {

using files::OrderedJson;
using files::path_text;

ConvertResult convert_checkpoint(const ConvertRequest& request) {
  const Plan plan = make_plan(request.input, *request.to, request.from);
  ConvertResult result{.kind = ConvertKind::checkpoint, .dry_run = request.dry_run, .output = request.output};
  result.model_type = plan.text.model_type;
  result.from = plan.from;
  result.to = plan.to;
  result.bytes = bytes_to_write(plan);
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

// ---- JSON ----------------------------------------------------------------------------------------

OrderedJson output_of(const ConvertResult& result) {
  return result.dry_run ? OrderedJson() : OrderedJson(path_text(result.output));
}
OrderedJson text_or_null(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson::parse(text); }

OrderedJson json_of(const ConvertedTensor& tensor, ConvertKind kind) {
  const bool checkpoint = kind == ConvertKind::checkpoint, table = kind == ConvertKind::table;
  OrderedJson json = {{"name", tensor.info.name}};
  if (checkpoint) json.update({{"file", tensor.file}, {"layer", tensor.layer}, {"what", tensor.what}});
  if (!table) json["dtype"] = name(tensor.info.type);
  json["shape"] = tensor.info.shape;
  if (checkpoint) json.update({{"q_heads", tensor.q_heads}, {"k_heads", tensor.k_heads}});
  if (!table) json.update({{"head_dim", tensor.head_dim}, {"first", tensor.first}, {"rotary_dim", tensor.rotary_dim}});
  return json;
}

OrderedJson checkpoint_json(const ConvertResult& result) {
  OrderedJson report = {{"model_type", result.model_type}, {"from", name(result.from)},     {"to", name(result.to)},
                        {"dry_run", result.dry_run},       {"output", output_of(result)},   {"bytes", result.bytes},
                        {"tensors", OrderedJson::array()}, {"config", OrderedJson::array()}};
  for (const ConvertedTensor& tensor : result.tensors) report["tensors"].push_back(json_of(tensor, result.kind));
  for (const ChangedKey& change : result.config) {
    report["config"].push_back(
        {{"key", change.key}, {"before", text_or_null(change.before)}, {"after", text_or_null(change.after)}});
  }
  report["files"] = result.files;
  report["copied"] = result.copied;
  report["left_out"] = result.left_out;
  report["notes"] = result.notes;
  if (!result.verified) return report;
  report["verified"] = OrderedJson::array();
  for (const VerifiedLayer& layer : *result.verified)
    report["verified"].push_back({{"layer", layer.layer}, {"tensors", layer.tensors}, {"equal", true}});
  return report;
}

OrderedJson file_json(const ConvertResult& result) {
  const bool table = result.kind == ConvertKind::table;
  OrderedJson report = {{"kind", table ? "table" : "cache"},
                        {"from", table ? name(result.table_from.form) : name(result.from)},
                        {"to", table ? name(result.table_to.form) : name(result.to)},
                        {"dry_run", result.dry_run},
                        {"output", output_of(result)},
                        {"tensors", OrderedJson::array()}};
  for (const ConvertedTensor& tensor : result.tensors) report["tensors"].push_back(json_of(tensor, result.kind));
  return report;
}

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored);
}

}  // namespace
}  // namespace conversion

ConvertKind convert_kind(const std::filesystem::path& input, bool as_table) {
  if (!conversion::is_file(input)) return ConvertKind::checkpoint;
  const std::vector<TensorInfo> tensors = tensor_infos(input);
  if (conversion::is_checkpoint(tensors)) {
    fail(Code::FORMAT, "convert", "a checkpoint must be named by its folder, which holds its config.json, but got '",
         files::path_text(input), "'");
  }
  return as_table || conversion::has_table(tensors) ? ConvertKind::table : ConvertKind::keys;
}

ConvertResult convert(const ConvertRequest& request) {
  const ConvertKind kind = convert_kind(request.input, request.form.has_value());
  if (kind == ConvertKind::table) return conversion::convert_table(request);
  if (!request.to || (*request.to != Pairing::half && *request.to != Pairing::interleaved))
    fail(Code::PAIRING, "convert", "the pairing to convert to must be half or interleaved");
  return kind == ConvertKind::keys ? conversion::convert_keys(request) : conversion::convert_checkpoint(request);
}

std::string to_json(const ConvertResult& result) {
  return files::json_text(result.kind == ConvertKind::checkpoint ? conversion::checkpoint_json(result)
                                                                 : conversion::file_json(result));
}

}  // namespace rotary
