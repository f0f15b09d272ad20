// The axes of a plot: their ranges, their ticks, and points as fractions of them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plot.h"

namespace rotary::cli {

struct Tick {
  double value = 0;
  std::string label;
};

struct Axis {
  bool log = false;
  double low = 0, high = 1;  // the ends; of a logarithmic axis their log10
  std::vector<Tick> ticks;   // rising, all between the ends

  double at(double value) const noexcept;  // 0 at the low end, 1 at the high one
};

struct PlotPoint {
  double x = 0;  // as a fraction: 0 left, 1 right; or in pixels
  double y = 0;  // 0 bottom, 1 top; in pixels downwards
};
using PlotPoints = std::vector<PlotPoint>;

struct PlotAxes {
  Axis x, y;

  // The points that the axes can show, as fractions.
  PlotPoints shown(const Points& points) const;
};
// The axes that hold every point of the lines and bands, with about as many ticks or fewer.
PlotAxes axes_of(const Plot& plot, int max_x_ticks, int max_y_ticks);

// Two rows of a terminal under a drawing area of that width, right of `gutter` columns: the axis with its ticks, and
// their labels as far as they do not touch.
std::string axis_rows(const std::vector<std::pair<std::size_t, std::string>>& ticks, std::size_t gutter,
                      std::size_t width);

// Where the line's runs of lost places begin, each at the height of the point before.
Points crosses_of(const Line& line);

// The lower and the upper edge, without the points of which the axes can show only one.
std::pair<PlotPoints, PlotPoints> edges_of(const Band& band, const PlotAxes& axes);

}  // namespace rotary::cli
