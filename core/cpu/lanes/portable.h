// Four lanes in either byte order, for instruction sets without a file of their own. If the machine has vector
// registers, they are vectors of g++ and clang, and f16 and bf16 convert by integer arithmetic. Otherwise they are four
// floats, which the compiler keeps in registers of one float: fewer instructions than one lane at a time.
#pragma once

#include <bit>

#include "scalar.h"
#include "vector_registers.h"

namespace rotary::cpu {
namespace {
namespace portable {

#if ROTARY_VECTOR_REGISTERS

static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big);

struct Lanes : Traits {
  static constexpr int width = 4;
  template <class T>
  static constexpr bool cheap_evens = is_bf16<T>;
  using Floats [[gnu::vector_size(16)]] = float;
  using Narrower = scalar::Lanes;

  static Floats splat(float x) { return Floats{x, x, x, x}; }
  static Floats mul(Floats a, Floats b) { return a * b; }
  static Floats add(Floats a, Floats b) { return a + b; }
  static Floats sub(Floats a, Floats b) { return a - b; }

  static Floats load(const float* p) { return load_as<Floats>(p); }
  static void store(float* p, Floats x) { __builtin_memcpy(p, &x, sizeof x); }
  static void load2(const float* p, Floats& even, Floats& odd) {
    const Floats low = load(p), high = load(p + 4);
    even = __builtin_shufflevector(low, high, 0, 2, 4, 6);
    odd = __builtin_shufflevector(low, high, 1, 3, 5, 7);
  }
  static void store2(float* p, Floats even, Floats odd) {
    store(p, __builtin_shufflevector(even, odd, 0, 4, 1, 5));
    store(p + 4, __builtin_shufflevector(even, odd, 2, 6, 3, 7));
  }

  // For T = f16, bf16.
  template <class T>
  static Floats load(const T* p) {
    const Halves four = as<Halves>(Longs{load_as<std::uint64_t>(p), 0});
    return widen(p, unpacked<is_bf16<T>>(four));
  }
  template <class T>
  static void store(T* p, Floats x) {
    const Halves narrow = as<Halves>(narrowed(p, x));
    // The half that holds the result: the upper one for bf16, the lower one for f16.
    constexpr int k = little == is_bf16<T> ? 1 : 0;
    const Halves four = __builtin_shufflevector(narrow, narrow, k, k + 2, k + 4, k + 6, k, k + 2, k + 4, k + 6);
    const std::uint64_t bits = as<Longs>(four)[0];
    __builtin_memcpy(p, &bits, sizeof bits);
  }
  // Two elements fill a word: the first is its lower half where the byte order is little-endian, else its upper one.
  template <class T>
  static void load2(const T* p, Floats& even, Floats& odd) {
    const Words both = load_as<Words>(p);
    const Floats low = widen(p, is_bf16<T> ? both << 16 : both & 0xffffu);
    const Floats high = widen(p, is_bf16<T> ? both & upper : both >> 16);
    even = little ? low : high;
    odd = little ? high : low;
  }
  template <class T>
  static void store2(T* p, Floats even, Floats odd) {
    const Words low = narrowed(p, little ? even : odd), high = narrowed(p, little ? odd : even);
    const Words both = is_bf16<T> ? low >> 16 | (high & upper) : low | high << 16;
    __builtin_memcpy(p, &both, sizeof both);
  }

 private:
  using Words [[gnu::vector_size(16)]] = std::uint32_t;
  using Signed [[gnu::vector_size(16)]] = std::int32_t;
  using Halves [[gnu::vector_size(16)]] = std::uint16_t;
  using Longs [[gnu::vector_size(16)]] = std::uint64_t;
  static constexpr bool little = std::endian::native == std::endian::little;
  static constexpr std::uint32_t upper = 0xffff0000u;

