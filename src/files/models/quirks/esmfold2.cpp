// ESMFold 2: its atoms turn by x, y, z and the token's number, each with its own run; the spatial ones have a base of
// their own. What is left of the head stands still.
#include <cmath>

#include "files/config/stages.h"

namespace rotary::files {
namespace {

void space_and_token(Reading& reading, const Part& part, const RopeKeys&, Rope& rope) {
  const Object& keys = part.keys;
  const auto each = static_cast<int>(keys.integer("num_spatial_rope_pairs_per_axis", 0, max_head_dim).value_or(2));
  const auto token = static_cast<int>(keys.integer("num_uid_rope_pairs", 0, max_head_dim).value_or(10));
  const double spatial_base = keys.number("spatial_rope_base_frequency").value_or(20);
  if (!(spatial_base > 1) || !std::isfinite(spatial_base)) {
    keys.refuse("spatial_rope_base_frequency", "must be above 1");
  }
  const int pairs = rope.head_dim / 2;
  if (3 * each + token > pairs) {
    keys.refuse("num_uid_rope_pairs", "and three times num_spatial_rope_pairs_per_axis must fit into the " +
                                          std::to_string(pairs) + " pairs of a head");
  }
  rope.rotary_dim = 2 * pairs;
  rope.axis.assign(static_cast<std::size_t>(pairs), 3);
  rope.inv_freq.assign(static_cast<std::size_t>(pairs), 0);
  reading.origins.derived("inv_freq", "spatial_rope_base_frequency^(-i / n) in space, base^(-i / n) of the token");
  for (int i = 0; i < 3 * each + token; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool spatial = i < 3 * each;
    const double exponent = spatial ? double(i % each) / each : double(i - 3 * each) / token;
    rope.inv_freq[at] = std::pow(spatial ? spatial_base : rope.base, -exponent);
    if (spatial) rope.axis[at] = static_cast<std::uint8_t>(i / each);
  }
  reading.note(part.path,
               "the spatial axes have base " + spelled(spatial_base) + ", the token's axis " + spelled(rope.base));
}

}  // namespace

constexpr Tower towers::esmfold2 = {
    .words = "axes 0 to 2 are x, y and z, axis 3 the token",
    .axes = "x y z token",
    .width = "head_dim",
    .lay_out = space_and_token,
};

}  // namespace rotary::files
