// What each kind of `rotary plot` draws.
#pragma once

#include "apps/shared/plot/plot.h"
#include "request.h"

namespace rotary::cli {

Plot wavelengths_plot(const PlotRequest&);
Plot stretch_plot(const PlotRequest&);
HeatMap table_map(const PlotRequest&);
// The mean score of unit vectors at every distance, and its envelope.
Plot decay_plot(const PlotRequest&);
// The largest error of cos and sin at positions, by several ways; of several ropes by the float32 product only.
Plot accuracy_plot(const PlotRequest&);

// Guides across the lines of a plot at a length: level, as wide as the lines, or upright, as high.
void add_level_guides(Plot& plot, const std::vector<MarkedLength>& lengths);
void add_upright_guides(Plot& plot, const std::vector<MarkedLength>& lengths);

// Ticks at pair 0, at steps of 1, 2, 4, 8 ... and at the last pair.
std::vector<double> pair_ticks(std::size_t pairs);

}  // namespace rotary::cli
