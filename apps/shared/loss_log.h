// The loss.jsonl of a training run: one JSON object per line, {"step": N, "train_loss": X} or
// {"step": N, "validation_loss": X}; other keys and other lines are allowed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/shared/plot/figure.h"

namespace rotary::cli {

// In rising order of steps. If the steps in the file go back, the run was resumed, and later lines replace earlier
// ones. A loss of NaN, infinity or null is left out.
struct LossLog {
  std::vector<std::pair<std::int64_t, double>> train;
  std::vector<std::pair<std::int64_t, double>> validation;
  std::vector<std::int64_t> lost_train = {}, lost_validation = {};  // rising: the steps whose loss is left out
  std::optional<std::int64_t> not_finite_from = {};  // the step from which on a kind of loss has no finite number
  std::int64_t steps = 0;                            // the step of the last line with one, even if its loss is left out
};

// An incomplete last line, cut off by a crash, is ignored. Throws FILE, JSON, FORMAT with the line's number.
LossLog read_loss_log(const std::filesystem::path& path);

// The training loss is drawn faint, the validation loss strong.
Figure loss_plot(const LossLog& log, const std::string& title);

Line line_of(const std::string& name, const std::vector<std::pair<std::int64_t, double>>& losses,
             const std::vector<std::int64_t>& lost = {});

}  // namespace rotary::cli
