#include "motion.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "unwrap.h"

namespace rotary::diagnose {

namespace {

constexpr double farthest = 0x1p22;  // positions are looked for this far around the expected ones
constexpr double unknown = std::numeric_limits<double>::infinity();

std::optional<Phase> phase_of(const Turns& turns, std::int64_t row, int pair) {
  const std::size_t at = turns.at(row, pair);
  const double size = std::abs(turns.turn[at]);
  if (turns.weight[at] == 0 || size == 0) return std::nullopt;
  return Phase{std::arg(turns.turn[at]), turns.sigma[at] / size + turns.unit / 6, 0, slack_of(pair) / float32_slack};
}

// Not where every element is 0.
bool says_something(const Turns& turns, std::int64_t row) {
  for (int pair = 0; pair < turns.block.pairs; ++pair) {
    if (turns.weight[turns.at(row, pair)] > 0) return true;
  }
  return false;
}

// A position is whole unless the data say otherwise.
double whole(double value, double error) {
  const double nearest = std::round(value);
  return std::abs(value - nearest) <= std::max(1e-6 * std::abs(value), 0.01) + 6 * error ? nearest : value;
}

}  // namespace

FoundPositions find_positions(const Turns& turns, const Motion& speeds, int axis, const std::vector<double>& expected) {
  FoundPositions found;
  double shift = 0;  // of the row before: most faults move all rows alike
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    std::vector<Phase> phases;
    for (int pair = 0; pair < turns.block.pairs; ++pair) {
      if (speeds.axis_of(pair) != axis) continue;
      std::optional<Phase> phase = phase_of(turns, row, pair);
      if (!phase) continue;
      phase->factor = speeds.speed[static_cast<std::size_t>(pair)];
      phases.push_back(*phase);
    }
    const double near = expected[static_cast<std::size_t>(row)];
    Unwrapped best = unwrap(phases, near, 0);
    for (const auto& [start, range] : {std::pair{near + shift, 0.0}, {near, 1024.0}, {near, farthest}}) {
      if (best.misfit <= 1) break;
      best = unwrap(phases, start, range);
    }
    shift = best.misfit <= 1 ? best.value - near : 0;
    found.position.push_back(whole(best.value, std::isfinite(best.error) ? best.error : 0));
    found.error.push_back(best.error);
    found.holds = found.holds && best.misfit <= 1;
  }
  return found;
}

FoundSpeeds find_speeds(const Turns& turns, const std::vector<double>& position) {
  FoundSpeeds found;
  std::int64_t reference = 0;  // the row nearest to position 0 of those that say something
  double least = unknown;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    const double away = std::abs(position[static_cast<std::size_t>(row)]);
    if (away >= least || !says_something(turns, row)) continue;
    least = away;
    reference = row;
  }
  const double origin = position[static_cast<std::size_t>(reference)];
  double gap = unknown;
  for (const double p : position) {
    if (p != origin) gap = std::min(gap, std::abs(p - origin));
  }
  for (int pair = 0; pair < turns.block.pairs; ++pair) {
    const std::optional<Phase> start = phase_of(turns, reference, pair);
    std::vector<Phase> phases;
    for (std::int64_t row = 0; start && row < turns.rows(); ++row) {
      std::optional<Phase> phase = phase_of(turns, row, pair);
      if (!phase) continue;
      phase->angle -= start->angle;
      phase->sigma = std::hypot(phase->sigma, start->sigma);
      phase->factor = position[static_cast<std::size_t>(row)] - origin;
      phase->far = std::abs(position[static_cast<std::size_t>(row)]);
      phases.push_back(*phase);
    }
    const Unwrapped speed = unwrap(phases, 0, std::isfinite(gap) ? 3.2 / gap : 0);
    found.speed.push_back(speed.value);
    found.error.push_back(speed.error);
    found.phase.push_back(start ? wrapped(start->angle - speed.value * origin) : 0);
    found.phase_error.push_back(start ? start->sigma + speed.error * std::abs(origin) : unknown);
    found.holds.push_back(speed.misfit <= 1);
  }
  return found;
}

std::vector<FoundSpeeds> find_speeds(const Turns& turns, const std::vector<std::vector<double>>& of_axis) {
  std::vector<FoundSpeeds> found;
  for (const std::vector<double>& position : of_axis) found.push_back(find_speeds(turns, position));
  return found;
}

FoundSpeeds pick(const std::vector<FoundSpeeds>& of_axis, const std::vector<std::uint8_t>& axis) {
  FoundSpeeds picked = of_axis[0];
  for (std::size_t i = 0; i < axis.size() && i < picked.speed.size(); ++i) {
    const FoundSpeeds& own = of_axis[axis[i]];
    picked.speed[i] = own.speed[i];
    picked.error[i] = own.error[i];
    picked.phase[i] = own.phase[i];
    picked.phase_error[i] = own.phase_error[i];
    picked.holds[i] = own.holds[i];
  }
  return picked;
}

