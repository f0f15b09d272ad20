// rotary convert: a checkpoint's q and k projections from one pairing to the other.
#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/program.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "config_place.h"
#include "convert/file.h"
#include "convert/plan.h"
#include "convert/verify.h"
#include "convert/write.h"
#include "files/text/paths.h"
#include "rotary/error.h"

namespace rotary::cli {

namespace {

using nlohmann::ordered_json;

using Options = ConvertOptions;

const char* what(const convert::TensorPlan& tensor) {
  switch (tensor.name.role) {
    case convert::Role::q:
      return "q";
    case convert::Role::k:
    case convert::Role::latent:
      return "k";
    case convert::Role::qkv:
      return "q and k";
    case convert::Role::q_norm:
      return "q norm";
    case convert::Role::other:
      return "output";
    default:
      return "k norm";
  }
}

std::string heads_text(const convert::Heads& heads) {
  return counted(heads.q.size() + heads.k.size(), "head") + " of " + std::to_string(heads.dim) + ", elements " +
         std::to_string(heads.block.first) + " to " + std::to_string(heads.block.first + 2 * heads.block.pairs - 1);
}

std::string dotted(const convert::ConfigChange& change) {
  std::string path;
  for (const std::string& word : change.path) path += word + ".";
  return path + change.key;
}

void list_tensors(const convert::Plan& plan) {
  std::vector<Cells> rows;
  for (const convert::TensorPlan& tensor : plan.tensors) {
    const TensorInfo& info = plan.info(tensor);
    rows.push_back({printable(info.name), std::string(name(info.type)) + ' ' + shape_text(info.shape), what(tensor),
                    heads_text(*tensor.heads)});
  }
  const Columns columns = Columns({Column{}, Column{}, Column{}, Column{}}).fit(rows);
  for (const Cells& row : rows) std::cout << columns.line(row) << '\n';
}

std::string pairings(const convert::Plan& plan) { return std::string(name(plan.from)) + " to " + name(plan.to); }

void report(const Options& options, const convert::Plan& plan, const std::vector<convert::LayerCheck>& checks) {
  if (options.dry_run) list_tensors(plan);
  std::size_t total = 0;
  for (const convert::Shard& shard : plan.folder.shards) total += shard.header.header.entries.size();
  std::cout << printable(plan.model_type.empty() ? "the model" : plan.model_type) << ", " << pairings(plan) << ": "
            << plan.tensors.size() << " of " << total << " tensors " << (options.dry_run ? "would change" : "changed")
            << '\n';
  for (const convert::ConfigChange& change : plan.config) {
    std::cout << plan.folder.config << ": " << printable(dotted(change)) << ' '
              << (change.before.empty() ? "absent" : change.before) << " -> "
              << (change.after.empty() ? "absent" : change.after) << '\n';
  }
  for (const convert::LayerCheck& check : checks) {
    std::cout << "verified  " << printable(check.layer) << ": " << check.scores << " scores, "
              << "all equal"
              << (check.difference_unconverted == 0
                      ? std::string(", but so would unconverted weights be: they are alike")
                      : " (unconverted weights: off by " + significant(check.difference_unconverted, 2) + ")")
              << '\n';
  }
  for (const std::string& file : plan.folder.left_out) {
    std::cout << "left out  " << printable(file) << (file.ends_with('/') ? "" : ": not converted") << '\n';
  }
  for (const std::string& note : plan.notes) std::cout << "note: " << printable(note) << '\n';
  if (!options.dry_run) std::cout << "wrote " << printable(options.output) << '\n';
}

ordered_json tensors_json(const convert::Plan& plan) {
  ordered_json list = ordered_json::array();
  for (const convert::TensorPlan& tensor : plan.tensors) {
    const TensorInfo& info = plan.info(tensor);
    list.push_back({{"name", info.name},
                    {"file", plan.folder.shards[tensor.shard].name},
                    {"layer", tensor.name.layer},
                    {"what", what(tensor)},
                    {"dtype", std::string(name(info.type))},
                    {"shape", info.shape},
                    {"q_heads", tensor.heads->q.size()},
                    {"k_heads", tensor.heads->k.size()},
                    {"head_dim", tensor.heads->dim},
                    {"first", tensor.heads->block.first},
                    {"rotary_dim", 2 * tensor.heads->block.pairs}});
  }
  return list;
}

ordered_json text_or_null(const std::string& text) { return text.empty() ? ordered_json() : ordered_json::parse(text); }

ordered_json report_json(const Options& options, const convert::Plan& plan,
                         const std::vector<convert::LayerCheck>& checks) {
  ordered_json report = {{"model_type", plan.model_type},
                         {"from", name(plan.from)},
                         {"to", name(plan.to)},
                         {"dry_run", options.dry_run},
                         {"output", options.dry_run ? ordered_json() : ordered_json(options.output)},
                         {"bytes", convert::bytes_to_write(plan)},
                         {"tensors", tensors_json(plan)}};
  report["config"] = ordered_json::array();
  for (const convert::ConfigChange& change : plan.config) {
    report["config"].push_back(
        {{"key", dotted(change)}, {"before", text_or_null(change.before)}, {"after", text_or_null(change.after)}});
  }
  report["files"] = ordered_json::array();
  for (const convert::Shard& shard : plan.folder.shards) report["files"].push_back(shard.name);
  report["copied"] = plan.folder.others;
  report["left_out"] = plan.folder.left_out;
  report["notes"] = plan.notes;
  if (options.verify) {
    report["verified"] = ordered_json::array();
    for (const convert::LayerCheck& check : checks) {
      report["verified"].push_back({{"layer", check.layer},
                                    {"scores", check.scores},
                                    {"equal", check.largest_difference == 0},
                                    {"largest_difference", check.largest_difference},
                                    {"unconverted_difference", check.difference_unconverted}});
    }
  }
  return report;
}

volatile std::sig_atomic_t signal_received = 0;

extern "C" void remember(int number) { signal_received = number; }

// Ctrl-C and the like stop a conversion between two pieces, so that nothing is left of it.
class StopSignals {
 public:
  StopSignals() : interrupt_(std::signal(SIGINT, remember)), terminate_(std::signal(SIGTERM, remember)) {
    signal_received = 0;
  }
  ~StopSignals() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGTERM, terminate_);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static void check() {
    if (signal_received != 0) throw Stopped{128 + signal_received};
  }

