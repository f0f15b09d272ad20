// The parameters of a rope, and scalings, that a model reads in its own way.
#include "files/config/stages.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// ---- ChatGLM: its base is 10000 times rope_ratio, and original_rope: false pairs in halves ----

Pairing chatglm_pairing(const Part& part, Pairing default_value) {
  if (part.keys.boolean("position_encoding_2d", false)) {
    fail(Code::ROPE, "read_config",
         "a chatglm must have positions of one axis but position_encoding_2d is true: the first "
         "ChatGLM turns each half of the head by its own coordinate");
  }
  const auto original = part.keys.boolean("original_rope");
  if (!original) return default_value;
  part.record("pairing", "original_rope");
  if (*original) return default_value;
  part.note("original_rope is false: the pairing is half");
  return Pairing::half;
}

double chatglm_base(const Part& part) {
  const double base = part.keys.number("rope_ratio").value_or(1) * part.family.base;
  if (!(base > 1)) part.keys.refuse("rope_ratio", "times 10000 must be above 1");
  part.note("base = 10000 * rope_ratio = " + spelled(base));
  part.derived("base", "10000 * rope_ratio");
  if (!part.keys.has("rope_ratio")) part.by_default("base");
  return base;
}

// ---- DeepSeek-V4: the last elements of a head turn, and yarn leaves their length as it is ----

std::optional<int> rope_head_dim(const Part& part, const HeadShape& heads) {
  constexpr const char* key = "qk_rope_head_dim";
  const auto dim = read_whole(part, {.value = "rotary_dim", .keys = {key}, .most = heads.block, .least = 2});
  if (dim && *dim % 2 != 0) part.keys.refuse(key, "must be even");
  return dim;
}

void keep_length(const Part& part, Yarn& yarn) {
  if (yarn.attention_factor) return;
  yarn.attention_factor = 1;
  part.by_default("attention_factor");
  part.note("yarn without an attention factor, as " + part.name() + " has it");
}

void put_last(const Part& part, ModelRope& model) {
  model.first = model.rope.head_dim - model.rope.rotary_dim;
  if (model.first != 0) part.derived("first", "head_dim - rotary_dim");
}

// Mistral Large 4: a tensor multiplies the frequencies.
void learn_multiplier(const Part& part, ModelRope& model) {
  name_learned(part, {"rotary_emb.alpha", "lerope.alpha"}, model);
}

// Phi-3.5-MoE in transformers: long_factor is never used.
void short_factors_only(const Part& part, LongRope& rope) {
  rope.long_factor = rope.short_factor;
  part.derived("scaling.long_factor", "short_factor");
  part.note("long_factor is not used: transformers turns " + part.name() + " by short_factor at every length");
}

constexpr Quirk rows[] = {
    {.name = "chatglm", .pairing = chatglm_pairing, .base = chatglm_base},
    {.name = "deepseek_v4", .rotary_dim = rope_head_dim, .yarn = keep_length, .rope = put_last},
    {.name = "hunyuan", .alpha_is_ntk = true},
    {.name = "internlm", .scaling_key = "rotary"},
    {.name = "mistral4", .fraction = Fraction::head},  // partial_rotary_factor counts the whole MLA head
    {.name = "mistral_large4", .rope = learn_multiplier},
    {.name = "mpt", .scaling_key = "attn_config.rope_hf_config"},
    {.name = "phi3", .yarn_is_longrope = true},
    {.name = "phimoe", .longrope = short_factors_only},
};

}  // namespace

constexpr std::span<const Quirk> quirks::parameters = rows;

}  // namespace rotary::files
