#include "file.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "../config_place.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "convert/forms.h"
#include "convert/rewrite.h"
#include "files/text/paths.h"
#include "rotary/error.h"

namespace rotary::cli {

namespace {

using nlohmann::ordered_json;

// ---- KV caches -----------------------------------------------------------------------------------

void write_npy_cache(const ConvertOptions& options, const convert::CachePlan& plan) {
  const Tensor tensor = read_npy(files::path_of(options.input));
  Tensor changed = tensor;
  changed.data.clear();
  const convert::Reader read = [&tensor](std::uint64_t offset, std::span<std::byte> out) {
    std::copy_n(tensor.data.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  };
  convert::stream_changed(tensor, plan.tensors.front().change, read, [&changed](std::span<const std::byte> bytes) {
    changed.data.insert(changed.data.end(), bytes.begin(), bytes.end());
  });
  write_npy(files::path_of(options.output), changed);
}

void write_cache(const ConvertOptions& options, const convert::CachePlan& plan) {
  convert::Shard shard;
  shard.file = std::make_unique<files::InputFile>("convert", files::path_of(options.input));
  shard.header = files::read_header(*shard.file);
  std::map<std::size_t, const convert::Change*> changes;
  for (const convert::CacheTensor& tensor : plan.tensors) changes[tensor.entry] = &tensor.change;
  const std::string header =
      convert::stamped_header(shard.header, {.from = plan.from, .to = plan.to, .part = "", .config = ""});
  files::write_whole("convert", files::path_of(options.output),
                     [&](const files::Sink& sink) { convert::rewrite(shard, header, changes, sink); });
}

ordered_json cache_json(const ConvertOptions& options, const convert::CachePlan& plan) {
  ordered_json report = {{"kind", "cache"},
                         {"from", name(plan.from)},
                         {"to", name(plan.to)},
                         {"dry_run", options.dry_run},
                         {"output", options.dry_run ? ordered_json() : ordered_json(options.output)},
                         {"tensors", ordered_json::array()}};
  for (const convert::CacheTensor& tensor : plan.tensors) {
    report["tensors"].push_back({{"name", tensor.info.name},
                                 {"dtype", std::string(name(tensor.info.type))},
                                 {"shape", tensor.info.shape},
                                 {"head_dim", tensor.head_dim},
                                 {"first", tensor.block.first},
                                 {"rotary_dim", 2 * tensor.block.pairs}});
  }
  return report;
}

void convert_cache(const ConvertOptions& options, const std::vector<TensorInfo>& infos) {
  if (options.to.empty()) throw UsageError("--to is required: half or interleaved");
  if (options.config.empty() == (options.keys.head_dim == 0))
    throw UsageError("a KV cache needs --config, or --head-dim and --from");
  if (options.config.empty() && options.keys.first + options.keys.rotary_dim > options.keys.head_dim)
    throw UsageError("--first and --rotary-dim must lie within --head-dim");
  convert::CacheRequest request;
  request.to = parse_pairing(options.to);
  if (!options.from.empty()) request.from = parse_pairing(options.from);
  std::optional<Model> model;
  if (!options.config.empty()) model = read_config_at(options.config, {});
  request.model = model ? &*model : nullptr;
  request.keys = options.keys;
  request.tensors = options.tensors;
  const bool npy = is_npy(files::path_of(options.input));
  if (npy) request.tensors = {""};
  const convert::CachePlan plan = convert::plan_cache(infos, tensor_metadata(files::path_of(options.input)), request);
  if (!options.dry_run) npy ? write_npy_cache(options, plan) : write_cache(options, plan);
  if (options.json) {
    std::cout << json_text(cache_json(options, plan)) << '\n';
    return;
  }
  for (const convert::CacheTensor& tensor : plan.tensors) {
    std::cout << (options.dry_run ? "would change  " : "changed  ") << printable(tensor.info.name)
              << (tensor.info.name.empty() ? "" : "  ") << name(tensor.info.type) << ' '
              << shape_text(tensor.info.shape) << ": heads of " << tensor.head_dim << ", elements "
              << tensor.block.first << " to " << tensor.block.first + 2 * tensor.block.pairs - 1 << '\n';
  }
  std::cout << "keys, " << name(plan.from) << " to " << name(plan.to) << ": " << plan.tensors.size() << " of "
            << infos.size() << " tensors\n";
  if (!options.dry_run) std::cout << "wrote " << printable(options.output) << '\n';
}

// ---- tables --------------------------------------------------------------------------------------

std::string words_of(const convert::TableForm& form) {
  std::string words = name(form.form);
  if (form.form == convert::Form::doubled && form.pairing != Pairing::unset)
    words += std::string(" (") + name(form.pairing) + ")";
  return words;
}

// The form to write: --form, or that of the input in the order of --to.
convert::TableForm wanted_form(const ConvertOptions& options, const convert::TableForm& before) {
  convert::TableForm wanted = before;
  if (!options.form.empty()) wanted.form = convert::parse_form(options.form);
  if (!options.to.empty()) wanted.pairing = parse_pairing(options.to);
  const bool doubled = wanted.form == convert::Form::doubled;
  if (doubled && wanted.pairing == Pairing::unset)
    throw UsageError("--to is required: the form doubled repeats the values in the order of half or of interleaved");
  if (!doubled) wanted.pairing = Pairing::unset;
  const bool same = wanted.form == before.form && (!doubled || wanted.pairing == before.pairing);
  if (same) {
    throw Error(Code::PAIRING, "[convert] a table must be in another form but is " + words_of(before) + " already" +
                                   (doubled ? "" : ", which is the same for both pairings"));
  }
  return wanted;
}

void convert_table(const ConvertOptions& options) {
  if (!options.config.empty() || !options.tensors.empty() || options.keys.head_dim != 0)
    throw UsageError("--config, --tensor and --head-dim are for keys, but the file holds a table");
  const std::filesystem::path input = files::path_of(options.input), output = files::path_of(options.output);
  std::map<std::string, std::string> metadata = tensor_metadata(input);
  const convert::TableTensors table =
      convert::table_of(read_tensors(input), metadata.count("form") != 0 ? metadata.at("form") : "");
  const convert::TableForm wanted = wanted_form(options, table.form);
  std::vector<Tensor> tensors = convert::in_form(table, wanted);
  const std::size_t count = tensors.size();
  tensors.insert(tensors.end(), table.rest.begin(), table.rest.end());
  if (options.dry_run || !is_npy(output)) {
    metadata["form"] = name(wanted.form);
    if (wanted.form == convert::Form::doubled) metadata["pairing"] = name(wanted.pairing);
  } else {
    metadata.clear();
  }
  if (!options.dry_run) write_tensors(output, tensors, metadata);
  if (options.json) {
    ordered_json report = {{"kind", "table"},
                           {"from", name(table.form.form)},
                           {"to", name(wanted.form)},
                           {"dry_run", options.dry_run},
                           {"output", options.dry_run ? ordered_json() : ordered_json(options.output)},
                           {"tensors", ordered_json::array()}};
    for (std::size_t i = 0; i < count; ++i)
      report["tensors"].push_back({{"name", tensors[i].name}, {"shape", tensors[i].shape}});
    std::cout << json_text(report) << '\n';
    return;
  }
  std::cout << "table, " << words_of(table.form) << " to " << words_of(wanted) << ": ";
  for (std::size_t i = 0; i < count; ++i)
    std::cout << (i == 0 ? "" : ", ") << printable(tensors[i].name) << ' ' << shape_text(tensors[i].shape);
  std::cout << '\n';
  if (!options.dry_run) std::cout << "wrote " << printable(options.output) << '\n';
}

}  // namespace

void convert_file(const ConvertOptions& options) {
  if (options.verify) throw UsageError("--verify is for a checkpoint's folder");
  const std::filesystem::path path = files::path_of(options.input);
  const std::vector<TensorInfo> infos = tensor_infos(path);
  if (convert::is_checkpoint(infos)) {
    throw Error(Code::FORMAT,
                "[convert] a checkpoint must be named by its folder, which holds its config.json, but got '" +
                    options.input + "'");
  }
  if (!options.dry_run) check_output(files::path_of(options.output));
  const bool table = !options.form.empty() || convert::has_table(infos, is_npy(path));
  table ? convert_table(options) : convert_cache(options, infos);
}

}  // namespace rotary::cli
