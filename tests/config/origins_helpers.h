// What the tests ask about the origins of a rope.
#pragma once

#include <algorithm>
#include <string>

#include "rotary/files.h"

namespace rotary::origins_test {

inline const ValueOrigin* find(const ModelRope& rope, const std::string& value) {
  const auto at = std::find_if(rope.origins.begin(), rope.origins.end(),
                               [&](const ValueOrigin& known) { return known.value == value; });
  return at == rope.origins.end() ? nullptr : &*at;
}

// "given | rope_theta".
inline std::string text_of(const ModelRope& rope, const std::string& value) {
  const ValueOrigin* known = find(rope, value);
  return known == nullptr ? "nothing" : name(known->origin) + std::string(" | ") + known->from;
}

}  // namespace rotary::origins_test
