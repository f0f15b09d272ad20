// Sixteen lanes, AVX-512 F, BW, VL, DQ.
#pragma once

#include "avx2.h"
#include "x86_intrinsics.h"

namespace rotary::cpu {
namespace {
namespace avx512 {

// Conversions of the 16-bit types: sixteen elements to or from floats, or thirty-two as their even and odd elements.
struct CalmWords;

struct Words {
  using Calm = CalmWords;
  template <class T>
  static constexpr bool watches_rows = is_bf16<T>;
  template <class T>
  static constexpr bool watches_pairs = false;
  static __m512 widen(__m256i x, bf16) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
  static __m512 widen(__m256i x, f16) { return _mm512_cvtph_ps(x); }
  static void split(__m512i x, __m512& even, __m512& odd, bf16) {
    even = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }
  static void split(__m512i x, __m512& even, __m512& odd, f16) {
    const __m512i ordered = _mm512_permutexvar_epi16(evens_then_odds(), x);
    even = _mm512_cvtph_ps(_mm512_castsi512_si256(ordered));
    odd = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(ordered, 1));
  }

  static __m256i narrow(__m512 x, bf16) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_bf16(x), 16)); }
  static __m256i narrow(__m512 x, f16) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static __m512i join(__m512 even, __m512 odd, bf16) {
    return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(round_bf16(even), 16), round_bf16(odd));
  }
  static __m512i join(__m512 even, __m512 odd, f16) {
    return in_pairs(_mm512_inserti64x4(_mm512_castsi256_si512(narrow(even, f16{})), narrow(odd, f16{}), 1));
  }

 protected:
  // x: sixteen even members, then sixteen odd ones. set_epi16 lists the last one first.
  static __m512i in_pairs(__m512i x) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,  //
                                           23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, x);
  }
  static __m512i round_ordered(__m512 x) {  // as in avx2.h
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), last);
  }

 private:
  static __m512i evens_then_odds() {
    return _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1,  //
                            30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  }
  // The upper 16 bits of each lane hold the bf16.
  static __m512i round_bf16(__m512 x) {
    const __m512i quiet = _mm512_set1_epi32(0x00400000);
    return _mm512_mask_or_epi32(round_ordered(x), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_castps_si512(x),
                                quiet);
  }
};

// For the results of a calm row.
struct CalmWords : Words {
  template <class T>
  static constexpr bool watches_rows = false;
  using Words::join;
  using Words::narrow;
  static __m256i narrow(__m512 x, bf16) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_ordered(x), 16)); }
  // Rounds 16-bit words: those below carry into those above where below + 0x7fff + (above & 1) reaches 2^16.
  static __m512i join(__m512 even, __m512 odd, bf16) {
    const __m512i e = _mm512_castps_si512(even), o = _mm512_castps_si512(odd);
    const __m512i below = _mm512_mask_blend_epi16(0xaaaaaaaau, e, _mm512_slli_epi32(o, 16));
    const __m512i above = _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(e, 16), o);
    constexpr int first_and_second_or_third = 0xea;  // (a & b) | c
    const __m512i last =
        _mm512_ternarylogic_epi32(above, _mm512_set1_epi16(1), _mm512_set1_epi16(0x7ffe), first_and_second_or_third);
    return _mm512_add_epi16(above, _mm512_srli_epi16(_mm512_avg_epu16(below, last), 15));
  }
};

// Eight lanes with the thirty-two registers of AVX-512.
struct HalfLanes : avx2::LanesWith<false> {
  static constexpr int resident = 8;
};

