// CLVP: max(projection_dim / (2 heads), 32) elements of a head turn.
#include <algorithm>

#include "files/config/stages.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

std::optional<int> half_head(Reading& reading, const Part& part, const HeadShape& heads) {
  constexpr const char* key = "projection_dim";
  constexpr int least = 32;
  const auto width = part.keys.integer(key, 1, std::int64_t{1} << 30);
  const auto half = static_cast<int>(width.value_or(part.family.shape.hidden) / (2 * heads.heads));
  const int dim = std::max(half, least);
  if (dim % 2 != 0 || dim > heads.block) {
    fail(Code::CONFIG_VALUE, "read_config",
         part.keys.path_of(key) + " / (2 * heads) must be even and at most " + std::to_string(heads.block) +
             " but got " + std::to_string(dim));
  }
  reading.origins.derived("rotary_dim", std::string(key) + " / (2 * heads), at least " + std::to_string(least));
  return dim;
}

}  // namespace

constexpr Quirk quirks::clvp = {.rotary_dim = half_head};

}  // namespace rotary::files
