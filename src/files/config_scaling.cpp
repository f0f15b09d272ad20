// rope_type and its keys -> Scaling. Every key of the object is read here or refused later.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "config.h"
#include "rotary/error.h"

namespace rotary::files {
namespace {

constexpr const char* known_types[] = {"default",      "linear", "dynamic", "yarn",          "longrope",      "llama3",
                                       "proportional", "ntk",    "axial",   "deepseek_yarn", "telechat3-yarn"};

class ScalingReader {
 public:
  ScalingReader(Reading& reading, const Part& part, const ScalingContext& context)
      : reading_(reading), part_(part), context_(context), keys_(*context.rope.scaling) {}

  Scaling read() {
    const std::string& type = context_.rope.type;
    read_known_extras();
    if (type == "linear") return Linear{.factor = factor()};
    if (type == "dynamic") return dynamic();
    if (type == "ntk") return NtkFixed{.factor = factor(), .mixed_b = keys_.number("mixed_b")};
    if (type == "yarn" || type == "deepseek_yarn" || type == "telechat3-yarn") return yarn(type);
    if (type == "longrope") return longrope();
    if (type == "llama3") return llama3();
    if (type == "proportional") return proportional();
    return Unscaled{};
  }

 private:
  void note(const std::string& sentence) { reading_.note(part_.path, sentence); }

  // Keys that files carry and that turn nothing.
  void read_known_extras() {
    if (keys_.has("original_max_position_embeddings") && !uses_trained_length()) {
      trained_in_keys();
      note(keys_.path_of("original_max_position_embeddings") + " is not used by rope_type " + context_.rope.type);
    }
    for (const char* key : {"max_position_embeddings", "finetuned", "rope_type", "type"}) keys_.mark(key);
    if (keys_.number("llama_4_scaling_beta")) {
      note(keys_.path_of("llama_4_scaling_beta") + " scales the queries by position; it is not part of the rotation");
    }
  }

  bool uses_trained_length() const {
    const std::string& type = context_.rope.type;
    return type.ends_with("yarn") || type == "longrope" || type == "llama3";
  }

  double at_least_one(const char* key, double value) {
    if (!(value >= 1) || !std::isfinite(value)) {
      keys_.refuse(key, "must be at least 1 (below, positions would be stretched apart instead of drawn together)");
    }
    return value;
  }

  double factor() {
    const auto value = keys_.number("factor");
    if (!value) missing("factor");
    return at_least_one("factor", *value);
  }

  [[noreturn]] void missing(const std::string& key) const {
    throw Error("CONFIG_MISSING", "[read_config] rope_type " + context_.rope.type + " must have " + key + " but " +
                                      keys_.path() + " has none");
  }

  std::optional<std::int64_t> trained_in_keys() const {
    return keys_.integer("original_max_position_embeddings", 1, most_length);
  }

  // L0: the top level's, else the object's, else max_position_embeddings.
  std::int64_t trained_length() {
    const auto inside = trained_in_keys();
    const auto top = part_.keys.integer("original_max_position_embeddings", 1, most_length);
    if (top && !context_.rope.truncate_elsewhere) {
      if (inside && *inside != *top) {
        note("original_max_position_embeddings at the top (" + std::to_string(*top) + ") beats the one in " +
             keys_.path() + ", as in transformers");
      }
      return *top;
    }
    if (inside) return *inside;
    const auto longest = context_length(part_.keys);
    if (!longest) missing("original_max_position_embeddings (or the model max_position_embeddings)");
    note("original_max_position_embeddings is not given: max_position_embeddings " + std::to_string(*longest) +
         ", as the frameworks read it");
    return *longest;
  }

