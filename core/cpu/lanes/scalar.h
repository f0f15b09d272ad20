// One lane in plain C++: the target of last resort, and the lanes for the last elements of a block on other targets.
#pragma once

#include "runtime/compiler.h"
#include "values/storage.h"

namespace rotary::cpu {

using namespace detail;
namespace {

// The defaults of a lanes struct.
struct Traits {
  template <class T>
  static constexpr bool streams = false;
  static constexpr int resident = 4;        // vectors of cos, and as many of sin, that can stay in registers
  template <class T>
  static constexpr bool cheap_evens = false;  // load2 and store2 cost less than two loads and two stores
  template <class T>
  static constexpr bool cheap_swap = false;  // has swap, load_twice and alternating, cheaper than load2
  template <class T>
  static constexpr bool cheap_split = false;  // has split, join, load_split; NearLanes has cheap_swap instead
  template <class T>
  static constexpr bool watches_rows = false;  // has calm() and Calm: faster lanes, for the rows that calm() accepts
  template <class T>
  static constexpr bool watches_pairs = false;  // and tiny(): Calm is only for pairs that it does not find

  using HalfLanes = void;  // lanes for rows of an odd number of half vectors, which then cross no cache line

  static void fence() {}  // ends a series of non-temporal stores
  static void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
};

namespace scalar {

// A lanes struct provides, for T = float, f16, bf16: load and store of `width` consecutive elements; load2 and
// store2 of 2 * width consecutive elements as their even and odd elements; Narrower, the next narrower lanes struct,
// down to this one. If `streams`, Streaming is the same lanes struct with all stores non-temporal, to addresses that
// are multiples of the vector's size, and fence ends a series of them.
struct Lanes : Traits {
  static constexpr int width = 1;
  static constexpr int resident = 1;
  using Floats = float;

  static Floats splat(float x) { return x; }
  static Floats mul(Floats a, Floats b) { return rounded_product(a * b); }
  static Floats add(Floats a, Floats b) { return a + b; }
  static Floats sub(Floats a, Floats b) { return a - b; }

  static Floats load(const float* p) { return *p; }
  static Floats load(const f16* p) { return decode(*p); }
  static Floats load(const bf16* p) { return decode(*p); }
  static void store(float* p, Floats x) { *p = x; }
  static void store(f16* p, Floats x) { *p = encode_f16(x); }
  static void store(bf16* p, Floats x) { *p = encode_bf16(x); }

  // g++ 12 makes (a c - b s, b c + a s) of two elements one vfmaddsub, even under -ffp-contract=off.
  static Floats rounded_product(Floats x) {
#if defined(__GNUC__) && !defined(__clang__) && defined(__FMA__)
    ROTARY_IN_REGISTER("x", x);
#elif defined(__GNUC__) && !defined(__clang__) && defined(__ARM_FEATURE_COMPLEX)
    ROTARY_IN_REGISTER("w", x);
#endif
    return x;
  }

  template <class T>
  static void load2(const T* p, Floats& even, Floats& odd) {
    even = load(p);
    odd = load(p + 1);
  }
  template <class T>
  static void store2(T* p, Floats even, Floats odd) {
    store(p, even);
    store(p + 1, odd);
  }
};

}  // namespace scalar
}  // namespace
}  // namespace rotary::cpu
