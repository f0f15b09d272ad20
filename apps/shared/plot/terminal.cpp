// A figure for a terminal, in ASCII characters.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "apps/shared/columns.h"
#include "apps/shared/displayable.h"
#include "apps/shared/text.h"
#include "figure.h"

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

std::size_t rounded(double place) { return static_cast<std::size_t>(std::lround(place)); }

// The characters of the drawing area, from the top.
using Canvas = std::vector<std::string>;

// Where several strong lines pass through one cell, the columns show them in turn: each one in every `turns`.
void draw(Canvas& canvas, const Points& places, char mark, bool joined, std::size_t turns) {
  const bool strong = weak.find(mark) == std::string_view::npos;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto [x, y] = places[i];
    const auto [from_x, from_y] = places[joined && i > 0 ? i - 1 : i];
    const double steps = std::ceil(std::max({std::abs(x - from_x), std::abs(y - from_y), 1.0}));
    for (double step = 0; step <= steps; ++step) {
      const std::size_t column = rounded(from_x + step / steps * (x - from_x));
      char& cell = canvas[rounded(from_y + step / steps * (y - from_y))][column];
      const bool turn = strong && letters[column % turns] == mark;
      if (turn || (strong ? weak.find(cell) != std::string_view::npos : cell == ' ')) cell = mark;
    }
  }
}

// Guides, areas and faint lines behind strong ones; lost places on the axis.
void draw_lines(Canvas& canvas, const std::vector<Line>& lines, const Axes& axes, const std::string& marks) {
  const std::size_t turns = std::clamp<std::size_t>(marks.size(), 1, letters.size());
  for (const bool strong : {false, true})
    for (std::size_t i = 0; i < marks.size(); ++i)
      if (const Line& line = lines[i]; is_strong(line) == strong)
        draw(canvas, axes.shown(outline_of(line)), marks[i], !line.dots, turns);
  for (const Line& line : lines)
    for (const double x : line.lost) canvas.back()[rounded(axes.x.at(x))] = '#';
}

void draw_cells(Canvas& canvas, const Grid& grid) {
  for (std::size_t row = 0; row < canvas.size(); ++row) {
    for (std::size_t column = 0; column < canvas[row].size(); ++column) {
      const double value = grid.at(row, column), part = grid.limit > 0 ? std::clamp(value / grid.limit, -1.0, 1.0) : 0;
      if (!std::isnan(value)) canvas[row][column] = shades[rounded((part + 1) / 2 * (shades.size() - 1))];
    }
  }
}

// Marks and names, in lines of that width.
std::string legend_text(const Figure& figure, const std::string& marks, std::size_t width) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < marks.size(); ++i)
    if (!figure.lines[i].name.empty())
      items.push_back(std::string(1, marks[i]) + " " + displayable(figure.lines[i].name));
  for (std::size_t i = 0; i < shades.size() && !figure.grid.x.empty(); ++i) {
    const double part = 2 * static_cast<double>(i) / static_cast<double>(shades.size() - 1) - 1;
    items.push_back(std::string(1, shades[i]) + " " + significant(part * figure.grid.limit, 3));
  }
  std::string text, line;
  for (const std::string& item : items) {
    const std::string next = "  " + shorten_middle_for_terminal(item, width - 2);
    if (columns(line) + columns(next) > width) text += std::exchange(line, "") + "\n";
    line += next;
  }
  return line.empty() ? text : text + line + "\n";
}

// The axis under the drawing area, right of `gutter` columns, and the labels of its ticks as far as they do not touch.
std::string axis_rows(const Axis& axis, std::size_t gutter, std::size_t width) {
  std::string line = std::string(gutter, ' ') + "+" + std::string(width, '-'), labels;
  for (const Tick& tick : axis.ticks) {
    const std::size_t middle = gutter + 1 + rounded(axis.at(tick.value)), size = tick.label.size();
    line[middle] = '+';
    const std::size_t begin = std::min(middle - std::min(middle, size / 2), gutter + 1 + width - std::min(width, size));
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
  Canvas canvas(curved ? high : figure.grid.y.size(), std::string(curved ? room : figure.grid.x.size(), ' '));
  const std::size_t across = canvas[0].size();
  Axes axes = axes_of(figure, std::max<std::size_t>(2, across / 10), high / 3);
  axes.x.to = static_cast<double>(across - 1);
  axes.y.from = static_cast<double>(canvas.size() - 1);
  axes.y.to = 0;
  curved ? draw_lines(canvas, figure.lines, axes, marks) : draw_cells(canvas, figure.grid);
  std::string text = centred(figure.title, gutter + 1, room);
  std::vector<std::string> lines = wrapped(displayable(whole_note(figure)), wide);
  lines.push_back(displayable(figure.y_label));
  for (const std::string& line : lines)
    if (!line.empty()) text += shorten_for_terminal(line, wide) + "\n";
  std::vector<std::string> labels(canvas.size());
  for (const Tick& tick : axes.y.ticks) labels[rounded(axes.y.at(tick.value))] = tick.label + " ";
  for (std::size_t row = 0; row < canvas.size(); ++row)
    text += lead(labels[row], gutter) + (labels[row].empty() ? "|" : "+") + without_end_spaces(canvas[row]) + "\n";
  return text + axis_rows(axes.x, gutter, across) + centred(figure.x_label, gutter + 1, across) +
         legend_text(figure, marks, wide);
}

}  // namespace rotary::cli
