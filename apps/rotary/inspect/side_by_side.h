// Several models in one table: a column for each, and a mark where they differ.
#pragma once

#include <string>
#include <vector>

#include "rope.h"
#include "rotary/config.h"

namespace rotary::cli {

struct Inspected {
  std::string config;  // as it was named
  Model model;
  std::vector<std::pair<std::size_t, RopeView>> views;  // of those ropes that are shown, by their number; of model
};

void print_side_by_side(const std::vector<Inspected>&);

// For each number of a rope that is shown, the keys of json_of(RopeView) whose values differ between the models.
nlohmann::ordered_json differences_of(const std::vector<Inspected>&);

}  // namespace rotary::cli
