// Lines of more points than a picture has pixels.
#pragma once

#include <vector>

#include "axis.h"

namespace rotary::cli {

// Points in pixels, rising in x. Leaves out those that cannot be seen: of many in one column of pixels the first,
// lowest, highest and last are kept. Few points, and those whose x falls, are kept whole.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points);

// Of the points that share a column of a few pixels the lowest in the picture, the mean and the highest.
struct Ranges {
  std::vector<PlotPoint> lower, mean, upper;
};
Ranges ranges_of(const std::vector<PlotPoint>& points);

}  // namespace rotary::cli
