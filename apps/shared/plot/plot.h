// Line plots as an SVG file or as characters for a terminal. The same plot gives the same bytes on every machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rotary::cli {

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;
  // Thin and pale, in SVG in the colour of the next line that is not faint: a raw loss behind its mean.
  bool faint = false;
  bool dots = false;                    // the points only
  bool guide = false;                   // thin, grey, dashed and straight; named in SVG next to it, never in the legend
  std::vector<std::string> names = {};  // of dots, one for each point; in SVG next to few of them, else as tooltips
};

// Points that are not finite, beyond 1e300, or not positive on a logarithmic axis are left out.
struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;
  bool log_y = false;
  std::vector<Line> lines;
  bool x_is_length = false;  // with log_x: ticks at powers of two, where the points are
};

// A complete file of 800 x 500 pixels, taller where the legend needs more than two rows.
std::string svg(const Plot& plot);

// width: columns in total; height: rows of the drawing area, without title, axis and legend.
// ASCII characters, but for what the names hold: a strong line is drawn in '*', or several in a letter each, faint
// lines and guides in '.'; where lines cross or coincide, they are shown in turn.
std::string terminal_plot(const Plot& plot, int width = 72, int height = 18);

}  // namespace rotary::cli
