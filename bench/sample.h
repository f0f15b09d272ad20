// The time of work that is repeated.
#pragma once

#include <chrono>
#include <functional>

namespace rotary::measured {

using Work = std::function<void()>;

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of one run, of as many as take `seconds` together.
inline double repeated(const Work& work, double seconds) {
  const double begin = now();
  double took = 0;
  int runs = 0;
  do {
    work();
    ++runs;
    took = now() - begin;
  } while (took < seconds);
  return took / runs;
}

}  // namespace rotary::measured
