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

  // Throws FILE where a model is in it already.
  void check_new() const;
  // Throws FILE where there is no checkpoint to go on from.
  void check_begun() const;
};

// Keeps a run's folder, which it makes, from another process that would train into it. Throws FILE.
class FolderLock {
 public:
  explicit FolderLock(const RunFolder& run);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

// loss.jsonl, written at every evaluation and at the end: {"step": N, "train_loss": X} of every step, {"step": N, "validation_loss": X} of
// every evaluation. Throws FILE. The first flush opens the file: until then lines wait in memory, as those of the ranks
// that do not write, until one of them takes the place of a lost rank 0.
class LossWriter {
 public:
  // Keeps the lines of the file up to this step, whole lines only.
  LossWriter(std::filesystem::path path, std::int64_t last_step);
  ~LossWriter();
  LossWriter(const LossWriter&) = delete;
  LossWriter& operator=(const LossWriter&) = delete;

  void train(std::int64_t step, double loss);  // an f32 value
  void validation(std::int64_t step, double loss);
  void flush();  // to the file
  void sync();   // and to the disk

 private:
  void open();
  void check(bool good, const char* rule) const;

  std::filesystem::path path_;
  std::int64_t last_step_;
  std::string waiting_;
  int descriptor_ = -1;
};

}  // namespace rotary::cli
