#include "axis.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "apps/shared/text.h"

namespace rotary::cli {

namespace {

constexpr double largest = 1e300;    // larger values are left out, like infinity
constexpr double smallest = 1e-290;  // smaller ones count as 0, so that every step is a normal number
constexpr double same = 1e-9;        // a smaller relative spread counts as none

bool can_show(double value, bool log) { return std::abs(value) <= largest && (!log || value >= smallest); }

// ---- ticks: at 1, 2 or 5 times a power of ten ----

// mantissa * 10^exponent, rounded once.
double decimal(std::int64_t mantissa, int exponent) {
  const std::string text = std::to_string(mantissa) + "e" + std::to_string(exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The digits and the exponent: "2.5" and -6 of 2.5e-6.
std::pair<std::string, int> scientific_parts(double value) {
  const std::string text = detail::number_text(value, std::chars_format::scientific);
  const std::size_t end = text.find('e');
  return {text.substr(0, end), std::stoi(text.substr(end + 1))};
}

int floor_log10(double positive) { return scientific_parts(positive).second; }

// With that many decimals, or in the form 2.5e6 where they are not given.
void add_tick(Axis& axis, double value, std::optional<int> decimals) {
  const double at = axis.at(value);
  if (at < 0 || at > 1) return;
  const auto [digits, exponent] = scientific_parts(value);
  axis.ticks.push_back({value, decimals     ? detail::fixed(value, *decimals)
                               : value == 0 ? "0"
                                            : digits + "e" + std::to_string(exponent)});
}

// Between the values low and high of a linear axis, or of a part of a logarithmic one.
void add_linear_ticks(Axis& axis, double low, double high, int max_ticks) {
  const double least = (high - low) / max_ticks * (1 - same);
  int exponent = floor_log10(least);
  std::int64_t mantissa = 1;
  if (decimal(mantissa, exponent) < least) mantissa = 2;
  if (decimal(mantissa, exponent) < least) mantissa = 5;
  if (decimal(mantissa, exponent) < least) mantissa = 1, ++exponent;
  const double size = std::max(std::abs(low), std::abs(high));
  std::optional<int> decimals;
  if (size < 1e6 && (size >= 0.1 || exponent >= -5)) decimals = std::max(0, -exponent);
  const double step = decimal(mantissa, exponent);
  const auto last = static_cast<std::int64_t>(std::ceil(high / step));
  for (auto k = static_cast<std::int64_t>(std::floor(low / step)); k <= last; ++k)
    add_tick(axis, decimal(k * mantissa, exponent), decimals);
}

// 1, 2 and 5 of every decade; or every decade, or every n-th; or, within one decade, as on a linear axis.
void add_log_ticks(Axis& axis, int max_ticks) {
  const int first = static_cast<int>(std::floor(axis.low)), last = static_cast<int>(std::floor(axis.high));
  const int decades = last - first + 1;
  const bool detailed = 3 * decades <= 2 * max_ticks;
  const int stride = detailed ? 1 : (decades + max_ticks - 1) / max_ticks;
  const int start = first - (first % stride + stride) % stride;  // a multiple of stride
  for (int exponent = start; exponent <= last; exponent += stride) {
    std::optional<int> decimals;
    if (exponent >= -4 && exponent < 6) decimals = std::max(0, -exponent);
    for (const std::int64_t mantissa : {1, 2, 5})
      if (mantissa == 1 || detailed) add_tick(axis, decimal(mantissa, exponent), decimals);
  }
  if (axis.ticks.size() >= 3) return;
  axis.ticks.clear();
  add_linear_ticks(axis, std::pow(10, axis.low), std::pow(10, axis.high), max_ticks);
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

// ---- ranges ----

// The smallest and the largest of some numbers.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// padded: 4 % more on both sides; else from the first to the last value, or from 0 where that is near.
Axis make_axis(const Range& range, bool log, bool padded, int max_ticks) {
  const bool none = range.low > range.high;
  Axis axis{log, none ? 0 : range.low, none ? 1 : range.high, {}};
  if (log && !none) axis.low = std::log10(range.low), axis.high = std::log10(range.high);
  const double size = std::max(std::abs(axis.low), std::abs(axis.high)), spread = axis.high - axis.low;
  double pad = padded ? 0.04 * spread : 0;
  if (log) {
    if (spread <= same) pad = 0.5;
  } else if (size < smallest || spread <= same * size) {
    pad = size < smallest ? 1 : 0.1 * size;
  } else if (!padded && axis.low > 0 && axis.low <= 0.25 * spread) {
    axis.low = 0;
  }
  axis.low -= pad;
  axis.high += pad;
  if (log) {
    add_log_ticks(axis, max_ticks);
  } else {
    add_linear_ticks(axis, axis.low, axis.high, max_ticks);
  }
  return axis;
}

}  // namespace

double Axis::at(double value) const noexcept { return ((log ? std::log10(value) : value) - low) / (high - low); }

PlotPoints PlotAxes::shown(const Points& points) const {
  PlotPoints fractions;
  for (const auto& [across, up] : points)
    if (can_show(across, x.log) && can_show(up, y.log)) fractions.push_back({x.at(across), y.at(up)});
  return fractions;
}

PlotAxes axes_of(const Plot& plot, int max_x_ticks, int max_y_ticks) {
  Range x, y;
  std::vector<double> lengths;
  const auto add = [&](double across, std::initializer_list<double> heights) {
    const auto is_seen = [&](double height) { return can_show(height, plot.log_y); };
    if (!can_show(across, plot.log_x) || !std::all_of(heights.begin(), heights.end(), is_seen)) return;
    x.add(across);
    for (const double height : heights) y.add(height);
  };
  for (const Line& line : plot.lines) {
    for (const auto& [across, up] : line.points) {
      add(across, {up});
      if (!line.guide) lengths.push_back(across);
    }
    for (const double across : line.lost) add(across, {});
  }
  for (const Band& band : plot.bands)
    for (const auto& [across, low, high] : band.points) add(across, {low, high});
  for (const double value : plot.y_holds) y.add(value);
  const bool dotted = std::any_of(plot.lines.begin(), plot.lines.end(), [](const Line& line) { return line.dots; });
  PlotAxes axes{make_axis(x, plot.log_x, dotted, max_x_ticks), make_axis(y, plot.log_y, true, max_y_ticks)};
  if (plot.log_x && plot.x_is_length) set_length_ticks(axes.x, std::move(lengths), max_x_ticks);
  if (!plot.x_ticks.empty()) axes.x.ticks.clear();
  for (const double value : plot.x_ticks) add_tick(axes.x, value, 0);
  return axes;
}

Points crosses_of(const Line& line) {
  Points crosses;
  const Points& points = line.points;
  std::size_t run = points.size() + 1;  // the index of the point behind the last run
  for (const double x : line.lost) {
    const auto is_before = [](const auto& point, double place) { return point.first < place; };
    const auto behind = std::lower_bound(points.begin(), points.end(), x, is_before);
    const auto index = static_cast<std::size_t>(behind - points.begin());
    if (points.empty() || index == run) continue;
    run = index;
    crosses.emplace_back(x, points[index == 0 ? 0 : index - 1].second);
  }
  return crosses;
}

std::pair<PlotPoints, PlotPoints> edges_of(const Band& band, const PlotAxes& axes) {
  std::pair<PlotPoints, PlotPoints> edges;
  for (const auto& [x, low, high] : band.points) {
    const PlotPoints both = axes.shown({{x, low}, {x, high}});
    if (both.size() < 2) continue;
    edges.first.push_back(both[0]);
    edges.second.push_back(both[1]);
  }
  return edges;
}

std::vector<std::size_t> even_ticks(std::size_t count, std::size_t most) {
  std::size_t stride = 1;
  while ((count + stride - 1) / stride > most) stride *= 2;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < count; i += stride) chosen.push_back(i);
  if (count > 0 && 3 * (count - 1 - chosen.back()) >= 2 * stride) chosen.push_back(count - 1);
  return chosen;
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
