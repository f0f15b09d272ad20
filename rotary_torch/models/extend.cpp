// Extending the context of a decoder.
#include <algorithm>
#include <cmath>
#include <variant>

#include "rotary_torch/models/decoder.h"
#include "rotary_torch/op/refusal.h"
#include "src/values/number_text.h"

namespace rotary_torch {
namespace {

using rotary::Code;

constexpr Refusal refuse{"extend"};

}  // namespace

const std::vector<std::string>& extensions() {
  static const std::vector<std::string> words = {"none", "linear", "ntk", "ntk_fixed", "dynamic", "yarn", "llama3"};
  return words;
}

rotary::Rope extended_rope(const DecoderConfig& config, std::string_view scaling, double factor) {
  if (std::find(extensions().begin(), extensions().end(), scaling) == extensions().end()) {
    refuse(Code::SCALING, "scaling must be none, linear, ntk, ntk_fixed, dynamic, yarn or llama3 but got '", scaling,
           "'");
  }
  if (!config.rope || config.position != PositionEncoding::rope) {
    refuse(Code::ROPE, "a scaling needs a model whose positions are a rope but they are ", name(config.position));
  }
  const rotary::ModelRope& own = *config.rope;
  rotary::Rope rope = own.rope;
  if (scaling == "none") return rope;
  if (!rope.inv_freq.empty()) {
    refuse(Code::SCALING, "the model's frequencies must come from its base but they are given");
  }
  if (!std::holds_alternative<rotary::Unscaled>(rope.scaling)) {
    refuse(Code::SCALING, "the model's rope must be unscaled but it is ", rotary::name(rope.scaling),
           " already: scaling none keeps it");
  }
  if (!(factor > 1) || !std::isfinite(factor)) {
    refuse(Code::SCALING, "factor must be above 1 but got ", rotary::detail::spelled(factor));
  }
  const std::int64_t trained_length = config.context > 0 ? config.context : own.context;
  if (trained_length <= 0) {
    refuse(Code::CONFIG_MISSING, "the trained length must be in the config (max_position_embeddings) but is not");
  }
  rope.scaling = rotary::parse_scaling(scaling);
  std::visit(
      [&]([[maybe_unused]] auto& held) {
        if constexpr (requires { held.factor = 1.0; }) held.factor = factor;
        if constexpr (requires { held.trained_length; }) held.trained_length = trained_length;
      },
      rope.scaling);
  return rope;
}

}  // namespace rotary_torch