 private:
  using Handler = void (*)(int);
  Handler interrupt_, terminate_;
};

// Without a folder: of what would be written.
std::vector<convert::LayerCheck> verified(const convert::Plan& plan,
                                          const std::optional<std::filesystem::path>& folder) {
  std::unique_ptr<ProgressLine> line;
  std::vector<convert::LayerCheck> checks = convert::verify(plan, folder, [&](std::size_t done, std::size_t layers) {
    StopSignals::check();
    if (!line) line = std::make_unique<ProgressLine>("verify", static_cast<std::int64_t>(layers));
    line->done(static_cast<std::int64_t>(done));
  });
  for (const convert::LayerCheck& check : checks) {
    if (check.largest_difference == 0) continue;
    throw Error(Code::CHECK, "[convert] converted weights must give the same attention scores but those of " +
                                 check.layer + " differ by " + scientific(check.largest_difference, 2));
  }
  return checks;
}

std::vector<convert::LayerCheck> write(const Options& options, const convert::Plan& plan) {
  const std::uint64_t total = convert::bytes_to_write(plan);
  ProgressLine progress("convert, MiB", static_cast<std::int64_t>(std::max<std::uint64_t>(1, total >> 20)));
  std::uint64_t done = 0;
  const StopSignals signals;
  const auto written = [&](std::uint64_t bytes) {
    StopSignals::check();
    done += bytes;
    progress.done(static_cast<std::int64_t>(done >> 20));
  };
  std::vector<convert::LayerCheck> checks;
  convert::write_folder(plan, files::path_of(options.output), written, [&](const std::filesystem::path& folder) {
    progress.clear();
    if (options.verify) checks = verified(plan, folder);
  });
  return checks;
}

void convert_checkpoint(const Options& options) {
  const std::optional<Pairing> from = options.from.empty() ? std::nullopt : std::optional(parse_pairing(options.from));
  const convert::Plan plan = convert::make_plan(files::path_of(options.input), parse_pairing(options.to), from);
  std::vector<convert::LayerCheck> checks;
  if (!options.dry_run) {
    for (const std::filesystem::path& folder : convert::left_behind(files::path_of(options.output)))
      std::cerr << "note: a conversion that was killed has left " << printable(files::path_text(folder)) << '\n';
    checks = write(options, plan);
  } else if (options.verify) {
    const StopSignals signals;
    checks = verified(plan, std::nullopt);
  }
  if (options.json) {
    std::cout << json_text(report_json(options, plan, checks)) << '\n';
  } else {
    report(options, plan, checks);
  }
}

void run(Options options) {
  if (options.output.empty() && !options.dry_run) throw UsageError("--output is required (or --dry-run)");
  try {
    options.input = config_path(options.input);  // a repository of the cache is its folder
  } catch (const Error&) {                       // no repository either: the folder is missing
  }
  const std::filesystem::path input = files::path_of(options.input);
  std::error_code ignored;
  if (std::filesystem::exists(input, ignored) && !std::filesystem::is_directory(input, ignored))
    return convert_file(options);
  if (options.to.empty()) throw UsageError("--to is required: half or interleaved");
  if (!options.form.empty() || !options.config.empty() || !options.tensors.empty() || options.keys.head_dim != 0)
    throw UsageError("--form, --config, --tensor and --head-dim are for a file of tables or keys, not for a folder");
  convert_checkpoint(options);
}

constexpr const char* footer =
    "A folder is a checkpoint of Hugging Face's form: config.json, and model.safetensors or its shards and\n"
    "their index; or an adapter of PEFT with its base model's config.json. Nothing but the order of rows\n"
    "changes: no weight is rounded, and the way back gives the same files. The metadata of the safetensors\n"
    "files say the pairing (rotary.pairing). The output appears whole or not at all.\n"
    "  rotary convert llama --to interleaved --dry-run\n"
    "  rotary convert llama --to interleaved --output llama-interleaved --verify\n"
    "A file is a KV cache, whose keys are reordered, or a table of cos and sin:\n"
    "  rotary convert cache.safetensors --config llama --to interleaved --output c.safetensors\n"
    "  rotary convert table.safetensors --form joined --output joined.safetensors";

void add_file_options(Command& command, Options& options) {
  command.option("--config", options.config, "of a KV cache: the model's config.json or folder").type_name("CONFIG");
  command.option("--head-dim", options.keys.head_dim, "of a KV cache without --config: elements of one head")
      .type_name("N")
      .range(2, 1 << 20);
  command.option("--rotary-dim", options.keys.rotary_dim, "elements that rotate (default: --head-dim)")
      .type_name("N")
      .range(2, 1 << 20);
  command.option("--first", options.keys.first, "the first of them (default: 0)").type_name("N").range(0, 1 << 20);
  command
      .option("--tensor", options.tensors,
              "of a KV cache: names of the keys (default: those named so, as k, layers.0.key or\n"
              "key_cache.0)")
      .type_name("NAME");
  command
      .option("--form", options.form,
              "of a table: pairs, doubled (in the order of --to), joined or complex, as rotary table\n"
              "writes them (default: the form that it has)")
      .one_of({"pairs", "doubled", "joined", "complex"})
      .type_name("WORD");
}

}  // namespace

void add_convert(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "convert", "A checkpoint's q and k to the other pairing; or a KV cache, or a table");
  command
      .option("DIR", options->input,
              "the checkpoint's folder, or a repository in the Hugging Face cache;\n"
              "or a file of keys or of cos and sin")
      .required();
  command.option("--to", options->to, "the pairing to convert to").one_of({"half", "interleaved"}).type_name("WORD");
  command.option("--from", options->from, "the pairing before (default: what the files' metadata say, else the config)")
      .one_of({"half", "interleaved"})
      .type_name("WORD");
  command
      .option("--output", options->output,
              "the folder to write, which must not be there or be empty; of a file, the file")
      .type_name("PATH");
  command.flag("--dry-run", options->dry_run, "list every tensor that would change, and write nothing");
  command.flag("--verify", options->verify,
               "project random hidden states with the weights before and after, rotate, and compare the\n"
               "attention scores of every layer (with --dry-run: of what would be written)");
  command.flag("--json", options->json, "the report as JSON");
  add_file_options(command, *options);
  command.footer(footer);
  command.can_be_quiet();
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
