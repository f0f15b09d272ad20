// Executors that split the work badly: results must not depend on the split.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "rotary/threads.h"

namespace rotary::tests {

// Runs ranges of random sizes, some of them empty or all of them one item, in a random order.
class Shuffled final : public Executor {
 public:
  explicit Shuffled(std::uint64_t seed) : random_(seed) {}
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, Body body, void* context) const override {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    const std::int64_t most = random_() % 3 == 0 ? 1 : 1 + count / 3;
    for (std::int64_t begin = 0; begin < count;) {
      const auto widest = static_cast<std::uint64_t>(std::min<std::int64_t>(count - begin, most));
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
