// What a wrong command line throws.
#pragma once

#include <stdexcept>

namespace rotary::cli {

// The command line itself is wrong: exit 2. What is wrong with a file, a position or a shape is a rotary::Error:
// exit 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace rotary::cli
