// Frequencies by the names of papers and libraries: rotary/makers.h has the source of each formula.
#include "runtime/arithmetic.h"

#include "rotary/makers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "runtime/float_state.h"
#include "values/fail.h"

namespace rotary {

using namespace detail;
namespace {

void need(bool holds, Code code, const char* operation, const char* rule, double got) {
  if (!holds) fail(code, operation, rule, " but got ", got);
}

void need_pairs(const char* operation, int pairs) {
  need(pairs >= 1 && pairs <= 1 << 19, Code::SHAPE, operation, "pairs must be from 1 to 2^19", pairs);
}

void need_positive(const char* operation, const char* rule, double x) {
  need(x > 0 && std::isfinite(x), Code::VALUE, operation, rule, x);
}

// Checks that a maker's values are finite: its sizes and numbers, and a caller's frequencies, can give NaN or infinity.
std::vector<double> finite(const char* operation, std::vector<double> values) {
  for (const double x : values) need(std::isfinite(x), Code::VALUE, operation, "every frequency must be finite", x);
  return values;
}

// x with erf(x) = y, by Newton's steps; y in (-1, 1).
double inverse_erf(double y) {
  double x = 0;
  for (int step = 0; step < 100; ++step) {
    const double slope = 2 / std::sqrt(std::numbers::pi) * std::exp(-x * x), next = x - (std::erf(x) - y) / slope;
    if (next == x || !std::isfinite(next)) break;
    x = next;
  }
  return x;
}

}  // namespace

std::vector<double> mixed_directions(int head_dim, std::span<const double> angles, double base) {
  const FloatState to_nearest;
  need(head_dim > 0 && head_dim % 4 == 0 && head_dim <= 1 << 20, Code::SHAPE, "mixed_directions",
       "head_dim must be a multiple of 4", head_dim);
  need_positive("mixed_directions", "the base must be finite and above 0", base);
  std::vector<double> directions;
  for (const double angle : angles) {
    for (const auto along : {+[](double x) { return std::cos(x); }, +[](double x) { return std::sin(x); }}) {
      for (const double turned : {angle, angle + std::numbers::pi / 2}) {
        for (int i = 0; i < head_dim; i += 4)
          directions.push_back(std::pow(base, -double(i) / head_dim) * along(turned));
      }
    }
  }
  return finite("mixed_directions", directions);
}

std::vector<double> random_angles(int heads, std::uint64_t seed) {
  need(heads >= 1 && heads <= 1 << 20, Code::SHAPE, "random_angles", "heads must be from 1 to 2^20", heads);
  std::vector<double> angles;
  for (int head = 0; head < heads; ++head) {  // splitmix64: prng.di.unimi.it/splitmix64.c
    std::uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    angles.push_back(static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53 * (2 * std::numbers::pi));
  }
  return angles;
}

std::vector<double> golden_directions(int head_dim, int heads, int axes, double least, double most, double still) {
  const FloatState to_nearest;
  constexpr const char* operation = "golden_directions";
  need(head_dim >= 2 && head_dim % 2 == 0, Code::SHAPE, operation, "head_dim must be even and above 0", head_dim);
  need(heads >= 1 && heads <= (1 << 24) / head_dim, Code::SHAPE, operation,
       "heads must be at least 1, and all have at most 2^24 elements", heads);
  need(axes >= 1 && axes <= 16, Code::SHAPE, operation, "axes must be from 1 to 16", axes);
  need(still >= 0 && still < 1, Code::VALUE, operation, "the share of still pairs must be in [0, 1)", still);
  const int pairs = head_dim / 2, first = static_cast<int>(std::nearbyint(still * pairs));
  const std::vector<double> speeds = geometric_frequencies(std::max(1, pairs - first), least, most);
  double root = 2;  // the root of x^(axes + 1) = x + 1
  for (int step = 0; step < 10; ++step) root = std::pow(1 + root, 1.0 / (axes + 1));
  const auto n = static_cast<std::size_t>(pairs), d = static_cast<std::size_t>(axes);
  std::vector<double> directions(static_cast<std::size_t>(heads) * d * n), one(d);
  for (std::size_t k = 0; k < static_cast<std::size_t>(heads) * n; ++k) {
    const std::size_t head = k / n, pair = k % n;
    double norm = 0;
    for (std::size_t a = 0; a < d; ++a) {
      const double alpha = std::pow(1 / root, static_cast<double>(a + 1));
      one[a] = inverse_erf(2 * std::fmod(static_cast<double>(k + 1) * alpha, 1.0) - 1);
      norm += one[a] * one[a];
    }
    const bool turns = pair >= static_cast<std::size_t>(first);
    const double speed = turns ? speeds[pair - static_cast<std::size_t>(first)] : 0;
    for (std::size_t a = 0; a < d; ++a) directions[(head * d + a) * n + pair] = speed * one[a] / std::sqrt(norm);
  }
  return directions;
}

std::vector<double> geometric_frequencies(int pairs, double first, double last) {
  const FloatState to_nearest;
  need_pairs("geometric_frequencies", pairs);
  need_positive("geometric_frequencies", "the first must be finite and above 0", first);
  need_positive("geometric_frequencies", "the last must be finite and above 0", last);
  std::vector<double> speeds;
  for (int i = 0; i < pairs; ++i) speeds.push_back(first * std::pow(last / first, i / std::max(1.0, pairs - 1.0)));
  return finite("geometric_frequencies", speeds);
}

std::vector<double> pixel_frequencies(int pairs, double most) {
  need_pairs("pixel_frequencies", pairs);
  need_positive("pixel_frequencies", "the largest frequency must be finite and above 0", most);
  std::vector<double> speeds;
  for (int i = 0; i < pairs; ++i)
    speeds.push_back(std::numbers::pi * (1 + i * (most / 2 - 1) / std::max(1.0, pairs - 1.0)));
  return finite("pixel_frequencies", speeds);
}

std::vector<double> clipped(std::vector<double> inv_freq, int last, bool hard) {
  need(last >= 1, Code::SHAPE, "clipped", "the number of the last pairs must be above 0", last);
  const std::size_t count = std::min(static_cast<std::size_t>(last), inv_freq.size());
  for (std::size_t i = 0; i < count; ++i) {
    const double u = std::numbers::pi * static_cast<double>(i) / std::max(1.0, static_cast<double>(count) - 1);
    inv_freq[inv_freq.size() - count + i] *= hard ? 0 : i + 1 == count && count > 1 ? 0 : (1 + std::cos(u)) / 2;
  }
  return finite("clipped", inv_freq);
}

double ntk_base(double base, double scale, int width, double strength) {
  need(width >= 4 && width % 2 == 0 && width <= 1 << 20, Code::SHAPE, "ntk_base",
       "the width must be even and above 2", width);
  need(base > 1 && std::isfinite(base), Code::VALUE, "ntk_base", "the base must be finite and above 1", base);
  need_positive("ntk_base", "the scale must be finite and above 0", scale);
  const double grown = base * std::pow(scale, strength * width / (width - 2.0));
  need(std::isfinite(grown), Code::VALUE, "ntk_base", "the base must stay finite", grown);
  return grown;
}

}  // namespace rotary
