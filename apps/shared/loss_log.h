// The loss.jsonl of a training run: one JSON object per line, {"step": N, "train_loss": X} or
// {"step": N, "validation_loss": X}; other keys and other lines are allowed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apps/shared/plot/plot.h"

namespace rotary::cli {

// By rising step. Where the steps of the file go back, a run was resumed: what it wrote again replaces what it wrote
// before. A loss of NaN, infinity or null is missing.
struct LossLog {
  std::vector<std::pair<std::int64_t, double>> train;
  std::vector<std::pair<std::int64_t, double>> validation;
  std::int64_t steps = 0;  // the step of the last line that has one, missing losses included
};

// A last line without its end, cut off by a crash, is left out. Throws FILE, JSON, FORMAT with the line's number.
LossLog read_loss_log(const std::filesystem::path& path);

// The training loss faint, the validation loss strong.
Plot loss_plot(const LossLog& log, const std::string& title);

Line line_of(const std::string& name, const std::vector<std::pair<std::int64_t, double>>& losses);

}  // namespace rotary::cli
