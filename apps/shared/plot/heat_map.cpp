// Heat maps: sampled to as many cells as can be seen, as SVG and as characters.
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string_view>

#include "apps/shared/columns.h"
#include "apps/shared/displayable.h"
#include "apps/shared/sheet.h"
#include "axis.h"
#include "drawing.h"
#include "plot.h"
#include "values/number_text.h"

namespace rotary::cli {

namespace {

constexpr int steps = 20;                         // of the colours to each side of 0
constexpr std::string_view shades = "@%+- :oO#";  // from -limit to limit

// The place of a value among levels from 0 to 2 * half; the middle one where the limit is 0.
std::size_t level_of(const HeatMap& map, double value, int half) {
  const double part = map.limit > 0 ? std::clamp(value / map.limit, -1.0, 1.0) : 0;
  return static_cast<std::size_t>(std::lround(part * half) + half);
}

// Blue below 0, orange above, as the colour-blind tell apart; pale in the middle.
std::string colour(std::size_t level) {
  constexpr std::array<std::array<int, 3>, 5> scale = {
      {{0, 54, 97}, {72, 144, 196}, {247, 247, 247}, {226, 137, 66}, {127, 46, 0}}};
  constexpr std::string_view digits = "0123456789abcdef";
  const int at = static_cast<int>(level) * 2;  // in parts of `steps` of the way from one colour to the next
  const auto from = static_cast<std::size_t>(std::min(at / steps, 3));
  const int part = at - static_cast<int>(from) * steps;
  std::string text = "fill=\"#";
  for (std::size_t i = 0; i < 3; ++i) {
    const int value = (scale[from][i] * (steps - part) + scale[from + 1][i] * part + steps / 2) / steps;
    text += {digits[static_cast<std::size_t>(value / 16)], digits[static_cast<std::size_t>(value % 16)]};
  }
  return text + "\"";
}

bool is_hidden(const HeatMap& map, std::size_t row) { return row < map.hidden.size() && map.hidden[row]; }

// What the hidden rows are: "grey: pairs too fast for this step (23 of 64)"; "" where none is.
std::string hidden_text(const HeatMap& map, const std::string& shown_as) {
  const auto count = std::count(map.hidden.begin(), map.hidden.end(), true);
  if (count == 0) return "";
  return shown_as + ": " + map.y_things + " too fast for this step (" + std::to_string(count) + " of " +
         std::to_string(map.y.size()) + ")";
}

void add_to_note(std::string& note, const std::string& text) {
  note += (note.empty() || text.empty() ? "" : "; ") + text;
}

std::string ordinal(std::size_t number) {
  const std::size_t last = number / 10 % 10 == 1 ? 0 : number % 10;
  return std::to_string(number) + (last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

std::size_t longest(const std::vector<std::int64_t>& values) {
  std::size_t most = 1;
  for (const std::int64_t value : values) most = std::max(most, std::to_string(value).size());
  return most;
}

// Between neighbours, the least that is not 0; 1 for a single one.
std::uint64_t least_step(const std::vector<std::int64_t>& values) {
  std::uint64_t least = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const auto [low, high] = std::minmax(values[i - 1], values[i]);
    const std::uint64_t step = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    if (step > 0 && (least == 0 || step < least)) least = step;
  }
  return std::max<std::uint64_t>(least, 1);
}

// ---- as SVG ----

struct Grid {
  double left = 0, top = 0, right = 0, bottom = 0, cell_width = 1, cell_height = 1;
};

// One path for each colour: the runs of cells of that colour, row by row. Edges are rounded once, so that neighbours
// share them.
std::string cell_elements(const HeatMap& map, const Grid& grid) {
  std::array<std::string, 2 * steps + 1> paths;
  std::string hidden;
  for (std::size_t row = 0; row < map.y.size(); ++row) {
    const std::string above = pixels(grid.top + static_cast<double>(row) * grid.cell_height);
    const std::string below = pixels(grid.top + static_cast<double>(row + 1) * grid.cell_height);
    const auto cells = [&](std::size_t from, std::size_t to) {
      const std::string left = pixels(grid.left + static_cast<double>(from) * grid.cell_width);
      const std::string right = pixels(grid.left + static_cast<double>(to) * grid.cell_width);
      return "M" + left + " " + above + "H" + right + "V" + below + "H" + left + "z";
    };
    if (is_hidden(map, row)) hidden += cells(0, map.x.size());
    for (std::size_t column = 0; column < map.x.size() && !is_hidden(map, row);) {
      const std::size_t level = level_of(map, map.at(row, column), steps);
      std::size_t end = column + 1;
      while (end < map.x.size() && level_of(map, map.at(row, end), steps) == level) ++end;
      paths.at(level) += cells(column, end);
      column = end;
    }
  }
  std::string text;
  if (!hidden.empty()) text += element("path", {}, paint(Ink::base) + " fill-opacity=\"0.55\" d=\"" + hidden + "\"");
  for (std::size_t level = 0; level < paths.size(); ++level)
    if (!paths.at(level).empty()) text += element("path", {}, colour(level) + " d=\"" + paths.at(level) + "\"");
  return "<g class=\"cells\" shape-rendering=\"crispEdges\">\n" + text + "</g>\n";
}

std::string tick_elements(const HeatMap& map, const Grid& grid) {
  const double room = 7.0 * static_cast<double>(longest(map.x)) + 16;
  const auto most = static_cast<std::size_t>(std::clamp((grid.right - grid.left) / (1.5 * room), 1.0, 17.0));
  std::string marks, labels;
  for (const std::size_t column : even_ticks(map.x.size(), most)) {
    const double x = grid.left + (static_cast<double>(column) + 0.5) * grid.cell_width;
    marks += line_element(x, grid.bottom, x, grid.bottom + 4);
    labels += text_element(x, grid.bottom + 18, std::to_string(map.x[column]), "text-anchor=\"middle\"");
  }
  for (const std::size_t row : even_ticks(map.y.size(), 17)) {
    const double y = grid.top + (static_cast<double>(row) + 0.5) * grid.cell_height;
    marks += line_element(grid.left - 4, y, grid.left, y);
    labels += text_element(grid.left - 8, y + 4, std::to_string(map.y[row]), "text-anchor=\"end\"");
  }
  return "<g " + paint(std::nullopt, Ink::base) + ">\n" + marks + "</g>\n<g font-size=\"12\" " + paint(Ink::soft_text) +
         ">\n" + labels + "</g>\n";
}

// The scale of colours at the right, from limit at the top to -limit at the bottom.
std::string scale_elements(const HeatMap& map, const Grid& grid) {
  constexpr double wide = 16;
  const double left = grid.right + 16, height = (grid.bottom - grid.top) / (2 * steps + 1);
  std::string bar, labels;
  for (std::size_t level = 0; level <= 2 * steps; ++level)
    bar += element("rect",
                   {{"x", left},
                    {"y", grid.top + static_cast<double>(2 * steps - level) * height},
                    {"width", wide},
                    {"height", height + 0.2}},
                   colour(level));
  for (const double part : {1.0, 0.5, 0.0, -0.5, -1.0})
    labels += text_element(left + wide + 6, grid.top + (1 - part) / 2 * (grid.bottom - grid.top) + 4,
                           detail::significant(part * map.limit, 3));
  return "<g class=\"cells\" shape-rendering=\"crispEdges\">\n" + bar + "</g>\n<g font-size=\"12\" " +
         paint(Ink::soft_text) + ">\n" + labels + "</g>\n" +
         text_element(left - 2, grid.top - 10, map.value_label, paint(Ink::text) + " font-size=\"13\"");
}

// ---- as characters ----

// What the shades mean, in lines of at most so many columns.
std::string scale_text(const HeatMap& map, std::size_t columns) {
  std::string text, line = "  " + map.value_label + ":";
  for (std::size_t i = 0; i < shades.size(); ++i) {
    const double value = (2.0 * static_cast<double>(i) / static_cast<double>(shades.size() - 1) - 1) * map.limit;
    const std::string item = std::string("  ") + (shades[i] == ' ' ? "' '" : std::string(1, shades[i])) + " " +
                             detail::significant(value, 3);
    if (line.size() + item.size() > columns) {
      text += line + "\n";
      line = std::string(map.value_label.size() + 3, ' ');
    }
    line += item;
  }
  return text + line;
}

}  // namespace

HeatMap sampled(const HeatMap& map, std::size_t columns, std::size_t rows) {
  constexpr double columns_per_turn = 4;
  const std::size_t wide = std::max<std::size_t>(1, (map.x.size() + columns - 1) / columns);
  const std::size_t high = std::max<std::size_t>(1, (map.y.size() + rows - 1) / rows);
  if (wide == 1 && high == 1) return map;
  HeatMap small = map;
  small.x.clear();
  small.y.clear();
  small.values.clear();
  const double step = wide == 1 ? 0 : static_cast<double>(wide) * static_cast<double>(least_step(map.x));
  for (std::size_t i = 0; i < map.x.size(); i += wide) small.x.push_back(map.x[i]);
  for (std::size_t row = 0; row < map.y.size(); row += high) {
    small.y.push_back(map.y[row]);
    for (std::size_t column = 0; column < map.x.size(); column += wide) small.values.push_back(map.at(row, column));
    if (!map.turns.empty()) small.hidden.push_back(map.turns[row] < columns_per_turn * step);
  }
  if (wide > 1) add_to_note(small.note, "every " + ordinal(wide) + " of the " + map.x_things);
  if (high > 1) add_to_note(small.note, "every " + ordinal(high) + " of the " + map.y_things);
  return small;
}

std::string svg(const HeatMap& map) {
  constexpr double cells_height = 384;
  std::string note = map.note, elements;
  add_to_note(note, hidden_text(map, "grey"));
  Grid grid;
  grid.left = std::ceil(text_width(std::string(longest(map.y), '0'), 12)) + 46;
  grid.right = picture_width - 48 - std::ceil(text_width(detail::significant(-map.limit / 2, 3), 12));
  grid.top = add_heading(elements, map.title, note) + 30;
  grid.bottom = grid.top + cells_height;
  grid.cell_width = (grid.right - grid.left) / static_cast<double>(map.x.size());
  grid.cell_height = cells_height / static_cast<double>(map.y.size());
  elements += cell_elements(map, grid) + tick_elements(map, grid) + scale_elements(map, grid) +
              axis_labels(map.x_label, map.y_label, grid.left, grid.top, grid.right, grid.bottom);
  return document(grid.bottom + 56, map.title, elements);
}

std::string terminal_map(const HeatMap& whole, int width, int height) {
  const std::size_t gutter = longest(whole.y);
  const auto columns = static_cast<std::size_t>(width);
  const HeatMap map = sampled(whole, static_cast<std::size_t>(std::max(24, width - static_cast<int>(gutter) - 3)),
                              static_cast<std::size_t>(std::max(4, height)));
  std::string text;
  const auto add = [&](const std::string& lines) {
    std::istringstream rest(lines);
    for (std::string line; std::getline(rest, line);) text += shorten_for_terminal(line, columns) + "\n";
  };
  for (const std::string& line : {map.title, map.note, hidden_text(map, "~"), map.y_label})
    add(wrapped(displayable(line), 0, columns));
  for (std::size_t row = 0; row < map.y.size(); ++row) {
    std::string line = std::to_string(map.y[row]) + " |";
    line.insert(0, gutter + 2 - line.size(), ' ');
    for (std::size_t column = 0; column < map.x.size(); ++column)
      line += is_hidden(map, row) ? '~' : shades[level_of(map, map.at(row, column), 4)];
    text += without_end_spaces(line) + "\n";
  }
  std::vector<std::pair<std::size_t, std::string>> ticks;
  for (const std::size_t column : even_ticks(map.x.size(), 9))
    ticks.emplace_back(column, std::to_string(map.x[column]));
  text += axis_rows(ticks, gutter + 1, map.x.size());
  add(std::string(gutter + 2, ' ') + displayable(map.x_label));
  add(scale_text(map, columns));
  return text;
}

}  // namespace rotary::cli
