// rotary perplexity: the loss by the length of the window and by scaling.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/torch_commands.h"
#include "apps/shared/usage_error.h"
#include "files/text/io.h"
#include "language_model.h"
#include "rotary/error.h"
#include "rotary_torch/models/generate.h"
#include "rotary_torch/training/text.h"
#include "rotary_torch/training/trainer.h"
#include "run_folder.h"

namespace rotary::cli {

namespace {

using rotary_torch::DecoderConfig;
using rotary_torch::PositionEncoding;

struct Options {
  std::string dir;
  std::string text;
  std::string ids;
  std::vector<std::int64_t> lengths;
  std::vector<std::string> scalings;
  std::optional<std::int64_t> window;
  std::vector<std::int64_t> sinks;
  std::int64_t tokens = 16384;
  std::string lines_file;
  bool json = false;
  std::optional<int> threads;
};

struct Row {
  std::string scaling;
  std::int64_t length;
  double factor;
  rotary_torch::WindowLoss loss;
  SlidingWindow window = {};
  bool slides() const { return window != SlidingWindow{}; }
  std::string method() const {
    if (!slides()) return scaling;
    return "window " + std::to_string(window.tokens) + ", " + std::to_string(window.sinks) + " sinks";
  }
};

void settle(Options& options) {
  if (!options.text.empty() && !options.ids.empty()) throw UsageError("give either --text or --ids");
  if (!options.sinks.empty() && !options.window) throw UsageError("--sinks needs --window");
  if (options.sinks.empty()) options.sinks = {usual_sinks};
  for (std::vector<std::int64_t>* list : {&options.lengths, &options.sinks}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
}

struct NamedText {
  std::string text, name;
};

// The text that the run in the folder learned, as its checkpoint has it; throws UsageError where it has none.
NamedText learned_text(const std::string& dir) {
  const std::filesystem::path checkpoint = RunFolder{dir}.checkpoint();
  std::error_code unreadable;
  if (!std::filesystem::exists(checkpoint, unreadable))
    throw UsageError("give --text or --ids: DIR is no run of rotary train, whose text would be taken");
  const std::map<std::string, std::string> notes = rotary_torch::checkpoint_notes(checkpoint);
  const auto path = notes.find("text");
  if (path == notes.end()) throw UsageError("give --text or --ids: the checkpoint in DIR names no text");
  if (path->second.empty()) return {std::string(rotary_torch::smoke_text()), "the text of the preset smoke"};
  return {rotary_torch::read_text(path->second), path->second};
}

// The scalings of --scaling; by default "none", and four published ones if the rope of the model can be scaled.
std::vector<std::string> scalings_of(const Options& options, const DecoderConfig& config) {
  std::vector<std::string> words = options.scalings;
  const bool scalable = config.position == PositionEncoding::rope && config.rope &&
                        std::holds_alternative<Unscaled>(config.rope->rope.scaling) && trained_length(config) > 0;
  if (words.empty()) {
    words = {"none"};
    if (scalable) words.insert(words.end(), {"linear", "ntk", "dynamic", "yarn"});
  }
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (std::find(words.begin(), word, *word) != word) throw UsageError("--scaling names " + *word + " twice");
    if (*word != "none")
      rotary_torch::extended_rope(config, *word, 2);  // throws now rather than after the first lengths
  }
  return words;
}

// The ids to measure, and for people where they are from.
std::pair<at::Tensor, std::string> ids_of(const Options& options, const DecoderConfig& config) {
  if (!options.ids.empty()) return {read_ids("perplexity", options.ids, config.vocabulary), options.ids};
  const NamedText named =
      options.text.empty() ? learned_text(options.dir) : NamedText{rotary_torch::read_text(options.text), options.text};
  const rotary_torch::Vocabulary characters = read_characters("perplexity", options.dir, config, "--text");
  return {characters.encode(named.text).unsqueeze(0), named.name};
}

std::vector<Row> measure(rotary_torch::Decoder& model, const at::Tensor& part, const Options& options) {
  const DecoderConfig config = model->config();  // a copy: set_rope changes the model's
  const std::vector<std::string> scalings = scalings_of(options, config);
  const std::int64_t trained = trained_length(config);
  std::vector<SlidingWindow> windows;
  for (const std::int64_t sinks : options.sinks)
    if (options.window) windows.push_back(sliding_window(config, *options.window, sinks));
  std::vector<Row> rows;
  ProgressLine progress("perplexity",
                        static_cast<std::int64_t>(options.lengths.size() * (scalings.size() + windows.size())));
  for (const std::int64_t length : options.lengths) {
    const bool extended = trained > 0 && length > trained;
    const double factor = extended ? static_cast<double>(length) / static_cast<double>(trained) : 1;
    std::optional<rotary_torch::WindowLoss> unscaled;
    for (const std::string& scaling : scalings) {
      progress.done(static_cast<std::int64_t>(rows.size()));
      const bool bends = extended && scaling != "none";
      if (!bends && unscaled) {
        rows.push_back({scaling, length, 1, *unscaled});
        continue;
      }
      if (config.rope) model->set_rope(rotary_torch::extended_rope(config, bends ? scaling : "none", factor));
      rows.push_back({scaling, length, bends ? factor : 1, rotary_torch::window_loss(model, part, length)});
      if (!bends) unscaled = rows.back().loss;
    }
    if (!windows.empty()) model->set_rope(config.rope->rope);
    for (const SlidingWindow& window : windows) {
      progress.done(static_cast<std::int64_t>(rows.size()));
      rows.push_back({"none", length, 1, rotary_torch::window_loss(model, part, length, window), window});
    }
  }
  return rows;
}

std::string json_lines(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    nlohmann::ordered_json line = {{"scaling", row.scaling},
                                   {"length", row.length},
                                   {"factor", row.factor},
                                   {"loss", row.loss.loss},
                                   {"perplexity", std::exp(row.loss.loss)},
                                   {"last_quarter_loss", row.loss.last_quarter},
                                   {"tokens", row.loss.tokens}};
    if (row.slides()) line.update({{"window", row.window.tokens}, {"sinks", row.window.sinks}});
    text += versioned(std::move(line)) + "\n";
  }
  return text;
}

std::string table(const std::vector<Row>& rows) {
  std::vector<Cells> lines = {{"length", "scaling", "factor", "loss", "perplexity", "last quarter"}};
  for (const Row& row : rows) {
    lines.push_back({std::to_string(row.length), row.method(), significant(row.factor, 4), fixed(row.loss.loss, 4),
                     fixed(std::exp(row.loss.loss), 3), fixed(row.loss.last_quarter, 4)});
  }
  const Columns columns = Columns({{true, 8}, {false, 8}, {true, 7}, {true, 6}, {true, 10}, {true, 12}}).fit(lines);
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 1 && lines[i][0] != lines[i - 1][0]) text += '\n';
    text += columns.line(lines[i]) + '\n';
  }
  return text;
}

