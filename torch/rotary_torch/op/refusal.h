// Errors: a rotary::Error with a rule joined from parts; the core's errors as torch's.
#pragma once

#include <c10/util/Exception.h>

#include <locale>
#include <sstream>

#include "rotary/error.h"

namespace rotary_torch {

// `[operation] parts...`
struct Refusal {
  const char* operation;

  template <class... Parts>
  [[noreturn]] void operator()(rotary::Code code, const Parts&... parts) const {
    std::ostringstream rule;
    rule.imbue(std::locale::classic());
    (rule << ... << parts);
    throw rotary::Error(code, operation, rule.str());
  }

  // The same where the rule does not hold. The parts are evaluated in any case.
  template <class... Parts>
  void unless(bool holds, rotary::Code code, const Parts&... parts) const {
    if (!holds) (*this)(code, parts...);
  }
};

// Rethrows the core's errors as torch's, with the same sentence.
template <class Work>
decltype(auto) translated(Work&& work) {
  try {
    return work();
  } catch (const rotary::Error& error) {
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace rotary_torch
