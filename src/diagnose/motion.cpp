#include "motion.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace rotary::diagnose {

namespace {

constexpr double circle = 6.283185307179586476925;
constexpr double farthest = 0x1p22;  // positions are looked for this far around the expected ones
constexpr double unknown = std::numeric_limits<double>::infinity();

double wrapped(double angle) noexcept { return std::remainder(angle, circle); }  // in [-pi, pi]

double sigma_of(const Phase& phase, double value) {
  return phase.sigma + phase.steps * float32_slack / 6 * std::abs(value) * std::max(std::abs(phase.factor), phase.far);
}

struct Candidate {
  double value = 0;
  double variance = 0;
  double misfit = 0;
  double score = 0;
};

// Phases in the order of rising factors.
Candidate refine(const std::vector<Phase>& phases, double start, double reference) {
  Candidate candidate{start, std::pow(sigma_of(phases[0], reference) / phases[0].factor, 2)};
  for (std::size_t j = 1; j < phases.size(); ++j) {
    const Phase& phase = phases[j];
    const double off = wrapped(phase.angle - candidate.value * phase.factor);
    const double noise = std::pow(sigma_of(phase, reference), 2);
    const double variance = candidate.variance * phase.factor * phase.factor;
    candidate.value += off * candidate.variance * phase.factor / (variance + noise);
    candidate.variance *= noise / (variance + noise);
  }
  for (const Phase& phase : phases) {
    const double off = std::abs(wrapped(phase.angle - candidate.value * phase.factor));
    candidate.misfit = std::max(candidate.misfit, off / (6 * sigma_of(phase, candidate.value)));
    candidate.score += 1 - std::cos(off);
  }
  candidate.score /= static_cast<double>(phases.size());
  return candidate;
}

std::optional<Phase> phase_of(const Turns& turns, std::int64_t row, int pair) {
  const std::size_t at = turns.at(row, pair);
  const double size = std::abs(turns.turn[at]);
  if (turns.weight[at] == 0 || size == 0) return std::nullopt;
  return Phase{std::arg(turns.turn[at]), turns.sigma[at] / size + turns.unit / 6, 0,
               slack_of(turns, pair) / float32_slack};
}

// Not where every element is 0.
bool says_something(const Turns& turns, std::int64_t row) {
  for (int pair = 0; pair < turns.pairs(); ++pair) {
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

Unwrapped unwrap(std::vector<Phase> phases, double near, double range) {
  std::erase_if(phases, [](const Phase& phase) { return phase.factor == 0 || phase.sigma > 1; });
  if (phases.empty()) return {near, unknown, 0};
  std::sort(phases.begin(), phases.end(),
            [](const Phase& a, const Phase& b) { return std::abs(a.factor) < std::abs(b.factor); });
  const Phase& slowest = phases[0];
  const double period = circle / std::abs(slowest.factor);
  const double base = slowest.angle / slowest.factor;
  constexpr double most_turns = 4096;
  const double low = std::ceil(std::max((near - range - base) / period, (near - base) / period - most_turns));
  const double high = std::floor(std::min((near + range - base) / period, (near - base) / period + most_turns));
  std::vector<Candidate> candidates = {refine(phases, near + std::remainder(base - near, period), near)};
  for (double k = low; k <= high; ++k) {
    const double start = base + k * period;
    candidates.push_back(refine(phases, start, start));
  }
  const Candidate best = *std::ranges::min_element(candidates, {}, &Candidate::score);
  Candidate chosen = best;
  for (const Candidate& other : candidates) {
    const bool as_good = other.misfit <= 1 || other.score <= best.score * 1.01;
    if (!as_good || (chosen.misfit <= 1 && other.misfit > 1)) continue;
    if (std::abs(other.value - near) < std::abs(chosen.value - near)) chosen = other;
  }
  return {chosen.value, std::sqrt(chosen.variance), chosen.misfit};
}

namespace {

// ---- angles that are sums over coordinates ----

struct Sum {
  std::vector<double> factor;  // of each coordinate
  double angle, sigma, steps, speed;
};

// Coordinates and their covariances.
struct Coordinates {
  std::vector<double> value, variance;
};

double sigma_of(const Sum& sum, const std::vector<double>& value) {
  double size = 0;
  for (std::size_t a = 0; a < value.size(); ++a) size += std::abs(sum.factor[a] * value[a]);
  return sum.sigma + sum.steps * float32_slack / 6 * size;
}
double off_at(const Sum& sum, const std::vector<double>& value) {
  double angle = sum.angle;
  for (std::size_t a = 0; a < value.size(); ++a) angle -= sum.factor[a] * value[a];
  return wrapped(angle);
}
double misfit_at(const std::vector<Sum>& sums, const std::vector<double>& value) {
  double worst = 0;
  for (auto sum = sums.begin(); sum != sums.end() && worst <= 1; ++sum)
    worst = std::max(worst, std::abs(off_at(*sum, value)) / (6 * sigma_of(*sum, value)));
  return worst;
}

// By each sum in turn, the slow ones first: those that are faster tell more and wrap earlier. least: of the errors.
void settle(const std::vector<Sum>& sums, double least, Coordinates& at) {
  const std::size_t n = at.value.size();
  for (const Sum& sum : sums) {
    std::vector<double> gain(n);
    double variance = square(std::max(least, sigma_of(sum, at.value)));
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) gain[a] += at.variance[a * n + b] * sum.factor[b];
      variance += sum.factor[a] * gain[a];
    }
    const double off = off_at(sum, at.value);
    for (std::size_t a = 0; a < n; ++a) {
      at.value[a] += gain[a] * off / variance;
      for (std::size_t b = 0; b < n; ++b) at.variance[a * n + b] -= gain[a] * gain[b] / variance;
    }
  }
}

std::vector<Sum> sums_of(const Turns& turns, const Motion& speeds, std::int64_t row) {
  std::vector<Sum> sums;
  for (int pair = 0; pair < turns.pairs(); ++pair) {
    const std::optional<Phase> phase = phase_of(turns, row, pair);
    if (!phase || phase->sigma > 1) continue;
    Sum sum{std::vector<double>(speeds.position.size()), phase->angle, phase->sigma, phase->steps, 0};
    for (int term = 0; term < speeds.terms; ++term) {
      sum.factor[static_cast<std::size_t>(speeds.axis_of(pair, term))] += speeds.speed_of(pair, term);
      sum.speed += square(speeds.speed_of(pair, term));
    }
    if (sum.speed > 0) sums.push_back(std::move(sum));
  }
  std::ranges::sort(sums, {}, &Sum::speed);
  return sums;
}

// The coordinates that explain the sums, near one of those to begin with or at one of the others; none: no such ones.
std::optional<Coordinates> spot_of(const std::vector<Sum>& sums, const std::vector<std::vector<double>>& near,
                                   const std::vector<std::vector<double>>& others) {
  const std::size_t n = others[0].size();
  const double range = sums.empty() ? 0 : 3.2 / std::sqrt(sums[0].speed);
  const auto settled_from = [&](const std::vector<double>& start) {
    Coordinates spot{start, std::vector<double>(n * n)};
    for (std::size_t a = 0; a < n; ++a) spot.variance[a * n + a] = square(range);
    for (const double least : {0.02, 0.0}) settle(sums, least, spot);
    for (std::size_t a = 0; a < n; ++a) {
      double& variance = spot.variance[a * n + a];
      if (!(variance < square(range) / 4)) variance = unknown;
    }
    return spot;
  };
  for (const std::vector<double>& start : near) {  // of several solutions
    if (misfit_at(sums, start) <= 1) return settled_from(start);
  }
  for (const std::vector<double>& start : near) {
    if (Coordinates spot = settled_from(start); misfit_at(sums, spot.value) <= 1) return spot;
  }
  const auto at = std::ranges::find_if(others, [&](const auto& one) { return misfit_at(sums, one) <= 1; });
  return at == others.end() ? std::nullopt : std::optional(settled_from(*at));
}

std::vector<FoundPositions> find_coordinates(const Turns& turns, const Motion& speeds,
                                             const std::vector<std::vector<double>>& expected) {
  const auto axes = expected.size(), rows = static_cast<std::size_t>(turns.rows());
  std::vector<std::vector<double>> at_row(rows, std::vector<double>(axes));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t a = 0; a < axes; ++a) at_row[row][a] = expected[a][row];
  }
  std::vector<FoundPositions> found(axes);
  std::vector<double> shift(axes);  // of the row before
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<std::vector<double>> near{at_row[row], at_row[row]};
    std::ranges::transform(at_row[row], shift, near[1].begin(), std::plus());
    for (const double times : {-1.0, 2.0, 0.0}) {
      near.push_back(at_row[row]);
      for (double& one : near.back()) one *= times;
    }
    const auto spot = spot_of(sums_of(turns, speeds, static_cast<std::int64_t>(row)), near, at_row);
    if (!spot) return {};
    for (std::size_t a = 0; a < axes; ++a) {
      found[a].position.push_back(spot->value[a]);
      found[a].error.push_back(std::sqrt(spot->variance[a * axes + a]));
      shift[a] = spot->value[a] - at_row[row][a];
    }
  }
  return found;
}

