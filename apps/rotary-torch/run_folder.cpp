#include "run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "apps/shared/usage_error.h"
#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/text.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::cli {

namespace {

namespace fs = std::filesystem;

constexpr rotary_torch::Refusal refuse{"train"}, refuse_resume{"resume"};

// The lines of a log up to a step. An incomplete last line, cut off by a crash, is dropped.
std::string lines_up_to(const fs::path& path, std::int64_t last_step) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  const std::string text = rotary_torch::read_text(path);
  std::string kept;
  std::size_t number = 1;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1, ++number) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    try {
      const files::Json json = files::parse_json(line);
      if (json.at("step").get<std::int64_t>() <= last_step) kept.append(line).append("\n");
    } catch (const std::exception&) {
      refuse(Code::FORMAT, path.string(), " line ", number, ": must be {\"step\": N, ...} but got ",
             files::in_quotes(line));
    }
  }
  return kept;
}

}  // namespace

void RunFolder::check_new() const {
  std::error_code error;
  for (const char* name : {"checkpoint.safetensors", "model.safetensors", "model.safetensors.index.json", "config.json",
                           "vocab.json", "loss.jsonl"}) {
    if (fs::exists(fs::symlink_status(folder / name, error))) {
      refuse(Code::FILE, folder.string(), ": must be a new or empty folder but holds ", name,
             ": go on with that run by --resume, or name another --output");
    }
  }
}

void RunFolder::check_begun() const {
  std::error_code error;
  if (!fs::exists(checkpoint(), error)) {
    refuse(Code::FILE, folder.string(),
           ": --resume needs the checkpoint.safetensors of a run but there is none: begin without it");
  }
}

FolderLock::FolderLock(const RunFolder& run) {
  std::error_code error;
  fs::create_directories(run.folder, error);
  if (error) refuse(Code::FILE, run.folder.string(), ": the folder cannot be made: ", error.message());
  descriptor_ = ::open(run.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // On a file system without locks there is no protection.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  refuse(Code::FILE, run.folder.string(),
         ": another process is training into it: wait for it, or name another --output");
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

LossWriter::LossWriter(fs::path path, std::int64_t last_step)
    : path_(std::move(path)), lines_(lines_up_to(path_, last_step)) {}

LossWriter::~LossWriter() {
  if (!writes_ || !waiting_) return;
  try {
    flush();
  } catch (const Error&) {  // must not throw; a resumed run begins at the checkpoint in any case
  }
}

void LossWriter::add(std::int64_t step, const char* key, const std::string& loss) {
  lines_ += "{\"step\": " + std::to_string(step) + ", \"" + key + "\": " + loss + "}\n";
  waiting_ = true;
}

void LossWriter::train(std::int64_t step, double loss) {
  add(step, "train_loss", detail::shortest(static_cast<float>(loss)));
}

void LossWriter::validation(std::int64_t step, double loss) { add(step, "validation_loss", detail::shortest(loss)); }

void LossWriter::flush() {
  writes_ = true;
  waiting_ = false;
  files::write_whole("train", path_, lines_);
}

// ---- the plan ----

namespace {

using rotary_torch::Preset;
using Notes = std::map<std::string, std::string>;

std::string note(const Notes& notes, const std::string& name) {
  const auto found = notes.find(name);
  if (found == notes.end()) refuse_resume(Code::FORMAT, "the checkpoint must hold note.", name, " but does not");
  return found->second;
}

void check_same(const std::string& option, const std::string& then, const std::string& now) {
  if (then != now) refuse_resume(Code::RESUME, option, " must be ", then, ", as the run began, but got ", now);
}

// The fraction of a head that rotates, or "none" without a rope.
std::string fraction_of(const Preset& preset) {
  if (!preset.model.rope) return "none";
  const Rope& rope = preset.model.rope->rope;
  return files::spelled(static_cast<double>(rope.rotary_dim) / rope.head_dim);
}

Preset preset_of(const std::string& name, const std::string& position, double fraction) {
  const auto encoding = rotary_torch::position_encoding(position);
  if (!encoding)
    fail(Code::VALUE, "train", "a position must be rope, learned, sinusoidal, none or alibi but got '", position, "'");
  return rotary_torch::preset(name, *encoding, fraction);
}

Preset fresh_preset(const TrainRequest& request) {
  Preset preset = preset_of(request.preset.value_or("nanogpt-cpu"), request.position.value_or("rope"),
                            request.rope_fraction.value_or(0));
  preset.training.steps = request.steps.value_or(preset.training.steps);
  preset.training.seed = request.seed.value_or(preset.training.seed);
  return preset;
}

// The preset of the checkpoint, which the request must not contradict. The trainer checks the steps.
Preset resumed_preset(const TrainRequest& request, const Notes& notes, const std::filesystem::path& checkpoint) {
  const std::string name = note(notes, "preset"), position = note(notes, "position"),
                    fraction = note(notes, "rope_fraction");
  if (request.preset) check_same("--preset", name, *request.preset);
  if (request.position) check_same("--position", position, *request.position);
  if (request.rope_fraction)
    check_same("--rope-fraction", fraction, fraction_of(preset_of(name, position, *request.rope_fraction)));
  Preset preset = preset_of(name, position, fraction == "none" ? 0 : number_note(notes, "rope_fraction"));
  preset.training = rotary_torch::checkpoint_options(checkpoint);
  if (request.seed) check_same("--seed", std::to_string(preset.training.seed), std::to_string(*request.seed));
  preset.training.steps = request.steps.value_or(preset.training.steps);
  return preset;
}

// The path of the text to store in the checkpoint; empty for that of the preset smoke.
std::string text_path(const TrainRequest& request, const Notes& notes, const std::string& preset) {
  if (request.text) return std::filesystem::absolute(*request.text).lexically_normal().string();
  if (request.resume) return note(notes, "text");
  if (preset != "smoke") throw UsageError("--text must name a file: only the preset smoke has a text of its own");
  return {};
}

}  // namespace

double number_note(const Notes& notes, const std::string& name) {
  const std::string text = note(notes, name);
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
    refuse_resume(Code::FORMAT, "note.", name, " of the checkpoint must be a number but is ", files::in_quotes(text));
  return number;
}

Plan plan_of(const TrainRequest& request, const RunFolder& folder) {
  const Notes notes = request.resume ? rotary_torch::checkpoint_notes(folder.checkpoint()) : Notes{};
  Plan plan;
  plan.preset = request.resume ? resumed_preset(request, notes, folder.checkpoint()) : fresh_preset(request);
  const std::string path = text_path(request, notes, plan.preset.name);
  plan.text = path.empty() ? std::string(rotary_torch::smoke_text()) : rotary_torch::read_text(path);
  const std::string hash = rotary_torch::text_hash(plan.text);
  if (request.resume) {
    // Runs of earlier versions noted the text's sha256 instead, which is not computed any more.
    if (!notes.contains("text_sha256")) check_same("the text's hash", note(notes, "text_hash"), hash);
    plan.notes = notes;
  }
  plan.notes["text"] = path;
  plan.notes["text_hash"] = hash;
  plan.notes["preset"] = plan.preset.name;
  plan.notes["position"] = rotary_torch::name(plan.preset.model.position);
  plan.notes["rope_fraction"] = fraction_of(plan.preset);
  return plan;
}

}  // namespace rotary::cli
