#include "language_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <iostream>

#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "files/text/json.h"
#include "rotary/tensors.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/op/refusal.h"

namespace rotary::cli {

using rotary_torch::Refusal;

bool is_roformer(const char* operation, const std::filesystem::path& dir) {
  const files::Json config = files::parse_json(files::json_file_text(operation, dir / "config.json"));
  return config.is_object() && files::string_of(config, "model_type") == "roformer";
}

rotary_torch::Decoder load_language_model(const char* operation, const std::filesystem::path& dir) {
  rotary_torch::LoadedDecoder loaded = rotary_torch::load_decoder(dir);
  for (const std::string& warning : loaded.warnings) std::cerr << "warning: " << printable(warning) << '\n';
  if (!loaded.has_head) {
    Refusal{operation}(Code::TENSOR, dir.string(),
                       ": a language model must have a head but this checkpoint has only the trunk");
  }
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
  if (characters.size() != config.vocabulary) {
    refuse(Code::CONFIG_VALUE, dir.string(), ": vocab.json must have the model's ", config.vocabulary,
           " characters but has ", characters.size());
  }
  return characters;
}

at::Tensor read_ids(const char* operation, const std::filesystem::path& path, std::int64_t vocabulary) {
  const auto refuse = [&](Code code, const auto&... rule) { Refusal{operation}(code, path.string(), ": ", rule...); };
  const rotary::Tensor file = read_npy(path);
  const std::string shape = shape_text(file.shape);
  if (file.shape.size() != 2) refuse(Code::SHAPE, "ids must be [batch, tokens] but got ", shape);
  if (file.elements() == 0) refuse(Code::SHAPE, "ids must be at least one but got ", shape);
  const at::Tensor stored = rotary_torch::torch_tensor(file);
  if (!at::isIntegralType(stored.scalar_type(), /*includeBool=*/false))
    refuse(Code::DTYPE, "ids must be integers but got ", rotary::name(file.type));
  const at::Tensor ids = stored.to(at::kLong);
  const at::Tensor wrong = ids.lt(0).logical_or(ids.ge(vocabulary)).nonzero();
  if (wrong.size(0) > 0) {
    const auto row = wrong[0][0].item<std::int64_t>(), token = wrong[0][1].item<std::int64_t>();
    refuse(Code::VALUE, "ids must be from 0 to ", vocabulary - 1, " but row ", row, " holds ",
           ids[row][token].item<std::int64_t>(), " at token ", token);
  }
  return ids;
}

std::int64_t trained_length(const rotary_torch::DecoderConfig& config) {
  if (config.context > 0) return config.context;
  return config.rope ? config.rope->context : 0;
}

SlidingWindow sliding_window(const rotary_torch::DecoderConfig& config, std::int64_t tokens, std::int64_t sinks,
                             double factor) {
  const SlidingWindow window{tokens, sinks};
  const rotary_torch::DecoderCache checked(config, 0, window);
  const std::int64_t trained = trained_length(config);
  if (trained > 0 && static_cast<double>(tokens) > factor * static_cast<double>(trained)) {
    std::cerr << "warning: a window of " << tokens << " tokens has distances that the model, trained on " << trained
              << ", has not met\n";
  }
  return window;
}

void add_threads_option(Command& command, std::optional<int>& threads) { command.option("--threads", threads); }

void use_threads(const std::optional<int>& threads) {
  if (threads) at::set_num_threads(*threads);
}

}  // namespace rotary::cli
