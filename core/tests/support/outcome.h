// How a call ends. Without GoogleTest: the fuzz targets use it too.
#pragma once

#include <string>

#include "rotary/error.h"

namespace rotary::tests {

// A call was done, or was refused with a code and a sentence.
struct Outcome {
  bool refused = false;
  Code code = Code::INTERNAL;
  std::string sentence;  // "" if the call was done

  // "SHAPE: [rotate] ...", or "none".
  std::string text() const { return refused ? std::string(rotary::name(code)) + ": " + sentence : "none"; }
};

template <class Function>
Outcome outcome_of(const Function& call) {
  try {
    call();
    return {};
  } catch (const Error& error) {
    return {true, error.code(), error.what()};
  }
}

}  // namespace rotary::tests
