#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gguf.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

class GgufScaling {
 public:
  GgufScaling(const GgufPart& part, ModelRope& used, std::int64_t context)
      : part_(part), keys_(part.keys), rope_(used.rope), context_(context) {}

  void set(bool plain) {
    part_.by_default("scaling");
    read();
    part_.derived("attention_factor", "1 for default");
    if (plain) {
      const bool scaled = factor_ != 1 || part_.gguf.find("rope_freqs.weight") != nullptr;
      if (scaled) part_.note(NoteKind::scaling, "the layers with a sliding window have no scaling");
    } else if (part_.gguf.find("rope_factors_long.weight") != nullptr ||
               part_.gguf.find("rope_factors_short.weight") != nullptr) {
      set_long();
    } else if (type_ == "longrope") {
      fail(Code::TENSOR, "read_config",
           "scaling longrope needs the tensors rope_factors_long.weight and "
           "rope_factors_short.weight but the file has none");
    } else {
      set_factors(part_.gguf.find("rope_freqs.weight") != nullptr);
    }
  }

 private:
  Origins& origins() const { return part_.origins(); }

  void record_scaling() {
    part_.record_or_default("scaling", "rope.scaling.type");
    const bool list = std::holds_alternative<LongRope>(rope_.scaling);
    part_.derived("attention_factor",
                  list ? "1: no rope.scaling.attn_factor" : std::string("1 for ") + name(rope_.scaling));
    if (keys_.has("rope.scaling.attn_factor")) part_.record("attention_factor", "rope.scaling.attn_factor");
  }

  std::string factor_key() const { return word_for(part_, "rope.scaling.factor rope.scale_linear"); }
  void record_factor() { part_.record_or_default("scaling.factor", factor_key()); }

  void record_trained_length() {
    part_.record_or_default("scaling.trained_length",
                            word_for(part_, "rope.scaling.original_context_length context_length"));
  }

  // Records the origins of a scaling whose factors are tensors, or stand for tensors.
  void record_lists(const Origin& short_factor, const Origin& long_factor) {
    record_scaling();
    record_trained_length();
    origins().set("scaling", long_factor);
    origins().set("scaling.short_factor", short_factor);
    origins().set("scaling.long_factor", long_factor);
  }

  std::vector<double> factors(const std::string& tensor) const {
    std::vector<double> values = part_.gguf.numbers(tensor, max_dim);
    const auto pairs = static_cast<std::size_t>(rope_.rotary_dim / 2);
    if (values.size() < pairs) {
      fail(Code::TENSOR, "read_config", "tensor ", tensor, " must have a factor for each of ", pairs, " pairs but has ",
           values.size());
    }
    if (values.size() > pairs)
      part_.note(NoteKind::unread, tensor, " has ", values.size(), " factors: the first ", pairs, " are used");
    values.resize(pairs);
    for (const double value : values) {
      if (!(value > 0) || !std::isfinite(value))
        fail(Code::TENSOR, "read_config", "the factors of tensor ", tensor, " must be finite and above 0 but one is ",
             spelled(value));
    }
    return values;
  }

  void read() {
    constexpr const char* type = "rope.scaling.type";
    const auto given = keys_.text(type);
    type_ = given.value_or("linear");
    if (type_ != "none" && type_ != "linear" && type_ != "yarn" && type_ != "longrope")
      keys_.refuse(type, "must be none, linear, yarn or longrope");
    const auto factor = keys_.number(factor_key());
    if (factor && *factor != 0 && !(*factor >= 1)) keys_.refuse(factor_key(), "must be at least 1, or 0 for none,");
    if (factor && !given && *factor > 1)
      part_.note(NoteKind::read_as, "rope.scaling.type is not given: linear, as llama.cpp reads it");
    factor_ = type_ == "none" || factor.value_or(0) == 0 ? 1 : *factor;
    attention_ = keys_.number("rope.scaling.attn_factor").value_or(1);
    if (!(attention_ > 0)) keys_.refuse("rope.scaling.attn_factor", "must be above 0");
    trained_ = keys_.integer("rope.scaling.original_context_length", 1, max_length).value_or(0);
    if (trained_ == 0 && context_ > 0 && (type_ == "yarn" || type_ == "longrope")) {
      trained_ = context_;
      part_.note(NoteKind::derived, "rope.scaling.original_context_length is not given: context_length");
    }
  }

