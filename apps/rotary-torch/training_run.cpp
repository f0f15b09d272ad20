#include "training_run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "apps/shared/command.h"
#include "apps/shared/program.h"
#include "apps/shared/text.h"
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
}

void TrainingRun::stop() {
  const int number = StopSignals::received();
  progress_.note("stopped after step " + std::to_string(steps()) + " of " +
                 std::to_string(plan_.preset.training.steps) + "; go on with: rotary train --resume --output " +
                 printable(folder_.folder.string()));
  throw Stopped{128 + number};
}

// ---- progress ----

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
