#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "apps/shared/text.h"
#include "training_run.h"

namespace rotary::cli {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto renew_after = std::chrono::milliseconds(100);
constexpr auto line_after = std::chrono::seconds(30);

double seconds_since(Clock::time_point moment) { return std::chrono::duration<double>(Clock::now() - moment).count(); }

}  // namespace

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return std::to_string(whole) + " s";
  const auto two = [](std::int64_t part) { return (part < 10 ? "0" : "") + std::to_string(part); };
  if (whole < 3600) return std::to_string(whole / 60) + ":" + two(whole % 60);
  return std::to_string(whole / 3600) + ":" + two(whole / 60 % 60) + ":" + two(whole % 60);
}

Progress::Progress(std::int64_t steps, std::int64_t done, std::int64_t tokens_per_step, std::int64_t evaluations,
                   bool silent)
    : steps_(steps),
      done_(done),
      tokens_per_step_(tokens_per_step),
      evaluations_(evaluations),
      silent_(silent),
      terminal_(isatty(STDERR_FILENO) == 1),
      begin_(Clock::now()),
      shown_(begin_) {}

Progress::~Progress() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
}

void Progress::step(std::int64_t done, double train_loss, double seconds) {
  done_ = done;
  // Running means, because the loss of a single batch varies too much to read.
  train_loss_ = steps_taken_ == 0 ? train_loss : 0.9 * train_loss_ + 0.1 * train_loss;
  recent_ = steps_taken_ == 0 ? seconds : 0.95 * recent_ + 0.05 * seconds;
  step_seconds_ += seconds;
  steps_taken_ += 1;
  if (Clock::now() - shown_ >= (terminal_ ? Clock::duration(renew_after) : Clock::duration(line_after))) show();
}

void Progress::evaluated(double validation_loss, double seconds) {
  evaluation_seconds_ = seconds;
  --evaluations_;
  note("step " + std::to_string(done_) + "/" + std::to_string(steps_) + "  validation loss " +
       fixed(validation_loss, 4) + (steps_taken_ > 0 ? "  " + state() : ""));
}

void Progress::note(const std::string& line) {
  if (silent_) return;
  std::cerr << (drawn_ ? "\r\x1b[K" : "") << line << '\n' << std::flush;
  drawn_ = false;
  shown_ = Clock::now();
}

double Progress::seconds() const { return seconds_since(begin_); }

std::string Progress::state() const {
  const double left = recent_ * static_cast<double>(steps_ - done_) +
                      evaluation_seconds_ * static_cast<double>(std::max<std::int64_t>(evaluations_, 0));
  const double speed = recent_ > 0 ? static_cast<double>(tokens_per_step_) / recent_ : 0;
  return "loss " + fixed(train_loss_, 3) + "  " + with_separators(std::llround(speed)) + " tokens/s  " +
         duration(left) + " left";
}

void Progress::show() {
  shown_ = Clock::now();
  if (silent_) return;
  const std::string line = "step " + std::to_string(done_) + "/" + std::to_string(steps_) + "  " + state();
  if (!terminal_) return note(line);
  std::cerr << "\r" << line << "\x1b[K" << std::flush;
  drawn_ = true;
}

}  // namespace rotary::cli
