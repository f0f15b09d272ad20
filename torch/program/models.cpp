// rotary-torch forward, generate and perplexity run the model of a folder; summary shows its modules as a tree.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "rotary_torch/models/generate.h"
#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/trainer.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/progress_line.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "text/io.h"

namespace rotary::cli {
namespace {

using at::Tensor;
using rotary_torch::Decoder;
using rotary_torch::DecoderConfig;
using rotary_torch::Refusal;
using rotary_torch::Vocabulary;
namespace fs = std::filesystem;

constexpr std::int64_t usual_sinks = 4;  // StreamingLLM's, arXiv 2309.17453

// The options that the three commands share.
struct Options {
  std::string dir, ids, output;
  std::optional<int> threads;
  bool json = false;
};

// Adds the last options of a command, and runs it.
template <class Own>
void finish(Command& command, const std::shared_ptr<Own>& options, void (*run)(Own)) {
  command.option("--json", options->json);
  command.option("--threads", options->threads);
  command.runs([options, run] {
    if (options->threads) at::set_num_threads(*options->threads);
    run(*options);
  });
}

// ---- the model, its ids and its characters -------------------------------------------------------

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) std::cerr << "warning: " << printable(warning) << '\n';
}

// Throws as load_decoder, and TENSOR if the model has no head or is an encoder.
Decoder load_language_model(const char* operation, const fs::path& dir) {
  const rotary_torch::LoadedDecoder loaded = rotary_torch::load_decoder(dir);
  print_warnings(loaded.warnings);
  Refusal{operation}.unless(loaded.has_head && loaded.model->config().causal, Code::TENSOR, dir.string(),
                            ": a language model must have a head and see the past only but this checkpoint ",
                            loaded.has_head ? "is an encoder" : "has only the trunk");
  return loaded.model;
}

// The characters of a run of `rotary-torch train` (vocab.json). option: the option that needs them. Throws FILE for a
// folder without them, CONFIG_VALUE if their number is not the model's.
Vocabulary read_characters(const char* operation, const fs::path& dir, const DecoderConfig& config,
                           const char* option) {
  const Refusal refuse{operation};
  const fs::path file = dir / "vocab.json";
  // Other families also have a vocab.json, but their tokens are not characters.
  if (config.model_type != "rotary_decoder" || !fs::exists(file)) {
    refuse(Code::FILE, dir.string(), ": ", option,
           " needs the characters of a model trained here (vocab.json) but this is a ", config.model_type,
           " model without them: give ids with --ids");
  }
  Vocabulary characters = Vocabulary::read(file);
  refuse.unless(characters.size() == config.vocabulary, Code::CONFIG_VALUE, dir.string(),
                ": vocab.json must have the model's ", config.vocabulary, " characters but has ", characters.size());
  return characters;
}

// int64 [batch, tokens] from integers of any width, each from 0 to vocabulary - 1. Throws FILE, FORMAT, DTYPE, SHAPE,
// VALUE.
Tensor read_ids(const char* operation, const fs::path& path, std::int64_t vocabulary) {
  const auto refuse = [&](Code code, const auto&... rule) { Refusal{operation}(code, path.string(), ": ", rule...); };
  const rotary::Tensor file = read_npy(path);
  if (file.shape.size() != 2 || file.elements() == 0)
    refuse(Code::SHAPE, "ids must be [batch, tokens], at least one, but got ", shape_text(file.shape));
  const Tensor stored = rotary_torch::torch_tensor(file);
  if (!at::isIntegralType(stored.scalar_type(), /*includeBool=*/false))
    refuse(Code::DTYPE, "ids must be integers but got ", rotary::name(file.type));
  const Tensor ids = stored.to(at::kLong), wrong = ids.lt(0).logical_or(ids.ge(vocabulary));
  if (wrong.any().item<bool>()) {
    refuse(Code::VALUE, "ids must be from 0 to ", vocabulary - 1, " but got ",
           ids.masked_select(wrong)[0].item<std::int64_t>());
  }
  return ids;
}

