// A training run: its folder and the log of losses in it, and its plan: the command line, combined with the checkpoint
// of a resumed run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "rotary_torch/training/trainer.h"

namespace rotary::cli {

struct RunFolder {
  std::filesystem::path folder;

  std::filesystem::path checkpoint() const { return folder / "checkpoint.safetensors"; }
  std::filesystem::path vocabulary() const { return folder / "vocab.json"; }
  std::filesystem::path losses() const { return folder / "loss.jsonl"; }

  // Throws FILE if the folder already holds a model.
  void check_new() const;
  // Throws FILE if there is no checkpoint to resume from.
  void check_begun() const;
};

// Creates the folder of a run and locks it against other training processes. Throws FILE.
class FolderLock {
 public:
  explicit FolderLock(const RunFolder& run);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

// loss.jsonl: {"step": N, "train_loss": X} for every step, {"step": N, "validation_loss": X} for every evaluation,
// written at every evaluation and at the end; until the first flush, on ranks that do not write, only kept in memory.
class LossWriter {
 public:
  // Keeps the complete lines of an existing file up to this step. Throws FILE, FORMAT.
  LossWriter(std::filesystem::path path, std::int64_t last_step);
  ~LossWriter();
  LossWriter(const LossWriter&) = delete;
  LossWriter& operator=(const LossWriter&) = delete;

  void train(std::int64_t step, double loss);  // an f32 value
  void validation(std::int64_t step, double loss);
  void flush();  // writes the whole file, or throws FILE and leaves the old one

 private:
  void add(std::int64_t step, const char* key, const std::string& loss);

  std::filesystem::path path_;
  std::string lines_;
  bool writes_ = false, waiting_ = false;  // flush has been called; lines came after it
};

// ---- the plan ----

struct TrainRequest {
  std::optional<std::string> text, preset, position;
  std::optional<double> rope_fraction;
  std::optional<std::int64_t> steps;
  std::optional<std::uint64_t> seed;
  std::optional<int> threads;
  std::string device = "cpu";
  std::string output;
  bool resume = false;
  bool json = false;
};

struct Plan {
  rotary_torch::Preset preset;  // with the number of steps and the seed of this run
  std::string text;
  std::map<std::string, std::string> notes;  // what the checkpoint stores of the command line
};

// A number from the notes of a checkpoint. Throws FORMAT if it is not a number.
double number_note(const std::map<std::string, std::string>& notes, const std::string& name);

// Throws FILE, TEXT, VALUE; UsageError without a text; RESUME if the request contradicts the run in the folder.
Plan plan_of(const TrainRequest& request, const RunFolder& folder);

}  // namespace rotary::cli
