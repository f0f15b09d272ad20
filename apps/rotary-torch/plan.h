// What a run of `rotary train` is: the command line's words, with those of the run it goes on with.
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
  rotary_torch::Preset preset;  // with the steps and the seed of this run
  std::string text;
  std::map<std::string, std::string> notes;  // what the checkpoint remembers of the command line
};

// A number that a checkpoint remembers. Throws FORMAT where it is none.
double number_note(const std::map<std::string, std::string>& notes, const std::string& name);

// Throws FILE, TEXT, NETWORK, VALUE; RESUME where the request contradicts the run in folder.
Plan plan_of(const TrainRequest& request, const RunFolder& folder);

}  // namespace rotary::cli
