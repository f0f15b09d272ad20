// Sixteen lanes, AVX-512 with the bf16 conversions.
#pragma once

#include "avx512.h"

namespace rotary::cpu {
namespace {
namespace avx512bf16 {

// For floats without subnormals: the conversion instructions flush subnormals to zero whatever MXCSR says. (A normal
// f32 never becomes a subnormal bf16: both begin at 2^-126.)
struct CalmWords : avx512::Words {
  template <class T>
  static constexpr bool watches_rows = false;
  using Plain = avx512::Words;
  using Plain::join;
  using Plain::narrow;
  static __m256i narrow(__m512 x, bf16) { return __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(x)); }
  static __m512i join(__m512 even, __m512 odd, bf16) {
    return in_pairs(__builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(odd, even)));
  }
};

// For all floats: vectors that hold a subnormal are rounded with integer instructions.
struct Words : CalmWords {
  using Plain = avx512::Words;
  using CalmWords::join;
  using CalmWords::narrow;
  template <class T>
  static constexpr bool watches_rows = is_bf16<T>;
  template <class T>
  static constexpr bool watches_pairs = is_bf16<T>;

  // If no result is zero, nothing was flushed.
  static __m256i narrow(__m512 x, bf16 t) {
    const __m256i words = CalmWords::narrow(x, t);
    if (_mm256_testn_epi16_mask(words, _mm256_set1_epi16(0x7fff)) == 0) [[likely]]
      return words;
    return has_subnormal(x) ? Plain::narrow(x, t) : words;
  }
  static __m512i join(__m512 even, __m512 odd, bf16 t) {
    const __m512i words = CalmWords::join(even, odd, t);
    if (_mm512_testn_epi16_mask(words, _mm512_set1_epi16(0x7fff)) == 0) [[likely]]
      return words;
    return has_subnormal(even) || has_subnormal(odd) ? Plain::join(even, odd, t) : words;
  }

 private:
  static bool has_subnormal(__m512 x) { return _mm512_fpclass_ps_mask(x, 0x20) != 0; }
};

// Tests of the inputs which ensure that a rotated pair has no subnormal: each |cos| and |sin| is at least 2^-37 (the
// row is calm), and |a| or |b| is at least 2^-63 (the pair is not tiny). Then each of the two sums has a product of
// 2^-100 or more. If the sum cancels to less than 2^-126, both products were above 2^-101, hence multiples of 2^-124;
// so is their sum, which is therefore 0.
template <bool past_caches>
struct WatchingLanes : avx512::LanesWith<Words, past_caches> {
  using Base = avx512::LanesWith<Words, past_caches>;
  using Calm = avx512::LanesWith<CalmWords, past_caches>;
  using Streaming = WatchingLanes<true>;

  static bool calm(const float* cos, const float* sin, int pairs) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i least = magnitude;
    int i = 0;
    for (; i + Base::width <= pairs; i += Base::width) {
      for (const float* row : {cos, sin})
        least = _mm512_min_epu32(least, _mm512_and_si512(_mm512_loadu_si512(row + i), magnitude));
    }
    const __mmask16 m = Base::leading(pairs - i);
    for (const float* row : {cos, sin}) {
      const __m512i bits = _mm512_maskz_loadu_epi32(m, row + i);
      least = _mm512_mask_min_epu32(least, m, least, _mm512_and_si512(bits, magnitude));
    }
    return _mm512_cmplt_epu32_mask(least, _mm512_set1_epi32(0x2d000000)) == 0;
  }
  // Whether both members of some pair are tiny: neither has one of the two upper bits of its exponent. The pairs of a
  // and b, count vectors of floats each; or neighbours, one vector of each member.
  template <int count>
  static bool tiny(const bf16* a, const bf16* b) {
    if constexpr (count == 1) {
      const __m256i either = _mm256_or_si256(load_half(a), load_half(b));
      return _mm256_testn_epi16_mask(either, _mm512_castsi512_si256(upper())) != 0;
    }
    return _mm512_testn_epi16_mask(_mm512_or_si512(_mm512_loadu_si512(a), _mm512_loadu_si512(b)), upper()) != 0;
  }
  static bool tiny(const bf16* p) { return _mm512_testn_epi32_mask(_mm512_loadu_si512(p), upper()) != 0; }

 private:
  static __m256i load_half(const bf16* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static __m512i upper() { return _mm512_set1_epi16(0x6000); }
};

using Lanes = WatchingLanes<false>;

}  // namespace avx512bf16
}  // namespace
}  // namespace rotary::cpu
