// The axes of a figure: their ranges, their ticks, and where points are drawn; grids sampled to what can be seen.
#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/shared/text.h"
#include "figure.h"

namespace rotary::cli {

namespace {

constexpr double same = 1e-9;        // a smaller relative spread counts as none
constexpr double smallest = 1e-290;  // smaller sizes count as 0, so that every step is a normal number

bool can_show(double value, bool log) { return std::abs(value) <= 1e300 && (!log || value >= smallest); }

void add_tick(Axis& axis, double value) {
  if (const double at = axis.at(value); at >= 0 && at <= 1) axis.ticks.push_back({value, significant(value, 12)});
}

// At multiples of 1, 2 or 5 times a power of ten, between two values of the axis.
void add_linear_ticks(Axis& axis, double low, double high, std::size_t most) {
  const double least = (high - low) / static_cast<double>(most);
  double step = std::pow(10, std::floor(std::log10(least)));
  for (const double multiple : {2.0, 2.5, 2.0})  // 1, 2, 5, 10
    if (step < least * (1 - same)) step *= multiple;
  for (double k = std::ceil(low / step); k <= std::floor(high / step); ++k) add_tick(axis, k * step + 0.0);
}

// At powers of the base, or every second, third ... of them; of 10 at their double and fivefold too where there is
// room; within one power as on a linear axis.
void add_log_ticks(Axis& axis, double base, std::size_t most) {
  const double unit = std::log10(base);
  const int first = static_cast<int>(std::ceil(axis.low / unit - same));
  const int last = static_cast<int>(std::floor(axis.high / unit + same));
  if (last <= first) return add_linear_ticks(axis, std::pow(10, axis.low), std::pow(10, axis.high), most);
  const int count = last - first + 1, room = static_cast<int>(most), stride = (count + room - 1) / room;
  const bool detailed = base == 10 && 3 * count <= room;
  const int start = static_cast<int>(std::ceil(static_cast<double>(first) / stride)) * stride;
  for (int exponent = detailed ? start - 1 : start; exponent <= last; exponent += stride)
    for (const double multiple : {1, 2, 5})
      if (multiple == 1 || detailed) add_tick(axis, multiple * std::pow(base, exponent));
}

// From the first value to the last, or from 0 where that is near; padded: with 4 % more on both sides.
Axis axis_of_values(const std::vector<double>& values, bool log, bool padded) {
  Axis axis{.log = log};
  if (!values.empty()) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    axis.low = log ? std::log10(*low) : *low;
    axis.high = log ? std::log10(*high) : *high;
  }
  const double size = std::max(std::abs(axis.low), std::abs(axis.high)), spread = axis.high - axis.low;
  double pad = padded ? 0.04 * spread : 0;
  if (spread <= same * std::max(size, smallest)) pad = log ? 0.5 : size < smallest ? 1 : 0.1 * size;
  if (!padded && !log && axis.low > 0 && axis.low <= 0.25 * spread) axis.low = 0;
  axis.low -= pad;
  axis.high += pad;
  return axis;
}

Axis axis_of_cells(const std::vector<std::int64_t>& values, std::size_t max_ticks) {
  Axis axis{.low = -0.5, .high = static_cast<double>(values.size()) - 0.5};
  std::size_t stride = 1;
  while (values.size() > max_ticks * stride) stride *= 2;
  for (std::size_t i = 0; i < values.size(); i += stride)
    axis.ticks.push_back({static_cast<double>(i), std::to_string(values[i])});
  return axis;
}

// Between neighbours, the least that is not 0; 1 where there is none.
double least_step(const std::vector<std::int64_t>& values) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double step = std::abs(static_cast<double>(values[i]) - static_cast<double>(values[i - 1]));
    if (step > 0) least = std::min(least, step);
  }
  return std::isinf(least) ? 1 : least;
}

}  // namespace

void add_to_note(std::string& note, const std::string& text) {
  if (!text.empty()) note += (note.empty() ? "" : "; ") + text;
}

double Axis::at(double value) const noexcept {
  return from + ((log ? std::log10(value) : value) - low) / (high - low) * (to - from);
}

Points Axes::shown(const Points& points) const {
  Points places;
  for (const auto& [across, up] : points)
    if (can_show(across, x.log) && can_show(up, y.log)) places.emplace_back(x.at(across), y.at(up));
  return places;
}

