// A figure for a terminal, in ASCII characters.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "apps/shared/columns.h"
#include "apps/shared/displayable.h"
#include "apps/shared/sheet.h"
#include "figure.h"
#include "values/number_text.h"

namespace rotary::cli {

namespace {

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::string_view weak = " .-";          // what a strong line's mark may replace
constexpr std::string_view shades = "@%+-.:oO#";  // of cells, from -limit to limit

bool is_strong(const Line& line) { return !line.faint && !line.guide && line.lower.empty(); }

// A mark for each line, a letter for each strong one where there are several.
std::string marks_of(const std::vector<Line>& lines) {
  const bool several = std::count_if(lines.begin(), lines.end(), is_strong) > 1;
  std::string marks;
  for (const Line& line : lines)
    marks += line.guide ? '-' : !is_strong(line) ? '.' : several ? letters[marks.size() % letters.size()] : '*';
  return marks;
}

// The characters of the drawing area, from the top.
using Canvas = std::vector<std::string>;

std::size_t place(double fraction, std::size_t count) {
  return static_cast<std::size_t>(std::lround(fraction * static_cast<double>(count - 1)));
}

// Where several strong lines pass through one cell, the columns show them in turn: each one in every `turns`.
void draw(Canvas& canvas, const Points& points, char mark, bool joined, std::size_t turns) {
  const bool strong = weak.find(mark) == std::string_view::npos;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto [x, y] = points[i];
    const auto [from_x, from_y] = points[joined && i > 0 ? i - 1 : i];
    const double across = std::abs(x - from_x) * static_cast<double>(canvas[0].size());
    const double steps = std::ceil(std::max({across, std::abs(y - from_y) * static_cast<double>(canvas.size()), 1.0}));
    for (double step = 0; step <= steps; ++step) {
      const std::size_t column = place(from_x + step / steps * (x - from_x), canvas[0].size());
      char& cell = canvas[place(1 - from_y - step / steps * (y - from_y), canvas.size())][column];
      const bool turn = strong && letters[column % turns] == mark;
      if (turn || (strong ? weak.find(cell) != std::string_view::npos : cell == ' ')) cell = mark;
    }
  }
}

// Guides, areas and faint lines behind strong ones.
Canvas curves(const Figure& figure, const Axes& axes, const std::string& marks, std::size_t width, std::size_t height) {
  Canvas canvas(height, std::string(width, ' '));
  const std::size_t turns = std::clamp<std::size_t>(marks.size(), 1, letters.size());
  for (const bool strong : {false, true})
    for (std::size_t i = 0; i < marks.size(); ++i)
      if (const Line& line = figure.lines[i]; is_strong(line) == strong)
        draw(canvas, axes.shown(outline_of(line)), marks[i], !line.dots, turns);
  for (const Line& line : figure.lines)
    for (const double x : line.lost) canvas.back()[place(axes.x.at(x), width)] = '#';
  return canvas;
}

Canvas cells(const Grid& grid) {
  Canvas canvas(grid.y.size(), std::string(grid.x.size(), ' '));
  for (std::size_t row = 0; row < grid.y.size(); ++row) {
    for (std::size_t column = 0; column < grid.x.size(); ++column) {
      const double value = grid.at(row, column), part = grid.limit > 0 ? std::clamp(value / grid.limit, -1.0, 1.0) : 0;
      if (!std::isnan(value)) canvas[row][column] = shades[place((part + 1) / 2, shades.size())];
    }
  }
  return canvas;
}

// Marks and names, in lines of that width.
std::string legend(const Figure& figure, const std::string& marks, std::size_t width) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < marks.size(); ++i)
    if (!figure.lines[i].name.empty())
      items.push_back(std::string(1, marks[i]) + " " + displayable(figure.lines[i].name));
  for (std::size_t i = 0; i < shades.size() && !figure.grid.x.empty(); ++i) {
    const double part = 2 * static_cast<double>(i) / static_cast<double>(shades.size() - 1) - 1;
    items.push_back(std::string(1, shades[i]) + " " + detail::significant(part * figure.grid.limit, 3));
  }
  std::string text, line;
  for (const std::string& item : items) {
    const std::string next = "  " + shorten_middle_for_terminal(item, width - 2);
    if (columns(line) + columns(next) > width) text += std::exchange(line, "") + "\n";
    line += next;
  }
  return line.empty() ? text : text + line + "\n";
}

std::string label_at(const Axis& axis, std::size_t row, std::size_t height) {
  for (const Tick& tick : axis.ticks)
    if (place(1 - axis.at(tick.value), height) == row) return tick.label;
  return "";
}

// The axis under the drawing area, right of `gutter` columns, and the labels of its ticks as far as they do not touch.
std::string axis_rows(const Axis& axis, std::size_t gutter, std::size_t width) {
  std::string line = std::string(gutter, ' ') + "+" + std::string(width, '-'), labels;
  for (const Tick& tick : axis.ticks) {
    const std::size_t middle = gutter + 1 + place(axis.at(tick.value), width), half = tick.label.size() / 2;
    line[middle] = '+';
    const std::size_t begin =
        std::min(middle - std::min(middle, half), gutter + 1 + width - std::min(width, tick.label.size()));
    if (!labels.empty() && begin < labels.size() + 2) continue;
    labels.append(begin - labels.size(), ' ').append(tick.label);
  }
  return line + "\n" + labels + "\n";
}

std::string centred(std::string_view text, std::size_t left, std::size_t width) {
  if (text.empty()) return "";
  const std::string shown = shorten_for_terminal(displayable(text), width);
  return std::string(left + (width - columns(shown)) / 2, ' ') + shown + "\n";
}

}  // namespace

std::string terminal(const Figure& whole, int width, int height) {
  const auto wide = static_cast<std::size_t>(std::max(width, 32)), high = static_cast<std::size_t>(std::max(height, 4));
  std::size_t gutter = 0;
  for (const Tick& tick : axes_of(whole, 2, std::max(high / 3, whole.grid.y.size())).y.ticks)
    gutter = std::max(gutter, tick.label.size() + 1);
  const std::size_t room = std::max<std::size_t>(8, wide - std::min(wide, gutter + 1));
  const Figure figure = sampled(whole, room, high);
  const std::string marks = marks_of(figure.lines);
  const bool curved = figure.grid.x.empty();
  const std::size_t across = curved ? room : figure.grid.x.size();
  const Axes axes = axes_of(figure, std::max<std::size_t>(2, across / 10), high / 3);
  const Canvas canvas = curved ? curves(figure, axes, marks, across, high) : cells(figure.grid);
  std::string text = centred(figure.title, gutter + 1, room);
  const auto add = [&text, wide](const std::string& paragraph) {
    std::istringstream lines(wrapped(displayable(paragraph), 0, wide));
    for (std::string line; std::getline(lines, line);) text += shorten_for_terminal(line, wide) + "\n";
  };
  add(whole_note(figure));
  if (!figure.y_label.empty()) text += shorten_for_terminal(displayable(figure.y_label), wide) + "\n";
  for (std::size_t row = 0; row < canvas.size(); ++row) {
    const std::string label = label_at(axes.y, row, canvas.size());
    text += label.empty() ? std::string(gutter, ' ') + "|" : std::string(gutter - label.size() - 1, ' ') + label + " +";
    text += without_end_spaces(canvas[row]) + "\n";
  }
  return text + axis_rows(axes.x, gutter, across) + centred(figure.x_label, gutter + 1, across) +
         legend(figure, marks, wide);
}

}  // namespace rotary::cli
