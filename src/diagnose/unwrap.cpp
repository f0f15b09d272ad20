#include "unwrap.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rotary::diagnose {

namespace {

constexpr double circle = 6.283185307179586476925;
constexpr double float32_steps = 12 * 0x1p-24;  // relative error of an angle in float32 steps

double sigma_of(const Phase& phase, double value) {
  return phase.sigma + phase.steps * float32_steps / 6 * std::abs(value) * std::max(std::abs(phase.factor), phase.far);
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
    const double sigma = sigma_of(phase, candidate.value);
    candidate.misfit = std::max(candidate.misfit, off / (6 * sigma));
    candidate.score += 1 - std::cos(off);
  }
  candidate.score /= static_cast<double>(phases.size());
  return candidate;
}

}  // namespace

double wrapped(double angle) noexcept { return std::remainder(angle, circle); }

Unwrapped unwrap(std::vector<Phase> phases, double near, double range) {
  std::erase_if(phases, [](const Phase& phase) { return phase.factor == 0 || phase.sigma > 1; });
  if (phases.empty()) return {near, std::numeric_limits<double>::infinity(), 0, false};
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
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
  Candidate chosen = *best;
  bool unique = true;
  for (const Candidate& other : candidates) {
    const bool as_good = other.misfit <= 1 || other.score <= best->score * 1.01;
    if (!as_good || (chosen.misfit <= 1 && other.misfit > 1)) continue;
    if (std::abs(other.value - best->value) > period / 2) unique = false;
    if (std::abs(other.value - near) < std::abs(chosen.value - near)) chosen = other;
  }
  return {chosen.value, std::sqrt(chosen.variance), chosen.misfit, unique};
}

}  // namespace rotary::diagnose
