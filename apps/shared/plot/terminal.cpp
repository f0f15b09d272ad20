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

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::string_view weak = " .-";  // what a strong line's mark may replace

bool is_strong(const Line& line) { return !line.faint && !line.guide; }

// A mark for each line, a letter for each strong one where there are several.
std::string marks_of(const std::vector<Line>& lines) {
  const bool several = std::count_if(lines.begin(), lines.end(), is_strong) > 1;
  std::string marks;
  for (const Line& line : lines)
    marks += line.guide ? '-' : line.faint ? '.' : several ? letters[marks.size() % letters.size()] : '*';
  return marks;
}

// The characters of the drawing area.
class Canvas {
 public:
  Canvas(std::size_t width, std::size_t height, std::size_t lines)
      : rows_(height, std::string(width, ' ')), turns_(std::clamp<std::size_t>(lines, 1, letters.size())) {}

  // Where several strong lines pass through one cell, the columns show them in turn.
  void draw(const PlotPoints& points, char mark, bool joined) {
    const bool strong = weak.find(mark) == std::string_view::npos;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto [x, y] = place(points[i]);
      const auto [from_x, from_y] = place(points[joined && i > 0 ? i - 1 : i]);
      const double steps = std::max({std::abs(x - from_x), std::abs(y - from_y), 1.0});
      for (double step = 0; step <= steps; ++step) {
        const auto column = static_cast<std::size_t>(std::lround(from_x + step / steps * (x - from_x)));
        char& cell = rows_[static_cast<std::size_t>(std::lround(from_y + step / steps * (y - from_y)))][column];
        const bool turn = strong && letters[column % turns_] == mark;
        if (turn || (strong ? weak.find(cell) != std::string_view::npos : cell == ' ')) cell = mark;
      }
    }
  }
  // In front of all lines.
  void cross_out(const PlotPoints& points) {
    for (const PlotPoint& point : points) {
      const auto [x, y] = place(point);
      rows_[static_cast<std::size_t>(y)][static_cast<std::size_t>(x)] = '#';
    }
  }
  const std::string& row(std::size_t row) const { return rows_[row]; }

 private:
  // Column and row, from the left and from the top.
  std::pair<double, double> place(const PlotPoint& point) const {
    return {std::round(point.x * static_cast<double>(rows_[0].size() - 1)),
            std::round((1 - point.y) * static_cast<double>(rows_.size() - 1))};
  }

  std::vector<std::string> rows_;
  std::size_t turns_;
};

// Bands, guides and faint lines behind strong ones.
Canvas drawn(const Plot& plot, const PlotAxes& axes, const std::string& marks, std::size_t width, std::size_t height) {
  Canvas canvas(width, height, plot.lines.size());
  for (const bool strong : {false, true})
    for (std::size_t i = 0; i < plot.lines.size(); ++i)
      if (is_strong(plot.lines[i]) == strong)
        canvas.draw(axes.shown(plot.lines[i].points), marks[i], !plot.lines[i].dots);
  for (const Band& band : plot.bands) {
    const auto [low, high] = edges_of(band, axes);
    canvas.draw(low, '.', true);
    canvas.draw(high, '.', true);
  }
  for (const Line& line : plot.lines) canvas.cross_out(axes.shown(crosses_of(line)));
  return canvas;
}

// The label of the tick in this row, or "".
std::string label_at(const Axis& axis, std::size_t row, std::size_t height) {
  for (const Tick& tick : axis.ticks)
    if (std::lround((1 - axis.at(tick.value)) * static_cast<double>(height - 1)) == static_cast<long>(row))
      return tick.label;
  return "";
}

std::string legend(const Plot& plot, const std::string& marks, std::size_t width) {
  std::string text;
  std::size_t used = 0;
  const auto add = [&](char mark, const std::string& name) {
    if (name.empty()) return;
    const std::string item = std::string("  ") + mark + " " + shorten_middle_for_terminal(displayable(name), width - 4);
    if (used > 0 && used + columns(item) > width) {
      text += '\n';
      used = 0;
    }
    text += item;
    used += columns(item);
  };
  for (std::size_t i = 0; i < plot.lines.size(); ++i)
    if (!plot.lines[i].guide) add(marks[i], plot.lines[i].name);
  for (const Band& band : plot.bands) add('.', band.name);
  for (const std::string& lost : lost_texts(plot)) add('#', "NaN or infinite: " + lost);
  return text.empty() ? text : text + "\n";
}

std::string centred(std::string_view text, std::size_t left, std::size_t width) {
  const std::string shown = shorten_for_terminal(displayable(text), width);
  return std::string(left + (width - columns(shown)) / 2, ' ') + shown + "\n";
}

}  // namespace

std::string axis_rows(const std::vector<std::pair<std::size_t, std::string>>& ticks, std::size_t gutter,
                      std::size_t width) {
  std::string line = std::string(gutter, ' ') + "+" + std::string(width, '-'), labels;
  for (const auto& [column, label] : ticks) {
    const std::size_t middle = gutter + 1 + column, last = gutter + 1 + width - std::min(width, label.size());
    const std::size_t begin = std::min(middle - std::min(middle, label.size() / 2), last);
    line[middle] = '+';
    if (!labels.empty() && begin < labels.size() + 2) continue;
    labels.append(begin - labels.size(), ' ').append(label);
  }
  return line + "\n" + labels + "\n";
}

std::string terminal_plot(const Plot& plot, int width, int height) {
  const auto wide = static_cast<std::size_t>(std::max(width, 32)), high = static_cast<std::size_t>(std::max(height, 4));
  const PlotAxes axes = axes_of(plot, static_cast<int>(std::max<std::size_t>(2, wide / 10)),
                                static_cast<int>(std::max<std::size_t>(2, high / 3)));
  std::size_t gutter = 0;
  for (const Tick& tick : axes.y.ticks) gutter = std::max(gutter, tick.label.size() + 1);
  const std::size_t across = std::max<std::size_t>(8, wide - std::min(wide, gutter + 1));
  const std::string marks = marks_of(plot.lines);
  const Canvas canvas = drawn(plot, axes, marks, across, high);
  const auto has_points = [&](const Line& line) { return !axes.shown(line.points).empty(); };
  const bool empty = std::none_of(plot.lines.begin(), plot.lines.end(), has_points);
  std::string text;
  if (!plot.title.empty()) text += centred(plot.title, gutter + 1, across);
  if (!plot.y_label.empty()) text += shorten_for_terminal(displayable(plot.y_label), wide) + "\n";
  for (std::size_t row = 0; row < high; ++row) {
    const std::string label = label_at(axes.y, row, high);
    text += label.empty() ? std::string(gutter, ' ') + "|" : std::string(gutter - label.size() - 1, ' ') + label + " +";
    text += empty && row == high / 2 ? centred("no points", 0, across) : without_end_spaces(canvas.row(row)) + "\n";
  }
  std::vector<std::pair<std::size_t, std::string>> ticks;
  for (const Tick& tick : axes.x.ticks)
    ticks.emplace_back(static_cast<std::size_t>(std::lround(axes.x.at(tick.value) * static_cast<double>(across - 1))),
                       tick.label);
  text += axis_rows(ticks, gutter, across);
  if (!plot.x_label.empty()) text += centred(plot.x_label, gutter + 1, across);
  return text + legend(plot, marks, wide);
}

}  // namespace rotary::cli
