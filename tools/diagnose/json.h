// Parts of the results as JSON, which the text that the commands print needs too.
#pragma once

#include <vector>

#include "rotary/rope.h"
#include "text/json.h"

namespace rotary::diagnose {

// {"offset": n, "step": s} for positions that rise evenly, else a list; rows of lists where the rows differ.
nlohmann::ordered_json json_of_positions(const std::vector<std::vector<double>>& rows);
nlohmann::ordered_json json_of_fields(const Scaling&);  // every value by its name; null: not given

}  // namespace rotary::diagnose