// A window beyond factor trained lengths gives a warning. Throws as DecoderCache.
SlidingWindow sliding_window(const DecoderConfig& config, std::int64_t tokens, std::int64_t sinks, double factor = 1) {
  const SlidingWindow window{tokens, sinks};
  const rotary_torch::DecoderCache checked(config, 0, window);
  if (static_cast<double>(tokens) > factor * static_cast<double>(config.context)) {
    print_warnings({"a window of " + std::to_string(tokens) + " tokens has distances that the model, trained on " +
                    std::to_string(config.context) + ", has not met"});
  }
  return window;
}

// ---- forward -------------------------------------------------------------------------------------

struct ForwardOptions : Options {
  std::string mask;
};

// Bool [batch, tokens], or an undefined tensor if no mask is given.
Tensor read_mask(const std::string& path, const Tensor& ids) {
  if (path.empty()) return {};
  const Refusal refuse{"forward"};
  const Tensor mask = rotary_torch::torch_tensor(read_npy(path)).to(at::kDouble), tokens = mask == 1;
  refuse.unless(mask.sizes() == ids.sizes(), Code::SHAPE, path, ": the mask must have the shape of the ids ",
                ids.sizes(), " but has ", mask.sizes());
  const Tensor wrong = at::logical_not(at::logical_or(tokens, mask == 0));
  if (wrong.any().item<bool>()) {
    refuse(Code::VALUE, path, ": the mask must be 1 for a token and 0 for padding but holds ",
           significant(mask.masked_select(wrong)[0].item<double>(), 6));
  }
  return tokens;
}

// Reads the ids before the weights, so that a wrong file is reported at once.
void run_forward(ForwardOptions options) {
  if (files::format_to_write(options.output) == files::Format::npy)
    throw UsageError("--output takes a .safetensors: it holds several tensors");
  check_output(options.output);
  const c10::InferenceMode inference;
  const Tensor ids = read_ids("forward", options.ids, rotary_torch::read_decoder_config(options.dir).vocabulary);
  const Tensor mask = read_mask(options.mask, ids);
  rotary_torch::LoadedDecoder loaded = rotary_torch::load_decoder(options.dir);
  print_warnings(loaded.warnings);
  const Tensor hidden = loaded.model->hidden(ids, mask);
  std::vector<rotary::Tensor> tensors = {rotary_torch::file_tensor("hidden", hidden)};
  if (loaded.has_head) tensors.push_back(rotary_torch::file_tensor("logits", loaded.model->logits(hidden)));
  save(options.output, tensors, {});
  if (options.json) {
    nlohmann::ordered_json list;
    for (const rotary::Tensor& tensor : tensors) list.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
    std::cout << versioned({{"output", options.output}, {"tensors", std::move(list)}}) << '\n';
    return;
  }
  std::cout << "wrote " << printable(options.output);
  for (const rotary::Tensor& tensor : tensors) std::cout << "  " << tensor.name << ' ' << shape_text(tensor.shape);
  std::cout << '\n';
}

// ---- generate ------------------------------------------------------------------------------------

struct GenerateOptions : Options {
  std::optional<std::string> prompt;
  rotary_torch::GenerateOptions generate;
  std::string scaling = "none";
  std::optional<double> factor;
  std::optional<std::int64_t> window, sinks;
};

void stream_text(Decoder& model, const GenerateOptions& options) {
  const Vocabulary characters = read_characters("generate", options.dir, model->config(), "--prompt");
  const Tensor prompt = characters.encode(*options.prompt).unsqueeze(0);
  std::string text = *options.prompt;  // printed with the first character, so that an error prints nothing
  rotary_torch::generate(model, prompt, options.generate, [&](const Tensor& ids) {
    text += characters.decode(ids.item<std::int64_t>());
    if (options.json) return true;
    std::cout << text << std::flush;
    text.clear();
    return !std::cout.bad();  // false if the output is closed; run_program reports it
  });
  if (options.json) std::cout << versioned({{"prompt", *options.prompt}, {"text", text}});
  std::cout << '\n';
}