// Where most are whole, all are: else a few are nearly whole by chance.
void make_whole(FoundPositions& found) {
  std::vector<double> rounded;
  std::size_t same = 0;
  for (std::size_t row = 0; row < found.position.size(); ++row) {
    rounded.push_back(whole(found.position[row], std::isfinite(found.error[row]) ? found.error[row] : 0));
    same += rounded[row] == std::round(rounded[row]) ? 1 : 0;
  }
  if (2 * same > rounded.size()) found.position = std::move(rounded);
}

}  // namespace

std::vector<FoundPositions> find_positions(const Turns& turns, const Motion& speeds,
                                           const std::vector<std::vector<double>>& expected) {
  std::vector<FoundPositions> found;
  if (speeds.terms > 1) {
    found = find_coordinates(turns, speeds, expected);
    std::ranges::for_each(found, make_whole);
    return found;
  }
  for (std::size_t axis = 0; axis < expected.size(); ++axis) {
    found.push_back(find_positions(turns, speeds, static_cast<int>(axis), expected[axis]));
    if (!found.back().holds) return {};
  }
  return found;
}

FoundPositions find_positions(const Turns& turns, const Motion& speeds, int axis, const std::vector<double>& expected) {
  FoundPositions found;
  double shift = 0;  // of the row before: most faults move all rows alike
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    std::vector<Phase> phases;
    for (int pair = 0; pair < turns.pairs(); ++pair) {
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
    found.position.push_back(best.value);
    found.error.push_back(best.error);
    found.holds = best.misfit <= 1;
    if (!found.holds) return found;
  }
  make_whole(found);
  return found;
}