double sign_of(const FoundSpeeds& found) {
  double sign = 0;
  for (std::size_t i = 0; i < found.speed.size(); ++i) {
    if (std::abs(found.speed[i]) > 3 * found.error[i]) sign += std::copysign(1.0, found.speed[i]);
  }
  return sign < 0 ? -1 : 1;
}

std::optional<double> shift_of(const FoundSpeeds& found) {
  std::vector<Phase> phases;
  bool zero = true;
  for (std::size_t i = 0; i < found.speed.size(); ++i) {
    const double sigma = found.phase_error[i];
    if (std::abs(found.phase[i]) > 6 * sigma) zero = false;
    if (std::isfinite(sigma))
      phases.push_back({found.phase[i], sigma, found.speed[i], slack_of(static_cast<int>(i)) / float32_slack});
  }
  if (zero) return 0;
  const Unwrapped shift = unwrap(phases, 0, 0x1p20);
  if (shift.misfit > 1 || !std::isfinite(shift.error)) return std::nullopt;
  return std::abs(shift.value - std::round(shift.value)) < 0.02 ? std::round(shift.value) : shift.value;
}

// ---- patterns ----

namespace {

bool same(double a, double b) { return std::abs(a - b) <= 1e-6 + 1e-9 * std::abs(b); }

template <class Expected>
bool all(const std::vector<double>& position, Expected expected) {
  for (std::size_t i = 0; i < position.size(); ++i) {
    if (!same(position[i], expected(i))) return false;
  }
  return true;
}

double to_bits(double value, int bits) {
  if (value == 0) return 0;
  const double scale = std::ldexp(1.0, bits - 1 - std::ilogb(value));
  return std::nearbyint(value * scale) / scale;
}

std::string text(double value) {
  const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
  if (is_whole) return std::to_string(static_cast<std::int64_t>(value));
  std::string digits = std::to_string(value);
  digits.erase(digits.find_last_not_of('0') + 1);
  return digits;
}

std::optional<Pattern> simple_pattern(const std::vector<double>& p, const std::vector<double>& e) {
  const double shift = p[0] - e[0];
  if (all(p, [&](std::size_t i) { return e[i]; })) return Pattern{Change::none, 0, "are those expected"};
  if (all(p, [&](std::size_t i) { return -e[i]; })) return Pattern{Change::negated, 0, "are negated"};
  if (all(p, [&](std::size_t i) { return e[i] + shift; })) {
    const std::string far = text(std::abs(shift));
    return Pattern{
        Change::offset, shift,
        "begin at " + text(p[0]) + " instead of " + text(e[0]) + ", " + far + (shift > 0 ? " too far" : " too early")};
  }
  if (all(p, [&](std::size_t i) { return 2 * e[i]; })) return Pattern{Change::doubled, 2, "are doubled"};
  if (all(p, [&](std::size_t) { return p[0]; })) {
    return Pattern{Change::constant, p[0], "are " + text(p[0]) + " for every token"};
  }
  return std::nullopt;
}

// A constant times the expected positions, within their errors.
std::optional<Pattern> step_pattern(const std::vector<double>& p, const std::vector<double>& e,
                                    const std::vector<double>& error) {
  double pe = 0, ee = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    pe += p[i] * e[i];
    ee += e[i] * e[i];
  }
  if (ee == 0) return std::nullopt;
  double slack = 1e-12;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double sigma =
        std::max(i < error.size() && std::isfinite(error[i]) ? error[i] : 0, 1e-7 * std::abs(p[i]) + 1e-9);
    if (std::abs(p[i] - pe / ee * e[i]) > 6 * sigma + 1e-6 * std::abs(p[i])) return std::nullopt;
    slack += sigma * sigma * e[i] * e[i];
  }
  const double step = pe / ee, step_error = 6 * std::sqrt(slack) / ee;
  if (std::abs(step - 1) <= step_error) return Pattern{Change::none, 0, "are those expected"};
  if (std::abs(step + 1) <= step_error) return Pattern{Change::negated, 0, "are negated"};
  if (std::abs(step - 2) <= step_error) return Pattern{Change::doubled, 2, "are doubled"};
  for (const double tidy : {std::round(step), 1 / std::round(1 / step), std::round(step * 100) / 100}) {
    if (std::isfinite(tidy) && tidy != 0 && std::abs(step - tidy) <= step_error) {
      return Pattern{Change::step, tidy, "are " + text(tidy) + " times those expected"};
    }
  }
  return Pattern{Change::step, step, "are " + text(step) + " times those expected"};
}

