#include "axis.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "values/number_text.h"

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

std::string label_of(double value) {
  const bool whole = std::nearbyint(value) == value && std::abs(value) < 1e15;
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : detail::significant(value, 4);
}

// Of an axis with the ticks of its surroundings.
void add_own_tick(Axis& axis, double value, Ends ends) {
  constexpr double room = 0.09;  // parts of the axis that a label takes
  const double at = axis.at(value);
  if (ends == Ends::tight) axis.ticks.clear();
  const auto is_same = [&](const Tick& tick) { return std::abs(axis.at(tick.value) - at) < same; };
  if (std::any_of(axis.ticks.begin(), axis.ticks.end(), is_same)) return;
  std::erase_if(axis.ticks, [&](const Tick& tick) { return std::abs(axis.at(tick.value) - at) < room; });
  const auto behind =
      std::find_if(axis.ticks.begin(), axis.ticks.end(), [&](const Tick& tick) { return tick.value > value; });
  axis.ticks.insert(behind, {value, label_of(value)});
}

// Rising, each once.
void sort_once(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
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
  if (low == high && can_show(low, log)) add_own_tick(axis, low, ends);
  return axis;
}

void set_length_ticks(Axis& axis, std::vector<double> values, int max_ticks) {
  const auto is_no_power = [](double value) {
    int exponent = 0;
    return value < 1 || value > 0x1p50 || std::frexp(value, &exponent) != 0.5;
  };
  values.erase(std::remove_if(values.begin(), values.end(), is_no_power), values.end());
  sort_once(values);
  if (values.size() < 2) return;
  axis.ticks.clear();
  const std::size_t most = static_cast<std::size_t>(max_ticks);
  const std::size_t stride = (values.size() + most - 1) / most;
  for (std::size_t i = 0; i < values.size(); i += stride)
    axis.ticks.push_back({values[i], std::to_string(static_cast<std::int64_t>(values[i]))});
}

void set_few_ticks(Axis& axis, std::vector<double> values) {
  constexpr std::size_t few = 6;
  constexpr double apart = 0.09;
  sort_once(values);
  if (values.size() < 2 || values.size() > few) return;
  for (std::size_t i = 1; i < values.size(); ++i)
    if (axis.at(values[i]) - axis.at(values[i - 1]) < apart) return;
  axis.ticks.clear();
  for (const double value : values) axis.ticks.push_back({value, label_of(value)});
}

void set_ticks(Axis& axis, const std::vector<double>& values) {
  axis.ticks.clear();
  for (const double value : values) {
    if (value >= axis.low && value <= axis.high) axis.ticks.push_back({value, detail::spelled(value)});
  }
}

bool PlotView::empty() const noexcept {
  return std::all_of(lines.begin(), lines.end(), [](const auto& points) { return points.empty(); });
}

namespace {

// The smallest and the largest of some numbers.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

}  // namespace

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
  for (const double value : plot.x_holds) x.add(value);
  for (const double value : plot.y_holds) y.add(value);
  PlotView view;
  const auto has_names = [](const Line& line) { return !line.names.empty(); };
  const bool named_dots = std::any_of(plot.lines.begin(), plot.lines.end(), has_names);
  view.x = make_axis(x.low, x.high, plot.log_x, named_dots ? Ends::padded : Ends::tight, max_x_ticks);
  if (plot.log_x && plot.x_is_length) {
    set_length_ticks(view.x, lengths, max_x_ticks);
    set_few_ticks(view.x, std::move(lengths));
  }
  if (!plot.x_ticks.empty()) set_ticks(view.x, plot.x_ticks);
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

}  // namespace rotary::cli
