// The loop of `rotary train`: steps, evaluations, checkpoints, until the last step or a signal.
#pragma once

#include <cstdint>

#include "plan.h"
#include "progress.h"
#include "rotary_torch/training/trainer.h"
#include "run_folder.h"

namespace rotary::cli {

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
