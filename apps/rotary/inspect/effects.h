// The colours of what a scaling did to a pair.
#pragma once

#include <string_view>

#include "apps/shared/terminal.h"

namespace rotary::cli {

inline Colour colour_of(std::string_view effect) {
  if (effect == "kept") return Colour::green;
  if (effect == "blended") return Colour::yellow;
  return effect == "still" ? Colour::none : Colour::cyan;
}

}  // namespace rotary::cli