  template <class To, class From>
  static To as(From x) {
    return __builtin_bit_cast(To, x);
  }
  template <class V>
  static V load_as(const void* p) {
    V x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  // Each lane of `where` is all ones or 0.
  static Words select(Signed where, Words yes, Words no) {
    const Words mask = as<Words>(where);
    return (mask & yes) | (~mask & no);
  }

  // The first four elements, each in the upper or the lower half of a word of zeros.
  template <bool to_upper>
  static Words unpacked(Halves x) {
    if constexpr (to_upper == little) return as<Words>(__builtin_shufflevector(Halves{}, x, 0, 8, 0, 9, 0, 10, 0, 11));
    return as<Words>(__builtin_shufflevector(Halves{}, x, 8, 0, 9, 0, 10, 0, 11, 0));
  }

  // bf16 in the upper half of each word. The same steps as decode and encode_bf16 in storage.h.
  static Floats widen(const bf16*, Words x) { return as<Floats>(x); }
  static Words narrowed(const bf16*, Floats x) {
    const Words bits = as<Words>(x);
    const Words rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return select(x == x, rounded, bits | 0x00400000u);
  }

  // f16 in the lower half of each word. The same steps as decode and encode_f16.
  static Floats widen(const f16*, Words h) {
    const Words sign = (h & 0x8000u) << 16, magnitude = (h & 0x7fffu) << 13;
    const Words infinite = as<Words>(as<Signed>(magnitude) > 0x0f7fffff) & 0x7f800000u;
    return as<Floats>(as<Words>(as<Floats>(magnitude) * 0x1p112f) | infinite | sign);
  }
  static Words narrowed(const f16*, Floats x) {
    const Words bits = as<Words>(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    const Signed size = as<Signed>(magnitude);
    const Words normal = (magnitude - (0x38000000u - 0x0fffu) + (magnitude >> 13 & 1u)) >> 13;
    const Words tiny = as<Words>(as<Floats>(magnitude) + 0.5f) - 0x3f000000u;
    const Words huge = (as<Words>(size > 0x7f800000) & 0x0200u) | 0x7c00u;
    return select(size > 0x477fefff, huge, select(size < 0x38800000, tiny, normal)) | sign;
  }
};

#else

struct Lanes : Traits {
  static constexpr int width = 4;
  static constexpr int resident = 2;  // eight floats of cos and of sin
  struct Floats {
    float a, b, c, d;
  };
  using Narrower = scalar::Lanes;
  using One = scalar::Lanes;

  static Floats splat(float x) { return {x, x, x, x}; }
  static Floats mul(Floats x, Floats y) { return {x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d}; }
  static Floats add(Floats x, Floats y) { return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d}; }
  static Floats sub(Floats x, Floats y) { return {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d}; }

  // For T = float, f16, bf16. Inlined by force: g++ 12 else takes a fifth more instructions for f16.
  template <class T>
  [[gnu::always_inline]] static Floats load(const T* p) {
    return {One::load(p), One::load(p + 1), One::load(p + 2), One::load(p + 3)};
  }
  template <class T>
  [[gnu::always_inline]] static void store(T* p, Floats x) {
    One::store(p, x.a);
    One::store(p + 1, x.b);
    One::store(p + 2, x.c);
    One::store(p + 3, x.d);
  }
  template <class T>
  [[gnu::always_inline]] static void load2(const T* p, Floats& even, Floats& odd) {
    even = {One::load(p), One::load(p + 2), One::load(p + 4), One::load(p + 6)};
    odd = {One::load(p + 1), One::load(p + 3), One::load(p + 5), One::load(p + 7)};
  }
  template <class T>
  [[gnu::always_inline]] static void store2(T* p, Floats even, Floats odd) {
    One::store2(p, even.a, odd.a);
    One::store2(p + 2, even.b, odd.b);
    One::store2(p + 4, even.c, odd.c);
    One::store2(p + 6, even.d, odd.d);
  }
};

#endif

}  // namespace portable
}  // namespace
}  // namespace rotary::cpu
