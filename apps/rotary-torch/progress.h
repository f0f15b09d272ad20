// Reports the progress of a training run on stderr: one line that is redrawn on a terminal, otherwise occasional lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace rotary::cli {

class Progress {
 public:
  // evaluations: how many are left. silent: print nothing (a rank other than 0).
  Progress(std::int64_t steps, std::int64_t done, std::int64_t tokens_per_step, std::int64_t evaluations, bool silent);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(std::int64_t done, double train_loss, double seconds);
  void evaluated(double validation_loss, double seconds);
  void note(const std::string& line);  // prints a line that is not redrawn

  double seconds_per_step() const noexcept { return steps_taken_ > 0 ? step_seconds_ / steps_taken_ : 0; }
  double seconds() const;  // since construction

 private:
  std::string bar(std::size_t width) const;
  std::string state() const;
  void show();

  std::int64_t steps_, done_, tokens_per_step_, evaluations_;
  bool silent_, terminal_;
  std::chrono::steady_clock::time_point begin_, shown_;
  double step_seconds_ = 0, steps_taken_ = 0;
  double recent_ = 0;  // seconds per step, an exponential mean
  double evaluation_seconds_ = 0;
  double train_loss_ = 0;  // its running mean
  std::optional<double> validation_loss_;
  bool drawn_ = false;
};

std::string duration(double seconds);  // "9 s", "2:05", "1:02:05"

}  // namespace rotary::cli
