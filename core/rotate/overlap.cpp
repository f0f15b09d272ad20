#include "runtime/arithmetic.h"

#include "overlap.h"

#include <algorithm>

namespace rotary::detail {
namespace {

// Steps of one size, in a and in b.
struct Steps {
  std::int64_t stride = 0;
  std::int64_t a = 0;  // how many
  std::int64_t b = 0;
};

// Two sets of blocks as steps over solid blocks, the shortest first. If a step is shorter than the extent of the steps
// before it in either set, everything so far counts as one solid block.
class Lattice {
 public:
  Lattice(const Blocks& a, const Blocks& b) noexcept : a_(a.block), b_(b.block) {
    for (int k = 0; k < 3; ++k) {
      add(a.stride[k], a.count[k] - 1, 0);
      add(b.stride[k], 0, b.count[k] - 1);
    }
    const int found = size_;
    std::int64_t reach_a = a_, reach_b = b_;
    size_ = 0;
    for (int k = 0; k < found; ++k) {
      const Steps s = steps_[k];
      const bool nested = s.stride >= std::max(reach_a, reach_b);
      reach_a += s.a * s.stride;
      reach_b += s.b * s.stride;
      if (nested) {
        steps_[size_++] = s;
      } else {
        size_ = 0;
        a_ = reach_a;
        b_ = reach_b;
      }
    }
  }

  // Whether the sets meet if b begins `distance` after a.
  bool meet(std::int64_t distance) const noexcept { return meet(distance, size_); }

 private:
  // Keeps the steps sorted by stride, each stride once.
  void add(std::int64_t stride, std::int64_t steps_of_a, std::int64_t steps_of_b) noexcept {
    if (steps_of_a + steps_of_b == 0) return;
    int k = size_;
    while (k > 0 && steps_[k - 1].stride >= stride) --k;
    if (k == size_ || steps_[k].stride != stride) {
      for (int later = size_++; later > k; --later) steps_[later] = steps_[later - 1];
      steps_[k] = {stride, 0, 0};
    }
    steps_[k].a += steps_of_a;
    steps_[k].b += steps_of_b;
  }

  // Whether distance = sum(n_k * stride_k), up to a block, with -b_k <= n_k <= a_k, for the first `size` steps. The
  // shorter steps reach at most one stride, so only the two n_k around the distance are possible.
  bool meet(std::int64_t distance, int size) const noexcept {
    if (size == 0) return -b_ < distance && distance < a_;
    const Steps& s = steps_[size - 1];
    const std::int64_t below = distance / s.stride - (distance % s.stride < 0 ? 1 : 0);
    for (const std::int64_t n : {below, below + 1}) {
      if (-s.b <= n && n <= s.a && meet(distance - n * s.stride, size - 1)) return true;
    }
    return false;
  }

  Steps steps_[6];
  int size_ = 0;
  std::int64_t a_;  // bytes of a block
  std::int64_t b_;
};

}  // namespace

bool blocks_meet(const Blocks& a, const Blocks& b) noexcept {
  if (a.end() <= b.begin || b.end() <= a.begin) return false;
  return Lattice(a, b).meet(static_cast<std::int64_t>(b.begin - a.begin));
}

}  // namespace rotary::detail
