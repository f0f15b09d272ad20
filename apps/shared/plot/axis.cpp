#include "axis.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "apps/shared/text.h"

namespace rotary::cli {

namespace {

constexpr double largest = 1e300;    // larger values are left out, like infinity
constexpr double smallest = 1e-290;  // smaller ones count as 0, so that every step is a normal number
constexpr double same = 1e-9;        // a smaller relative spread counts as none

bool can_show(double value, bool log) { return std::abs(value) <= largest && (!log || value >= smallest); }

// mantissa * 10^exponent.
struct Decimal {
  std::int64_t mantissa = 0;
  int exponent = 0;
};

double value_of(const Decimal& decimal) {
  const std::string text = std::to_string(decimal.mantissa) + "e" + std::to_string(decimal.exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string plain_text(const Decimal& decimal) {
  std::string text = std::to_string(std::abs(decimal.mantissa));
  if (decimal.exponent >= 0) {
    if (decimal.mantissa != 0) text.append(static_cast<std::size_t>(decimal.exponent), '0');
  } else {
    const auto decimals = static_cast<std::size_t>(-decimal.exponent);
    if (text.size() <= decimals) text.insert(0, decimals + 1 - text.size(), '0');
    text.insert(text.size() - decimals, ".");
  }
  return (decimal.mantissa < 0 ? "-" : "") + text;
}

// "1.5e6"
std::string scientific_text(const Decimal& decimal) {
  if (decimal.mantissa == 0) return "0";
  std::string text = std::to_string(std::abs(decimal.mantissa));
  const int exponent = decimal.exponent + static_cast<int>(text.size()) - 1;
  while (text.size() > 1 && text.back() == '0') text.pop_back();
  if (text.size() > 1) text.insert(1, ".");
  return (decimal.mantissa < 0 ? "-" : "") + text + "e" + std::to_string(exponent);
}

// Whether to write numbers of that size without an exponent.
bool reads_plainly(double size, int exponent) { return size < 1e6 && (size >= 0.1 || exponent >= -5); }

int floor_log10(double positive) {
  int exponent = static_cast<int>(std::floor(std::log10(positive)));
  while (value_of({1, exponent + 1}) <= positive) ++exponent;  // log10 may be off by one ulp at powers of ten
  while (value_of({1, exponent}) > positive) --exponent;
  return exponent;
}

// The smallest of 1, 2, 5 times a power of ten that is not below step.
Decimal nice_step(double step) {
  const int exponent = floor_log10(step);
  for (const std::int64_t mantissa : {1, 2, 5}) {
    const Decimal nice{mantissa, exponent};
    if (value_of(nice) >= step * (1 - same)) return nice;
  }
  return {1, exponent + 1};
}

void add_tick(Axis& axis, const Decimal& decimal, bool plainly) {
  const double value = value_of(decimal);
  if (value < axis.low || value > axis.high) return;
  axis.ticks.push_back({value, plainly ? plain_text(decimal) : scientific_text(decimal)});
}

void add_linear_ticks(Axis& axis, int max_ticks) {
  const Decimal step = nice_step((axis.high - axis.low) / max_ticks);
  const double size = value_of(step);
  const bool plainly = reads_plainly(std::max(std::abs(axis.low), std::abs(axis.high)), step.exponent);
  const auto first = static_cast<std::int64_t>(std::floor(axis.low / size));
  const auto last = static_cast<std::int64_t>(std::ceil(axis.high / size));
  for (std::int64_t k = first; k <= last; ++k) add_tick(axis, {k * step.mantissa, step.exponent}, plainly);
}

// 1, 2 and 5 of every decade; or every decade, or every n-th; or, within one decade, as on a linear axis.
void add_log_ticks(Axis& axis, int max_ticks) {
  constexpr std::array<std::int64_t, 3> mantissas = {1, 2, 5};
  const int first = floor_log10(axis.low);
  const int last = floor_log10(axis.high);
  const int decades = last - first + 1;
  const bool detailed = 3 * decades <= 2 * max_ticks;
  const int stride = detailed ? 1 : (decades + max_ticks - 1) / max_ticks;
  const int start = first - (first % stride + stride) % stride;  // a multiple of stride
  for (int exponent = start; exponent <= last; exponent += stride) {
    for (const std::int64_t mantissa : mantissas) {
      const bool plainly = exponent >= -4 && exponent < 6;
      if (mantissa == 1 || detailed) add_tick(axis, {mantissa, exponent}, plainly);
    }
  }
  if (axis.ticks.size() >= 3) return;
  axis.ticks.clear();
  add_linear_ticks(axis, max_ticks);
}

void widen_linear(Axis& axis, Ends ends) {
  const double size = std::max(std::abs(axis.low), std::abs(axis.high));
  const double spread = axis.high - axis.low;
  double pad = ends == Ends::padded ? 0.04 * spread : 0;
  if (size < smallest || spread <= same * size) {
    pad = size < smallest ? 1 : 0.1 * size;
  } else if (ends == Ends::tight && axis.low > 0 && axis.low <= 0.25 * spread) {
    axis.low = 0;
  }
  axis.low -= pad;
  axis.high += pad;
}

void widen_log(Axis& axis, Ends ends) {
  const double decades = std::log10(axis.high) - std::log10(axis.low);
  double pad = ends == Ends::padded ? 0.04 * decades : 0;
  if (decades <= same) pad = 0.5;
  axis.low = std::max(axis.low * std::pow(10.0, -pad), 0.1 * smallest);  // keeps both ends normal numbers
  axis.high = std::min(axis.high * std::pow(10.0, pad), 10 * largest);
}

// At the powers of two among the values, or every second, third ... of them; fewer than two leave the axis as it is.
void set_length_ticks(Axis& axis, std::vector<double> values, int max_ticks) {
  std::erase_if(values, [](double value) {
    int exponent = 0;
    return value < 1 || value > 0x1p50 || std::frexp(value, &exponent) != 0.5;
  });
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() < 2) return;
  axis.ticks.clear();
  const std::size_t most = static_cast<std::size_t>(max_ticks), stride = (values.size() + most - 1) / most;
  for (std::size_t i = 0; i < values.size(); i += stride) axis.ticks.push_back({values[i], detail::spelled(values[i])});
}

// The smallest and the largest of some numbers.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Where a run of lost places begins, between the heights of its neighbours.
std::vector<std::pair<double, double>> crosses_of(const Line& line) {
  std::vector<std::pair<double, double>> crosses;
  const auto& points = line.points;
  std::size_t run = points.size() + 1;  // the index of the point behind the last run
  for (const double x : line.lost) {
    const auto is_before = [](const std::pair<double, double>& point, double place) { return point.first < place; };
    const auto behind = std::lower_bound(points.begin(), points.end(), x, is_before);
    const auto index = static_cast<std::size_t>(behind - points.begin());
    if (points.empty() || index == run) continue;
    run = index;
    crosses.emplace_back(x, index == 0 ? points.front().second : points[index - 1].second);
  }
  return crosses;
}

}  // namespace

double Axis::at(double value) const noexcept {
  if (log) return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
  return (value - low) / (high - low);
}

Axis make_axis(double low, double high, bool log, Ends ends, int max_ticks) {
  Axis axis{log, low, high, {}};
  if (low > high) {
    axis.low = log ? 1 : 0;
    axis.high = log ? 10 : 1;
  } else if (log) {
    widen_log(axis, ends);
  } else {
    widen_linear(axis, ends);
  }
  if (log) {
    add_log_ticks(axis, max_ticks);
  } else {
    add_linear_ticks(axis, max_ticks);
  }
  return axis;
}

bool PlotView::empty() const noexcept {
  return std::all_of(lines.begin(), lines.end(), [](const auto& points) { return points.empty(); });
}

PlotView view_of(const Plot& plot, int max_x_ticks, int max_y_ticks) {
  const auto is_seen = [&plot](double x, double y) { return can_show(x, plot.log_x) && can_show(y, plot.log_y); };
  const auto band_is_seen = [&](const std::array<double, 3>& point) {
    return is_seen(point[0], point[1]) && is_seen(point[0], point[2]);
  };
  Range x, y;
  std::vector<double> lengths;
  for (const Line& line : plot.lines) {
    for (const auto& [across, up] : line.points) {
      if (!is_seen(across, up)) continue;
      x.add(across);
      y.add(up);
      if (!line.guide) lengths.push_back(across);
    }
    for (const double across : line.lost)
      if (can_show(across, plot.log_x)) x.add(across);
  }
  for (const Band& band : plot.bands) {
    for (const std::array<double, 3>& point : band.points) {
      if (!band_is_seen(point)) continue;
      x.add(point[0]);
      y.add(point[1]);
      y.add(point[2]);
    }
  }
  for (const double value : plot.y_holds) y.add(value);
  PlotView view;
  const auto has_dots = [](const Line& line) { return line.dots; };
  const bool dotted = std::any_of(plot.lines.begin(), plot.lines.end(), has_dots);
  view.x = make_axis(x.low, x.high, plot.log_x, dotted ? Ends::padded : Ends::tight, max_x_ticks);
  if (plot.log_x && plot.x_is_length) set_length_ticks(view.x, std::move(lengths), max_x_ticks);
  if (!plot.x_ticks.empty()) view.x.ticks.clear();
  for (const double value : plot.x_ticks)
    if (value >= view.x.low && value <= view.x.high) view.x.ticks.push_back({value, detail::spelled(value)});
  view.y = make_axis(y.low, y.high, plot.log_y, Ends::padded, max_y_ticks);
  for (const Line& line : plot.lines) {
    std::vector<PlotPoint>& points = view.lines.emplace_back();
    for (const auto& [across, up] : line.points) {
      if (is_seen(across, up)) points.push_back({view.x.at(across), view.y.at(up)});
    }
    std::vector<PlotPoint>& crosses = view.crosses.emplace_back();
    for (const auto& [across, up] : crosses_of(line))
      if (is_seen(across, up)) crosses.push_back({view.x.at(across), view.y.at(up)});
  }
  for (const Band& band : plot.bands) {
    std::vector<BandPoint>& points = view.bands.emplace_back();
    for (const std::array<double, 3>& point : band.points) {
      if (band_is_seen(point)) points.push_back({view.x.at(point[0]), view.y.at(point[1]), view.y.at(point[2])});
    }
  }
  return view;
}

std::vector<std::string> lost_texts(const Plot& plot) {
  const std::string place = plot.x_label.empty() ? "place" : plot.x_label;
  std::vector<std::string> texts;
  for (const Line& line : plot.lines) {
    if (line.lost.empty()) continue;
    const bool none = line.points.empty();
    const auto at_end =
        none ? line.lost.begin() : std::upper_bound(line.lost.begin(), line.lost.end(), line.points.back().first);
    const auto between = static_cast<std::size_t>(at_end - line.lost.begin());
    std::string text = line.name;
    if (between > 0) text += " at " + counted(between, place.c_str());
    if (at_end != line.lost.end()) {
      text += between > 0 ? " and" : "";
      text += none ? " everywhere" : " from " + place + " " + detail::spelled(*at_end) + " on";
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace rotary::cli
