// rotary perplexity: the loss by the length of the window and by scaling.
#include "rotary_torch/models/perplexity.h"

#include <ATen/core/Tensor.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/plot/plot.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/text/io.h"
#include "ids.h"
#include "language_model.h"
#include "rotary/error.h"
#include "rotary_torch/models/extend.h"

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
  std::int64_t tokens = 16384;
  std::string lines_file;
  std::string plot_file;
  bool json = false;
  std::optional<int> threads;
};

struct Row {
  std::string scaling;
  std::int64_t length;
  double factor;
  rotary_torch::WindowLoss loss;
};

std::int64_t trained_length(const DecoderConfig& config) {
  if (config.context > 0) return config.context;
  return config.rope ? config.rope->context : 0;
}

void settle(Options& options) {
  if (options.text.empty() == options.ids.empty()) throw UsageError("give either --text or --ids");
  std::sort(options.lengths.begin(), options.lengths.end());
  options.lengths.erase(std::unique(options.lengths.begin(), options.lengths.end()), options.lengths.end());
  if (options.plot_file.empty()) options.plot_file = (std::filesystem::path(options.dir) / "perplexity.svg").string();
  if (options.lines_file.empty())
    options.lines_file = (std::filesystem::path(options.dir) / "perplexity.jsonl").string();
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

at::Tensor ids_of(const Options& options, const DecoderConfig& config) {
  if (!options.ids.empty()) return read_ids("perplexity", options.ids, config.vocabulary);
  const rotary_torch::Vocabulary characters = read_characters("perplexity", options.dir, config, "--text");
  return characters.encode(rotary_torch::read_text(options.text)).unsqueeze(0);
}

std::vector<Row> measure(rotary_torch::Decoder& model, const at::Tensor& part, const Options& options) {
  const DecoderConfig config = model->config();  // a copy: set_rope changes the model's
  const std::vector<std::string> scalings = scalings_of(options, config);
  const std::int64_t trained = trained_length(config);
  std::vector<Row> rows;
  for (const std::int64_t length : options.lengths) {
    const bool extended = trained > 0 && length > trained;
    const double factor = extended ? static_cast<double>(length) / static_cast<double>(trained) : 1;
    std::optional<rotary_torch::WindowLoss> unscaled;
    for (const std::string& scaling : scalings) {
      const bool bends = extended && scaling != "none";
      if (bends || !unscaled) {
        if (config.rope) model->set_rope(rotary_torch::extended_rope(config, bends ? scaling : "none", factor));
        const rotary_torch::WindowLoss loss = rotary_torch::window_loss(model, part, length);
        if (!bends) unscaled = loss;
        rows.push_back({scaling, length, bends ? factor : 1, loss});
      } else {
        rows.push_back({scaling, length, 1, *unscaled});
      }
    }
  }
  return rows;
}

std::string json_lines(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    nlohmann::ordered_json line;
    line["scaling"] = row.scaling;
    line["length"] = row.length;
    line["factor"] = row.factor;
    line["loss"] = row.loss.loss;
    line["perplexity"] = std::exp(row.loss.loss);
    line["last_quarter_loss"] = row.loss.last_quarter;
    line["tokens"] = row.loss.tokens;
    text += json_text(line) + "\n";
  }
  return text;
}

std::string table(const std::vector<Row>& rows) {
  std::vector<Cells> lines = {{"length", "scaling", "factor", "loss", "perplexity", "last quarter"}};
  for (const Row& row : rows) {
    lines.push_back({std::to_string(row.length), row.scaling, significant(row.factor, 4), fixed(row.loss.loss, 4),
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

Plot plot_of(const std::vector<Row>& rows, std::int64_t trained) {
  Plot plot;
  plot.title = trained > 0 ? "Loss by window, trained on " + std::to_string(trained) + " tokens" : "Loss by window";
  plot.x_label = "tokens in the window";
  plot.y_label = "cross-entropy per token (nats)";
  plot.log_x = true;
  for (const Row& row : rows) {
    auto line =
        std::find_if(plot.lines.begin(), plot.lines.end(), [&](const Line& l) { return l.name == row.scaling; });
    if (line == plot.lines.end()) line = plot.lines.insert(line, {row.scaling, {}, false});
    line->points.emplace_back(static_cast<double>(row.length), row.loss.loss);
  }
  return plot;
}

void run(Options options) {
  settle(options);
  check_output(options.lines_file);
  check_output(options.plot_file);
  use_threads(options.threads);
  rotary_torch::Decoder model = load_language_model("perplexity", options.dir);
  const std::int64_t trained = trained_length(model->config());
  const std::int64_t longest = options.lengths.back();
  const at::Tensor part = rotary_torch::measured_part(ids_of(options, model->config()), longest, options.tokens);
  const std::vector<Row> rows = measure(model, part, options);
  const std::string lines = json_lines(rows);
  files::write_whole("perplexity", options.lines_file, lines);
  files::write_whole("perplexity", options.plot_file, svg(plot_of(rows, trained)));
  if (options.json) {
    std::cout << lines;
    return;
  }
  std::cout << "the last " << part.size(0) * (part.size(1) - 1) << " tokens of "
            << printable(options.text.empty() ? options.ids : options.text)
            << (trained > 0 ? "; trained length " + std::to_string(trained) : std::string()) << "\n\n"
            << table(rows) << "\nwrote " << printable(options.lines_file) << " and " << printable(options.plot_file)
            << '\n';
}

constexpr const char* footer =
    "The text is cut into windows of each length that do not overlap; every token predicts the next one. All lengths\n"
    "that divide the longest predict the same tokens: the last of the text (training leaves its last tenth unseen).\n"
    "Past the trained length each scaling bends the model's rope by factor = length / trained length; up to it all\n"
    "are the same. The last quarter is the loss of the last quarter of each window.\n"
    "  rotary perplexity runs/shakespeare --text shakespeare.txt --lengths 64,128,256\n"
    "  rotary perplexity llama --ids ids.npy --lengths 2048,8192 --scaling none,yarn --json";

}  // namespace

void add_perplexity(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("perplexity", "The loss past the trained length, by scaling");
  command->add_option("dir", options->dir, "the model's folder")->type_name("DIR")->required();
  command->add_option("--text", options->text, "a text in the characters of a run of rotary train")->type_name("FILE");
  command->add_option("--ids", options->ids, "ids instead: an .npy of integers [texts, tokens]")->type_name("FILE");
  command->add_option("--lengths", options->lengths, "tokens in a window, as 64,128,256")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->type_name("N,...")
      ->required();
  command
      ->add_option("--scaling", options->scalings,
                   "of none, linear, ntk, ntk_fixed, dynamic, yarn, llama3 (default: none, linear, ntk,\n"
                   "dynamic, yarn; where the positions are no rope or the rope is scaled already: none)")
      ->delimiter(',')
      ->check(CLI::IsMember(rotary_torch::extensions()))
      ->type_name("WORD,...");
  command->add_option("--tokens", options->tokens, "predict at most about so many tokens; 0: all (default 16384)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->type_name("N");
  command->add_option("--output-json", options->lines_file, "the JSON lines' file (default DIR/perplexity.jsonl)")
      ->type_name("FILE");
  command->add_option("--svg", options->plot_file, "the plot's file (default DIR/perplexity.svg)")->type_name("FILE");
  command->add_flag("--json", options->json, "print the JSON lines instead of the table");
  add_threads_option(*command, options->threads);
  command->footer(footer);
  command->callback([options] { run(*options); });
}

}  // namespace rotary::cli
