// rope_type and its keys -> Scaling. Every key of the object is read here or refused later.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "rotary/error.h"
#include "stages.h"
#include "values/fail.h"
#include "values/scaling_fields.h"

namespace rotary::files {
namespace {

class ScalingReader {
 public:
  ScalingReader(Reading& reading, const Part& part, const ScalingContext& context)
      : reading_(reading),
        part_(part),
        context_(context),
        keys_(*context.rope.scaling),
        kind_(kind_of(context.rope.type)) {}

  Scaling read() {
    read_known_extras();
    return std::visit([this](const auto& scaling) { return read_as(scaling); }, kind_);
  }

 private:
  // What rope_type names, with default values.
  static Scaling kind_of(const std::string& type) {
    if (type == "axial") return Unscaled{};
    if (type == "deepseek_yarn" || type == "telechat3-yarn") return Yarn{};
    return parse_scaling(type);
  }

  Scaling read_as(const Unscaled&) { return Unscaled{}; }
  Scaling read_as(const Linear&) { return Linear{.factor = factor()}; }
  Scaling read_as(const Ntk&) { return Ntk{.factor = factor()}; }
  Scaling read_as(const NtkFixed&) { return ntk_fixed(); }
  Scaling read_as(const Dynamic&) { return dynamic(); }
  Scaling read_as(const Yarn&) { return yarn(context_.rope.type); }
  Scaling read_as(const LongRope&) { return longrope(); }
  Scaling read_as(const Llama3&) { return llama3(); }
  Scaling read_as(const Proportional&) { return proportional(); }

  void note(const std::string& sentence) { reading_.note(part_.path, sentence); }
  Origins& origins() { return reading_.origins; }
  void record(const char* value, const char* key) { origins().read(value, keys_, key); }
  // The method's own default where the key is not there.
  void record_or_by_default(const std::string& value, const char* key) {
    origins().read_or_by_default(value, keys_, key, context_.rope.type);
  }

  // Keys that files carry and that turn nothing.
  void read_known_extras() {
    if (keys_.has("original_max_position_embeddings") &&
        !scalings::has_key(kind_, "original_max_position_embeddings")) {
      trained_in_keys();
      note(keys_.path_of("original_max_position_embeddings") + " is not used by rope_type " + context_.rope.type);
    }
    for (const char* key : {"max_position_embeddings", "finetuned", "rope_type", "type"}) keys_.mark(key);
    const bool unscaled = context_.rope.type == "default" || context_.rope.type == "axial";
    if (unscaled && keys_.has("factor") && keys_.json().at("factor") == 1) keys_.mark("factor");
    if (keys_.number("llama_4_scaling_beta")) {
      note(keys_.path_of("llama_4_scaling_beta") + " scales the queries by position; it is not part of the rotation");
    }
  }

  double at_least_one(const char* key, double value) {
    if (!(value >= 1)) {
      keys_.refuse(key, "must be at least 1 (below, positions would be stretched apart instead of drawn together)");
    }
    if (!(value <= max_factor)) keys_.refuse(key, "must be at most " + spelled(max_factor));
    return value;
  }

  // A number of any sign, far from where the formulas overflow.
  std::optional<double> moderate(const char* key) {
    const auto value = keys_.number(key);
    if (value && !(std::fabs(*value) <= max_factor))
      keys_.refuse(key, "must be at most " + spelled(max_factor) + " in magnitude");
    return value;
  }

  double positive(const char* key, double value) {
    if (!(value > 0 && value <= max_factor)) keys_.refuse(key, "must be above 0 and at most " + spelled(max_factor));
    return value;
  }

  double factor() {
    const std::string& other = keys_.path();
    const std::string_view own = part_.family.quirk->scaling_key;
    const bool has_default = !own.empty() && other.ends_with(own);
    const char* key = has_default && !keys_.has("factor") ? "scaling_factor" : "factor";
    const auto value = keys_.number(key);
    if (!value && !has_default) missing("factor");
    origins().read_or_by_default("scaling.factor", keys_, key, part_.name());
    if (!value) note(keys_.path_of("factor") + " is not given: 1, the default of " + part_.name());
    const bool stretches = context_.rope.type != "longrope";  // its factor makes an attention factor only
    return stretches ? at_least_one(key, value.value_or(1)) : positive(key, value.value_or(1));
  }

  [[noreturn]] void missing(const std::string& key) const {
    fail(Code::CONFIG_MISSING, "read_config",
         "rope_type " + context_.rope.type + " must have " + key + " but " + keys_.path() + " has none");
  }

