// rotary-torch summary: the modules of a model as a tree, with the output shape and the number of parameters of each.
// No weights are read or allocated.
#include <torch/nn/modules/embedding.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "rotary_torch/training/trainer.h"

namespace rotary::cli {

namespace {

using Shape = std::vector<std::int64_t>;

struct Options {
  std::string dir, preset;
  std::int64_t batch = 1, tokens = 0;  // 0: the model's context
  int depth = 3;
  bool json = false;
};

struct Summary {
  std::int64_t batch, tokens;
  int depth;
  std::vector<Cells> lines = {};               // module, output's shape, parameters with those below it
  std::int64_t parameters = 0, trainable = 0;  // shared ones once
  std::unordered_set<const void*> seen = {};

  // Adds a module and those below it. Returns the output's shape: that of the last child, as children stand in the
  // order of the forward pass, unless the module's type says it; empty for lists of modules and norms of heads.
  Shape visit(const torch::nn::Module& module, const std::string& name, int level) {
    std::string type = module.name().substr(module.name().rfind(':') + 1);  // "torch::nn::LinearImpl" is "Linear"
    if (type.ends_with("Impl")) type.erase(type.size() - 4);
    const std::size_t line = lines.size();
    if (level <= depth) lines.push_back({std::string(2 * static_cast<std::size_t>(level), ' ') + type + name});
    const std::int64_t before = parameters;
    for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) {
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      parameters += parameter.numel();
      if (parameter.requires_grad()) trainable += parameter.numel();
    }
    Shape shape;
    for (const auto& child : module.named_children()) {
      const Shape last = visit(*child.value(), " (" + child.key() + ")", level + 1);
      if (!last.empty()) shape = last;
    }
    const auto per_token = [&](std::int64_t width) { shape = {batch, tokens, width}; };
    if (const auto* linear = module.as<torch::nn::LinearImpl>()) per_token(linear->options.out_features());
    if (const auto* norm = module.as<rotary_torch::NormLayerImpl>()) per_token(norm->weight.size(0));
    if (const auto* table = module.as<torch::nn::EmbeddingImpl>()) per_token(table->options.embedding_dim());
    const auto* decoder = module.as<rotary_torch::DecoderImpl>();
    if (decoder != nullptr && decoder->config().head) per_token(decoder->config().vocabulary);
    if (name == " (learned_positions)" || name == " (position_table)") shape.erase(shape.begin());
    if (type == "ModuleList" || name == " (q_norm)" || name == " (k_norm)") shape.clear();
    if (level > depth) return shape;
    lines[line].push_back(shape.empty() ? "--" : shape_text(shape));
    lines[line].push_back(with_separators(parameters - before));
    return shape;
  }
};

rotary_torch::DecoderConfig config_of(const Options& options) {
  if (options.preset == "roformer-base") return rotary_torch::roformer_base();
  if (options.preset == "roformer-notebook") return rotary_torch::notebook_roformer();
  const bool preset = !options.preset.empty();
  rotary_torch::DecoderConfig config =
      preset ? rotary_torch::preset(options.preset).model : rotary_torch::read_decoder_config(options.dir);
  if (preset) config.vocabulary = 65;  // the characters of Tiny Shakespeare
  if (!preset && !rotary_torch::says_language_model(options.dir).value_or(true)) config.head = false;
  return config;
}

void run(const Options& options) {
  const rotary_torch::MetaDevice no_memory;
  const rotary_torch::Decoder model(config_of(options));
  Summary made{options.batch, options.tokens > 0 ? options.tokens : model->config().context, options.depth};
  made.visit(*model, "", 0);
  if (options.json) {
    std::cout << versioned({{"tokens", made.tokens},
                            {"parameters", made.parameters},
                            {"trainable_parameters", made.trainable}})
              << '\n';
    return;
  }
  std::cout << Columns({{}, {}, {.right = true}}).fit(made.lines).text(made.lines)
            << "\nTotal params: " << with_separators(made.parameters)
            << ", trainable: " << with_separators(made.trainable) << ", "
            << significant(4e-6 * static_cast<double>(made.parameters), 6) << " MB in f32\n";
}

}  // namespace

void add_summary(Command& command) {
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
