// Mistral 4: partial_rotary_factor counts the whole MLA head. Mistral Large 4: a tensor multiplies the frequencies.
#include "files/config/stages.h"

namespace rotary::files {
namespace {

void learn_multiplier(Reading& reading, const Part& part, ModelRope& model) {
  name_learned(reading, part, {"rotary_emb.alpha", "lerope.alpha"}, model);
}

}  // namespace

constexpr Quirk quirks::mistral4 = {.fraction = Fraction::head};
constexpr Quirk quirks::mistral_large4 = {.rope = learn_multiplier};

}  // namespace rotary::files
