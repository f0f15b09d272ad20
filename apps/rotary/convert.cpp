// rotary convert: a checkpoint's q and k, the keys of a KV cache or a table of cos and sin in another order.
#include "rotary/convert.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/program.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/text/paths.h"
#include "rotary/error.h"
#include "source.h"
#include "tools/config_place.h"

namespace rotary::cli {

namespace {

struct ConvertOptions {
  std::string input;
  std::string to;
  std::string from;
  std::string output;
  bool dry_run = false;
  bool verify = false;
  bool json = false;
  // of a file
  std::string config;
  int head_dim = 0, rotary_dim = 0, first = 0;
  std::vector<std::string> tensors;
  std::string form;
};

// ---- the report ----------------------------------------------------------------------------------

std::string block_text(const ConvertedTensor& tensor) {
  return "elements " + std::to_string(tensor.first) + " to " + std::to_string(tensor.first + tensor.rotary_dim - 1);
}

std::string type_text(const TensorInfo& info) { return std::string(name(info.type)) + ' ' + shape_text(info.shape); }

void list_tensors(const ConvertResult& result) {
  std::vector<Cells> rows;
  for (const ConvertedTensor& tensor : result.tensors) {
    rows.push_back({printable(tensor.info.name), type_text(tensor.info), tensor.what,
                    counted(static_cast<std::size_t>(tensor.q_heads + tensor.k_heads), "head") + " of " +
                        std::to_string(tensor.head_dim) + ", " + block_text(tensor)});
  }
  std::cout << Columns({{}, {}, {}, {}}).fit(rows).text(rows);
}

void report_checkpoint(const ConvertResult& result) {
  if (result.dry_run) list_tensors(result);
  std::cout << printable(result.model_type.empty() ? "the model" : result.model_type) << ", " << name(result.from)
            << " to " << name(result.to) << ": " << result.tensors.size() << " of " << result.all_tensors << " tensors "
            << (result.dry_run ? "would change" : "changed") << '\n';
  for (const ChangedKey& change : result.config) {
    std::cout << result.config_file << ": " << printable(change.key) << ' '
              << (change.before.empty() ? "absent" : change.before) << " -> "
              << (change.after.empty() ? "absent" : change.after) << '\n';
  }
  for (const VerifiedLayer& layer : result.verified.value_or(std::vector<VerifiedLayer>())) {
    std::cout << "verified  " << printable(layer.layer) << ": "
              << counted(static_cast<std::size_t>(layer.tensors), "tensor")
              << (layer.tensors == 1 ? ", put back, equals its source\n" : ", put back, equal their source\n");
  }
  for (const std::string& file : result.left_out)
    std::cout << "left out  " << printable(file) << (file.ends_with('/') ? "" : ": not converted") << '\n';
  for (const std::string& note : result.notes) std::cout << "note: " << printable(note) << '\n';
}

void report_keys(const ConvertResult& result) {
  for (const ConvertedTensor& tensor : result.tensors) {
    std::cout << (result.dry_run ? "would change  " : "changed  ") << printable(tensor.info.name)
              << (tensor.info.name.empty() ? "" : "  ") << type_text(tensor.info) << ": heads of " << tensor.head_dim
              << ", " << block_text(tensor) << '\n';
  }
  std::cout << "keys, " << name(result.from) << " to " << name(result.to) << ": " << result.tensors.size() << " of "
            << result.all_tensors << " tensors\n";
}

std::string words_of(const TableOrder& order) {
  const bool ordered = order.form == TableForm::doubled && order.pairing != Pairing::unset;
  return name(order.form) + (ordered ? std::string(" (") + name(order.pairing) + ")" : "");
}

void report_table(const ConvertResult& result) {
  std::cout << "table, " << words_of(result.table_from) << " to " << words_of(result.table_to) << ": ";
  for (const ConvertedTensor& tensor : result.tensors) {
    std::cout << (&tensor == &result.tensors.front() ? "" : ", ") << printable(tensor.info.name) << ' '
              << shape_text(tensor.info.shape);
  }
  std::cout << '\n';
}

void report(const ConvertResult& result, const std::string& output) {
  if (result.kind == ConvertKind::checkpoint) report_checkpoint(result);
  if (result.kind == ConvertKind::keys) report_keys(result);
  if (result.kind == ConvertKind::table) report_table(result);
  if (!result.dry_run) std::cout << "wrote " << printable(output) << '\n';
}

// ---- the request ---------------------------------------------------------------------------------

volatile std::sig_atomic_t signal_received = 0;

extern "C" void remember(int number) { signal_received = number; }

// Ctrl-C and the like stop a conversion between two pieces, so that nothing is left of it.
class StopSignals {
 public:
  StopSignals() {
    signal_received = 0;
    for (std::size_t i = 0; i < std::size(numbers); ++i) before_[i] = std::signal(numbers[i], remember);
  }
  ~StopSignals() {
    for (std::size_t i = 0; i < std::size(numbers); ++i) std::signal(numbers[i], before_[i]);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static void check() {
    if (signal_received != 0) throw Stopped{128 + signal_received};
  }

 private:
#ifdef SIGHUP
  static constexpr int numbers[] = {SIGINT, SIGTERM, SIGHUP};
#else
  static constexpr int numbers[] = {SIGINT, SIGTERM};
#endif
  void (*before_[std::size(numbers)])(int) = {};
};

// Two lines after one another: bytes written, layers verified.
class Progress {
 public:
  void operator()(bool verifying, std::uint64_t done, std::uint64_t total) {
    StopSignals::check();
    const int shift = verifying ? 0 : 20;
    if (!line_ || verifying != verifying_) {
      if (line_) line_->clear();
      line_ = std::make_unique<ProgressLine>(verifying ? "verify" : "convert, MiB",
                                             static_cast<std::int64_t>(std::max<std::uint64_t>(1, total >> shift)));
    }
    verifying_ = verifying;
    line_->done(static_cast<std::int64_t>(done >> shift));
  }

