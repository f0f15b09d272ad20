// rotary-torch generate: continues a text, or token ids.
#include "rotary_torch/models/generate.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "rotary/error.h"
#include "rotary_torch/models/checkpoint.h"

namespace rotary::cli {

namespace {

struct Options {
  std::string dir, ids, output;
  std::optional<std::string> prompt;
  rotary_torch::GenerateOptions generate;
  std::string scaling = "none";
  std::optional<double> factor;
  std::optional<std::int64_t> window, sinks;
  std::optional<int> threads;
  bool json = false;
};

void stream_text(rotary_torch::Decoder& model, const Options& options) {
  const rotary_torch::Vocabulary characters = read_characters("generate", options.dir, model->config(), "--prompt");
  const at::Tensor prompt = characters.encode(*options.prompt).unsqueeze(0);
  std::string text = *options.prompt;  // printed with the first character, so that an error prints nothing
  const auto print = [&](const at::Tensor& ids) {
    if (options.json) {
      text += characters.decode(ids.item<std::int64_t>());
      return true;
    }
    std::cout << text << characters.decode(ids.item<std::int64_t>()) << std::flush;
    text.clear();
    return std::cout.good();  // false if the output is closed; run_program reports it
  };
  rotary_torch::generate(model, prompt, options.generate, print);
  if (options.json) std::cout << versioned({{"prompt", *options.prompt}, {"text", text}});
  std::cout << '\n';
}

void continue_ids(rotary_torch::Decoder& model, const Options& options) {
  check_output(options.output);
  const at::Tensor prompt = read_ids("generate", options.ids, model->config().vocabulary);
  const at::Tensor ids = rotary_torch::generate(model, prompt, options.generate);
  write_npy(options.output, rotary_torch::file_tensor("ids", ids));
  if (options.json) {
    std::cout << versioned({{"output", options.output}, {"dtype", "I64"}, {"shape", ids.sizes().vec()}}) << '\n';
  } else {
    std::cout << "wrote " << printable(options.output) << "  I64 " << shape_text(ids.sizes()) << '\n';
  }
}

void run(Options options) {
  if (options.generate.temperature < 0) throw UsageError("--temperature must be at least 0");
  if (options.prompt && options.prompt->empty())
    throw UsageError("--prompt must hold at least one character, as a line's end: --prompt $'\\n'");
  use_threads(options.threads);
  rotary_torch::Decoder model = load_language_model("generate", options.dir);
  if (options.scaling != "none")
    model->set_rope(rotary_torch::extended_rope(model->config(), options.scaling, *options.factor));
  if (options.window) {
    options.generate.window = sliding_window(model->config(), *options.window, options.sinks.value_or(usual_sinks),
                                             options.factor.value_or(1));
  }
  (options.prompt ? stream_text : continue_ids)(model, options);
}

}  // namespace

void add_generate(Command& command) {
  auto options = std::make_shared<Options>();
  command.option("DIR", options->dir);
  command.option("--prompt", options->prompt);
  command.option("--ids", options->ids);
  command.option("--output", options->output);
  command.option("--tokens", options->generate.tokens);
  command.option("--temperature", options->generate.temperature);
  command.option("--top-k", options->generate.top_k);
  command.option("--seed", options->generate.seed);
  command.option("--scaling", options->scaling);
  command.option("--factor", options->factor);
  command.option("--window", options->window);
  command.option("--sinks", options->sinks);
  command.option("--json", options->json);
  command.option("--threads", options->threads);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