void continue_ids(Decoder& model, const GenerateOptions& options) {
  check_output(options.output);
  const Tensor prompt = read_ids("generate", options.ids, model->config().vocabulary);
  const Tensor ids = rotary_torch::generate(model, prompt, options.generate);
  write_npy(options.output, rotary_torch::file_tensor("ids", ids));
  if (options.json) {
    std::cout << versioned({{"output", options.output}, {"dtype", "I64"}, {"shape", ids.sizes().vec()}}) << '\n';
  } else {
    std::cout << "wrote " << printable(options.output) << "  I64 " << shape_text(ids.sizes()) << '\n';
  }
}

void run_generate(GenerateOptions options) {
  if (options.prompt && options.prompt->empty())
    throw UsageError("--prompt must hold at least one character, as a line's end: --prompt $'\\n'");
  if (options.generate.temperature < 0) throw UsageError("--temperature must be at least 0");
  Decoder model = load_language_model("generate", options.dir);
  if (options.scaling != "none")
    model->set_rope(rotary_torch::extended_rope(model->config(), options.scaling, *options.factor));
  if (options.window) {
    options.generate.window = sliding_window(model->config(), *options.window, options.sinks.value_or(usual_sinks),
                                             options.factor.value_or(1));
  }
  (options.prompt ? stream_text : continue_ids)(model, options);
}

// ---- perplexity ----------------------------------------------------------------------------------

struct PerplexityOptions : Options {
  std::string text;
  std::vector<std::int64_t> lengths, sinks;
  std::vector<std::string> scalings;
  std::optional<std::int64_t> window;
  std::int64_t tokens = 16384;
};

struct Row {
  std::string scaling;
  std::int64_t length;
  double factor;
  rotary_torch::WindowLoss loss;
  SlidingWindow window = {};
};

