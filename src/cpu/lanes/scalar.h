// One lane, plain C++: the target that every machine has, and the last elements of every other one.
#pragma once

#include "values/storage.h"

namespace rotary::cpu {

using namespace detail;
namespace {

// What lanes are like unless they say otherwise.
struct Traits {
  static constexpr bool masks = false;
  static constexpr bool streams = false;
  static constexpr int resident = 4;  // vectors of cos, and of sin, that registers keep beside the work
  static constexpr int at_once = 2;   // vectors of a block that they hold there
  template <class T>
  static constexpr bool cheap_evens = false;  // load2 and store2 cost less than two loads and two stores
  template <class T>
  static constexpr bool cheap_swap = false;  // there are swap, load_twice and alternating, cheaper than load2
  template <class T>
  static constexpr bool watches = false;  // see lanes/avx512bf16.h
};

namespace scalar {

// What a lanes struct offers, for T = float, f16, bf16: load and store of width consecutive elements; load2 and store2
// of 2 * width consecutive elements as their even and odd members; stream, a store of floats past the caches, to an
// address that is a multiple of the vector's size, and fence, which ends a series of those; the next Narrower lanes,
// down to these. Where `masks`, load, store, load2 and store2 take as their last argument which elements are meant:
// bit k is element k, the others are neither read nor written. Where `streams`, Streaming are the same lanes with all
// unmasked stores past the caches.
struct Lanes : Traits {
  static constexpr int width = 1;
  static constexpr int resident = 1;
  using Floats = float;

  static Floats splat(float x) { return x; }
  static Floats mul(Floats a, Floats b) { return a * b; }
  static Floats add(Floats a, Floats b) { return a + b; }
  static Floats sub(Floats a, Floats b) { return a - b; }

  static Floats load(const float* p) { return *p; }
  static Floats load(const f16* p) { return decode(*p); }
  static Floats load(const bf16* p) { return decode(*p); }
  static void store(float* p, Floats x) { *p = x; }
  static void store(f16* p, Floats x) { *p = encode_f16(x); }
  static void store(bf16* p, Floats x) { *p = encode_bf16(x); }

  static void stream(float* p, Floats x) { *p = x; }
  static void fence() {}

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
