// Throws rotary::Error with a rule joined from parts.
#pragma once

#include <sstream>

#include "rotary/error.h"

namespace rotary_torch {

// `[operation] parts...`
struct Refusal {
  const char* operation;

  template <class... Parts>
  [[noreturn]] void operator()(rotary::Code code, const Parts&... parts) const {
    std::ostringstream rule;
    (rule << ... << parts);
    throw rotary::Error(code, operation, rule.str());
  }

  // The same where the rule does not hold. The parts are evaluated in any case.
  template <class... Parts>
  void unless(bool holds, rotary::Code code, const Parts&... parts) const {
    if (!holds) (*this)(code, parts...);
  }
};

}  // namespace rotary_torch