// W: the conversions, Words or those of a later instruction set. past_caches: stores are non-temporal, to
// addresses that are multiples of the vector's size.
template <class W, bool past_caches = false>
struct LanesWith : Traits {
  static constexpr int width = 16;
  template <class T>
  static constexpr bool streams = true;
  static constexpr int resident = 8;
  template <class T>
  static constexpr bool cheap_evens = is_bf16<T>;
  template <class T>
  static constexpr bool cheap_swap = !is_bf16<T>;
  template <class T>
  static constexpr bool watches_rows = W::template watches_rows<T>;
  template <class T>
  static constexpr bool watches_pairs = W::template watches_pairs<T>;
  using Floats = __m512;
  using Narrower = avx2::Lanes;
  using Streaming = LanesWith<W, true>;
  using Calm = LanesWith<typename W::Calm, past_caches>;
  using HalfLanes = avx512::HalfLanes;

  static Floats splat(float x) { return _mm512_set1_ps(x); }
  static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }

  // Whether the row has no NaN. See round_ordered in avx2.h.
  static bool calm(const float* cos, const float* sin, int pairs) {
    std::uint32_t unordered = 0;
    for (int i = 0; i < pairs; i += width) {
      const __mmask16 m = leading(pairs - i);
      unordered |=
          _mm512_cmp_ps_mask(_mm512_maskz_loadu_ps(m, cos + i), _mm512_maskz_loadu_ps(m, sin + i), _CMP_UNORD_Q);
    }
    return unordered == 0;
  }

  static __mmask16 leading(int count) { return static_cast<__mmask16>(count < width ? (1u << count) - 1 : 0xffff); }

  static Floats held(Floats x) {  // as in avx2.h
    ROTARY_IN_REGISTER("v", x);
    return x;
  }
  static Floats load(const float* p) { return held(_mm512_loadu_ps(p)); }
  static void store(float* p, Floats x) { past_caches ? _mm512_stream_ps(p, x) : _mm512_storeu_ps(p, x); }
  static void fence() { _mm_sfence(); }

  static Floats swap(Floats x) { return _mm512_permute_ps(x, 0xb1); }
  static Floats load_twice(const float* p) { return twice(_mm512_castps256_ps512(_mm256_loadu_ps(p))); }
  static Floats alternating(float x) {
    return _mm512_castpd_ps(_mm512_set1_pd(__builtin_bit_cast(double, FloatPair{-x, x})));
  }

  static void load2(const float* p, Floats& even, Floats& odd) { split(load(p), load(p + 16), even, odd); }
  static void store2(float* p, Floats even, Floats odd) {
    store(p, low_pairs(even, odd));
    store(p + 16, high_pairs(even, odd));
  }

  // T: f16, bf16.
  template <class T>
  static Floats load(const T* p) {
    return held(W::widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), T{}));
  }
  template <class T>
  static void store(T* p, Floats x) {
    auto* to = reinterpret_cast<__m256i*>(p);
    past_caches ? _mm256_stream_si256(to, W::narrow(x, T{})) : _mm256_storeu_si256(to, W::narrow(x, T{}));
  }
  template <class T>
  static void load2(const T* p, Floats& even, Floats& odd) {
    W::split(_mm512_loadu_si512(p), even, odd, T{});
  }
  template <class T>
  static void store2(T* p, Floats even, Floats odd) {
    const __m512i words = W::join(even, odd, T{});
    past_caches ? _mm512_stream_si512(reinterpret_cast<__m512i*>(p), words) : _mm512_storeu_si512(p, words);
  }

 private:
  struct FloatPair {
    float first, second;
  };
  static Floats twice(Floats x) {
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), x);
  }
  static void split(Floats low, Floats high, Floats& even, Floats& odd) {
    const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    even = _mm512_permutex2var_ps(low, evens, high);
    odd = _mm512_permutex2var_ps(low, odds, high);
  }
  static Floats low_pairs(Floats even, Floats odd) {
    const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(even, order, odd);
  }
  static Floats high_pairs(Floats even, Floats odd) {
    const __m512i order = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return _mm512_permutex2var_ps(even, order, odd);
  }
};

using Lanes = LanesWith<Words>;

}  // namespace avx512
}  // namespace
}  // namespace rotary::cpu
