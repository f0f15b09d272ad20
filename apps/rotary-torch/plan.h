// The plan of a run of `rotary train`: the command line, combined with the checkpoint of a resumed run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "rotary_torch/training/trainer.h"
#include "run_folder.h"

namespace rotary::cli {

struct TrainRequest {
  std::optional<std::string> text, preset, position;
  std::optional<double> rope_fraction;
  std::optional<std::int64_t> steps;
  std::optional<std::uint64_t> seed;
  std::optional<int> threads;
  std::string device = "cpu";
  std::string output;
  bool resume = false;
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
