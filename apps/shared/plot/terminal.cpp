// The terminal plot: a cell of braille has 2 x 4 dots.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "apps/shared/displayable.h"
#include "axis.h"
#include "plot.h"

namespace rotary::cli {

namespace {

constexpr char no_letter = 0;

// U+2800 and the bits of its dots, all in the Basic Multilingual Plane.
std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

class Canvas {
 public:
  Canvas(int width, int height) : width_(width), height_(height) {
    const auto cells = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
    dots_.resize(cells);
    letters_.resize(cells);
  }
  int width() const { return width_; }
  int height() const { return height_; }

  // In dots, from the left and from the top.
  void set(int x, int y) {
    constexpr std::array<std::array<unsigned, 2>, 4> bits = {{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    dots_[cell(x / 2, y / 4)] |= bits[static_cast<std::size_t>(y % 4)][static_cast<std::size_t>(x % 2)];
  }
  bool has_letter(int column, int row) const { return letters_[cell(column, row)] != no_letter; }
  void put_letter(int column, int row, char letter) { letters_[cell(column, row)] = letter; }

  std::string row(int row) const {
    std::string text;
    for (int column = 0; column < width_; ++column) {
      const std::size_t at = cell(column, row);
      text += letters_[at] != no_letter ? std::string(1, letters_[at]) : dots_[at] == 0 ? " " : braille(dots_[at]);
    }
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }

 private:
  std::size_t cell(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(column);
  }
  int width_;
  int height_;
  std::vector<unsigned> dots_;
  std::vector<char> letters_;
};

struct Dot {
  int x = 0;
  int y = 0;
};

Dot dot_of(const PlotPoint& point, const Canvas& canvas) {
  return {static_cast<int>(std::lround(point.x * (2 * canvas.width() - 1))),
          static_cast<int>(std::lround((1 - point.y) * (4 * canvas.height() - 1)))};
}

// The row where a line crosses each column last; -1: it does not.
using Rows = std::vector<int>;

Rows draw(Canvas& canvas, const std::vector<PlotPoint>& points) {
  Rows rows(static_cast<std::size_t>(canvas.width()), -1);
  const auto touch = [&](int x, int y) {
    canvas.set(x, y);
    rows[static_cast<std::size_t>(x / 2)] = y / 4;
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Dot to = dot_of(points[i], canvas);
    const Dot from = i > 0 ? dot_of(points[i - 1], canvas) : to;
    const int steps = std::max({std::abs(to.x - from.x), std::abs(to.y - from.y), 1});
    for (int step = 0; step <= steps; ++step) {
      const double part = static_cast<double>(step) / steps;
      touch(from.x + static_cast<int>(std::lround(part * (to.x - from.x))),
            from.y + static_cast<int>(std::lround(part * (to.y - from.y))));
    }
  }
  return rows;
}

// One dot per column, of the last point there: sparse enough to leave a strong line visible.
Rows draw_faint(Canvas& canvas, const std::vector<PlotPoint>& points) {
  Rows rows(static_cast<std::size_t>(canvas.width()), -1);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Dot dot = dot_of(points[i], canvas);
    if (i + 1 < points.size() && dot_of(points[i + 1], canvas).x / 2 == dot.x / 2) continue;
    canvas.set(dot.x, dot.y);
    rows[static_cast<std::size_t>(dot.x / 2)] = dot.y / 4;
  }
  return rows;
}

char letter_of(std::size_t line) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  return letters[line % letters.size()];
}

// Three letters on each line, no two lines in one column; a line that has no such column: one letter at its end.
void put_letters(Canvas& canvas, const std::vector<Rows>& rows, const std::vector<bool>& lettered) {
  const std::size_t slots = 3 * rows.size();
  for (std::size_t line = 0; line < rows.size(); ++line) {
    if (!lettered[line]) continue;
    bool put = false;
    const auto try_column = [&](int column) {
      const int row = rows[line][static_cast<std::size_t>(column)];
      if (row < 0 || canvas.has_letter(column, row)) return false;
      canvas.put_letter(column, row, letter_of(line));
      return true;
    };
    for (std::size_t slot = line; slot < slots; slot += rows.size()) {
      const double middle = (static_cast<double>(slot) + 0.5) / static_cast<double>(slots);
      put = try_column(static_cast<int>(middle * canvas.width())) || put;
    }
    for (int column = canvas.width(); !put && column-- > 0;) put = try_column(column);
  }
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
  std::vector<bool> marked(static_cast<std::size_t>(width));
  std::string labels;
  for (const Tick& tick : axis.ticks) {
    const auto column = static_cast<std::size_t>(std::lround(axis.at(tick.value) * (width - 1)));
    const std::size_t middle = gutter + 1 + column;
    const std::size_t last_begin = gutter + 1 + static_cast<std::size_t>(width) - tick.label.size();
    const std::size_t begin = std::min(middle - std::min(middle, tick.label.size() / 2), last_begin);
    marked[column] = true;
    if (!labels.empty() && begin < labels.size() + 2) continue;
    labels.append(begin - labels.size(), ' ').append(tick.label);
  }
  std::string line(gutter, ' ');
  line += "└";
  for (const bool mark : marked) line += mark ? "┬" : "─";
  return line + "\n" + labels + "\n";
}

std::string legend(const std::vector<Line>& lines, const std::vector<bool>& lettered, std::size_t width) {
  std::string text;
  std::size_t used = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string key = lettered[i] ? std::string(1, letter_of(i)) : lines[i].faint ? "⠢⠔" : "⠤⠤";
    const std::string item = "  " + key + " " + shorten(displayable(lines[i].name), width - 5);
    if (used > 0 && used + columns(item) > width) {
      text += '\n';
      used = 0;
    }
    text += item;
    used += columns(item);
  }
  return text.empty() ? text : text + "\n";
}

std::string centred(std::string_view text, std::size_t left, std::size_t width) {
  const std::string shown = shorten(displayable(text), width);
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

  const auto strong = std::count_if(plot.lines.begin(), plot.lines.end(), [](const Line& line) { return !line.faint; });
  std::vector<Rows> rows;
  std::vector<bool> lettered;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const bool faint = plot.lines[i].faint;
    rows.push_back(faint ? draw_faint(canvas, view.lines[i]) : draw(canvas, view.lines[i]));
    lettered.push_back(!faint && (strong > 1 || view.lines[i].size() == 1));
  }
  put_letters(canvas, rows, lettered);

  const auto canvas_width = static_cast<std::size_t>(canvas.width());
  std::string text;
  if (!plot.title.empty()) text += centred(plot.title, gutter + 1, canvas_width);
  if (!plot.y_label.empty()) text += shorten(displayable(plot.y_label), static_cast<std::size_t>(width)) + "\n";
  for (int row = 0; row < height; ++row) {
    const std::string label = label_at(view.y, row, height);
    const std::size_t space = gutter - (label.empty() ? 0 : label.size() + 1);
    std::string line = std::string(space, ' ') + (label.empty() ? "│" : label + " ┤");
    line += view.empty() && row == height / 2 ? centred("no points", 0, canvas_width) : canvas.row(row) + "\n";
    text += line;
  }
  text += bottom_rows(view.x, canvas.width(), gutter);
  if (!plot.x_label.empty()) text += centred(plot.x_label, gutter + 1, canvas_width);
  return text + legend(plot.lines, lettered, static_cast<std::size_t>(width));
}

}  // namespace rotary::cli
