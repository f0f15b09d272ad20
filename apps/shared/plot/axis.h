// The axes of a plot: their ranges, ticks at 1, 2 or 5 times a power of ten, and the points in coordinates from 0 to 1.
#pragma once

#include <string>
#include <vector>

#include "plot.h"

namespace rotary::cli {

struct Tick {
  double value = 0;
  std::string label;
};

struct Axis {
  bool log = false;
  double low = 0;
  double high = 1;
  std::vector<Tick> ticks;  // rising, all within [low, high]

  double at(double value) const noexcept;  // 0 at low, 1 at high
};

enum class Ends : unsigned char {
  tight,   // from the first to the last value; extended to 0 if that is near
  padded,  // 4 % more on both sides
};

// An axis for values from low to high (low > high: no values) with about max_ticks ticks or fewer.
Axis make_axis(double low, double high, bool log, Ends ends, int max_ticks);

struct PlotPoint {
  double x = 0;  // 0 left, 1 right
  double y = 0;  // 0 bottom, 1 top
};

struct BandPoint {
  double x = 0;
  double low = 0;
  double high = 0;
};

// A plot in coordinates of its axes. The lines are those of the plot without the points that are left out.
struct PlotView {
  Axis x;
  Axis y;
  std::vector<std::vector<PlotPoint>> lines;
  std::vector<std::vector<BandPoint>> bands;
  std::vector<std::vector<PlotPoint>> crosses;  // of each line, where a run of lost places begins
  bool empty() const noexcept;                  // no points at all
};
PlotView view_of(const Plot& plot, int max_x_ticks, int max_y_ticks);

}  // namespace rotary::cli