  // factor, or max_position_embeddings / L0 where it is null or missing.
  double factor_or_ratio(std::int64_t trained) {
    if (const auto value = keys_.number("factor")) return at_least_one("factor", *value);
    const auto longest = context_length(part_.keys);
    if (!longest) missing("factor (or the model max_position_embeddings)");
    const double ratio = static_cast<double>(*longest) / static_cast<double>(trained);
    note("factor is not given: max_position_embeddings / original_max_position_embeddings = " + spelled(ratio));
    if (ratio < 1 && context_.rope.type != "longrope") {
      throw Error("CONFIG_VALUE",
                  "[read_config] max_position_embeddings / original_max_position_embeddings must be at "
                  "least 1 where it stands for factor but got " +
                      spelled(ratio));
    }
    return ratio;
  }

  std::optional<double> attention_factor() {
    const auto value = keys_.number("attention_factor");
    if (value && !(*value >= 0 && std::isfinite(*value))) keys_.refuse("attention_factor", "must be at least 0");
    return value;
  }

  Scaling dynamic() {
    if (part_.family.alpha_is_ntk && keys_.has("alpha")) {
      for (const char* key : {"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) keys_.number(key);
      note(
          "rope_type dynamic with alpha is the static NTK base of the Hunyuan models; factor and the yarn keys beside "
          "it are not used");
      return Ntk{.factor = at_least_one("alpha", *keys_.number("alpha"))};
    }
    const double f = factor();
    const auto longest = context_length(part_.keys);
    if (!longest) missing("the model max_position_embeddings");
    return Dynamic{.factor = f, .trained_length = *longest};
  }

  double beta(const char* key, double usual) {
    const auto value = keys_.number(key);
    if (value && (!(*value >= 0) || !std::isfinite(*value))) keys_.refuse(key, "must be a number of turns, at least 0");
    if (value && *value > 0) return *value;
    if (value) note(keys_.path_of(key) + " is 0: " + spelled(usual) + ", as the frameworks read it");
    return usual;
  }

  bool truncates() {
    const auto own = keys_.boolean("truncate");
    if (!context_.rope.truncate_elsewhere) return own.value_or(true);
    if (own && *own != context_.rope.truncate.value_or(true)) {
      note(keys_.path_of("truncate") +
           " has no effect inside a layer type's parameters (transformers reads it beside "
           "the layer types)");
    }
    return context_.rope.truncate.value_or(true);
  }

  Scaling yarn(const std::string& type) {
    Yarn yarn;
    yarn.trained_length = trained_length();
    yarn.factor = factor_or_ratio(yarn.trained_length);
    yarn.beta_fast = beta("beta_fast", 32);
    yarn.beta_slow = beta("beta_slow", 1);
    if (yarn.beta_fast < yarn.beta_slow) keys_.refuse("beta_fast", "must not be below beta_slow");
    yarn.truncate = truncates();
    yarn.attention_factor = attention_factor();
    if (part_.family.yarn_keeps_length && !yarn.attention_factor) {
      yarn.attention_factor = 1;
      note("yarn without an attention factor, as " + part_.name() + " has it");
    }
    yarn.mscale = keys_.number("mscale");
    yarn.mscale_all_dim = keys_.number("mscale_all_dim");
    yarn.mscale_ratio = type == "deepseek_yarn";
    if (yarn.mscale.has_value() != yarn.mscale_all_dim.has_value() && !yarn.mscale_ratio) {
      note("mscale and mscale_all_dim count only together: the one in " + keys_.path() + " is not used");
    }
    if (type == "telechat3-yarn") {
      yarn.magnitude = 0.07;
      note("telechat3-yarn: the magnitude is 0.07 ln(factor) + 1");
    }
    if (type == "deepseek_yarn") note("deepseek_yarn: the attention factor is M(mscale) / M(mscale_all_dim) always");
    read_vllm_keys(yarn);
    return yarn;
  }

  // vLLM's and the YaRN repository's own keys; transformers does not read them.
  void read_vllm_keys(Yarn& yarn) {
    if (const auto value = keys_.number("extrapolation_factor")) yarn.extrapolation_factor = *value;
    if (const auto value = keys_.number("attn_factor")) {
      yarn.attn_factor = *value;
      note("attn_factor multiplies the attention factor, as in vLLM; transformers does not read it");
    }
    if (yarn.extrapolation_factor != 1) note("extrapolation_factor is read as in vLLM; transformers does not read it");
    const auto apply = keys_.boolean("apply_yarn_scaling");
    if (apply && !*apply) {
      yarn.attention_factor = 1;
      note("apply_yarn_scaling is false: no attention factor, as in vLLM");
    }
  }

  std::vector<double> factors(const char* key) {
    auto values = keys_.numbers(key);
    if (!values) missing(key);
    if (values->size() != static_cast<std::size_t>(context_.pairs)) {
      keys_.refuse(key, "must have one factor for each of the " + std::to_string(context_.pairs) + " pairs (" +
                            std::to_string(values->size()) + " given)");
    }
    for (const double value : *values) {
      if (!(value > 0) || !std::isfinite(value)) keys_.refuse(key, "must list factors above 0");
    }
    return *values;
  }

  Scaling longrope() {
    LongRope rope;
    rope.short_factor = factors("short_factor");
    rope.long_factor = factors("long_factor");
    rope.trained_length = trained_length();
    rope.attention_factor = attention_factor();
    rope.short_mscale = keys_.number("short_mscale");
    rope.long_mscale = keys_.number("long_mscale");
    rope.factor = factor_or_ratio(rope.trained_length);
    if (part_.family.short_factors_only) {
      rope.long_factor = rope.short_factor;
      note("long_factor is not used: transformers turns " + part_.name() + " by short_factor at every length");
    }
    return rope;
  }

  Scaling llama3() {
    Llama3 rope;
    rope.factor = factor();
    const auto low = keys_.number("low_freq_factor");
    const auto high = keys_.number("high_freq_factor");
    if (!low) missing("low_freq_factor");
    if (!high) missing("high_freq_factor");
    if (!(*low > 0) || !std::isfinite(*low)) keys_.refuse("low_freq_factor", "must be above 0");
    if (!(*high >= *low) || !std::isfinite(*high))
      keys_.refuse("high_freq_factor", "must not be below low_freq_factor");
    if (*low == *high) {
      note("low_freq_factor equals high_freq_factor: kept or divided, nothing is blended, as the frameworks read it");
    }
    rope.low = *low;
    rope.high = *high;
    rope.trained_length = trained_length();
    return rope;
  }

  Scaling proportional() {
    const auto given = keys_.number("factor");
    note("rope_type proportional: " + spelled(context_.partial) + " of the pairs of the whole head turn");
    return Proportional{.fraction = context_.partial, .factor = given ? at_least_one("factor", *given) : 1};
  }

  Reading& reading_;
  const Part& part_;
  const ScalingContext& context_;
  const Object& keys_;
};

}  // namespace

std::string scaling_type(Reading& reading, const Part& part, const Object& keys) {
  const auto modern = keys.text("rope_type");
  const auto legacy = keys.text("type");
  const char* key = modern ? "rope_type" : "type";
  const std::string said = modern.value_or(legacy.value_or("default"));
  if (modern && legacy && *modern != *legacy) {
    reading.note(part.path, "rope_type " + *modern + " beats type " + *legacy + " in " + keys.path());
  }
  std::string type = said;
  if (said == "su" || (said == "yarn" && part.family.yarn_is_longrope)) type = "longrope";
  if (said == "mrope") type = "default";
  if (said == "xdrope") type = "dynamic";
  if (type != said) reading.note(part.path, "rope_type " + said + " is read as " + type);
  if (std::find(std::begin(known_types), std::end(known_types), type) == std::end(known_types)) {
    std::string rule = "must be one of";
    for (const char* known : known_types) rule += std::string(rule.back() == 'f' ? " " : ", ") + known;
    keys.refuse(key, rule);
  }
  return type;
}

Scaling read_scaling(Reading& reading, const Part& part, const ScalingContext& context) {
  if (!context.rope.scaling) return Unscaled{};
  return ScalingReader(reading, part, context).read();
}

}  // namespace rotary::files
