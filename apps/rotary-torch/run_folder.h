// The folder of a training run, and the log of losses in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace rotary::cli {

struct RunFolder {
  std::filesystem::path folder;

  std::filesystem::path checkpoint() const { return folder / "checkpoint.safetensors"; }
  std::filesystem::path vocabulary() const { return folder / "vocab.json"; }
  std::filesystem::path losses() const { return folder / "loss.jsonl"; }
  std::filesystem::path plot() const { return folder / "loss.svg"; }

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
// written at every evaluation and at the end. The first flush opens the file; until then the lines are kept in memory,
// on ranks that do not write for as long as rank 0 lives. Throws FILE.
class LossWriter {
 public:
  // Keeps the complete lines of an existing file up to this step.
  LossWriter(std::filesystem::path path, std::int64_t last_step);
  ~LossWriter();
  LossWriter(const LossWriter&) = delete;
  LossWriter& operator=(const LossWriter&) = delete;

  void train(std::int64_t step, double loss);  // an f32 value
  void validation(std::int64_t step, double loss);
  void flush();  // writes the lines to the file
  void sync();   // and the file to the disk

 private:
  void open();
  void check(bool good, const char* rule) const;

  std::filesystem::path path_;
  std::int64_t last_step_;
  std::string waiting_;
  int descriptor_ = -1;
};

}  // namespace rotary::cli