FoundSpeed find_speed(const Turns& turns, int pair, const std::vector<double>& position) {
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
  return {speed.value, speed.error, start ? wrapped(start->angle - speed.value * origin) : 0,
          start ? start->sigma + speed.error * std::abs(origin) : unknown, speed.misfit <= 1};
}

double sign_of(const std::vector<FoundSpeed>& found) {
  double sign = 0;
  for (const FoundSpeed& one : found) {
    if (std::abs(one.speed) > 3 * one.error) sign += std::copysign(1.0, one.speed);
  }
  return sign < 0 ? -1 : 1;
}

std::optional<double> shift_of(const std::vector<FoundSpeed>& found) {
  std::vector<Phase> phases;
  bool zero = true;
  for (int pair = 0; const FoundSpeed& one : found) {
    if (std::abs(one.phase) > 6 * one.phase_error) zero = false;
    const double steps = slack_of(pair++) / float32_slack;
    if (std::isfinite(one.phase_error)) phases.push_back({one.phase, one.phase_error, one.speed, steps});
  }
  if (zero) return 0;
  const Unwrapped shift = unwrap(phases, 0, 0x1p20);
  if (shift.misfit > 1 || !std::isfinite(shift.error)) return std::nullopt;
  return std::abs(shift.value - std::round(shift.value)) < 0.02 ? std::round(shift.value) : shift.value;
}

}  // namespace rotary::diagnose
