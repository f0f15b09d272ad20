// The loop of `rotary train`: steps, evaluations, checkpoints, until the last step or a signal.
#pragma once

#include <cstdint>

#include "plan.h"
#include "progress.h"
#include "rotary_torch/training/trainer.h"
#include "run_folder.h"

namespace rotary::cli {

// SIGINT and SIGTERM ask for a stop for as long as it lives; the second one kills as ever.
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
  // Loads the checkpoint where resume says so. Rank 0 alone writes and prints.
  TrainingRun(Plan plan, RunFolder folder, bool resume, rotary_torch::Trainer& trainer,
              const rotary_torch::ProcessGroup& group);

  // To the last step. Throws Stopped after a signal, once the checkpoint is safe; PEER likewise where a rank is lost.
  void run();

  std::int64_t steps() const { return trainer_.steps(); }
  double validation_loss() const { return validation_loss_; }
  const Progress& progress() const { return progress_; }

 private:
  bool first_rank() const { return group_.rank() == 0; }
  bool evaluation_due() const;
  void steps_to_the_end();
  void one_step();
  bool evaluate();  // false: a signal came
  void write_checkpoint();
  void write_plot() const;
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
