// The kernels' templates over lanes that watch pairs and have many registers, as those of AVX512-BF16, in plain C++: so
// they are tested on machines without it.
#include "runtime/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/tests/support/walking.h"
#include "cpu/lanes/scalar.h"
#include "cpu/rotate/rows.inc"
#include "rotate/checks.h"

namespace rotary::cpu {
namespace {

struct EightFloats {
  float x[8];
};

// flushes: conversions to bf16 turn subnormals into zero, as those of AVX512-BF16 do.
template <bool flushes>
struct WatchingLanes : Traits {
  static constexpr int width = 8;
  static constexpr int resident = 8;
  template <class T>
  static constexpr bool streams = true;
  static constexpr bool streaming = false;
  template <class T>
  static constexpr bool cheap_evens = is_bf16<T>;
  template <class T>
  static constexpr bool cheap_swap = !is_bf16<T>;
  template <class T>
  static constexpr bool watches_rows = is_bf16<T> && !flushes;
  template <class T>
  static constexpr bool watches_pairs = is_bf16<T> && !flushes;
  using Floats = EightFloats;
  using One = scalar::Lanes;
  using Narrower = One;
  using Streaming = WatchingLanes;
  using Calm = WatchingLanes<true>;

  template <class Of>
  static Floats each(Of of) {
    Floats result;
    for (int i = 0; i < width; ++i) result.x[i] = of(i);
    return result;
  }
  static Floats splat(float x) {
    return each([&](int) { return x; });
  }
  static Floats mul(Floats a, Floats b) {
    return each([&](int i) { return One::mul(a.x[i], b.x[i]); });
  }
  static Floats add(Floats a, Floats b) {
    return each([&](int i) { return a.x[i] + b.x[i]; });
  }
  static Floats sub(Floats a, Floats b) {
    return each([&](int i) { return a.x[i] - b.x[i]; });
  }
  static Floats swap(Floats a) {
    return each([&](int i) { return a.x[i ^ 1]; });
  }
  static Floats alternating(float x) {
    return each([&](int i) { return i % 2 == 0 ? -x : x; });
  }
  static Floats load_twice(const float* p) {
    return each([&](int i) { return p[i / 2]; });
  }
  template <class T>
  static Floats load(const T* p) {  // takes any address, as the instructions
    T x[width];
    std::memcpy(x, p, sizeof x);
    return each([&](int i) { return One::load(x + i); });
  }
  template <class T>
  static void load2(const T* p, Floats& even, Floats& odd) {
    even = each([&](int i) { return One::load(p + 2 * i); });
    odd = each([&](int i) { return One::load(p + 2 * i + 1); });
  }
  template <class T>
  static void store_one(T* p, float x) {
    if (flushes && is_bf16<T> && std::fpclassify(x) == FP_SUBNORMAL) x = 0;
    One::store(p, x);
  }
  template <class T>
  static void store(T* p, Floats x) {
    for (int i = 0; i < width; ++i) store_one(p + i, x.x[i]);
  }
  template <class T>
  static void store2(T* p, Floats even, Floats odd) {
    for (int i = 0; i < 2 * width; ++i) store_one(p + i, i % 2 == 0 ? even.x[i / 2] : odd.x[i / 2]);
  }

  static bool calm(const float* cos, const float* sin, int pairs) {
    for (int i = 0; i < pairs; ++i) {
      if (std::fabs(cos[i]) < 0x1p-37f || std::fabs(sin[i]) < 0x1p-37f) return false;
    }
    return true;
  }
  template <int count>
  static bool tiny(const bf16* a, const bf16* b) {
    for (int i = 0; i < count * width; ++i) {
      if (((a[i].bits | b[i].bits) & 0x6000) == 0) return true;
    }
    return false;
  }
  static bool tiny(const bf16* p) {
    for (int i = 0; i < 2 * width; i += 2) {
      if (((p[i].bits | p[i + 1].bits) & 0x6000) == 0) return true;
    }
    return false;
  }
};

void rotate(const Job& job) {
  using L = WatchingLanes<false>;
  switch (job.dtype) {
    case DType::f32:
      return rotate_rows<L, float>(job, 0, job.rows());
    case DType::f16:
      return rotate_rows<L, f16>(job, 0, job.rows());
    case DType::bf16:
      return rotate_rows<L, bf16>(job, 0, job.rows());
  }
}

}  // namespace
}  // namespace rotary::cpu

namespace rotary::tests {
namespace {

using namespace detail;

TEST(WatchingLanes, EqualTheReferenceAtEverySizeAndLayout) {
  Random random(7);
  Arena arena(64 * 1024);
  for (const DType dtype : dtypes) {
    for (const Pairing pairing : pairings) {
      for (int pairs = 1; pairs <= 70; ++pairs) {
        const int head_dim = 2 * pairs + (pairs % 3 == 0 ? 5 : 0);
        for (const Layout& layout : {bthd(1, 11, 3, head_dim), bhtd(1, 6, 3, head_dim), thd(1, 2, head_dim)}) {
          SCOPED_TRACE(std::string(name(dtype)) + " " + name(pairing) + " " + std::to_string(pairs));
          const Table table = random_table(random, layout.tokens, pairs, pairing);
          const Direction direction = directions[random() % 2];
          arena.draw(layout, dtype, table, direction, random);
          arena.check([&](const ConstHeads& in, const Heads& out, Stores stores) {
            Job job = check_rotate("rotate", {in, out}, table, direction);
            job.stream = stores == Stores::streaming;
            cpu::rotate(job);
          });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rotary::tests