void run(Options options) {
  settle(options);
  if (!options.lines_file.empty()) check_output(options.lines_file);
  use_threads(options.threads);
  rotary_torch::Decoder model = load_language_model("perplexity", options.dir);
  const std::int64_t trained = trained_length(model->config());
  const std::int64_t longest = options.lengths.back();
  const auto [ids, source] = ids_of(options, model->config());
  const at::Tensor part = rotary_torch::measured_part(ids, longest, options.tokens);
  const std::vector<Row> rows = measure(model, part, options);
  const std::string lines = json_lines(rows);
  if (!options.lines_file.empty()) files::write_whole("perplexity", options.lines_file, lines);
  if (options.json) {
    std::cout << lines;
    return;
  }
  std::cout << "the last " << part.size(0) * (part.size(1) - 1) << " tokens of " << printable(source)
            << (trained > 0 ? "; trained length " + std::to_string(trained) : std::string()) << "\n\n"
            << table(rows);
  if (!options.lines_file.empty()) std::cout << "\nwrote " << printable(options.lines_file) << '\n';
}

}  // namespace

void add_perplexity(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "perplexity");
  command.option("DIR", options->dir);
  command.option("--text", options->text);
  command.option("--ids", options->ids);
  command.option("--length", options->lengths);
  command.option("--scaling", options->scalings, rotary_torch::extensions());
  command.option("--window", options->window);
  command.option("--sinks", options->sinks);
  command.option("--tokens", options->tokens);
  command.option("--output", options->lines_file);
  command.option("--json", options->json);
  add_threads_option(command, options->threads);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
