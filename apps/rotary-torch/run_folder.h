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

}  // namespace rotary::cli
