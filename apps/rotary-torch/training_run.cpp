#include "training_run.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "apps/shared/command.h"
#include "apps/shared/loss_log.h"
#include "apps/shared/plot/figure.h"
#include "apps/shared/program.h"
#include "apps/shared/text.h"
#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/op/refusal.h"

namespace rotary::cli {

namespace {

using rotary_torch::ProcessGroup;
using rotary_torch::Trainer;
using rotary_torch::TrainingOptions;

volatile std::sig_atomic_t signal_received = 0;

extern "C" void ask_for_stop(int number) { signal_received = number; }

std::int64_t evaluations_left(const TrainingOptions& options, std::int64_t done) {
  const std::int64_t whole = options.steps / options.evaluate_every - done / options.evaluate_every;
  return whole + (options.steps % options.evaluate_every != 0 ? 1 : 0);
}

Progress progress_of(const TrainingOptions& options, std::int64_t done, bool silent) {
  return {options.steps, done, options.batch * options.block, evaluations_left(options, done), silent};
}

void check_finite(const char* what, double value, std::int64_t step) {
  if (std::isfinite(value)) return;
  rotary_torch::Refusal{"train"}(Code::NUMBER, "the ", what, " must stay finite but step ", step, " gave ",
                                 files::spelled(value), "; the last checkpoint stays as it is");
}

// Loads the checkpoint, which must happen before the members that use the number of steps are constructed.
Trainer& resumed(Trainer& trainer, const RunFolder& folder, bool resume) {
  if (resume) trainer.load(folder.checkpoint());
  return trainer;
}

// Rank 0 holds the folder's lock; once it is lost, the first other rank that asks for it gets it.
std::unique_ptr<FolderLock> lock_if_free(const RunFolder& folder) {
  try {
    return std::make_unique<FolderLock>(folder);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

StopSignals::StopSignals() {
  signal_received = 0;
  struct sigaction action {};
  action.sa_handler = ask_for_stop;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int StopSignals::received() noexcept { return signal_received; }

TrainingRun::TrainingRun(Plan plan, RunFolder folder, bool resume, Trainer& trainer, const ProcessGroup& group)
    : plan_(std::move(plan)),
      folder_(std::move(folder)),
      trainer_(resumed(trainer, folder_, resume)),
      group_(group),
      losses_(folder_.losses(), trainer_.steps()),
      progress_(progress_of(plan_.preset.training, trainer.steps(), group.rank() != 0 || is_quiet())) {
  if (plan_.notes.contains("validation_step")) {
    validation_loss_ = number_note(plan_.notes, "validation_loss");
    evaluated_step_ = std::llround(number_note(plan_.notes, "validation_step"));
  }
  if (trainer_.steps() > plan_.preset.training.steps) {
    rotary_torch::Refusal{"resume"}(Code::RESUME, "--steps must be ", trainer_.steps(),
                                    " or more, which are done, but got ", plan_.preset.training.steps);
  }
  if (!first_rank()) return;
  // The checkpoint is written first, so that a folder with any file of a run can be resumed.
  if (!resume) trainer_.save(folder_.checkpoint(), plan_.notes);
  losses_.flush();
}

bool TrainingRun::evaluation_due() const {
  const std::int64_t done = trainer_.steps();
  const TrainingOptions& options = plan_.preset.training;
  return done > evaluated_step_ && (done % options.evaluate_every == 0 || done == options.steps);
}

void TrainingRun::run() {
  // A crash at the end of a run may have left only the checkpoint: write the other files again.
  if (first_rank() && steps() >= plan_.preset.training.steps && !evaluation_due()) write_checkpoint();
  try {
    steps_to_the_end();
  } catch (const Error& error) {
    if (error.code() != Code::PEER) throw;
    const std::unique_ptr<FolderLock> lock = first_rank() ? nullptr : lock_if_free(folder_);
    const bool writes = first_rank() || lock != nullptr;
    if (writes) write_checkpoint();
    if (StopSignals::received() != 0 && first_rank()) stop();
    throw Error(Code::PEER, std::string(error.what()) +
                                (writes ? "; step " + std::to_string(steps()) + " is saved" : "") +
                                ", go on by --resume");
  }
}

void TrainingRun::steps_to_the_end() {
  for (;;) {
    const bool whole = !evaluation_due() || evaluate();
    if (steps() >= plan_.preset.training.steps && whole) return;
    if (StopSignals::received() != 0) {
      if (first_rank()) write_checkpoint();
      stop();
    }
    one_step();
  }
}

void TrainingRun::one_step() {
  const rotary_torch::StepReport report = trainer_.step();
  check_finite("loss", report.train_loss, report.step);
  check_finite("gradient's norm", report.gradient_norm, report.step);  // otherwise the next checkpoint would hold NaN
  losses_.train(report.step, report.train_loss);
  progress_.step(report.step, report.train_loss, report.seconds);
}

bool TrainingRun::evaluate() {
  const auto begin = std::chrono::steady_clock::now();
  const auto loss = trainer_.evaluate([] { return StopSignals::received() != 0; });
  if (!loss) return false;
  check_finite("loss", *loss, steps());
  validation_loss_ = *loss;
  evaluated_step_ = steps();
  plan_.notes["validation_loss"] = files::spelled(validation_loss_);
  plan_.notes["validation_step"] = std::to_string(evaluated_step_);
  losses_.validation(steps(), validation_loss_);
  progress_.evaluated(validation_loss_,
                      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (first_rank()) write_checkpoint();
  return true;
}

// The losses are written first, so that the log is never behind the weights.
void TrainingRun::write_checkpoint() {
  losses_.flush();
  trainer_.save(folder_.checkpoint(), plan_.notes);
  rotary_torch::save_decoder(*trainer_.model(), folder_.folder);
  write_plot();
}

void TrainingRun::write_plot() const {
  const std::string title = plan_.preset.name + ", position " + plan_.notes.at("position");
  files::write_whole("train", folder_.plot(), svg(loss_plot(read_loss_log(folder_.losses()), title)));
}

void TrainingRun::stop() {
  const int number = StopSignals::received();
  progress_.note("stopped after step " + std::to_string(steps()) + " of " +
                 std::to_string(plan_.preset.training.steps) + "; go on with: rotary train --resume --output " +
                 printable(folder_.folder.string()));
  throw Stopped{128 + number};
}

}  // namespace rotary::cli
