// The error of a wrong command line.
#pragma once

#include <stdexcept>

namespace rotary::cli {

// The command line itself is wrong: exit status 2. Errors in a file, a position or a shape are rotary::Error: exit
// status 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace rotary::cli
