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

inline constexpr std::size_t train_lines = 20;  // Run::train is the mean of this many last losses

struct Run {
  std::string name;                        // the last part of the folder's path, or more parts if runs would share it
  std::string directory;                   // as given on the command line
  std::optional<std::string> position;     // config.json: position_embedding_type
  std::optional<std::int64_t> parameters;  // config.json: parameters
  std::int64_t steps = 0;
  std::optional<double> last;                           // validation loss
  std::optional<std::pair<std::int64_t, double>> best;  // the lowest validation loss, with its step
  std::optional<double> train;                          // mean of the last train_lines training losses
  LossLog log;

  // The value that runs are ordered by: the best validation loss, otherwise train.
  std::optional<double> value() const;
};

// In the order: runs with validation losses, those with training losses only, those without any; each group from the
// best, ties in the order of the folders. operation: the word in brackets in error sentences. Throws what read_loss_log
// throws, and JSON, FORMAT for a broken config.json.
std::vector<Run> read_runs(const char* operation, const std::vector<std::string>& folders);

// The validation losses of the runs, or their training losses where there are no others.
Figure plot_of(const std::vector<Run>& runs);

// A distinct name for each path. A path that occurs twice gets " (2)".
std::vector<std::string> unique_names(const std::vector<std::string>& paths);

}  // namespace rotary::cli
