// Heat maps: sampled to as many cells as can be seen, as SVG and as characters.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "apps/shared/columns.h"
#include "apps/shared/displayable.h"
#include "apps/shared/sheet.h"
#include "drawing.h"
#include "plot.h"
#include "values/number_text.h"

namespace rotary::cli {

namespace {

constexpr double width = 800;
constexpr int steps = 20;  // of the colours to each side of 0

// ---- colours: blue below 0, orange above, as the colour-blind tell apart; pale in the middle, or dark on dark pages
// ----

using Rgb = std::array<int, 3>;
constexpr std::array<Rgb, 5> light_scale = {
    {{0, 54, 97}, {72, 144, 196}, {247, 247, 247}, {226, 137, 66}, {127, 46, 0}}};
constexpr std::array<Rgb, 5> dark_scale = {
    {{151, 208, 255}, {42, 118, 181}, {28, 33, 40}, {201, 92, 21}, {255, 196, 145}}};

std::string colour(const std::array<Rgb, 5>& scale, int level) {  // level: -steps to steps
  constexpr std::string_view digits = "0123456789abcdef";
  const int at = (level + steps) * 2;  // in parts of `steps` of the way from one colour to the next
  const int from = std::min(at / steps, 3), part = at - from * steps;
  std::string text = "#";
  for (std::size_t i = 0; i < 3; ++i) {
    const int a = scale[static_cast<std::size_t>(from)][i], b = scale[static_cast<std::size_t>(from) + 1][i];
    const int value = (a * (steps - part) + b * part + steps / 2) / steps;
    text += {digits[static_cast<std::size_t>(value / 16)], digits[static_cast<std::size_t>(value % 16)]};
  }
  return text;
}

// The value in parts of the limit, from -1 to 1; 0 where the limit is 0.
double part_of(double value, double limit) { return limit > 0 ? std::clamp(value / limit, -1.0, 1.0) : 0; }

int level_of(double value, double limit) { return static_cast<int>(std::lround(part_of(value, limit) * steps)); }

std::string class_of(int level) { return "h" + std::to_string(level + steps); }

std::string level_rules() {
  std::string rules;
  for (int level = -steps; level <= steps; ++level)
    rules += "." + class_of(level) + "{fill:" + colour(dark_scale, level) + "}\n";
  return rules;
}

std::string paint_level(int level) {
  return "class=\"" + class_of(level) + "\" fill=\"" + colour(light_scale, level) + "\"";
}

// ---- the cells ----

bool is_hidden(const HeatMap& map, std::size_t row) { return row < map.hidden.size() && map.hidden[row]; }

struct Grid {
  double left = 0, top = 0, cell_width = 1, cell_height = 1;
  double right = 0, bottom = 0;
};

// One path for each colour: the runs of cells of that colour, row by row.
std::string cell_elements(const HeatMap& map, const Grid& grid) {
  std::array<std::string, 2 * steps + 1> paths;
  std::string hidden;
  for (std::size_t row = 0; row < map.y.size(); ++row) {
    const std::string y = pixels(grid.top + static_cast<double>(row) * grid.cell_height);
    const std::string below = pixels(grid.top + static_cast<double>(row + 1) * grid.cell_height);
    if (is_hidden(map, row)) {
      hidden +=
          "M" + pixels(grid.left) + " " + y + "H" + pixels(grid.right) + "V" + below + "H" + pixels(grid.left) + "z";
      continue;
    }
    for (std::size_t column = 0; column < map.x.size();) {
      const int level = level_of(map.at(row, column), map.limit);
      std::size_t end = column + 1;
      while (end < map.x.size() && level_of(map.at(row, end), map.limit) == level) ++end;
      const auto x = [&grid](std::size_t index) {  // rounded once, so that neighbours share it
        return pixels(grid.left + static_cast<double>(index) * grid.cell_width);
      };
      paths[static_cast<std::size_t>(level + steps)] +=
          "M" + x(column) + " " + y + "H" + x(end) + "V" + below + "H" + x(column) + "z";
      column = end;
    }
  }
  std::string text = "<g shape-rendering=\"crispEdges\">\n";
  if (!hidden.empty()) text += "<path " + paint(Ink::base) + " fill-opacity=\"0.55\" d=\"" + hidden + "\"/>\n";
  for (int level = -steps; level <= steps; ++level) {
    const std::string& path = paths[static_cast<std::size_t>(level + steps)];
    if (!path.empty()) text += "<path " + paint_level(level) + " d=\"" + path + "\"/>\n";
  }
  return text + "</g>\n";
}

std::uint64_t distance(std::int64_t a, std::int64_t b) {
  const auto [low, high] = std::minmax(a, b);
  return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
}

// Between neighbours; 1 for a single one.
std::uint64_t least_step(const std::vector<std::int64_t>& values) {
  std::uint64_t least = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const std::uint64_t step = distance(values[i - 1], values[i]);
    if (step > 0 && (least == 0 || step < least)) least = step;
  }
  return std::max<std::uint64_t>(least, 1);
}

// The indices of the cells that have a tick: every n-th, n a power of two, and the last one where that leaves room.
std::vector<std::size_t> ticked(std::size_t count, std::size_t most) {
  std::size_t stride = 1;
  while ((count + stride - 1) / stride > most) stride *= 2;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < count; i += stride) chosen.push_back(i);
  if (3 * (count - 1 - chosen.back()) >= 2 * stride) chosen.push_back(count - 1);
  return chosen;
}