  std::optional<std::int64_t> trained_in_keys() const {
    return keys_.length("original_max_position_embeddings", max_length);
  }

  // L0: the top level's, else the object's, else max_position_embeddings.
  std::int64_t trained_length() {
    const auto inside = trained_in_keys();
    const auto top = part_.keys.length("original_max_position_embeddings", max_length);
    constexpr const char* key = "original_max_position_embeddings";
    if (top && !context_.rope.truncate_elsewhere) {
      origins().read("scaling.trained_length", part_.keys, key);
      if (inside && *inside != *top) {
        note("original_max_position_embeddings at the top (" + std::to_string(*top) + ") beats the one in " +
             keys_.path() + ", as in transformers");
      }
      return *top;
    }
    if (inside) {
      record("scaling.trained_length", key);
      return *inside;
    }
    const auto longest = longest_length();
    if (!longest) missing("original_max_position_embeddings (or the model max_position_embeddings)");
    origins().set("scaling.trained_length", longest->from);
    note("original_max_position_embeddings is not given: max_position_embeddings " +
         std::to_string(longest->positions) + ", as the frameworks read it");
    return longest->positions;
  }

  // max_position_embeddings, the file's or the class default.
  struct Length {
    std::int64_t positions = 0;
    From from;
  };
  std::optional<Length> longest_length() {
    if (const auto given = context_length(part_.keys)) return Length{*given, {Origin::derived, context_word()}};
    const std::int64_t default_value = part_.family.context;
    if (default_value == 0) return std::nullopt;
    note("max_position_embeddings is not given: " + std::to_string(default_value) + ", the default of " + part_.name());
    return Length{default_value, {Origin::model_default, part_.name()}};
  }

  // What the file calls max_position_embeddings.
  std::string context_word() { return context_key(part_.keys).value_or("max_position_embeddings"); }

  // factor, or max_position_embeddings / L0 where it is null or missing.
  double factor_or_ratio(std::int64_t trained) {
    if (keys_.has("factor")) return factor();
    const auto longest = longest_length();
    if (!longest) missing("factor (or the model max_position_embeddings)");
    origins().derived("scaling.factor", context_word() + " / original_max_position_embeddings");
    const double ratio = static_cast<double>(longest->positions) / static_cast<double>(trained);
    note("factor is not given: max_position_embeddings / original_max_position_embeddings = " + spelled(ratio));
    if (ratio < 1 && context_.rope.type != "longrope") {
      fail(Code::CONFIG_VALUE, "read_config",
           "max_position_embeddings / original_max_position_embeddings must be at least 1 where it stands for factor "
           "but got " +
               spelled(ratio));
    }
    return ratio;
  }

  std::optional<double> attention_factor() {
    const auto value = keys_.number("attention_factor");
    if (value && !(*value >= 0 && *value <= max_factor)) {
      keys_.refuse("attention_factor", "must be from 0 to " + spelled(max_factor));
    }
    if (value) record("attention_factor", "attention_factor");
    return value;
  }

