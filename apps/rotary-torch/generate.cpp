// rotary generate: continues a text, or token ids.
#include "rotary_torch/models/generate.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/torch_commands.h"
#include "apps/shared/usage_error.h"
#include "language_model.h"
#include "rotary/error.h"
#include "rotary_torch/models/checkpoint.h"

namespace rotary::cli {

namespace {

struct Options {
  std::string dir;
  std::optional<std::string> prompt;
  std::string ids;
  std::string output;
  rotary_torch::GenerateOptions generate;
  std::string scaling = "none";
  std::optional<double> factor;
  std::optional<std::int64_t> window, sinks;
  std::optional<int> threads;
  bool json = false;
};

void check_usage(const Options& options) {
  if (options.prompt.has_value() == !options.ids.empty()) throw UsageError("give either --prompt or --ids");
  if (options.prompt && options.prompt->empty())
    throw UsageError("--prompt must hold at least one character, as a line's end: --prompt $'\\n'");
  if (options.prompt && !options.output.empty()) throw UsageError("--output goes with --ids: a text is printed");
  if (options.prompt.has_value() == false && options.output.empty()) throw UsageError("--ids needs --output");
  if (options.generate.temperature < 0) throw UsageError("--temperature must be at least 0");
  if (options.scaling != "none" && !options.factor)
    throw UsageError("--scaling " + options.scaling + " needs --factor");
  if (options.scaling == "none" && options.factor) throw UsageError("--factor needs --scaling");
  if (options.sinks && !options.window) throw UsageError("--sinks needs --window");
}

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
    return;
  }
  std::cout << "wrote " << printable(options.output) << "  I64 " << shape_text(ids.sizes()) << '\n';
}

void run(Options options) {
  check_usage(options);
  use_threads(options.threads);
  rotary_torch::Decoder model = load_language_model("generate", options.dir);
  if (options.scaling != "none")
    model->set_rope(rotary_torch::extended_rope(model->config(), options.scaling, *options.factor));
  if (options.window) {
    options.generate.window = sliding_window(model->config(), *options.window, options.sinks.value_or(usual_sinks),
                                             options.factor.value_or(1));
  }
  if (options.prompt) {
    stream_text(model, options);
  } else {
    continue_ids(model, options);
  }
}

constexpr const char* footer =
    "DIR is a run of `rotary train` or a checkpoint of Hugging Face (llama, mistral, qwen2, qwen3, gpt_neox, gptj:\n"
    "these take --ids). Always N tokens: no id ends a text. The same seed draws the same tokens; each row of ids has\n"
    "random numbers of its own. Past the trained length positions go on, and --scaling bends the frequencies; or a\n"
    "--window of at most that length slides, so that no distance is new, and the cache stays as small (StreamingLLM).\n"
    "With learned positions each token sees the last ones that the table of positions has room for.\n"
    "  rotary generate runs/shakespeare --prompt \"It is \" --temperature 0.8\n"
    "  rotary generate runs/shakespeare --prompt \"It is \" --tokens 250 --scaling yarn --factor 4\n"
    "  rotary generate runs/shakespeare --prompt \"It is \" --tokens 5000 --window 64 --sinks 4\n"
    "  rotary generate llama --ids prompt.npy --output continued.npy --tokens 20 --temperature 0";

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, std::string(generate_command.name), std::string(generate_command.help));
  command.option("DIR", options->dir, "the model's folder").required();
  command.option("--prompt", options->prompt, "the text to continue, printed first").type_name("TEXT");
  command.option("--ids", options->ids, "the ids to continue: an .npy of integers [batch, tokens]").type_name("FILE");
  command.option("--output", options->output, "with --ids: the .npy to write, int64 [batch, tokens + N]")
      .type_name("FILE");
  command.option("--tokens", options->generate.tokens, "tokens to generate (default 100)")
      .range(std::int64_t{1}, std::int64_t{1} << 24)
      .type_name("N");
  command
      .option("--temperature", options->generate.temperature,
              "divides the logits (default 1); 0: greedy, the lowest id among equals")
      .type_name("T");
  command.option("--top-k", options->generate.top_k, "draw from the K likeliest only (default: all)")
      .range(std::int64_t{1}, std::int64_t{1} << 40)
      .type_name("K");
  command.option("--seed", options->generate.seed, "of the random numbers (default 1337)").type_name("N");
  command.option("--scaling", options->scaling, "of the rope, past the trained length (default none)")
      .one_of(rotary_torch::extensions(), {{"default", "none"}})
      .type_name("WORD");
  command.option("--factor", options->factor, "of --scaling, above 1: how many times longer").type_name("F");
  command.option("--window", options->window, "each token sees this many: the sinks and the newest (default: all)")
      .range(std::int64_t{1}, std::int64_t{1} << 24)
      .type_name("N");
  command.option("--sinks", options->sinks, "of --window, how many are the first of the text (default 4)")
      .range(std::int64_t{0}, std::int64_t{1} << 24)
      .type_name("M");
  command.flag("--json", options->json, "the text, whole with the prompt, or what was written, as JSON");
  add_threads_option(command, options->threads);
  command.footer(footer);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
