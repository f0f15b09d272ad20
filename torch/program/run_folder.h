// The folder of a training run, and the log of losses in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace rotary::cli {

struct RunFolder {
  std::filesystem::path folder;

  std::filesystem::path checkpoint() const { return folder / "checkpoint.safetensors"; }
  std::filesystem::path vocabulary() const { return folder / "vocab.json"; }
  std::filesystem::path losses() const { return folder / "loss.jsonl"; }
  std::filesystem::path plot() const { return folder / "loss.svg"; }

  // Makes the folder. Throws FILE where it cannot be made, or where a model is in it already.
  void begin() const;
  // Throws FILE where there is no checkpoint to go on from.
  void check_begun() const;
};

// loss.jsonl, written line by line: {"step": N, "train_loss": X} of every step, {"step": N, "validation_loss": X} of
// every evaluation. Throws FILE.
class LossWriter {
 public:
  // Keeps the lines up to this step, whole lines only.
  LossWriter(std::filesystem::path path, std::int64_t last_step);
  ~LossWriter();
  LossWriter(const LossWriter&) = delete;
  LossWriter& operator=(const LossWriter&) = delete;

  void train(std::int64_t step, double loss);  // an f32 value
  void validation(std::int64_t step, double loss);
  void flush();  // to the file
  void sync();   // and to the disk

 private:
  void add(const std::string& line);
  void check(bool good, const char* rule) const;

  std::filesystem::path path_;
  std::string waiting_;
  int descriptor_ = -1;
};

}  // namespace rotary::cli
