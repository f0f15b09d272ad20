// Figures: curves over two axes, or a grid of cells, as an SVG file or as ASCII characters for a terminal. The same
// figure gives the same bytes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rotary::cli {

using Points = std::vector<std::pair<double, double>>;

// A curve, a mark across the figure, or an area. Points that are not finite, beyond 1e300, or not positive on a
// logarithmic axis are left out.
struct Line {
  std::string name;  // in the legend; "": in no legend
  Points points;
  bool faint = false;  // thin and pale, in the colour of the next line that is neither faint nor a guide
  bool dots = false;   // the points only
  bool guide = false;  // a mark: thin, grey and dashed
  std::vector<std::string> names = {};  // one for each point: its tooltip in SVG
  std::vector<double> lost = {};        // rising places in x without a number: crosses on the axis
  std::vector<double> lower = {};       // one for each point: an area from there up to the point
};

// Values from -limit to limit in rows and columns. Columns run to the right and rows downwards.
struct Grid {
  std::string value;  // what the values are: "cos"
  double limit = 1;
  std::vector<std::int64_t> x, y;  // what each column and each row stands for
  std::vector<double> values;      // row by row; NaN: an empty cell
  std::vector<double> turns = {};  // for each row, the distance in x of one turn; empty: the rows are no oscillations

  double at(std::size_t row, std::size_t column) const { return values[row * x.size() + column]; }
};

struct Figure {
  std::string title, x_label, y_label;
  bool log_x = false;  // ticks at powers of 2: for lengths in tokens or bytes
  bool log_y = false;  // ticks at powers of 10
  std::vector<Line> lines = {};
  std::string note = {};  // lines under the title
  Grid grid = {};         // where it has cells, the figure has no lines
};

// A file of 800 pixels in width.
std::string svg(const Figure& figure);
// width: columns in total; height: rows of the drawing area at most. A strong line is drawn in '*', or several in a
// letter each, in turn where they lie on each other; faint lines and edges of areas in '.', guides in '-'.
std::string terminal(const Figure& figure, int width = 72, int height = 18);

// ---- for both ----

// Every n-th column and row of the grid, so that at most that many are left, and the note says so. Rows that turn
// within four of the columns left would show a pattern that is not theirs: their cells become empty.
Figure sampled(Figure figure, std::size_t columns, std::size_t rows);

void add_to_note(std::string& note, const std::string& text);  // behind "; " where there is one

// The note, with the places without a number: "NaN or infinite: a from step 1200 on, b at 3 steps, c everywhere".
std::string whole_note(const Figure& figure);

// The line's points; of an area they go on along its lower edge, back to the first.
Points outline_of(const Line& line);

struct Tick {
  double value = 0;
  std::string label;
};

struct Axis {
  bool log = false;
  double low = 0, high = 1;      // the ends; of a logarithmic axis their log10
  std::vector<Tick> ticks = {};  // all between the ends
  double from = 0, to = 1;       // where the ends are drawn: in pixels, or in columns and rows

  double at(double value) const noexcept;  // where a value is drawn
};

struct Axes {
  Axis x, y;  // of a grid: by the numbers of columns and rows

  Points shown(const Points& points) const;  // where those are drawn that the axes can show
};
Axes axes_of(const Figure& figure, std::size_t max_x_ticks, std::size_t max_y_ticks);

}  // namespace rotary::cli