  Scaling dynamic() {
    if (part_.family.quirk->alpha_is_ntk && keys_.has("alpha")) {
      for (const char* key : {"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) keys_.number(key);
      note(
          "rope_type dynamic with alpha is the static NTK base of the Hunyuan models; factor and the yarn keys beside "
          "it are not used");
      record("scaling.factor", "alpha");
      return Ntk{.factor = at_least_one("alpha", *keys_.number("alpha"))};
    }
    const double f = factor();
    if (const auto trained = keys_.length("trained_length", max_length)) {
      record("scaling.trained_length", "trained_length");
      return Dynamic{.factor = f, .trained_length = *trained};
    }
    const auto longest = longest_length();
    if (!longest) missing("the model max_position_embeddings");
    origins().set("scaling.trained_length", longest->from);
    if (const auto key = context_key(part_.keys)) origins().read("scaling.trained_length", part_.keys, *key);
    return Dynamic{.factor = f, .trained_length = longest->positions};
  }

  Scaling ntk_fixed() {
    const char* key = keys_.has("power") ? "power" : "mixed_b";  // BlueLM's word, vLLM's
    const auto mixed_b = keys_.number(key);
    if (mixed_b && !(*mixed_b >= 0 && *mixed_b <= 16)) keys_.refuse(key, "must be from 0 to 16");
    if (mixed_b) record("scaling.mixed_b", key);
    return NtkFixed{.factor = factor(), .mixed_b = mixed_b};
  }

  double beta(const char* key, double default_value) {
    const auto value = keys_.number(key);
    record_or_by_default(std::string("scaling.") + key, key);
    if (value && !(*value >= 0 && *value <= max_factor)) {
      keys_.refuse(key, "must be a number of turns, from 0 to " + spelled(max_factor));
    }
    if (value && *value > 0) return *value;
    if (value) note(keys_.path_of(key) + " is 0: " + spelled(default_value) + ", as the frameworks read it");
    origins().by_default(std::string("scaling.") + key, context_.rope.type);
    return default_value;
  }

  bool truncates() {
    const bool is_null = keys_.is_null("truncate");  // false, as transformers reads it
    const bool own = keys_.boolean("truncate", true) && !is_null;
    record_or_by_default("scaling.truncate", "truncate");
    if (is_null) {
      origins().given("scaling.truncate", keys_.path_of("truncate"));
      if (!context_.rope.truncate_elsewhere) note("truncate is null: false, as transformers reads it");
    }
    if (!context_.rope.truncate_elsewhere) return own;
    const bool beside = !context_.rope.truncate || *context_.rope.truncate;
    if (own != beside && (is_null || keys_.has("truncate"))) {
      note(keys_.path_of("truncate") +
           " has no effect: transformers reads it beside the layer types of rope_parameters only");
    }
    if (!context_.rope.truncate) {
      origins().by_default("scaling.truncate", context_.rope.type);
      return true;
    }
    origins().set("scaling.truncate", context_.rope.truncate_from);
    return *context_.rope.truncate;
  }

  Scaling yarn(const std::string& type) {
    Yarn yarn;
    yarn.trained_length = trained_length();
    yarn.factor = factor_or_ratio(yarn.trained_length);
    yarn.beta_fast = beta("beta_fast", 32);
    yarn.beta_slow = beta("beta_slow", 1);
    if (yarn.beta_fast < yarn.beta_slow) keys_.refuse("beta_fast", "must not be below beta_slow");
    yarn.truncate = truncates();
    yarn.mscale = moderate("mscale");
    yarn.mscale_all_dim = moderate("mscale_all_dim");
    read_magnitude(yarn);
    record_magnitude(yarn);
    yarn.attention_factor = attention_factor();
    if (const auto own = part_.family.quirk->yarn) own(reading_, part_, yarn);
    if (yarn.mscale.has_value() != yarn.mscale_all_dim.has_value() && !yarn.mscale_ratio) {
      note("mscale and mscale_all_dim count only together: the one in " + keys_.path() + " is not used");
    }
    if (type == "telechat3-yarn")
      note("telechat3-yarn: the magnitude is " + spelled(yarn.magnitude) + " ln(factor) + 1");
    if (yarn.mscale_ratio) note(type + ": the attention factor is M(mscale) / M(mscale_all_dim) always");
    read_vllm_keys(yarn);
    return yarn;
  }

  // As rope_type says, or keys of our own, which no framework reads.
  void read_magnitude(Yarn& yarn) {
    const bool telechat = context_.rope.type == "telechat3-yarn";
    const bool deepseek = context_.rope.type == "deepseek_yarn";
    yarn.magnitude = moderate("magnitude").value_or(telechat ? 0.07 : yarn.magnitude);
    yarn.mscale_ratio = keys_.boolean("mscale_ratio", deepseek);
    if (telechat) origins().same("scaling.magnitude", "scaling");
    if (deepseek) origins().same("scaling.mscale_ratio", "scaling");
    if (keys_.has("magnitude")) record("scaling.magnitude", "magnitude");
    if (keys_.has("mscale_ratio")) record("scaling.mscale_ratio", "mscale_ratio");
  }

  void record_magnitude(const Yarn& yarn) {
    const std::string magnitude = spelled(yarn.magnitude);
    const bool ratio = yarn.mscale_ratio || (yarn.mscale.value_or(0) != 0 && yarn.mscale_all_dim.value_or(0) != 0);
    if (!ratio) return origins().derived("attention_factor", magnitude + " * ln(factor) + 1");
    record_or_by_default("scaling.mscale", "mscale");
    record_or_by_default("scaling.mscale_all_dim", "mscale_all_dim");
    origins().derived("attention_factor", "(" + magnitude + " * mscale * ln(factor) + 1) / (" + magnitude +
                                              " * mscale_all_dim * ln(factor) + 1)");
  }

  // vLLM's and the YaRN repository's own keys; transformers does not read them.
  void read_vllm_keys(Yarn& yarn) {
    if (const auto value = keys_.number("extrapolation_factor")) {
      yarn.extrapolation_factor = *value;
      record("scaling.extrapolation_factor", "extrapolation_factor");
    }
    if (const auto value = moderate("attn_factor")) {
      yarn.attn_factor = *value;
      record("scaling.attn_factor", "attn_factor");
      origins().multiplied("attention_factor", "attn_factor");
      note("attn_factor multiplies the attention factor, as in vLLM; transformers does not read it");
    }
    if (yarn.extrapolation_factor != 1) note("extrapolation_factor is read as in vLLM; transformers does not read it");
    const auto apply = keys_.boolean("apply_yarn_scaling");
    if (apply && !*apply) {
      yarn.attention_factor = 1;
      record("attention_factor", "apply_yarn_scaling");
      note("apply_yarn_scaling is false: no attention factor, as in vLLM");
    }
  }

  std::vector<double> factors(const char* key) {
    auto values = keys_.numbers(key);
    if (!values) missing(key);
    record_or_by_default(std::string("scaling.") + key, key);
    if (values->size() != static_cast<std::size_t>(context_.pairs)) {
      keys_.refuse(key, "must have one factor for each of the " + std::to_string(context_.pairs) + " pairs (" +
                            std::to_string(values->size()) + " given)");
    }
    for (const double value : *values) {
      if (!(value >= 1 / max_factor && value <= max_factor)) {
        keys_.refuse(key, "must list factors above 0, from " + spelled(1 / max_factor) + " to " + spelled(max_factor));
      }
    }
    return *values;
  }

  Scaling longrope() {
    LongRope rope;
    rope.short_factor = factors("short_factor");
    rope.long_factor = factors("long_factor");
    rope.trained_length = trained_length();
    origins().derived("attention_factor", "sqrt(1 + ln(factor) / ln(original_max_position_embeddings))");
    rope.attention_factor = attention_factor();
    rope.short_mscale = moderate("short_mscale");
    rope.long_mscale = moderate("long_mscale");
    if (rope.short_mscale && !rope.long_mscale) missing("long_mscale (short_mscale is given)");
    if (rope.long_mscale && !rope.short_mscale) missing("short_mscale (long_mscale is given)");
    if (rope.short_mscale) {
      record("scaling.short_mscale", "short_mscale");
      record("scaling.long_mscale", "long_mscale");
      origins().derived("attention_factor", "short_mscale up to trained_length, long_mscale beyond");
    }
    rope.factor = factor_or_ratio(rope.trained_length);
    if (const auto own = part_.family.quirk->longrope) own(reading_, part_, rope);
    return rope;
  }

  Scaling llama3() {
    Llama3 rope;
    rope.factor = factor();
    const auto low = keys_.number("low_freq_factor");
    const auto high = keys_.number("high_freq_factor");
    if (!low) missing("low_freq_factor");
    if (!high) missing("high_freq_factor");
    if (!(*low > 0)) keys_.refuse("low_freq_factor", "must be above 0");
    if (!(*high >= *low)) keys_.refuse("high_freq_factor", "must not be below low_freq_factor");
    if (!(*high <= max_factor)) keys_.refuse("high_freq_factor", "must be at most " + spelled(max_factor));
    if (*low == *high) {
      note("low_freq_factor equals high_freq_factor: kept or divided, nothing is blended, as the frameworks read it");
    }
    rope.low = *low;
    rope.high = *high;
    record("scaling.low", "low_freq_factor");
    record("scaling.high", "high_freq_factor");
    rope.trained_length = trained_length();
    return rope;
  }

  Scaling proportional() {
    const auto given = keys_.number("factor");
    record_or_by_default("scaling.factor", "factor");
    origins().by_default("scaling.fraction", part_.name());
    if (context_.partial_from) origins().set("scaling.fraction", *context_.partial_from);
    note("rope_type proportional: " + spelled(context_.partial) + " of the pairs of the whole head turn");
    return Proportional{.fraction = context_.partial, .factor = given ? at_least_one("factor", *given) : 1};
  }

  Reading& reading_;
  const Part& part_;
  const ScalingContext& context_;
  const Object& keys_;
  const Scaling kind_;
};

}  // namespace

Scaling read_scaling(Reading& reading, const Part& part, const ScalingContext& context) {
  reading.origins.derived("attention_factor", "1 for " + context.rope.type);
  return context.rope.scaling ? ScalingReader(reading, part, context).read() : Unscaled{};
}

}  // namespace rotary::files
