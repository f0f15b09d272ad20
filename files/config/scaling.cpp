// rope_type and its keys -> Scaling, by the rows of scaling_fields.h. Every key of the object is read here or refused
// later.
#include <cmath>
#include <utility>

#include "rotary/error.h"
#include "stages.h"
#include "values/fail.h"
#include "values/scaling_fields.h"

namespace rotary::files {
namespace {

using scalings::Bounds;
using scalings::Need;
using scalings::Otherwise;

constexpr const char* trained_key = "original_max_position_embeddings";

// The scaling that rope_type names, with default values.
Scaling kind_of(const std::string& type) {
  if (type == "axial") return Unscaled{};
  for (const scalings::YarnKind& kind : scalings::yarn_kinds) {
    if (type == kind.rope_type) return kind.yarn;
  }
  return parse_scaling(type);
}

class ScalingReader {
 public:
  ScalingReader(const Part& part, const RopeKeys& rope, int pairs)
      : part_(part), rope_(rope), type_(rope.type), keys_(*rope.scaling), pairs_(pairs) {}

  Scaling read() {
    Scaling kind = kind_of(type_);
    read_known_extras(kind);
    if (const auto ntk = ntk_of_alpha(kind)) return *ntk;
    std::visit([this](auto& scaling) { read_fields(scaling); }, kind);
    return kind;
  }

 private:
  template <class S>
  void read_fields(S& scaling) {
    for (int turn = 0; turn <= scalings::last_turn; ++turn) {
      scalings::for_each_field(scaling, [&](const auto& field, auto& value) {
        if (field.reads.turn == turn) read_field(field, value);
      });
      settle(scaling, turn);
    }
  }

  template <class... Parts>
  void note(NoteKind kind, const Parts&... sentence) {
    part_.note(kind, sentence...);
  }
  Origins& origins() { return part_.origins(); }
  void record(const char* value, const char* key) { origins().read(value, keys_, key); }

  // Keys that files carry and that turn nothing.
  void read_known_extras(const Scaling& kind) {
    if (keys_.has(trained_key) && !scalings::has_key(kind, trained_key)) {
      keys_.length(trained_key, max_length);
      note(NoteKind::unread, keys_.path_of(trained_key), " is not used by rope_type ", type_);
    }
    for (const char* key : {"max_position_embeddings", "finetuned", "rope_type", "type"}) keys_.mark(key);
    const bool unscaled = std::holds_alternative<Unscaled>(kind);
    if (unscaled && keys_.has("factor") && keys_.json().at("factor") == 1) keys_.mark("factor");
    keys_.mark("llama_4_scaling_beta");  // query_scale.cpp reads it
  }

