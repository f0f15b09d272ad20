// Executors that split the work badly: results must not depend on the split.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "rotary/threads.h"

namespace rotary::tests {

// Runs one item at a time, the last one first.
class Backwards final : public Executor {
 public:
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, Body body, void* context) const override {
    for (std::int64_t i = count; i-- > 0;) body(context, i, i + 1);
  }
};

// Runs ranges of random sizes, some of them empty, in a random order.
class Shuffled final : public Executor {
 public:
  explicit Shuffled(std::uint64_t seed) : random_(seed) {}
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, Body body, void* context) const override {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (std::int64_t begin = 0; begin < count;) {
      const auto widest = static_cast<std::uint64_t>(std::min<std::int64_t>(count - begin, 1 + count / 3));
      const std::int64_t end = begin + static_cast<std::int64_t>(random_() % (widest + 1));
      ranges.emplace_back(begin, end);
      begin = end;
    }
    std::shuffle(ranges.begin(), ranges.end(), random_);
    for (const auto& [begin, end] : ranges) body(context, begin, end);
  }

 private:
  mutable std::mt19937_64 random_;
};

}  // namespace rotary::tests