// Modulo a power of two, signed or not.
std::optional<Pattern> wrapped_pattern(const std::vector<double>& p, const std::vector<double>& e) {
  for (const int bits : {8, 16}) {
    const double modulus = std::ldexp(1.0, bits);
    const auto as_signed = [&](std::size_t i) { return e[i] - modulus * std::floor((e[i] + modulus / 2) / modulus); };
    const auto as_unsigned = [&](std::size_t i) { return e[i] - modulus * std::floor(e[i] / modulus); };
    if (all(p, as_signed)) return Pattern{Change::wrapped, modulus, "are wrapped at int" + std::to_string(bits)};
    if (all(p, as_unsigned)) return Pattern{Change::wrapped, modulus, "are wrapped at uint" + std::to_string(bits)};
  }
  for (const auto& [bits, type] : {std::pair{8, "bf16"}, {11, "f16"}}) {
    if (all(p, [&, digits = bits](std::size_t i) { return to_bits(e[i], digits); })) {
      return Pattern{Change::rounded, static_cast<double>(bits), std::string("are rounded to ") + type};
    }
  }
  return std::nullopt;
}

std::optional<Pattern> order_pattern(const std::vector<double>& p, const std::vector<double>& e, std::size_t tokens) {
  const auto mirrored = [&](std::size_t i) { return e[i / tokens * tokens + tokens - 1 - i % tokens]; };
  if (all(p, mirrored)) return Pattern{Change::reversed, 0, "are in reverse order"};
  for (std::size_t boundary = 1; boundary < tokens; ++boundary) {
    if (same(p[boundary], p[boundary - 1] + (e[boundary] - e[boundary - 1]))) continue;
    // Segments that each begin again where the first began.
    std::size_t begin = 0;
    const auto restarted = [&](std::size_t i) {
      const std::size_t t = i % tokens;
      if (t == 0) begin = 0;
      if (t > 0 && same(p[i], p[i - t]) && !same(p[i], p[i - 1])) begin = t;
      return p[i - t] + (e[i - t + (t - begin)] - e[i - t]);
    };
    if (all(p, restarted)) {
      return Pattern{Change::restarts, static_cast<double>(boundary),
                     "begin again at " + text(p[0]) + " with token " + std::to_string(boundary)};
    }
    break;
  }
  return std::nullopt;
}

}  // namespace

void fill_unknown(FoundPositions& found, const std::vector<double>& expected, std::int64_t batch) {
  std::vector<double> position, wanted, error;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(found.error[i])) continue;
    position.push_back(found.position[i]);
    wanted.push_back(expected[i]);
    error.push_back(found.error[i]);
  }
  if (position.empty() || position.size() == expected.size()) return;
  const Pattern pattern = pattern_of(position, wanted, 1, error);
  const std::size_t tokens = expected.size() / static_cast<std::size_t>(batch);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isfinite(found.error[i])) continue;
    switch (pattern.kind) {
      case Change::offset:
        found.position[i] = expected[i] + pattern.value;
        break;
      case Change::negated:
        found.position[i] = -expected[i];
        break;
      case Change::doubled:
      case Change::step:
        found.position[i] = pattern.value * expected[i];
        break;
      case Change::constant:
        found.position[i] = pattern.value;
        break;
      case Change::none:
        found.position[i] = expected[i];
        break;
      default:
        if (i % tokens > 0) found.position[i] = found.position[i - 1] + expected[i] - expected[i - 1];
    }
  }
}

Pattern pattern_of(const std::vector<double>& position, const std::vector<double>& expected, std::int64_t batch,
                   const std::vector<double>& error) {
  const std::size_t tokens = position.size() / static_cast<std::size_t>(batch);
  if (const auto found = simple_pattern(position, expected)) return *found;
  if (const auto found = step_pattern(position, expected, error)) return *found;
  if (const auto found = wrapped_pattern(position, expected)) return *found;
  if (const auto found = order_pattern(position, expected, tokens)) return *found;
  for (std::size_t i = tokens; i < position.size(); ++i) {
    if (same(position[i], position[i % tokens])) continue;
    for (std::size_t first = 0; first < position.size(); first += tokens) {
      const std::vector<double> p(position.begin() + static_cast<std::ptrdiff_t>(first),
                                  position.begin() + static_cast<std::ptrdiff_t>(first + tokens));
      const std::vector<double> e(expected.begin() + static_cast<std::ptrdiff_t>(first),
                                  expected.begin() + static_cast<std::ptrdiff_t>(first + tokens));
      const Pattern own = pattern_of(p, e, 1);
      if (own.kind == Change::none) continue;
      return {Change::rows, static_cast<double>(first / tokens),
              "differ from row to row: in row " + std::to_string(first / tokens) + " they " + own.words};
    }
  }
  for (std::size_t i = 0; i < position.size(); ++i) {
    if (same(position[i], expected[i])) continue;
    return {Change::other, static_cast<double>(i),
            "are not those expected: token " + std::to_string(i % tokens) + " is at " + text(position[i]) +
                " instead of " + text(expected[i])};
  }
  return {Change::none, 0, "are those expected"};
}

}  // namespace rotary::diagnose