  void set_long() {
    if (type_ == "yarn") refuse("scaling yarn with rope_factors_long.weight");
    if (trained_ == 0)
      missing_key(part_, "rope.scaling.original_context_length", "a GGUF with rope_factors_long.weight");
    LongRope scaling;
    scaling.long_factor = factors("rope_factors_long.weight");
    scaling.short_factor = factors("rope_factors_short.weight");
    for (double& f : scaling.long_factor) f *= factor_;
    for (double& f : scaling.short_factor) f *= factor_;
    scaling.trained_length = trained_;
    scaling.attention_factor = attention_;
    if (!keys_.has("rope.scaling.attn_factor"))
      part_.note(NoteKind::model_default, "rope.scaling.attn_factor is not given: 1");
    rope_.scaling = scaling;
    record_lists({OriginKind::weights, "rope_factors_short.weight"}, {OriginKind::weights, "rope_factors_long.weight"});
  }

  void set_factors(bool has_tensor) {
    std::vector<double> divisors(static_cast<std::size_t>(rope_.rotary_dim / 2), 1.0);
    if (has_tensor) divisors = factors("rope_freqs.weight");
    const bool uneven = std::any_of(divisors.begin(), divisors.end(), [](double d) { return d != 1; });
    if (type_ == "yarn") {
      set_yarn();
      if (uneven) divide_by(divisors);
    } else if (set_ntk(uneven) || set_proportional(divisors)) {
      return;
    } else if (uneven || attention_ != 1) {
      // A list of factors is LongRoPE with the same list at every length.
      for (double& d : divisors) d *= factor_;
      LongRope scaling{divisors, divisors, trained_ > 0 ? trained_ : std::max<std::int64_t>(context_, 1)};
      scaling.attention_factor = attention_;
      rope_.scaling = std::move(scaling);
      const Origin from =
          has_tensor ? Origin{OriginKind::weights, "rope_freqs.weight"} : from_key(keys_, "rope.scaling.attn_factor");
      record_lists(from, from);
      if (uneven)
        part_.note(
            NoteKind::scaling,
            "inv_freq is divided by rope_freqs.weight: written as longrope with the same factors at every length");
    } else if (factor_ > 1) {
      rope_.scaling = Linear{factor_};
      record_scaling();
      record_factor();
    }
  }

  // ggml divides before it blends; both act on each pair by itself, so the order does not matter.
  void divide_by(const std::vector<double>& divisors) {
    for (const double d : divisors) rope_.multiplier.push_back(1 / d);
    origins().weights("multiplier", "1 / rope_freqs.weight");
    part_.note(NoteKind::scaling, "inv_freq is divided by rope_freqs.weight");
  }

  // Hunyuan's alpha: the base grows.
  bool set_ntk(bool uneven) {
    if (!part_.name().starts_with("hunyuan")) return false;
    const auto alpha = keys_.number("rope.scaling.alpha");
    if (!alpha || *alpha == 0) return false;
    if (uneven || factor_ != 1 || attention_ != 1) refuse("rope.scaling.alpha with another scaling");
    if (!(*alpha >= 1)) keys_.refuse("rope.scaling.alpha", "must be at least 1");
    rope_.scaling = Ntk{*alpha};
    part_.record("scaling", "rope.scaling.alpha");
    part_.record("scaling.factor", "rope.scaling.alpha");
    part_.derived("attention_factor", "1 for ntk");
    return true;
  }

  // 1, 1, ..., 1e30, 1e30: pairs divided by 1e30 do not rotate (Gemma 4).
  bool set_proportional(const std::vector<double>& divisors) {
    constexpr double never = 1e29;
    const auto end = std::find_if(divisors.begin(), divisors.end(), [](double d) { return d != 1; });
    const bool still = std::all_of(end, divisors.end(), [](double d) { return d > never; });
    if (end == divisors.begin() || end == divisors.end() || !still || attention_ != 1) return false;
    const auto pairs = static_cast<double>(divisors.size());
    const auto rotating = static_cast<double>(end - divisors.begin());
    if (std::floor(rotating / pairs * pairs) != rotating) return false;
    rope_.scaling = Proportional{rotating / pairs, factor_};
    record_scaling();
    record_factor();
    origins().weights("scaling", "rope_freqs.weight");
    origins().weights("scaling.fraction", "rope_freqs.weight");
    part_.note(NoteKind::scaling, "the pairs whose factor in rope_freqs.weight is 1e30 stand still");
    return true;
  }

