// rotary summary: the layers of a model in the format of torchinfo. No weights are read or allocated.
#include "rotary_torch/models/summary.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/displayable.h"
#include "apps/shared/text.h"
#include "apps/shared/torch_commands.h"
#include "apps/shared/usage_error.h"
#include "files/text/io.h"
#include "language_model.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"
#include "rotary_torch/models/roformer.h"
#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/trainer.h"

namespace rotary::cli {

namespace {

using rotary_torch::Summary;
using rotary_torch::SummaryRow;

struct Options {
  std::string dir;
  std::string preset;
  std::int64_t batch = 1;
  std::int64_t tokens = 0;  // 0: the model's context
  int depth = 3;
  bool json = false;
};

struct Subject {
  std::string name;  // the preset or the folder
  std::int64_t tokens = 0;
  Summary summary;
};

// ---- the model, without its memory ----

template <class Make>
Subject subject(const std::string& name, const Options& options, std::int64_t context, const Make& make) {
  const std::int64_t tokens = options.tokens > 0 ? options.tokens : std::max<std::int64_t>(context, 1);
  const rotary_torch::MetaDevice no_memory;
  return {name, tokens, rotary_torch::summarise(*make(), options.batch, tokens)};
}

Subject decoder(const std::string& name, const Options& options, const rotary_torch::DecoderConfig& config) {
  return subject(name, options, config.context, [&] { return rotary_torch::Decoder(config); });
}

Subject roformer(const std::string& name, const Options& options, const rotary_torch::RoFormerConfig& config,
                 bool head = true) {
  return subject(name, options, config.context, [&] { return rotary_torch::RoFormer(config, head); });
}

constexpr const char* notebook = "roformer-notebook";
constexpr const char* roformer_base = "roformer-base";

Subject of_preset(const Options& options) {
  const std::string& name = options.preset;
  if (name == notebook) return roformer(name, options, rotary_torch::notebook_roformer());
  if (name == roformer_base) return roformer(name, options, rotary_torch::RoFormerConfig{});
  const std::vector<std::string>& known = rotary_torch::preset_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    std::string names;
    for (const std::string& one : known) names += one + ", ";
    rotary_torch::Refusal{"summary"}(Code::PRESET, "a preset must be one of ", names, notebook, " or ", roformer_base,
                                     " but got ", files::in_quotes(name));
  }
  rotary_torch::DecoderConfig model = rotary_torch::preset(name).model;
  constexpr std::int64_t tiny_shakespeare = 65;  // characters
  model.vocabulary = tiny_shakespeare;
  return decoder(name, options, model);
}

Subject of_folder(const Options& options) {
  const std::filesystem::path dir = options.dir;
  const bool roformer_folder = is_roformer("summary", dir);
  const bool head = rotary_torch::says_language_model(dir).value_or(true);
  if (roformer_folder) return roformer(options.dir, options, rotary_torch::read_roformer_config(dir), head);
  rotary_torch::DecoderConfig model = rotary_torch::read_decoder_config(dir);
  model.head = model.head && head;
  return decoder(options.dir, options, model);
}

// ---- printing ----

// "│    │    └─LayerNorm (norm): 3-5": the fifth module of depth 3.
std::string tree(const SummaryRow& row, int index) {
  if (row.depth == 0) return row.type;
  const bool utf8 = shows_utf8();
  std::string line;
  for (int i = 1; i < row.depth; ++i) line += utf8 ? "│    " : "|    ";
  if (utf8) {
    line += row.depth == 1 ? "├─" : "└─";
  } else {
    line += row.depth == 1 ? "+-" : "`-";
  }
  return line + row.type + " (" + row.name + "): " + std::to_string(row.depth) + "-" + std::to_string(index);
}

// A row with rows below it shows only the parameters that those do not.
std::string parameters_text(const SummaryRow& row, bool has_rows_below) {
  const std::int64_t count = has_rows_below ? row.own_parameters : row.parameters;
  if (count == 0) return "--";
  return row.trainable ? with_separators(count) : "(" + with_separators(count) + ")";
}

void print_table(const Subject& made, const Options& options) {
  constexpr std::size_t name_width = 56, shape_width = 24, width = name_width + shape_width + 20;
  const std::string rule(width, '=');
  const Columns columns({{.width = name_width}, {.width = shape_width}, {}});
  std::cout << rule << '\n'
            << columns.line({"Layer (type (name):depth-idx)", "Output Shape", "Param #"}) << '\n'
            << rule << '\n';
  const std::vector<SummaryRow>& rows = made.summary.rows;
  std::vector<int> index(rows.size() + 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SummaryRow& row = rows[i];
    if (row.depth > options.depth) continue;
    const bool has_rows_below = i + 1 < rows.size() && rows[i + 1].depth > row.depth && row.depth < options.depth;
    std::cout << columns.line({tree(row, ++index[static_cast<std::size_t>(row.depth)]),
                               row.output_shape.empty() ? "--" : shape_text(row.output_shape),
                               parameters_text(row, has_rows_below)})
              << '\n';
  }
  const Summary& summary = made.summary;
  std::cout << rule << "\nTotal params: " << with_separators(summary.parameters)
            << "\nTrainable params: " << with_separators(summary.trainable)
            << "\nNon-trainable params: " << with_separators(summary.parameters - summary.trainable) << '\n'
            << rule << "\nInput: ids " << shape_text(std::array{options.batch, made.tokens})
            << "\nParams size (f32, MB): " << significant(static_cast<double>(summary.bytes_f32()) / 1e6, 6) << '\n'
            << rule << '\n';
}

void print_json(const Subject& made, const Options& options) {
  using Json = nlohmann::ordered_json;
  Json layers = Json::array();
  for (const SummaryRow& row : made.summary.rows) {
    layers.push_back({{"path", row.path},
                      {"type", row.type},
                      {"depth", row.depth},
                      {"output_shape", row.output_shape.empty() ? Json(nullptr) : Json(row.output_shape)},
                      {"parameters", row.parameters},
                      {"own_parameters", row.own_parameters},
                      {"trainable", row.trainable}});
  }
  const Summary& summary = made.summary;
  std::cout << versioned({{"model", made.name},
                          {"batch", options.batch},
                          {"tokens", made.tokens},
                          {"parameters", summary.parameters},
                          {"trainable_parameters", summary.trainable},
                          {"non_trainable_parameters", summary.parameters - summary.trainable},
                          {"bytes_f32", summary.bytes_f32()},
                          {"layers", std::move(layers)}})
            << '\n';
}

void run(const Options& options) {
  if (options.dir.empty() == options.preset.empty()) throw UsageError("give either DIR or --preset");
  const Subject made = options.preset.empty() ? of_folder(options) : of_preset(options);
  if (options.json) {
    print_json(made, options);
  } else {
    print_table(made, options);
  }
}

}  // namespace

void add_summary(CLI::App& app) {
  Command command(app, "summary");
  const auto options = std::make_shared<Options>();
  command.option("DIR", options->dir);
  command.option("--preset", options->preset);
  command.option("--batch", options->batch);
  command.option("--tokens", options->tokens);
  command.option("--depth", options->depth);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
