// What rotary bench prints and draws of its results.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/shared/plot/plot.h"
#include "measure.h"

namespace rotary::cli::bench {

std::string header(bool cuda = false);  // of the rows
std::string row(const Result&);         // one line, as wide as the header
nlohmann::ordered_json json_of(const Result&);

// Percent of ceiling by working set, a dot for each result that is no table.
Plot ceiling_plot(const std::vector<Result>&);

// Upright guides at the sizes of this machine's caches, x being bytes times scale, within the plot's points.
void add_cache_guides(Plot&, double scale);

}  // namespace rotary::cli::bench