  std::optional<Ntk> ntk_of_alpha(const Scaling& kind) {
    if (!std::holds_alternative<Dynamic>(kind) || !part_.family.alpha_is_ntk || !keys_.has("alpha")) return {};
    for (const char* key : {"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) keys_.number(key);
    note(NoteKind::scaling,
         "rope_type dynamic with alpha is the static NTK base of the Hunyuan models; factor and the yarn keys beside "
         "it are not used");
    record("scaling.factor", "alpha");
    return Ntk{.factor = checked("alpha", Need::factor, Bounds::by_need, *keys_.number("alpha"))};
  }

  [[noreturn]] void missing(const std::string& key) const {
    fail(Code::CONFIG_MISSING, "read_config", "rope_type ", type_, " must have ", key, " but ", keys_.path(),
         " has none");
  }

  // ---- one field: its value, checked, and its origin ----

  double checked(const char* key, Need need, Bounds bounds, double value) const {
    const std::string most = spelled(max_factor);
    const auto require = [&](bool holds, const std::string& rule) {
      if (!holds) keys_.refuse(key, rule);
    };
    if (bounds == Bounds::turns) {
      require(value >= 0 && value <= max_factor, "must be a number of turns, from 0 to " + most);
    } else if (bounds == Bounds::magnitude || (bounds == Bounds::by_need && need == Need::finite)) {
      require(std::fabs(value) <= max_factor, "must be at most " + most + " in magnitude");
    } else if (bounds == Bounds::exponent) {
      require(value >= 0 && value <= 16, "must be from 0 to 16");
    } else if (bounds == Bounds::above_zero) {
      require(value > 0, "must be above 0");
    } else if (bounds == Bounds::at_most) {
      require(value <= max_factor, "must be at most " + most);
    } else if (need == Need::factor) {
      require(value >= 1, "must be at least 1 (below, positions would be stretched apart instead of drawn together)");
      require(value <= max_factor, "must be at most " + most);
    } else if (need == Need::positive) {
      require(value > 0 && value <= max_factor, "must be above 0 and at most " + most);
    } else if (need == Need::not_negative) {
      require(value >= 0 && value <= max_factor, "must be from 0 to " + most);
    }
    return value;
  }

  void record_as(const char* name, const char* key, Otherwise otherwise, bool given) {
    const std::string value = std::string("scaling.") + name;
    if (otherwise == Otherwise::unrecorded) return;
    if (given) return origins().read(value, keys_, key);
    if (otherwise == Otherwise::method_default) origins().set(value, {OriginKind::method_default, type_});
  }

  template <class Field>
  std::optional<double> number(const Field& field) {
    const scalings::Reads& how = field.reads;
    const char* key = how.alias != nullptr && keys_.has(how.alias) ? how.alias : field.key;
    auto value = keys_.number(key);
    if (!value && how.otherwise == Otherwise::missing) missing(key);
    if (value) checked(key, field.need, how.bounds, *value);
    const bool is_default = value && how.bounds == Bounds::turns && *value == 0;
    if (is_default) value.reset();
    record_as(field.name, key, how.otherwise, value.has_value());
    return value;
  }

  template <class Field>
  void read_field(const Field& field, double& value) {
    if (field.reads.otherwise == Otherwise::fraction) {
      value = fraction();
    } else if (field.reads.otherwise == Otherwise::lengths) {
      value = factor_or_ratio(field.need);
    } else if (field.need == Need::factor && field.reads.otherwise == Otherwise::missing) {
      value = factor(field.need);
    } else if (const auto given = number(field)) {
      value = *given;
    } else if (field.reads.bounds == Bounds::turns && keys_.has(field.key)) {
      note(NoteKind::read_as, keys_.path_of(field.key), " is 0: ", spelled(value), ", as the frameworks read it");
    }
  }

  template <class Field>
  void read_field(const Field& field, std::optional<double>& value) {
    value = number(field);
  }

  template <class Field>
  void read_field(const Field& field, std::int64_t& length) {
    length = field.reads.otherwise == Otherwise::context ? given_or_context(field.key) : trained_length();
  }

  template <class Field>
  void read_field(const Field& field, bool& flag) {
    if (field.reads.otherwise == Otherwise::layer_types) {
      flag = read_beside_layer_types(field.key, flag);
    } else {
      flag = keys_.boolean(field.key, flag);
      record_as(field.name, field.key, field.reads.otherwise, keys_.has(field.key));
    }
  }

  template <class Field>
  void read_field(const Field& field, std::vector<double>& list) {
    auto values = keys_.numbers(field.key);
    if (!values) missing(field.key);
    record_as(field.name, field.key, field.reads.otherwise, true);
    if (values->size() != static_cast<std::size_t>(pairs_)) {
      keys_.refuse(field.key, "must have one factor for each of the ", pairs_, " pairs (", values->size(), " given)");
    }
    for (const double value : *values) {
      if (value >= 1 / max_factor && value <= max_factor) continue;
      keys_.refuse(field.key, "must list factors above 0, from ", spelled(1 / max_factor), " to ", spelled(max_factor));
    }
    list = std::move(*values);
  }

  // ---- values that stand elsewhere too ----

  double factor(Need need) {
    const std::string_view own = part_.family.scaling_key;
    const bool has_default = !own.empty() && keys_.path().ends_with(own);
    const char* key =
        (has_default || part_.family.quirk->scaling != nullptr) && !keys_.has("factor") ? "scaling_factor" : "factor";
    const auto value = keys_.number(key);
    if (!value && !has_default) missing("factor");
    origins().read_or_by_default("scaling.factor", keys_, key, part_.name());
    if (!value)
      note(NoteKind::model_default, keys_.path_of("factor"), " is not given: 1, the default of ", part_.name());
    return checked(key, need, Bounds::by_need, value.value_or(1));
  }

  // factor, or max_position_embeddings / L0 where it is null or missing.
  double factor_or_ratio(Need need) {
    if (keys_.has("factor") || part_.family.quirk->scaling != nullptr) return factor(need);
    const auto longest = longest_length();
    if (!longest) missing("factor (or the model max_position_embeddings)");
    origins().derived("scaling.factor", context_word() + " / original_max_position_embeddings");
    const double ratio = static_cast<double>(longest->positions) / static_cast<double>(trained_);
    note(NoteKind::derived,
         "factor is not given: max_position_embeddings / original_max_position_embeddings = ", spelled(ratio));
    if (ratio < 1 && need == Need::factor) {
      fail(Code::CONFIG_VALUE, "read_config",
           "max_position_embeddings / original_max_position_embeddings must be at least 1 where it stands for factor "
           "but got ",
           spelled(ratio));
    }
    return ratio;
  }

  // L0: the top level's, else the object's, else max_position_embeddings.
  std::int64_t trained_length() {
    const auto inside = keys_.length(trained_key, max_length);
    const auto top = part_.keys.length(trained_key, max_length);
    // A wrapper whose text keys stand at the top (Qwen2-VL) hands its text model those that the model's class knows.
    const bool handed_on = !part_.path.empty() || part_.name() == part_.reading.model.model_type || !part_.known;
    const bool from_top = top && handed_on && !rope_.truncate_elsewhere;
    if (top && !handed_on && inside != top) {
      note(NoteKind::unread, trained_key, " at the top (", *top, ") is not read: transformers keeps it from ",
           part_.name());
    }
    if (from_top || inside) {
      origins().read("scaling.trained_length", from_top ? part_.keys : keys_, trained_key);
      if (from_top && inside && *inside != *top) {
        note(NoteKind::unread, "original_max_position_embeddings at the top (", *top, ") beats the one in ",
             keys_.path(), ", as in transformers");
      }
      return trained_ = from_top ? *top : *inside;
    }
    const auto longest = longest_length();
    if (!longest) missing("original_max_position_embeddings (or the model max_position_embeddings)");
    origins().set("scaling.trained_length", longest->from);
    const std::string word = context_word();
    note(NoteKind::derived, trained_key, " is not given: ", word, ' ', longest->positions,
         (word == "max_position_embeddings" ? ", as the frameworks read it"
                                            : "; transformers itself reads max_position_embeddings"));
    return trained_ = longest->positions;
  }

  std::int64_t given_or_context(const char* key) {
    if (const auto given = keys_.length(key, max_length)) {
      record("scaling.trained_length", key);
      return *given;
    }
    const auto longest = longest_length();
    if (!longest) missing("the model max_position_embeddings");
    origins().set("scaling.trained_length", longest->from);
    if (const auto stated = context_key(part_.keys)) origins().read("scaling.trained_length", part_.keys, *stated);
    return longest->positions;
  }

  // max_position_embeddings, the file's or the class default.
  struct Length {
    std::int64_t positions = 0;
    Origin from;
  };
  std::optional<Length> longest_length() {
    if (const auto given = context_length(part_.keys)) return Length{*given, {OriginKind::derived, context_word()}};
    const std::int64_t default_value = part_.family.context;
    if (default_value == 0) return std::nullopt;
    note(NoteKind::model_default, "max_position_embeddings is not given: ", default_value, ", the default of ",
         part_.name());
    return Length{default_value, {OriginKind::model_default, part_.name()}};
  }

  std::string context_word() { return context_key(part_.keys).value_or("max_position_embeddings"); }

  bool read_beside_layer_types(const char* key, bool default_value) {
    const bool is_null = keys_.is_null(key);  // false, as transformers reads it
    const bool own = keys_.boolean(key, default_value) && !is_null;
    const auto& beside = rope_.truncate;
    if (!rope_.truncate_elsewhere) {
      record_as("truncate", key, Otherwise::method_default, keys_.has(key) || is_null);
      if (is_null) note(NoteKind::read_as, "truncate is null: false, as transformers reads it");
      return own;
    }
    if (own != beside.value_or(default_value) && (is_null || keys_.has(key))) {
      note(NoteKind::unread, keys_.path_of(key),
           " has no effect: transformers reads it beside the layer types of rope_parameters only");
    }
    origins().set("scaling.truncate", beside ? rope_.truncate_from : Origin{OriginKind::method_default, type_});
    return beside.value_or(default_value);
  }

  double fraction() {
    origins().set("scaling.fraction", rope_.partial_from.value_or(Origin{OriginKind::model_default, part_.name()}));
    note(NoteKind::scaling, "rope_type proportional: ", spelled(*rope_.partial),
         " of the pairs of the whole head turn");
    return *rope_.partial;
  }

  // ---- rules over several fields: settle(scaling, turn) runs when the fields of a turn are read ----

  template <class S>
  void settle(S&, int) {}

  void settle(Llama3& rope, int turn) {
    if (turn != 1) return;
    if (!(rope.high >= rope.low)) keys_.refuse("high_freq_factor", "must not be below low_freq_factor");
    if (rope.low == rope.high) {
      note(NoteKind::scaling,
           "low_freq_factor equals high_freq_factor: kept or divided, nothing is blended, as the frameworks read it");
    }
  }

  void settle(ThetaScale& rope, int turn) {
    if (turn != 1 || rope.trained_length > 6) return;
    fail(Code::CONFIG_VALUE, "read_config", "the trained length of theta_scale must be above 2 pi but got ",
         rope.trained_length);
  }

  void settle(YarnLog& rope, int turn) {
    if (turn == 1 && rope.beta_fast < rope.beta_slow) keys_.refuse("beta_fast", "must not be below beta_slow");
  }

  void settle(LongRope& rope, int turn) {
    if (turn == 2) {
      if (rope.short_mscale && !rope.long_mscale) missing("long_mscale (short_mscale is given)");
      if (rope.long_mscale && !rope.short_mscale) missing("short_mscale (long_mscale is given)");
      origins().derived("attention_factor", "sqrt(1 + ln(factor) / ln(original_max_position_embeddings))");
      if (rope.attention_factor) record("attention_factor", "attention_factor");
      if (rope.short_mscale) {
        origins().derived("attention_factor", "short_mscale up to trained_length, long_mscale beyond");
      }
    } else if (turn == scalings::last_turn && part_.family.quirk->longrope != nullptr) {
      part_.family.quirk->longrope(part_, rope);
    }
  }

  void settle(Yarn& yarn, int turn) {
    if (turn == 1) {
      if (yarn.beta_fast < yarn.beta_slow) keys_.refuse("beta_fast", "must not be below beta_slow");
      if (type_ == "telechat3-yarn" && !keys_.has("magnitude")) origins().same("scaling.magnitude", "scaling");
      if (type_ == "deepseek_yarn" && !keys_.has("mscale_ratio")) origins().same("scaling.mscale_ratio", "scaling");
      record_magnitude(yarn);
    } else if (turn == 2) {
      settle_attention_factor(yarn);
    } else if (turn == 3) {
      if (const auto own = part_.family.quirk->yarn) own(part_, yarn);
      settle_vllm_keys(yarn);
    }
  }

  void record_magnitude(const Yarn& yarn) {
    const std::string magnitude = spelled(yarn.magnitude);
    const bool ratio = yarn.mscale_ratio || (yarn.mscale.value_or(0) != 0 && yarn.mscale_all_dim.value_or(0) != 0);
    if (!ratio) return origins().derived("attention_factor", magnitude + " * ln(factor) + 1");
    for (const char* key : {"mscale", "mscale_all_dim"}) {
      record_as(key, key, Otherwise::method_default, keys_.has(key));
    }
    origins().derived("attention_factor", "(" + magnitude + " * mscale * ln(factor) + 1) / (" + magnitude +
                                              " * mscale_all_dim * ln(factor) + 1)");
  }

  void settle_attention_factor(Yarn& yarn) {
    if (yarn.attention_factor) record("attention_factor", "attention_factor");
    if (yarn.mscale.has_value() != yarn.mscale_all_dim.has_value() && !yarn.mscale_ratio) {
      note(NoteKind::unread, "mscale and mscale_all_dim count only together: the one in ", keys_.path(),
           " is not used");
    }
    if (type_ == "telechat3-yarn") {
      note(NoteKind::scaling, "telechat3-yarn: the magnitude is ", spelled(yarn.magnitude), " ln(factor) + 1");
    }
    if (yarn.mscale_ratio)
      note(NoteKind::scaling, type_, ": the attention factor is M(mscale) / M(mscale_all_dim) always");
  }

  // vLLM's and the YaRN repository's own keys; transformers does not read them.
  void settle_vllm_keys(Yarn& yarn) {
    if (yarn.attn_factor != 1) {
      origins().multiplied("attention_factor", "attn_factor");
      note(NoteKind::scaling, "attn_factor multiplies the attention factor, as in vLLM; transformers does not read it");
    }
    if (yarn.extrapolation_factor != 1)
      note(NoteKind::scaling, "extrapolation_factor is read as in vLLM; transformers does not read it");
    if (keys_.boolean("apply_yarn_scaling", true)) return;
    yarn.attention_factor = 1;
    record("attention_factor", "apply_yarn_scaling");
    note(NoteKind::scaling, "apply_yarn_scaling is false: no attention factor, as in vLLM");
  }

  const Part& part_;
  const RopeKeys& rope_;
  const std::string& type_;
  const Object& keys_;
  int pairs_;
  std::int64_t trained_ = 0;
};

}  // namespace

Scaling read_scaling(const Part& part, const RopeKeys& rope, int pairs) {
  part.derived("attention_factor", "1 for " + rope.type);
  return rope.scaling ? ScalingReader(part, rope, pairs).read() : Unscaled{};
}

}  // namespace rotary::files
