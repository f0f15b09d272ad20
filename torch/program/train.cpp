// rotary-torch train: trains a small decoder on a text, in a folder from which the run can be resumed.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "commands.h"
#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/trainer.h"
#include "shared/command.h"
#include "shared/program.h"
#include "shared/progress_line.h"
#include "shared/text.h"
#include "text/io.h"
#include "text/json.h"

namespace rotary::cli {

namespace {

using rotary_torch::Preset;
using rotary_torch::ProcessGroup;
using rotary_torch::Trainer;
using rotary_torch::TrainingOptions;
using Notes = std::map<std::string, std::string>;
namespace fs = std::filesystem;

constexpr rotary_torch::Refusal refuse{"train"}, refuse_resume{"resume"};

struct Request {
  std::optional<std::string> text, preset, position;
  std::optional<double> rope_fraction;
  std::optional<std::int64_t> steps;
  std::optional<std::uint64_t> seed;
  std::optional<int> threads;
  std::string device = "cpu";
  std::string output;
  bool resume = false;
  bool json = false;
  fs::path file(const char* name) const { return fs::path(output) / name; }
};

// ---- the folder ----------------------------------------------------------------------------------

// Makes the folder and locks it, until the process ends, against other training processes.
void lock_folder(const Request& request) {
  std::error_code error;
  fs::create_directories(request.output, error);
  if (error) refuse(Code::FILE, request.output, ": the folder cannot be made: ", error.message());
  const int descriptor = ::open(request.output.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // On a file system without locks there is no protection.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  refuse(Code::FILE, request.output, ": another process is training into it: wait for it, or name another --output");
}

void check_new(const Request& request) {
  std::error_code error;
  for (const char* name : {"checkpoint.safetensors", "model.safetensors", "model.safetensors.index.json", "config.json",
                           "vocab.json", "loss.jsonl"}) {
    if (!fs::exists(fs::symlink_status(request.file(name), error))) continue;
    refuse(Code::FILE, request.output, ": must be a new or empty folder but holds ", name,
           ": go on with that run by --resume, or name another --output");
  }
}

// loss.jsonl: {"step": N, "train_loss": X} for every step, {"step": N, "validation_loss": X} for every evaluation;
// written at every evaluation and at the end.
class LossLog {
 public:
  // Keeps the lines of an existing file up to this step. An incomplete last line, cut off by a crash, is dropped.
  LossLog(fs::path path, std::int64_t last_step) : path_(std::move(path)) {
    std::error_code error;
    std::istringstream text(fs::exists(path_, error) ? rotary_torch::read_text(path_) : "");
    for (std::string line; std::getline(text, line) && !text.eof();) {
      const files::Json json = files::parse_json(line);
      if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
        refuse(Code::FORMAT, path_.string(), ": a line must be {\"step\": N, ...} but got ", files::in_quotes(line));
      if (json["step"].get<std::int64_t>() <= last_step) lines_ += line + "\n";
    }
  }

  void add(std::int64_t step, const char* key, const std::string& loss) {
    lines_ += "{\"step\": " + std::to_string(step) + ", \"" + key + "\": " + loss + "}\n";
  }
  void write() const { files::write_whole("train", path_, lines_); }

 private:
  fs::path path_;
  std::string lines_;
};

// ---- the plan: the command line, combined with the checkpoint of a resumed run -------------------

struct Plan {
  Preset preset;  // with the number of steps and the seed of this run
  std::string text;
  Notes notes;  // the checkpoint stores them: words of the command line
};

// The number that a checkpoint notes under this key. Throws FORMAT.
template <class Number>
Number noted(const Notes& notes, const char* key) {
  const auto note = notes.find(key);
  const std::string text = note != notes.end() ? note->second : "";
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  refuse_resume(Code::FORMAT, key, " in the checkpoint's notes must be a number but got ", files::in_quotes(text));
}

// A value that the command line leaves out is taken from the checkpoint; one that it gives must not contradict it.
Plan plan_of(const Request& request) {
  std::optional<rotary_torch::SavedRun> saved;
  if (request.resume) {
    std::error_code error;
    if (!fs::exists(request.file("checkpoint.safetensors"), error)) {
      refuse(Code::FILE, request.output,
             ": --resume needs the checkpoint.safetensors of a run but there is none: begin without it");
    }
    saved = rotary_torch::saved_run(request.file("checkpoint.safetensors"));
  }
  const auto saved_or = [&saved](const char* key, const std::string& otherwise) {
    const auto note = saved ? saved->notes.find(key) : Notes::iterator();
    return saved && note != saved->notes.end() ? note->second : otherwise;
  };
  const std::string position = request.position.value_or(saved_or("position", "rope"));
  const auto encoding = rotary_torch::position_encoding(position);
  if (!encoding) refuse(Code::VALUE, "a position must be one of the encodings but got ", files::in_quotes(position));
  if (request.rope_fraction && *encoding != rotary_torch::PositionEncoding::rope)
    refuse(Code::VALUE, "--rope-fraction takes the position rope but got ", position);
  const bool noted_fraction = saved_or("rope_fraction", "none") != "none";
  Plan plan;
  plan.preset = rotary_torch::preset(
      request.preset.value_or(saved_or("preset", "nanogpt-cpu")), *encoding,
      request.rope_fraction.value_or(noted_fraction ? noted<double>(saved->notes, "rope_fraction") : 0));
  if (saved) plan.preset.training = saved->options, plan.notes = saved->notes;
  plan.preset.training.steps = request.steps.value_or(plan.preset.training.steps);
  plan.preset.training.seed = request.seed.value_or(plan.preset.training.seed);

  // The path of the text is "" for that of the preset smoke.
  const std::string path =
      request.text ? fs::absolute(*request.text).lexically_normal().string() : saved_or("text", "");
  if (path.empty() && plan.preset.name != "smoke")
    throw UsageError("--text must name a file: only the preset smoke has a text of its own");
  plan.text = path.empty() ? std::string(rotary_torch::smoke_text()) : rotary_torch::read_text(path);
  plan.notes["text"] = path;
  Notes own = {{"preset", plan.preset.name},
               {"position", position},
               {"rope_fraction", "none"},
               {"text_hash", rotary_torch::text_hash(plan.text)}};
  if (const auto& used = plan.preset.model.rope)
    own["rope_fraction"] = files::spelled(static_cast<double>(used->rope.rotary_dim) / used->rope.head_dim);
  for (const auto& [key, now] : own) {
    const std::string then = saved_or(key.c_str(), now);
    if (then != now) refuse_resume(Code::RESUME, key, " must be ", then, ", as the run began, but got ", now);
    plan.notes[key] = now;
  }
  return plan;
}

// ---- the run -------------------------------------------------------------------------------------

volatile std::sig_atomic_t stop_signal = 0;

// The first SIGINT or SIGTERM asks for a stop; the second one ends the process as usual.
extern "C" void ask_for_stop(int number) {
  stop_signal = number;
  std::signal(number, SIG_DFL);
}

void check_finite(const char* what, double value, std::int64_t step) {
  if (std::isfinite(value)) return;
  refuse(Code::NUMBER, "the ", what, " must stay finite but step ", step, " gave ", files::spelled(value),
         "; the last checkpoint stays as it is");
}

// Steps, evaluations, checkpoints, until the last step or a signal. Only rank 0, which holds the folder's lock, writes
// and prints.
class TrainingRun {
 public:
  // The trainer of a resumed run has loaded the checkpoint.
  TrainingRun(Plan plan, const Request& request, Trainer& trainer, bool first_rank)
      : plan_(std::move(plan)),
        options_(plan_.preset.training),
        request_(request),
        trainer_(trainer),
        first_rank_(first_rank),
        begun_at_(trainer.steps()),
        log_(request.file("loss.jsonl"), trainer.steps()) {
    if (plan_.notes.contains("validation_step")) {
      validation_loss_ = noted<double>(plan_.notes, "validation_loss");
      evaluated_step_ = noted<std::int64_t>(plan_.notes, "validation_step");
    }
    if (begun_at_ > options_.steps) {
      refuse_resume(Code::RESUME, "--steps must be ", begun_at_, " or more, which are done, but got ", options_.steps);
    }
    if (!first_rank) return;
    if (!is_quiet()) progress_.emplace("train", options_.steps);
    // The checkpoint is written first, so that a folder with any file of a run can be resumed.
    if (!request.resume) trainer.save(request.file("checkpoint.safetensors"), plan_.notes);
    log_.write();
  }

  // Throws Failed after a signal and PEER after the loss of a rank, once rank 0 has written the checkpoint.
  void run() {
    // A crash at the end of a run may have left only the checkpoint: write the other files again.
    if (is_done()) save();
    try {
      while (true) {
        if (evaluation_due()) evaluate();
        if (is_done()) break;
        if (stop_signal != 0) stop();
        step();
      }
    } catch (const Error& error) {
      if (error.code() != Code::PEER) throw;
      save();
      if (stop_signal != 0 && first_rank_) stop();
      throw Error(Code::PEER, error.operation(),
                  std::string(error.rule()) + "; go on from the last checkpoint by --resume");
    }
    progress_.reset();
  }

  void print(std::int64_t parameters) const {
    const auto steps = static_cast<double>(trainer_.steps() - begun_at_);
    const double each = steps > 0 ? step_seconds_ / steps : 0;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    const std::string& position = plan_.notes.at("position");
    if (request_.json) {
      std::cout << versioned({{"preset", plan_.preset.name},
                              {"position", position},
                              {"parameters", parameters},
                              {"steps", trainer_.steps()},
                              {"validation_loss", validation_loss_},
                              {"seconds_per_step", each},
                              {"seconds", seconds},
                              {"output", request_.output}})
                << '\n';
      return;
    }
    std::cout << plan_.preset.name << ", position " << position << ", " << with_separators(parameters)
              << " parameters\nvalidation loss " << fixed(validation_loss_, 4) << " after " << trainer_.steps()
              << " steps\n";
    if (steps > 0) {
      const auto tokens = static_cast<double>(options_.batch * options_.block);
      std::cout << fixed(1000 * each, 1) << " ms per step, " << with_separators(std::llround(tokens / each))
                << " tokens/s, " << fixed(seconds, 1) << " s in all\n";
    }
    std::cout << "written to " << printable(request_.output)
              << ": model.safetensors config.json vocab.json loss.jsonl checkpoint.safetensors\n";
  }

 private:
  bool evaluation_due() const {
    const std::int64_t done = trainer_.steps();
    return done > evaluated_step_ && (done % options_.evaluate_every == 0 || done == options_.steps);
  }
  bool is_done() const { return trainer_.steps() == options_.steps && !evaluation_due(); }

  void step() {
    const rotary_torch::StepReport report = trainer_.step();
    check_finite("loss", report.train_loss, report.step);
    check_finite("gradient's norm", report.gradient_norm, report.step);  // else the next checkpoint would hold NaN
    log_.add(report.step, "train_loss", shortest(static_cast<float>(report.train_loss)));
    step_seconds_ += report.seconds;
    if (progress_) progress_->done(report.step);
  }

  void evaluate() {
    const auto loss = trainer_.evaluate([] { return stop_signal != 0; });
    if (!loss) return;
    check_finite("loss", *loss, trainer_.steps());
    validation_loss_ = *loss;
    evaluated_step_ = trainer_.steps();
    plan_.notes["validation_loss"] = files::spelled(validation_loss_);
    plan_.notes["validation_step"] = std::to_string(evaluated_step_);
    log_.add(evaluated_step_, "validation_loss", shortest(validation_loss_));
    note("step " + std::to_string(evaluated_step_) + "/" + std::to_string(options_.steps) + "  validation loss " +
         fixed(validation_loss_, 4));
    save();
  }

  // The losses are written first, so that the log is never behind the weights.
  void save() {
    if (!first_rank_) return;
    log_.write();
    trainer_.save(request_.file("checkpoint.safetensors"), plan_.notes);
    rotary_torch::save_decoder(*trainer_.model(), request_.output);
  }

  [[noreturn]] void stop() {
    save();
    note("stopped after step " + std::to_string(trainer_.steps()) + " of " + std::to_string(options_.steps) +
         "; go on with: rotary-torch train --resume --output " + printable(request_.output));
    throw Failed{128 + stop_signal};
  }

  void note(const std::string& line) {
    if (!progress_) return;
    progress_->clear();
    std::cerr << line << '\n' << std::flush;
  }

  Plan plan_;
  TrainingOptions options_;
  const Request& request_;
  Trainer& trainer_;
  bool first_rank_;
  std::int64_t begun_at_;
  LossLog log_;
  std::optional<ProgressLine> progress_;  // empty if nothing is printed
  std::int64_t evaluated_step_ = 0;
  double validation_loss_ = 0, step_seconds_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// ---- the command ---------------------------------------------------------------------------------

// Every rank reads the text and, to resume, the checkpoint.
void run_train(const Request& request) {
  if (request.output.empty()) throw UsageError("--output must name a folder");
  if (request.text == "") throw UsageError("--text must name a file");
  rotary_torch::open_device(request.device);
  Plan plan = plan_of(request);
  const rotary_torch::Corpus corpus = rotary_torch::corpus(plan.text, plan.preset.training.block);
  plan.preset.model.vocabulary = corpus.vocabulary.size();

  const ProcessGroup& group = ProcessGroup::world();
  const bool first_rank = group.rank() == 0;
  const at::Device device = rotary_torch::open_device(request.device, group.local_rank());
  // Without --threads the processes of one machine share its cores.
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (request.threads || group.local_size() > 1)
    at::set_num_threads(request.threads.value_or(std::clamp(cores / group.local_size(), 1, at::get_num_threads())));

  for (const int number : {SIGINT, SIGTERM}) std::signal(number, ask_for_stop);
  // Initial weights on the CPU: the same seed gives the same weights on every device.
  at::manual_seed(plan.preset.training.seed);
  rotary_torch::Decoder model(plan.preset.model);
  if (plan.preset.gpt2_init) model->initialise();
  Trainer trainer(model, corpus, plan.preset.training, device, group);
  if (first_rank) lock_folder(request);
  if (first_rank && !request.resume) check_new(request);
  if (request.resume) trainer.load(request.file("checkpoint.safetensors"));
  TrainingRun run(plan, request, trainer, first_rank);
  if (first_rank) corpus.vocabulary.write(request.file("vocab.json"));
  group.wait_for_all();  // no rank goes on before rank 0 has accepted the folder
  run.run();
  if (first_rank) run.print(rotary_torch::parameter_count(*trainer.model()));
}

}  // namespace

void add_train(Command& command) {
  auto request = std::make_shared<Request>();
  command.option("--output", request->output);
  command.option("--text", request->text);
  command.option("--preset", request->preset);
  command.option("--position", request->position);
  command.option("--rope-fraction", request->rope_fraction);
  command.option("--steps", request->steps);
  command.option("--seed", request->seed);
  command.option("--threads", request->threads);
  command.option("--device", request->device);
  command.option("--resume", request->resume);
  command.option("--json", request->json);
  command.runs([request] { run_train(*request); });
}

}  // namespace rotary::cli
