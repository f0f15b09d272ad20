// The training runs of rotary compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/shared/loss_log.h"

namespace rotary::cli {

inline constexpr std::size_t train_lines = 20;  // of the end of a log, whose mean is Run::train

struct Run {
  std::string name;                     // the last part of the folder's path; more parts where two runs would share it
  std::string directory;                // as the user wrote it
  std::optional<std::string> position;  // config.json: position_embedding_type
  std::optional<std::int64_t> parameters;  // config.json: parameters
  std::int64_t steps = 0;
  std::optional<double> last;                           // validation loss
  std::optional<std::pair<std::int64_t, double>> best;  // the lowest validation loss, with its step
  std::optional<double> train;                          // mean of the last train_lines training losses
  LossLog log;

  // What runs are ordered by: the best validation loss, else train.
  std::optional<double> value() const;
};

// The best first: runs with validation losses, then those with a training loss only, then those without any; equal
// ones in the order of the folders. Throws what read_loss_log throws, and JSON, FORMAT for a broken config.json.
std::vector<Run> read_runs(const std::vector<std::string>& folders);

// One name for each path, no two alike. A path that is there twice gets " (2)".
std::vector<std::string> unique_names(const std::vector<std::string>& paths);

}  // namespace rotary::cli