Points outline_of(const Line& line) {
  Points outline = line.points;
  for (std::size_t i = line.lower.size(); i-- > 0;) outline.emplace_back(line.points[i].first, line.lower[i]);
  return outline;
}

Axes axes_of(const Figure& figure, std::size_t max_x_ticks, std::size_t max_y_ticks) {
  Axes axes;
  if (!figure.grid.x.empty()) {
    axes = {axis_of_cells(figure.grid.x, max_x_ticks), axis_of_cells(figure.grid.y, max_y_ticks)};
    std::swap(axes.y.low, axes.y.high);
    return axes;
  }
  std::vector<double> x, y;
  for (const Line& line : figure.lines) {
    for (const auto& [across, up] : outline_of(line)) {
      if (!can_show(across, figure.log_x) || !can_show(up, figure.log_y)) continue;
      x.push_back(across);
      y.push_back(up);
    }
    x.insert(x.end(), line.lost.begin(), line.lost.end());
  }
  axes = {axis_of_values(x, figure.log_x, false), axis_of_values(y, figure.log_y, true)};
  const auto add_ticks = [](Axis& axis, double base, std::size_t most) {
    axis.log ? add_log_ticks(axis, base, most) : add_linear_ticks(axis, axis.low, axis.high, most);
  };
  add_ticks(axes.x, 2, max_x_ticks);
  add_ticks(axes.y, 10, max_y_ticks);
  return axes;
}

Figure sampled(Figure figure, std::size_t columns, std::size_t rows) {
  constexpr double columns_per_turn = 4;
  const Grid whole = std::move(figure.grid);
  const std::size_t wide = std::max<std::size_t>(1, (whole.x.size() + columns - 1) / columns);
  const std::size_t high = std::max<std::size_t>(1, (whole.y.size() + rows - 1) / rows);
  Grid& grid = figure.grid = {whole.value, whole.limit, {}, {}, {}, {}};
  const double step = wide == 1 ? 0 : static_cast<double>(wide) * least_step(whole.x);
  std::size_t empty = 0;
  for (std::size_t column = 0; column < whole.x.size(); column += wide) grid.x.push_back(whole.x[column]);
  for (std::size_t row = 0; row < whole.y.size(); row += high) {
    grid.y.push_back(whole.y[row]);
    const bool too_fast = !whole.turns.empty() && whole.turns[row] < columns_per_turn * step;
    empty += too_fast ? 1 : 0;
    for (std::size_t column = 0; column < whole.x.size(); column += wide)
      grid.values.push_back(too_fast ? std::numeric_limits<double>::quiet_NaN() : whole.at(row, column));
  }
  if (wide > 1) add_to_note(figure.note, "1 of " + std::to_string(wide) + " columns is drawn");
  if (high > 1) add_to_note(figure.note, "1 of " + std::to_string(high) + " rows is drawn");
  if (empty > 0)
    add_to_note(figure.note, "rows too fast for this step are empty (" + std::to_string(empty) + " of " +
                                 std::to_string(grid.y.size()) + ")");
  return figure;
}

std::string whole_note(const Figure& figure) {
  std::string lost;
  for (const Line& line : figure.lines) {
    if (line.lost.empty()) continue;
    const double last = line.points.empty() ? -1 : line.points.back().first;
    const auto at_end = std::upper_bound(line.lost.begin(), line.lost.end(), last);
    const auto between = static_cast<std::size_t>(at_end - line.lost.begin());
    lost += (lost.empty() ? "NaN or infinite: " : ", ") + line.name;
    if (between > 0) lost += " at " + counted(between, figure.x_label.c_str());
    if (at_end == line.lost.end()) continue;
    lost += between > 0 ? " and" : "";
    lost += line.points.empty() ? " everywhere" : " from " + figure.x_label + " " + significant(*at_end, 12) + " on";
  }
  std::string note = figure.note;
  const auto is_empty = [](const Line& line) { return line.points.empty(); };
  if (figure.grid.x.empty() && std::all_of(figure.lines.begin(), figure.lines.end(), is_empty))
    add_to_note(note, "no points");
  if (!lost.empty()) add_to_note(note, lost);
  return note;
}

}  // namespace rotary::cli
