// How far a long command is, on one line of standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace rotary::cli {

class ProgressLine {
 public:
  // Prints once the work has taken `after_seconds`, by default to standard error if that is a terminal. total: above 0.
  ProgressLine(std::string what, std::int64_t total, std::ostream* out = nullptr, double after_seconds = 1);
  ~ProgressLine();  // removes the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void done(std::int64_t count);  // prints "\rrotate: 3 of 12, 25 %", at most five times a second
  void clear();                   // before anything else is printed

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  std::int64_t total_;
  std::ostream* out_;  // null: not shown
  Clock::time_point next_;
  std::size_t shown_ = 0;  // columns of the line that stands there
};

}  // namespace rotary::cli
