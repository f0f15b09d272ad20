// The results of rotary bench as text, JSON and plots.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/shared/plot/plot.h"
#include "measure.h"

namespace rotary::cli::bench {

std::string header(bool cuda = false);  // the column names above the rows
std::string row(const Result&);         // one line, aligned with the header
nlohmann::ordered_json json_of(const Result&);

// Percent of the ceiling by working set, one dot per result; tables are left out.
Plot ceiling_plot(const std::vector<Result>&);

}  // namespace rotary::cli::bench
