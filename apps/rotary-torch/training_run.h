// The loop of `rotary train`: steps, evaluations, checkpoints, until the last step or a signal; and its progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "rotary_torch/training/trainer.h"
#include "run_folder.h"

namespace rotary::cli {

// Reports the progress of a run on stderr: one line that is redrawn on a terminal, otherwise occasional lines.
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
  std::string state() const;
  void show();

  std::int64_t steps_, done_, tokens_per_step_, evaluations_;
  bool silent_, terminal_;
  std::chrono::steady_clock::time_point begin_, shown_;
  double step_seconds_ = 0, steps_taken_ = 0;
  double recent_ = 0;  // seconds per step, an exponential mean
  double evaluation_seconds_ = 0;
  double train_loss_ = 0;  // its running mean
  bool drawn_ = false;
};

std::string duration(double seconds);  // "9 s", "2:05", "1:02:05"

// During its lifetime the first SIGINT or SIGTERM requests a stop; the second one terminates as usual.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  static int received() noexcept;  // 0: none
};

class TrainingRun {
 public:
  // Loads the checkpoint if resume is set. Only rank 0, which holds the folder's lock, writes and prints.
  TrainingRun(Plan plan, RunFolder folder, bool resume, rotary_torch::Trainer& trainer,
              const rotary_torch::ProcessGroup& group);

  // Runs to the last step. Throws Stopped after a signal and PEER after the loss of a rank, once the checkpoint is
  // written.
  void run();

  std::int64_t steps() const { return trainer_.steps(); }
  double validation_loss() const { return validation_loss_; }
  const Progress& progress() const { return progress_; }

 private:
  bool first_rank() const { return group_.rank() == 0; }
  bool evaluation_due() const;
  void steps_to_the_end();
  void one_step();
  bool evaluate();  // false if a signal interrupted it
  void write_checkpoint();
  [[noreturn]] void stop();

  Plan plan_;
  RunFolder folder_;
  rotary_torch::Trainer& trainer_;
  const rotary_torch::ProcessGroup& group_;
  LossWriter losses_;
  Progress progress_;
  std::int64_t evaluated_step_ = 0;
  double validation_loss_ = 0;
};

}  // namespace rotary::cli