std::string tick_elements(const HeatMap& map, const Grid& grid) {
  std::size_t longest = 1;
  for (const std::int64_t value : map.x) longest = std::max(longest, std::to_string(value).size());
  const double room = 7.0 * static_cast<double>(longest) + 16;
  const auto most = static_cast<std::size_t>(std::max(2.0, (grid.right - grid.left) / room));
  std::string marks = "<g " + paint(std::nullopt, Ink::base) + ">\n";
  std::string labels = "<g font-size=\"12\" " + paint(Ink::soft_text) + ">\n";
  double end = -1e9;
  for (const std::size_t column : ticked(map.x.size(), std::min<std::size_t>(most, 17))) {
    const double x = grid.left + (static_cast<double>(column) + 0.5) * grid.cell_width;
    const std::string label = std::to_string(map.x[column]);
    if (x - text_width(label, 12) / 2 < end + 6) continue;
    end = x + text_width(label, 12) / 2;
    marks += line_element(x, grid.bottom, x, grid.bottom + 4);
    labels += text_element(x, grid.bottom + 18, label, "text-anchor=\"middle\"");
  }
  for (const std::size_t row : ticked(map.y.size(), 17)) {
    const double y = grid.top + (static_cast<double>(row) + 0.5) * grid.cell_height;
    marks += line_element(grid.left - 4, y, grid.left, y);
    labels += text_element(grid.left - 8, y + 4, std::to_string(map.y[row]), "text-anchor=\"end\"");
  }
  return marks + "</g>\n" + labels + "</g>\n";
}

// What the hidden rows are: "grey: pairs too fast for this step (23 of 64)"; "" where none is.
std::string hidden_text(const HeatMap& map, const char* shown_as) {
  const auto count = std::count(map.hidden.begin(), map.hidden.end(), true);
  if (count == 0) return "";
  return std::string(shown_as) + ": " + map.y_things + " too fast for this step (" + std::to_string(count) + " of " +
         std::to_string(map.y.size()) + ")";
}

std::string with_note(const std::string& note, const std::string& more) {
  return note + (note.empty() || more.empty() ? "" : "; ") + more;
}

