// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace rotary {

// what() is one sentence, "[operation] rule but got value"; code() is one stable word of
// capitals, digits and '_' (docs/errors.md lists them all).
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  const std::string& code() const noexcept { return code_; }

 private:
  std::string code_;
};

}  // namespace rotary
