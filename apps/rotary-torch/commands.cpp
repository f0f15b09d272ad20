#include "commands.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <iostream>

#include "apps/shared/text.h"
#include "rotary/tensors.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/op/refusal.h"

namespace rotary::cli {

using rotary_torch::Refusal;

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) std::cerr << "warning: " << printable(warning) << '\n';
}

rotary_torch::Decoder load_language_model(const char* operation, const std::filesystem::path& dir) {
  const rotary_torch::LoadedDecoder loaded = rotary_torch::load_decoder(dir);
  print_warnings(loaded.warnings);
  Refusal{operation}.unless(loaded.has_head && loaded.model->config().causal, Code::TENSOR, dir.string(),
                            ": a language model must have a head and see the past only but this checkpoint ",
                            loaded.has_head ? "is an encoder" : "has only the trunk");
  return loaded.model;
}

rotary_torch::Vocabulary read_characters(const char* operation, const std::filesystem::path& dir,
                                         const rotary_torch::DecoderConfig& config, const std::string& option) {
  const Refusal refuse{operation};
  const std::filesystem::path file = dir / "vocab.json";
  // Other families also have a vocab.json, but their tokens are not characters.
  if (config.model_type != "rotary_decoder" || !std::filesystem::exists(file)) {
    refuse(Code::FILE, dir.string(), ": ", option,
           " needs the characters of a model trained here (vocab.json) but this is a ", config.model_type,
           " model without them: give ids with --ids");
  }
  rotary_torch::Vocabulary characters = rotary_torch::Vocabulary::read(file);
  refuse.unless(characters.size() == config.vocabulary, Code::CONFIG_VALUE, dir.string(),
                ": vocab.json must have the model's ", config.vocabulary, " characters but has ", characters.size());
  return characters;
}

at::Tensor read_ids(const char* operation, const std::filesystem::path& path, std::int64_t vocabulary) {
  const auto refuse = [&](Code code, const auto&... rule) { Refusal{operation}(code, path.string(), ": ", rule...); };
  const rotary::Tensor file = read_npy(path);
  if (file.shape.size() != 2 || file.elements() == 0)
    refuse(Code::SHAPE, "ids must be [batch, tokens], at least one, but got ", shape_text(file.shape));
  const at::Tensor stored = rotary_torch::torch_tensor(file);
  if (!at::isIntegralType(stored.scalar_type(), /*includeBool=*/false))
    refuse(Code::DTYPE, "ids must be integers but got ", rotary::name(file.type));
  const at::Tensor ids = stored.to(at::kLong), wrong = ids.lt(0).logical_or(ids.ge(vocabulary));
  if (wrong.any().item<bool>()) {
    refuse(Code::VALUE, "ids must be from 0 to ", vocabulary - 1, " but got ",
           ids.masked_select(wrong)[0].item<std::int64_t>());
  }
  return ids;
}

SlidingWindow sliding_window(const rotary_torch::DecoderConfig& config, std::int64_t tokens, std::int64_t sinks,
                             double factor) {
  const SlidingWindow window{tokens, sinks};
  const rotary_torch::DecoderCache checked(config, 0, window);
  if (static_cast<double>(tokens) > factor * static_cast<double>(config.context)) {
    print_warnings({"a window of " + std::to_string(tokens) + " tokens has distances that the model, trained on " +
                    std::to_string(config.context) + ", has not met"});
  }
  return window;
}

void use_threads(const std::optional<int>& threads) {
  if (threads) at::set_num_threads(*threads);
}

}  // namespace rotary::cli
