// The terminal plot, drawn in ASCII characters.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "apps/shared/columns.h"
#include "apps/shared/displayable.h"
#include "axis.h"
#include "plot.h"

namespace rotary::cli {

namespace {

// The characters of the drawing area. Where several lines pass through one cell, the columns show them in turn.
class Canvas {
 public:
  Canvas(int width, int height) : width_(width), height_(height) {
    cells_.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  }
  int width() const { return width_; }

  // From the left and from the top. A faint mark is seen only where there is no other.
  void put(int column, int row, char mark, bool faint) {
    Marks& marks = cells_[cell(column, row)];
    std::string& marked = faint ? marks.faint : marks.strong;
    if (marked.find(mark) == std::string::npos) marked += mark;
  }
  std::string row(int row) const {
    std::string text;
    for (int column = 0; column < width_; ++column) {
      const Marks& marks = cells_[cell(column, row)];
      const std::string& seen = marks.strong.empty() ? marks.faint : marks.strong;
      text += seen.empty() ? ' ' : seen[static_cast<std::size_t>(column) % seen.size()];
    }
    return text;
  }

  // In front of all lines.
  void draw_crosses(const std::vector<PlotPoint>& points) {
    for (const PlotPoint& point : points) {
      const auto [x, y] = place(point);
      cells_[cell(x, y)].strong = "#";
    }
  }

  void draw(const std::vector<PlotPoint>& points, char mark, const Line& line) {
    const bool faint = line.faint || line.guide;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto [x, y] = place(points[i]);
      const auto [from_x, from_y] = i > 0 && !line.dots ? place(points[i - 1]) : std::pair(x, y);
      const int steps = std::max({std::abs(x - from_x), std::abs(y - from_y), 1});
      for (int step = 0; step <= steps; ++step) {
        const double part = static_cast<double>(step) / steps;
        put(from_x + static_cast<int>(std::lround(part * (x - from_x))),
            from_y + static_cast<int>(std::lround(part * (y - from_y))), mark, faint);
      }
    }
  }

 private:
  struct Marks {
    std::string strong, faint;
  };
  std::size_t cell(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(column);
  }
  std::pair<int, int> place(const PlotPoint& point) const {
    return {static_cast<int>(std::lround(point.x * (width_ - 1))),
            static_cast<int>(std::lround((1 - point.y) * (height_ - 1)))};
  }

  int width_;
  int height_;
  std::vector<Marks> cells_;
};

// A letter for each strong line where there are several.
std::string marks_of(const std::vector<Line>& lines) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const auto is_strong = [](const Line& line) { return !line.faint && !line.guide; };
  const bool several = std::count_if(lines.begin(), lines.end(), is_strong) > 1;
  std::string marks;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    marks += lines[i].guide ? '-' : !is_strong(lines[i]) ? '.' : several ? letters[i % letters.size()] : '*';
  }
  return marks;
}

void draw_edges(Canvas& canvas, const std::vector<BandPoint>& band) {
  Line edge;
  edge.faint = true;
  std::vector<PlotPoint> lower, upper;
  for (const BandPoint& point : band) {
    lower.push_back({point.x, point.low});
    upper.push_back({point.x, point.high});
  }
  canvas.draw(lower, '.', edge);
  canvas.draw(upper, '.', edge);
}

// The label of the tick in this row, or "".
std::string label_at(const Axis& axis, int row, int height) {
  for (const Tick& tick : axis.ticks) {
    if (std::lround((1 - axis.at(tick.value)) * (height - 1)) == row) return tick.label;
  }
  return "";
}

// Two rows: the axis with its ticks, and the labels under them as far as they do not touch.
std::string bottom_rows(const Axis& axis, int width, std::size_t gutter) {
  std::string line = std::string(gutter, ' ') + "+" + std::string(static_cast<std::size_t>(width), '-');
  std::string labels;
  for (const Tick& tick : axis.ticks) {
    const std::size_t middle = gutter + 1 + static_cast<std::size_t>(std::lround(axis.at(tick.value) * (width - 1)));
    const std::size_t last_begin = gutter + 1 + static_cast<std::size_t>(width) - tick.label.size();
    const std::size_t begin = std::min(middle - std::min(middle, tick.label.size() / 2), last_begin);
    line[middle] = '+';
    if (!labels.empty() && begin < labels.size() + 2) continue;
    labels.append(begin - labels.size(), ' ').append(tick.label);
  }
  return line + "\n" + labels + "\n";
}

std::string legend(const Plot& plot, const std::string& marks, std::size_t width) {
  const std::vector<Line>& lines = plot.lines;
  std::string text;
  std::size_t used = 0;
  const auto add = [&](char mark, const std::string& name) {
    const std::string item = std::string("  ") + mark + " " + shorten_middle_for_terminal(displayable(name), width - 4);
    if (used > 0 && used + columns(item) > width) {
      text += '\n';
      used = 0;
    }
    text += item;
    used += columns(item);
  };
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (!lines[i].guide && !lines[i].name.empty()) add(marks[i], lines[i].name);
  for (const Band& band : plot.bands)
    if (!band.name.empty()) add('.', band.name);
  for (const std::string& lost : lost_texts(plot)) add('#', "NaN or infinite: " + lost);
  return text.empty() ? text : text + "\n";
}

std::string centred(std::string_view text, std::size_t left, std::size_t width) {
  const std::string shown = shorten_for_terminal(displayable(text), width);
  return std::string(left + (width - columns(shown)) / 2, ' ') + shown + "\n";
}

}  // namespace

std::string terminal_plot(const Plot& plot, int width, int height) {
  width = std::max(width, 32);
  height = std::max(height, 4);
  const PlotView view = view_of(plot, std::max(2, width / 10), std::max(2, height / 3));
  std::size_t gutter = 0;
  for (const Tick& tick : view.y.ticks) gutter = std::max(gutter, tick.label.size() + 1);
  Canvas canvas(std::max(8, width - static_cast<int>(gutter) - 1), height);
  const std::string marks = marks_of(plot.lines);
  for (const std::vector<BandPoint>& band : view.bands) draw_edges(canvas, band);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) canvas.draw(view.lines[i], marks[i], plot.lines[i]);

  for (std::size_t i = 0; i < plot.lines.size(); ++i) canvas.draw_crosses(view.crosses[i]);

  const auto canvas_width = static_cast<std::size_t>(canvas.width());
  std::string text;
  if (!plot.title.empty()) text += centred(plot.title, gutter + 1, canvas_width);
  if (!plot.y_label.empty())
    text += shorten_for_terminal(displayable(plot.y_label), static_cast<std::size_t>(width)) + "\n";
  for (int row = 0; row < height; ++row) {
    const std::string label = label_at(view.y, row, height);
    const std::size_t space = gutter - (label.empty() ? 0 : label.size() + 1);
    const bool says_empty = view.empty() && row == height / 2;
    text.append(space, ' ').append(label.empty() ? "|" : label + " +");
    text += says_empty ? centred("no points", 0, canvas_width) : without_end_spaces(canvas.row(row)) + "\n";
  }
  text += bottom_rows(view.x, canvas.width(), gutter);
  if (!plot.x_label.empty()) text += centred(plot.x_label, gutter + 1, canvas_width);
  return text + legend(plot, marks, static_cast<std::size_t>(width));
}

}  // namespace rotary::cli
