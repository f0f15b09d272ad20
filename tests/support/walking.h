// How kernels walk memory, whatever the size of a call.
#pragma once

#include <cstdint>

#include "cpu/tuning.h"

namespace rotary::tests {

struct Walk {
  std::int64_t memory_from, fetched_ahead;
  int runs_in_place;
};
// From a cache; from memory, as on AMD and as on Intel.
inline constexpr Walk walks[] = {{INT64_MAX, 0, 2}, {0, 0, 2}, {0, 1024, 4}};

class Walking {
 public:
  explicit Walking(const Walk& walk) : before_(detail::tuning()) {
    detail::tuning().memory_from = walk.memory_from;
    detail::tuning().fetched_ahead = walk.fetched_ahead;
    detail::tuning().runs_in_place = walk.runs_in_place;
  }
  ~Walking() { detail::tuning() = before_; }
  Walking(const Walking&) = delete;
  Walking& operator=(const Walking&) = delete;

 private:
  const detail::Tuning before_;
};

}  // namespace rotary::tests
