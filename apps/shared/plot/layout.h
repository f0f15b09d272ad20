// Where the drawing area, the legend and the names of lines stand in an SVG picture.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "axis.h"
#include "drawing.h"
#include "plot.h"

namespace rotary::cli {

inline constexpr double picture_width = 800;
inline constexpr double picture_margin = 20;
inline constexpr double tick_size = 12;  // of the letters, in pixels
inline constexpr double name_size = 12;
inline constexpr double guide_size = 11;  // of the names of guides
inline constexpr double legend_row = 20;
inline constexpr double legend_stroke = 36;
inline constexpr double legend_sample = legend_stroke + 7;  // the stroke and the gap behind it
inline constexpr std::size_t max_marked = 32;               // lines of more points have no marks, unless they have tips
inline constexpr std::size_t longest_name = 48;             // columns; of a legend of long names

struct Style {
  Ink ink = Ink::guide;
  std::string_view dash;
  bool faint = false;
  bool dots = false;
  bool marked = false;    // every point has a mark
  bool dense = false;     // more than max_points: thin and never dashed, so that its oscillations can be seen
  bool averaged = false;  // one of several dense ones, which would hide each other: a mean and a range
  Shape shape = Shape::circle;
};

// Strong lines differ in colour, and in the shape of their marks or in their dashes. A faint line has the colour of the
// next strong one.
std::vector<Style> styles_of(const std::vector<Line>& lines);

// Everything in pixels; y grows downwards.
struct Frame {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  double height = 500;

  double x(double fraction) const { return left + fraction * (right - left); }
  double y(double fraction) const { return bottom - fraction * (bottom - top); }
  PlotPoint at(const PlotPoint& fractions) const { return {x(fractions.x), y(fractions.y)}; }
};

// Of a line, or behind all lines of a band.
struct LegendItem {
  double x = 0;  // of the sample, from the left edge of the legend
  int row = 0;
  std::string text;
  std::size_t line = 0;  // its index in Plot::lines; from there on in Plot::bands
};

struct NamePlace {
  double x = 0;  // of the left end of the base line; of its right end, or of its middle where the text runs upwards
  double y = 0;
  std::string text;
  std::size_t line = 0;  // as in LegendItem
  bool upwards = false;
  bool ends = false;  // at x
};

struct Layout {
  Frame frame;
  std::vector<LegendItem> legend;  // empty where the names stand at or along the lines
  std::vector<NamePlace> names;
  std::vector<NamePlace> guides;  // the names of guides
};
Layout lay_out(const Plot& plot, const PlotView& view);

// The upper edge of a band.
std::vector<PlotPoint> upper_edge(const std::vector<BandPoint>& band);

}  // namespace rotary::cli