void settle(PerplexityOptions& options) {
  if (options.sinks.empty()) options.sinks = {usual_sinks};
  for (std::vector<std::int64_t>* list : {&options.lengths, &options.sinks}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
}

// The scalings of --scaling; by default "none", and four published ones if the rope of the model can be scaled.
std::vector<std::string> scalings_of(const PerplexityOptions& options, const DecoderConfig& config) {
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
std::pair<Tensor, std::string> ids_of(const PerplexityOptions& options, const DecoderConfig& config) {
  if (!options.ids.empty()) return {read_ids("perplexity", options.ids, config.vocabulary), options.ids};
  std::string path = options.text;
  if (path.empty()) {
    const fs::path checkpoint = fs::path(options.dir) / "checkpoint.safetensors";
    std::error_code error;
    if (!fs::exists(checkpoint, error))
      throw UsageError("give --text or --ids: DIR is no run of rotary-torch train, whose text would be the default");
    const auto notes = rotary_torch::saved_run(checkpoint).notes;
    if (!notes.contains("text"))
      throw UsageError("give --text or --ids: DIR's checkpoint does not note the run's text");
    path = notes.at("text");  // "": that of the preset smoke
  }
  const std::string text = path.empty() ? std::string(rotary_torch::smoke_text()) : rotary_torch::read_text(path);
  const Vocabulary characters = read_characters("perplexity", options.dir, config, "--text");
  return {characters.encode(text).unsqueeze(0), path.empty() ? "the text of the preset smoke" : path};
}

std::vector<Row> measure(Decoder& model, const Tensor& part, const PerplexityOptions& options) {
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

void run_perplexity(PerplexityOptions options) {
  settle(options);
  if (!options.output.empty()) check_output(options.output);
  Decoder model = load_language_model("perplexity", options.dir);
  const std::int64_t trained = model->config().context;
  const auto [ids, source] = ids_of(options, model->config());
  const Tensor part = rotary_torch::measured_part(ids, options.lengths.back(), options.tokens);
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

// ---- summary: no weights are read or allocated ---------------------------------------------------

using Shape = std::vector<std::int64_t>;

struct SummaryOptions {
  std::string dir, preset;
  std::int64_t batch = 1, tokens = 0;  // 0: the model's context
  int depth = 3;
  bool json = false;
};

struct Summary {
  std::int64_t batch, tokens;
  int depth;
  std::vector<Cells> lines = {};  // module, output's shape, parameters with those below it
  std::int64_t parameters = 0, trainable = 0;

  // Adds a module and those below it. Returns the output's shape: that of the last child, as children stand in the
  // order of the forward pass, unless the module's type says it; empty for lists of modules and norms of heads.
  Shape visit(const torch::nn::Module& module, const std::string& name, int level) {
    std::string type = module.name().substr(module.name().rfind(':') + 1);  // "torch::nn::LinearImpl" is "Linear"
    if (type.ends_with("Impl")) type.erase(type.size() - 4);
    const std::size_t line = lines.size();
    if (level <= depth) lines.push_back({std::string(2 * static_cast<std::size_t>(level), ' ') + type + name});
    const std::int64_t before = parameters;
    for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) {
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

DecoderConfig config_of(const SummaryOptions& options) {
  if (options.preset == "roformer-base") return rotary_torch::roformer_base();
  if (options.preset == "roformer-notebook") return rotary_torch::notebook_roformer();
  const bool preset = !options.preset.empty();
  DecoderConfig config =
      preset ? rotary_torch::preset(options.preset).model : rotary_torch::read_decoder_config(options.dir);
  if (preset) config.vocabulary = 65;  // the characters of Tiny Shakespeare
  if (!preset && !config.language_model.value_or(true)) config.head = false;
  return config;
}

void run_summary(const SummaryOptions& options) {
  const rotary_torch::MetaDevice no_memory;
  const Decoder model(config_of(options));
  Summary summary{options.batch, options.tokens > 0 ? options.tokens : model->config().context, options.depth};
  summary.visit(*model, "", 0);
  if (options.json) {
    std::cout << versioned({{"tokens", summary.tokens},
                            {"parameters", summary.parameters},
                            {"trainable_parameters", summary.trainable}})
              << '\n';
    return;
  }
  std::cout << Columns({{}, {}, {.right = true}}).fit(summary.lines).text(summary.lines)
            << "\nTotal params: " << with_separators(summary.parameters)
            << ", trainable: " << with_separators(summary.trainable) << ", "
            << significant(4e-6 * static_cast<double>(summary.parameters), 6) << " MB in f32\n";
}

}  // namespace

void add_forward(Command& command) {
  auto options = std::make_shared<ForwardOptions>();
  command.option("DIR", options->dir);
  command.option("--input", options->ids);
  command.option("--mask", options->mask);
  command.option("--output", options->output);
  finish(command, options, run_forward);
}

void add_generate(Command& command) {
  auto options = std::make_shared<GenerateOptions>();
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
  finish(command, options, run_generate);
}

void add_perplexity(Command& command) {
  auto options = std::make_shared<PerplexityOptions>();
  command.option("DIR", options->dir);
  command.option("--text", options->text);
  command.option("--ids", options->ids);
  command.option("--length", options->lengths);
  command.option("--scaling", options->scalings);
  command.option("--window", options->window);
  command.option("--sinks", options->sinks);
  command.option("--tokens", options->tokens);
  command.option("--output", options->output);
  finish(command, options, run_perplexity);
}

void add_summary(Command& command) {
  const auto options = std::make_shared<SummaryOptions>();
  command.option("DIR", options->dir);
  command.option("--preset", options->preset);
  command.option("--batch", options->batch);
  command.option("--tokens", options->tokens);
  command.option("--depth", options->depth);
  command.option("--json", options->json);
  command.runs([options] { run_summary(*options); });
}

}  // namespace rotary::cli