  // ggml's magnitude is 1 + 0.1 ln(factor); yarn_log_multiplier makes it DeepSeek's ratio; attn_factor multiplies it.
  void set_yarn() {
    Yarn scaling{.factor = factor_};
    record_scaling();
    record_factor();
    record_trained_length();
    read_native(part_, keys_,
                {{.name = "beta_fast", .key = "rope.scaling.yarn_beta_fast"},
                 {.name = "beta_slow", .key = "rope.scaling.yarn_beta_slow"},
                 {.name = "truncate"}},
                {OriginKind::model_default, part_.name()}, scaling);
    const auto weight = keys_.number("rope.scaling.yarn_ext_factor");
    scaling.extrapolation_factor = weight && *weight >= 0 ? *weight : 1;
    if (scaling.extrapolation_factor == 0) refuse("yarn_ext_factor 0");
    if (trained_ == 0)
      missing_key(part_, "rope.scaling.original_context_length", "scaling yarn without context_length");
    scaling.trained_length = trained_;
    scaling.attn_factor = attention_;
    if (keys_.number("rope.scaling.yarn_attn_factor"))
      part_.note(NoteKind::unread, "rope.scaling.yarn_attn_factor is not used: llama.cpp computes it anew for yarn");
    const double given = keys_.number("rope.scaling.yarn_log_multiplier").value_or(0);
    if (given != 0) {
      // Conversion stores a tenth of mscale_all_dim for MLA; 0.1f is not a tenth.
      const bool mla = part_.arch.quirk == GgufQuirk::mla;
      scaling.mscale_all_dim = mla ? static_cast<double>(static_cast<float>(given) / 0.1F) : given;
      scaling.mscale = part_.name() == "deepseek2" ? *scaling.mscale_all_dim : 1.0;
      const double softmax = 1 + given * std::log(factor_);
      part_.note(NoteKind::attention,
                 "yarn_log_multiplier also scales the softmax of the attention, by (1 + yarn_log_multiplier * "
                 "ln(factor))^2 = ",
                 detail::significant(softmax * softmax, 7), ", which is no part of the rope");
    }
    part_.note(NoteKind::scaling, "yarn as ggml has it: the correction range is rounded outward (truncate)");
    rope_.scaling = scaling;
    record_magnitude(scaling);
  }

  void record_magnitude(const Yarn& scaling) {
    if (keys_.has("rope.scaling.yarn_ext_factor")) {
      part_.record("scaling.extrapolation_factor", "rope.scaling.yarn_ext_factor");
    }
    std::string magnitude = "0.1 * ln(factor) + 1";
    if (scaling.mscale_all_dim) {
      magnitude = "(0.1 * mscale * ln(factor) + 1) / (0.1 * mscale_all_dim * ln(factor) + 1)";
      for (const char* value : {"scaling.mscale", "scaling.mscale_all_dim"}) {
        part_.record(value, "rope.scaling.yarn_log_multiplier");
      }
    }
    if (keys_.has("rope.scaling.attn_factor")) {
      part_.record("scaling.attn_factor", "rope.scaling.attn_factor");
      magnitude = "rope.scaling.attn_factor * (" + magnitude + ")";
    }
    part_.derived("attention_factor", magnitude);
  }

  [[noreturn]] static void refuse(const std::string& what) {
    fail(Code::ROPE, "read_config", "a scaling must be one that a rope here can hold but got ", what);
  }

  const GgufPart& part_;
  const Object& keys_;
  Rope& rope_;
  std::int64_t context_;
  std::string type_;
  double factor_ = 1;
  double attention_ = 1;
  std::int64_t trained_ = 0;
};

}  // namespace

void set_gguf_scaling(const GgufPart& part, ModelRope& used, std::int64_t context, bool plain) {
  GgufScaling(part, used, context).set(plain);
}

}  // namespace rotary::files
