// ChatGLM: its base is 10000 times rope_ratio, and original_rope: false pairs in halves.
#include "files/config/stages.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

Pairing pairing(Reading& reading, const Part& part, Pairing default_value) {
  if (part.keys.boolean("position_encoding_2d", false)) {
    fail(Code::ROPE, "read_config",
         "a chatglm must have positions of one axis but position_encoding_2d is true: the first "
         "ChatGLM turns each half of the head by its own coordinate");
  }
  const auto original = part.keys.boolean("original_rope");
  if (!original) return default_value;
  reading.origins.read("pairing", part.keys, "original_rope");
  if (*original) return default_value;
  reading.note(part.path, "original_rope is false: the pairing is half");
  return Pairing::half;
}

double base(Reading& reading, const Part& part) {
  const double base = part.keys.number("rope_ratio").value_or(1) * part.family.base;
  if (!(base > 1)) part.keys.refuse("rope_ratio", "times 10000 must be above 1");
  reading.note(part.path, "base = 10000 * rope_ratio = " + spelled(base));
  reading.origins.derived("base", "10000 * rope_ratio");
  if (!part.keys.has("rope_ratio")) reading.origins.by_default("base", part.name());
  return base;
}

}  // namespace

constexpr Quirk quirks::chatglm = {.pairing = pairing, .base = base};

}  // namespace rotary::files
