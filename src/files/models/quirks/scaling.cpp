// Scalings that a model reads in its own way.
#include "files/config/stages.h"

namespace rotary::files {
namespace {

// Phi-3.5-MoE in transformers: long_factor is never used.
void short_factors_only(Reading& reading, const Part& part, LongRope& rope) {
  rope.long_factor = rope.short_factor;
  reading.origins.derived("scaling.long_factor", "short_factor");
  reading.note(part.path,
               "long_factor is not used: transformers turns " + part.name() + " by short_factor at every length");
}

}  // namespace

constexpr Quirk quirks::none = {};
constexpr Quirk quirks::hunyuan = {.alpha_is_ntk = true};
constexpr Quirk quirks::internlm = {.scaling_key = "rotary"};
constexpr Quirk quirks::mpt = {.scaling_key = "attn_config.rope_hf_config"};
constexpr Quirk quirks::phi3 = {.yarn_is_longrope = true};
constexpr Quirk quirks::phimoe = {.longrope = short_factors_only};

}  // namespace rotary::files
