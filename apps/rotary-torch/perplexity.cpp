// rotary-torch perplexity: the loss by the length of the window and by scaling.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "files/text/io.h"
#include "rotary_torch/models/generate.h"
#include "rotary_torch/training/trainer.h"

namespace rotary::cli {

namespace {

using rotary_torch::DecoderConfig;

struct Options {
  std::string dir, text, ids, output;
  std::vector<std::int64_t> lengths, sinks;
  std::vector<std::string> scalings;
  std::optional<std::int64_t> window;
  std::int64_t tokens = 16384;
  bool json = false;
  std::optional<int> threads;
};

struct Row {
  std::string scaling;
  std::int64_t length;
  double factor;
  rotary_torch::WindowLoss loss;
  SlidingWindow window = {};
};

void settle(Options& options) {
  if (options.sinks.empty()) options.sinks = {usual_sinks};
  for (std::vector<std::int64_t>* list : {&options.lengths, &options.sinks}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
}

// The scalings of --scaling; by default "none", and four published ones if the rope of the model can be scaled.
std::vector<std::string> scalings_of(const Options& options, const DecoderConfig& config) {
  std::vector<std::string> words = options.scalings;
  if (words.empty()) {
    words = {"none"};
    if (config.rope && std::holds_alternative<Unscaled>(config.rope->rope.scaling))
      words.insert(words.end(), {"linear", "ntk", "dynamic", "yarn"});
  }
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (std::find(words.begin(), word, *word) != word) throw UsageError("--scaling names " + *word + " twice");
    if (*word != "none")
      rotary_torch::extended_rope(config, *word, 2);  // throws now rather than after the first lengths
  }
  return words;
}

// The ids to measure, and for people where they are from: without --text and --ids the text that the run learned.
std::pair<at::Tensor, std::string> ids_of(const Options& options, const DecoderConfig& config) {
  if (!options.ids.empty()) return {read_ids("perplexity", options.ids, config.vocabulary), options.ids};
  std::string path = options.text;
  if (path.empty()) {
    const std::filesystem::path checkpoint = std::filesystem::path(options.dir) / "checkpoint.safetensors";
    std::error_code error;
    if (!std::filesystem::exists(checkpoint, error))
      throw UsageError("give --text or --ids: DIR is no run of rotary-torch train, whose text would be taken");
    path = rotary_torch::saved_run(checkpoint).notes.at("text");  // "": that of the preset smoke
  }
  const std::string text = path.empty() ? std::string(rotary_torch::smoke_text()) : rotary_torch::read_text(path);
  const rotary_torch::Vocabulary characters = read_characters("perplexity", options.dir, config, "--text");
  return {characters.encode(text).unsqueeze(0), path.empty() ? "the text of the preset smoke" : path};
}

std::vector<Row> measure(rotary_torch::Decoder& model, const at::Tensor& part, const Options& options) {
  const DecoderConfig config = model->config();  // a copy: set_rope changes the model's
  const std::vector<std::string> scalings = scalings_of(options, config);
  std::vector<SlidingWindow> windows;
  for (const std::int64_t sinks : options.sinks) {
    if (options.window) windows.push_back(sliding_window(config, *options.window, sinks));
  }
  std::vector<Row> rows;
  ProgressLine progress("perplexity",
                        static_cast<std::int64_t>(options.lengths.size() * (scalings.size() + windows.size())));
  for (const std::int64_t length : options.lengths) {
    const double factor = static_cast<double>(length) / static_cast<double>(config.context);
    std::optional<rotary_torch::WindowLoss> unscaled;
    for (const std::string& scaling : scalings) {
      progress.done(std::ssize(rows));
      const bool bends = factor > 1 && scaling != "none";
      if (config.rope) model->set_rope(rotary_torch::extended_rope(config, bends ? scaling : "none", factor));
      const auto loss = !bends && unscaled ? *unscaled : rotary_torch::window_loss(model, part, length);
      rows.push_back({scaling, length, bends ? factor : 1, loss});
      if (!bends) unscaled = loss;
    }
    for (const SlidingWindow& window : windows) {
      progress.done(std::ssize(rows));
      model->set_rope(config.rope->rope);
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
    if (row.window != SlidingWindow{}) line.update({{"window", row.window.tokens}, {"sinks", row.window.sinks}});
    text += versioned(line) + "\n";
  }
  return text;
}

void print_table(const std::vector<Row>& rows) {
  std::vector<Cells> lines = {{"length", "scaling", "factor", "loss", "perplexity", "last quarter"}};
  for (const Row& row : rows) {
    const std::string method = row.window == SlidingWindow{} ? row.scaling
                                                             : "window " + std::to_string(row.window.tokens) + ", " +
                                                                   std::to_string(row.window.sinks) + " sinks";
    lines.push_back({std::to_string(row.length), method, significant(row.factor, 4), fixed(row.loss.loss, 4),
                     fixed(std::exp(row.loss.loss), 3), fixed(row.loss.last_quarter, 4)});
  }
  const Columns columns = Columns({{true, 8}, {false, 8}, {true, 7}, {true, 6}, {true, 10}, {true, 12}}).fit(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 1 && lines[i][0] != lines[i - 1][0]) std::cout << '\n';
    std::cout << columns.line(lines[i]) << '\n';
  }
}

void run(Options options) {
  settle(options);
  if (!options.output.empty()) check_output(options.output);
  use_threads(options.threads);
  rotary_torch::Decoder model = load_language_model("perplexity", options.dir);
  const std::int64_t trained = model->config().context;
  const auto [ids, source] = ids_of(options, model->config());
  const at::Tensor part = rotary_torch::measured_part(ids, options.lengths.back(), options.tokens);
  const std::vector<Row> rows = measure(model, part, options);
  if (!options.output.empty()) files::write_whole("perplexity", options.output, json_lines(rows));
  if (options.json) {
    std::cout << json_lines(rows);
    return;
  }
  std::cout << "the last " << part.size(0) * (part.size(1) - 1) << " tokens of " << printable(source)
            << "; trained length " << trained << "\n\n";
  print_table(rows);
  if (!options.output.empty()) std::cout << "\nwrote " << printable(options.output) << '\n';
}

}  // namespace

void add_perplexity(Command& command) {
  auto options = std::make_shared<Options>();
  command.option("DIR", options->dir);
  command.option("--text", options->text);
  command.option("--ids", options->ids);
  command.option("--length", options->lengths);
  command.option("--scaling", options->scalings);
  command.option("--window", options->window);
  command.option("--sinks", options->sinks);
  command.option("--tokens", options->tokens);
  command.option("--output", options->output);
  command.option("--json", options->json);
  command.option("--threads", options->threads);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
