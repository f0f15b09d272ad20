// Median times of several works that are sampled in turn, so that a slow moment of the machine hits all of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace rotary::detail {

template <class Work>
double seconds_of(const Work& work) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Medians {
  std::vector<double> seconds;  // of each work
  int samples = 0;              // of each work
};

struct SampleLimits {
  int least;       // samples at least
  int least_slow;  // samples at least once five times the allowed time has passed
  int most;
};

// sample(i) measures the i-th work once and returns seconds. Takes about `seconds` in all, within the limits.
template <class Sample>
Medians medians_in_turn(std::size_t works, double seconds, const SampleLimits& limits, const Sample& sample) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> found(works);
  const Clock::time_point begin = Clock::now();
  Medians medians;
  for (bool enough = false; !enough;) {
    for (std::size_t turn = 0; turn < works; ++turn) {
      const std::size_t i = medians.samples % 2 == 0 ? turn : works - 1 - turn;  // out of step with the scheduler
      found[i].push_back(sample(i));
    }
    ++medians.samples;
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    enough = medians.samples >= limits.most || (medians.samples >= limits.least && took > seconds) ||
             (medians.samples >= limits.least_slow && took > 5 * seconds);
  }
  for (std::vector<double>& samples : found) {
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    medians.seconds.push_back(*middle);
  }
  return medians;
}

}  // namespace rotary::detail
