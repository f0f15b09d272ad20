// rotary convert: a checkpoint's q and k in the other pairing.
#include "rotary/convert.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "rotary/error.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/program.h"
#include "shared/progress_line.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "source.h"
#include "text/descriptors.h"
#include "text/paths.h"
#include "values/names.h"

namespace rotary::cli {

namespace {

// ---- the report ----------------------------------------------------------------------------------

void list_tensors(const ConvertResult& result) {
  std::vector<Cells> rows;
  for (const ConvertedTensor& tensor : result.tensors) {
    rows.push_back({printable(tensor.info.name), name(tensor.info.type) + (' ' + shape_text(tensor.info.shape)),
                    tensor.what,
                    detail::sentence_of(counted(static_cast<std::size_t>(tensor.q_heads + tensor.k_heads), "head"),
                                        " of ", tensor.head_dim, ", elements ", tensor.first, " to ",
                                        tensor.first + tensor.rotary_dim - 1)});
  }
  std::cout << Columns({{}, {}, {}, {}}).fit(rows).text(rows);
}

void report(const ConvertResult& result, const std::filesystem::path& output) {
  if (result.dry_run) list_tensors(result);
  std::cout << printable(result.model_type.empty() ? "the model" : result.model_type) << ", "
            << detail::familiar(result.from) << " to " << detail::familiar(result.to) << ": " << result.tensors.size()
            << " of " << result.all_tensors << " tensors " << (result.dry_run ? "would change" : "changed") << '\n';
  for (const ChangedKey& change : result.config) {
    std::cout << result.config_file << ": " << printable(change.key) << ' '
              << (change.before.empty() ? "absent" : change.before) << " -> " << change.after << '\n';
  }
  for (const VerifiedLayer& layer : result.verified.value_or(std::vector<VerifiedLayer>())) {
    std::cout << "verified  " << printable(layer.layer) << ": "
              << counted(static_cast<std::size_t>(layer.tensors), "tensor")
              << (layer.tensors == 1 ? ", put back, equals its source\n" : ", put back, equal their source\n");
  }
  for (const std::string& file : result.left_out)
    std::cout << "left out  " << printable(file) << (file.ends_with('/') ? "" : ": not converted") << '\n';
  for (const std::string& note : result.notes) std::cout << "note: " << printable(note) << '\n';
  if (!result.dry_run) std::cout << "wrote " << printable(files::path_text(output)) << '\n';
}

// ---- the request ---------------------------------------------------------------------------------

volatile std::sig_atomic_t signal_received = 0;

extern "C" void remember(int number) { signal_received = number; }

// Ctrl-C and similar signals stop a conversion between two pieces, so that it can remove its files. A signal that is
// ignored, as SIGHUP under nohup, stays so.
class StopSignals {
 public:
  StopSignals() {
    signal_received = 0;
    for (const int number : numbers) files::exchange_handler(number, SIG_DFL, remember);
  }
  ~StopSignals() {
    for (const int number : numbers) files::exchange_handler(number, remember, SIG_DFL);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static void check() {
    if (signal_received != 0) throw Failed{128 + signal_received};
  }

 private:
#ifdef SIGHUP
  static constexpr int numbers[] = {SIGINT, SIGTERM, SIGHUP};
#else
  static constexpr int numbers[] = {SIGINT, SIGTERM};
#endif
};

// Two progress lines, one after the other: bytes written, layers verified.
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

void run(ConvertRequest request) {
  try {  // a repository of the cache is its folder
    request.input = config_path(files::path_text(request.input));
  } catch (const Error&) {  // no repository either: the folder is missing
  }
  std::optional<ConvertResult> result;
  {
    Progress progress;
    const StopSignals signals;
    request.progress = std::ref(progress);
    request.left_behind = [](const std::filesystem::path& folder) {
      std::cerr << "note: a killed conversion has left this folder, which can be removed: "
                << printable(files::path_text(folder)) << '\n';
    };
    result = convert(request);
  }
  asks_json() ? print_json(to_json(*result)) : report(*result, request.output);
}

}  // namespace

void add_convert(Command& command) {
  auto request = std::make_shared<ConvertRequest>();
  command.option("DIR", request->input);
  command.option("--to", request->to, parse_pairing);
  command.option("--from", request->from, parse_pairing);
  command.option("--output", request->output);
  command.option("--dry-run", request->dry_run);
  command.option("--verify", request->verify);
  command.runs([request] { run(*request); });
}

}  // namespace rotary::cli
