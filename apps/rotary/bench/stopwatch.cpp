#include "stopwatch.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace rotary::cli {

double median(std::vector<double>& samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

std::vector<double> median_microseconds(int runs, const std::vector<std::function<void()>>& works) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> times(works.size());
  for (int run = -1; run < runs; ++run) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      const Clock::time_point begin = Clock::now();
      works[i]();
      const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
      if (run >= 0) times[i].push_back(took.count());
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& samples : times) medians.push_back(median(samples));
  return medians;
}

void copy_bytes(std::vector<std::byte>& to, const std::vector<std::byte>& from) {
  void* (*volatile copy)(void*, const void*, std::size_t) = std::memcpy;
  copy(to.data(), from.data(), from.size());
}

}  // namespace rotary::cli
