// Line plots and heat maps as an SVG file or as characters for a terminal. The same plot gives the same bytes on every
// machine. The SVG follows the reader's light or dark setting where the viewer has one, and is light elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rotary::cli {

using Points = std::vector<std::pair<double, double>>;

struct Line {
  std::string name;  // in the legend, but for a guide; "": in no legend
  Points points;
  bool faint = false;                   // thin and pale, in the colour of the next line that is not faint
  bool dots = false;                    // the points only
  bool guide = false;                   // thin, grey, dashed and straight, with its name at its end
  std::vector<std::string> names = {};  // one for each point: in SVG every point is a mark with that tooltip
  // Rising places in x where the line has no number: each run of them is crossed out where it begins, at the height of
  // the point before, and the axis shows them all.
  std::vector<double> lost = {};
};

// Of a line with more points, an SVG draws what can be seen: the first, lowest, highest and last of each column of
// pixels; of several such lines, which would hide each other, the mean of every four columns.
inline constexpr std::size_t max_points = 2000;

// An area between two heights, behind the lines and in the colour of the first.
struct Band {
  std::string name;
  std::vector<std::array<double, 3>> points;  // x, lower and upper end
};

// Points that are not finite, beyond 1e300, or not positive on a logarithmic axis are left out.
struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;
  bool log_y = false;
  std::vector<Line> lines;
  bool x_is_length = false;          // with log_x: ticks at powers of two, where the points are
  std::vector<double> x_ticks = {};  // instead of those of the axis; values outside it are left out
  std::vector<double> y_holds = {};  // values that the axis must show beside the points
  std::vector<Band> bands = {};
  std::string note = {};  // a line under the title
};

// The indices of ticks at `count` places: 0, every n-th, n a power of two, and the last one where that leaves room.
std::vector<std::size_t> even_ticks(std::size_t count, std::size_t most);

// Of each line with places without a number: "a from step 1200 on", "b at 3 steps", "c everywhere".
std::vector<std::string> lost_texts(const Plot& plot);

// A complete file of 800 x 500 pixels, taller where the legend needs more than two rows.
std::string svg(const Plot& plot);

// width: columns in total; height: rows of the drawing area, without title, axis and legend.
// ASCII characters, but for what the names hold: a strong line is drawn in '*', or several in a letter each, in turn
// where they lie on each other; faint lines and the edges of bands in '.', guides in '-', lost places in '#'.
std::string terminal_plot(const Plot& plot, int width = 72, int height = 18);

// Values from -limit to limit in rows and columns, as colours from blue to orange. Columns run to the right and rows
// downwards.
struct HeatMap {
  std::string title;
  std::string note = {};
  std::string x_label;
  std::string y_label;
  std::string value_label;         // of the colours
  std::string x_things, y_things;  // what columns and rows are, in the plural
  std::vector<std::int64_t> x;     // what each column stands for
  std::vector<std::int64_t> y;     // likewise of each row
  std::vector<double> values;      // row by row
  double limit = 1;
  std::vector<double> turns = {};  // for each row, the distance in x of one turn; empty: the rows are no oscillations
  std::vector<bool> hidden = {};   // rows that are grey, as `turns` is too short for the columns; empty: none

  double at(std::size_t row, std::size_t column) const { return values[row * x.size() + column]; }
};

// The same map in at most that many columns and rows: every second, third ... of them, and the note says so. Rows that
// turn within four of the columns that are left would show a pattern that is not theirs: they are hidden.
HeatMap sampled(const HeatMap& map, std::size_t columns, std::size_t rows);

std::string svg(const HeatMap& map);  // of at most 256 x 128 cells: larger ones sampled before
std::string terminal_map(const HeatMap& map, int width = 72, int height = 24);

}  // namespace rotary::cli
