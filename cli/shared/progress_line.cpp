#include "progress_line.h"

#include <iostream>
#include <utility>

#include "text/descriptors.h"

namespace rotary::cli {

namespace {

constexpr double between_seconds = 0.2;

std::chrono::steady_clock::duration of_seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

ProgressLine::ProgressLine(std::string what, std::int64_t total, std::ostream* out, double after_seconds)
    : what_(std::move(what)), total_(total), out_(out), next_(Clock::now() + of_seconds(after_seconds)) {
  if (out == nullptr && files::is_terminal(files::standard_error)) out_ = &std::cerr;
}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::done(std::int64_t count) {
  if (out_ == nullptr || Clock::now() < next_) return;
  const std::string line = what_ + ": " + std::to_string(count) + " of " + std::to_string(total_) + ", " +
                           std::to_string(100 * count / total_) + " %";
  clear();
  *out_ << line << std::flush;
  shown_ = line.size();
  next_ = Clock::now() + of_seconds(between_seconds);
}

void ProgressLine::clear() {
  if (shown_ == 0) return;
  *out_ << '\r' << std::string(shown_, ' ') << '\r' << std::flush;
  shown_ = 0;
}

}  // namespace rotary::cli