std::string ordinal(std::size_t number) {
  const std::size_t last = number % 10;
  const bool teen = number / 10 % 10 == 1;
  return std::to_string(number) + (teen ? "th" : last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

std::string limit_text(double value) { return detail::significant(value, 3); }

// The scale of colours at the right, from limit at the top to -limit at the bottom.
std::string scale_elements(const HeatMap& map, const Grid& grid, double left) {
  constexpr double bar = 16;
  const double height = (grid.bottom - grid.top) / (2 * steps + 1);
  std::string text = "<g shape-rendering=\"crispEdges\">\n";
  for (int level = -steps; level <= steps; ++level) {
    text += "<rect x=\"" + pixels(left) + "\" y=\"" + pixels(grid.top + (steps - level) * height) + "\" width=\"" +
            pixels(bar) + "\" height=\"" + pixels(height + 0.2) + "\" " + paint_level(level) + "/>\n";
  }
  text += "</g>\n<g font-size=\"12\" " + paint(Ink::soft_text) + ">\n";
  for (const double part : {1.0, 0.5, 0.0, -0.5, -1.0}) {
    const double y = grid.top + (1 - part) / 2 * (grid.bottom - grid.top);
    text += text_element(left + bar + 6, y + 4, limit_text(part * map.limit));
  }
  return text + "</g>\n" +
         text_element(left - 2, grid.top - 10, map.value_label, paint(Ink::text) + " font-size=\"13\"");
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
  const auto add = [&small](const std::string& text) { small.note += (small.note.empty() ? "" : "; ") + text; };
  if (wide > 1) add("every " + ordinal(wide) + " of the " + map.x_things);
  if (high > 1) add("every " + ordinal(high) + " of the " + map.y_things);
  return small;
}

std::string svg(const HeatMap& map) {
  constexpr double base_height = 384;
  const double right_margin = 48 + std::ceil(text_width(limit_text(-map.limit / 2), 12));
  const auto columns = static_cast<double>(map.x.size()), rows = static_cast<double>(map.y.size());
  std::string heading;
  const double begin = heading_elements(heading, map.title, with_note(map.note, hidden_text(map, "grey")), width);
  double widest = 0;
  for (const std::int64_t value : map.y) widest = std::max(widest, text_width(std::to_string(value), 12));
  Grid grid;
  grid.left = std::ceil(widest) + 46;
  grid.top = begin + 30;
  grid.cell_width = (width - right_margin - grid.left) / columns;
  grid.cell_height = base_height / rows;
  grid.right = grid.left + columns * grid.cell_width;
  grid.bottom = grid.top + base_height;
  const double height = grid.bottom + 56;
  std::string text = document_start(width, height, map.title, level_rules()) + heading;
  text += cell_elements(map, grid) + tick_elements(map, grid) + scale_elements(map, grid, grid.right + 16);
  const std::string label = paint(Ink::text) + " font-size=\"13\" text-anchor=\"middle\"";
  const double middle = (grid.top + grid.bottom) / 2;
  text += text_element((grid.left + grid.right) / 2, grid.bottom + 43, fitted(map.x_label, 13, grid.right - grid.left),
                       label);
  text += text_element(24, middle, fitted(map.y_label, 13, base_height),
                       label + " transform=\"rotate(-90 24 " + pixels(middle) + ")\"");
  return text + "</svg>\n";
}

constexpr std::string_view shades = "@%+- :oO#";  // from -limit to limit

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

std::string terminal_map(const HeatMap& whole, int width_in_columns, int height) {
  std::size_t gutter = 0;
  for (const std::int64_t value : whole.y) gutter = std::max(gutter, std::to_string(value).size());
  const auto room = static_cast<std::size_t>(std::max(24, width_in_columns - static_cast<int>(gutter) - 3));
  const HeatMap map = sampled(whole, room, static_cast<std::size_t>(std::max(4, height)));
  std::string text;
  const auto add = [&](const std::string& line) {
    text += shorten_for_terminal(displayable(line), static_cast<std::size_t>(width_in_columns)) + "\n";
  };
  const auto add_lines = [&add](const std::string& lines) {
    for (std::size_t begin = 0; begin <= lines.size();) {
      const std::size_t end = std::min(lines.find('\n', begin), lines.size());
      add(lines.substr(begin, end - begin));
      begin = end + 1;
    }
  };
  for (const std::string& line : {map.title, map.note, hidden_text(map, "~"), map.y_label})
    if (!line.empty()) add_lines(wrapped(displayable(line), 0, static_cast<std::size_t>(width_in_columns)));
  for (std::size_t row = 0; row < map.y.size(); ++row) {
    const std::string label = std::to_string(map.y[row]);
    std::string line = std::string(gutter - label.size(), ' ') + label + " |";
    for (std::size_t column = 0; column < map.x.size(); ++column) {
      if (is_hidden(map, row)) {
        line += '~';
        continue;
      }
      const double part = part_of(map.at(row, column), map.limit);
      const auto shade = static_cast<std::size_t>((part + 1) / 2 * static_cast<double>(shades.size() - 1) + 0.5);
      line += shades[shade];
    }
    text += without_end_spaces(line) + "\n";
  }
  std::string line = std::string(gutter + 1, ' ') + "+" + std::string(map.x.size(), '-');
  std::string labels;
  for (const std::size_t column : ticked(map.x.size(), 9)) {
    const std::string label = std::to_string(map.x[column]);
    std::size_t begin = gutter + 2 + column;
    line[begin] = '+';
    begin -= std::min(begin, label.size() / 2);
    if (begin + label.size() > static_cast<std::size_t>(width_in_columns) ||
        (!labels.empty() && begin < labels.size() + 2))
      continue;
    labels.append(begin - labels.size(), ' ').append(label);
  }
  text += line + "\n" + labels + "\n";
  add(std::string(gutter + 2, ' ') + map.x_label);
  add_lines(scale_text(map, static_cast<std::size_t>(width_in_columns)));
  return text;
}

}  // namespace rotary::cli