 private:
  std::unique_ptr<ProgressLine> line_;
  bool verifying_ = false;
};

void check_keys(const ConvertOptions& options) {
  if (options.to.empty()) throw UsageError("--to is required: half or interleaved");
  if (options.config.empty() == (options.head_dim == 0))
    throw UsageError("a KV cache needs --config, or --head-dim and --from");
  if (options.config.empty() && options.first + options.rotary_dim > options.head_dim)
    throw UsageError("--first and --rotary-dim must lie within --head-dim");
}

void check_table(const ConvertOptions& options) {
  if (!options.config.empty() || !options.tensors.empty() || options.head_dim != 0)
    throw UsageError("--config, --tensor and --head-dim are for keys, but the file holds a table");
  if (!options.to.empty() || (!options.form.empty() && options.form != "doubled")) return;
  const TableOrder order = table_order(files::path_of(options.input));
  if (order.pairing == Pairing::unset && (options.form == "doubled" || order.form == TableForm::doubled))
    throw UsageError("--to is required: the form doubled repeats the values in the order of half or of interleaved");
}

void check_checkpoint(const ConvertOptions& options) {
  if (options.to.empty()) throw UsageError("--to is required: half or interleaved");
  if (!options.form.empty() || !options.config.empty() || !options.tensors.empty() || options.head_dim != 0)
    throw UsageError("--form, --config, --tensor and --head-dim are for a file of tables or keys, not for a folder");
}

ConvertRequest request_of(const ConvertOptions& options, Progress& progress) {
  ConvertRequest request{.input = files::path_of(options.input), .output = files::path_of(options.output)};
  if (!options.to.empty()) request.to = parse_pairing(options.to);
  if (!options.from.empty()) request.from = parse_pairing(options.from);
  request.dry_run = options.dry_run;
  request.verify = options.verify;
  if (!options.config.empty()) request.model = tools::read_config_at(options.config, {});
  request.head_dim = options.head_dim;
  request.rotary_dim = options.rotary_dim;
  request.first = options.first;
  request.tensors = options.tensors;
  if (!options.form.empty()) request.form = parse_table_form(options.form);
  request.progress = std::ref(progress);
  request.left_behind = [](const std::filesystem::path& folder) {
    std::cerr << "note: a conversion that was killed has left " << printable(files::path_text(folder)) << '\n';
  };
  return request;
}

void check_options(const ConvertOptions& options) {
  const std::filesystem::path input = files::path_of(options.input);
  std::error_code ignored;
  const bool is_file = std::filesystem::exists(input, ignored) && !std::filesystem::is_directory(input, ignored);
  if (is_file && options.verify) throw UsageError("--verify is for a checkpoint's folder");
  const ConvertKind kind = convert_kind(input, !options.form.empty());
  if (kind == ConvertKind::checkpoint) return check_checkpoint(options);
  if (!options.dry_run) check_output(files::path_of(options.output));
  kind == ConvertKind::table ? check_table(options) : check_keys(options);
}

void run(ConvertOptions options) {
  if (options.output.empty() && !options.dry_run) throw UsageError("--output is required (or --dry-run)");
  try {
    options.input = tools::config_path(options.input);  // a repository of the cache is its folder
  } catch (const Error&) {                              // no repository either: the folder is missing
  }
  check_options(options);
  std::optional<ConvertResult> result;
  {
    Progress progress;
    const StopSignals signals;
    result = convert(request_of(options, progress));
  }
  if (options.json) {
    std::cout << with_version(to_json(*result)) << '\n';
  } else {
    report(*result, options.output);
  }
}

void add_file_options(Command& command, ConvertOptions& options) {
  command.option("--config", options.config);
  command.option("--head-dim", options.head_dim);
  command.option("--rotary-dim", options.rotary_dim);
  command.option("--first", options.first);
  command.option("--tensor", options.tensors);
  command.option("--form", options.form);
}

}  // namespace

void add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  Command command(app, "convert");
  command.option("DIR", options->input);
  command.option("--to", options->to);
  command.option("--from", options->from);
  command.option("--output", options->output);
  command.option("--dry-run", options->dry_run);
  command.option("--verify", options->verify);
  command.option("--json", options->json);
  add_file_options(command, *options);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
