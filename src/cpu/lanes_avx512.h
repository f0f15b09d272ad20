// Sixteen lanes, AVX-512 F, BW, VL, DQ.
#pragma once

// g++ 12 takes the "undefined" operands inside this header for uninitialised variables (GCC bug 105593).
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "lanes_avx2.h"

namespace rotary::cpu {
namespace {
namespace avx512 {

struct Lanes {
  static constexpr int width = 16;
  using Floats = __m512;
  using Narrower = avx2::Lanes;

  static Floats splat(float x) { return _mm512_set1_ps(x); }
  static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }

  static Floats load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Floats x) { _mm512_storeu_ps(p, x); }
  static void load2(const float* p, Floats& even, Floats& odd) {
    const Floats low = load(p), high = load(p + 16);
    even = _mm512_permutex2var_ps(low, evens(), high);
    odd = _mm512_permutex2var_ps(low, odds(), high);
  }
  static void store2(float* p, Floats even, Floats odd) {
    store(p, _mm512_permutex2var_ps(even, low_pairs(), odd));
    store(p + 16, _mm512_permutex2var_ps(even, high_pairs(), odd));
  }

  static Floats load(const BF16* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_half(p)), 16));
  }
  static void store(BF16* p, Floats x) { store_half(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_bf16(x), 16))); }
  static void load2(const BF16* p, Floats& even, Floats& odd) {
    const __m512i both = _mm512_loadu_si512(p);
    even = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }
  static void store2(BF16* p, Floats even, Floats odd) {
    const __m512i low = _mm512_srli_epi32(round_bf16(even), 16);
    _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaau, low, round_bf16(odd)));
  }

  static Floats load(const F16* p) { return _mm512_cvtph_ps(load_half(p)); }
  static void store(F16* p, Floats x) { store_half(p, narrow_f16(x)); }
  static void load2(const F16* p, Floats& even, Floats& odd) {
    const __m512i split = _mm512_permutexvar_epi16(words_evens_then_odds(), _mm512_loadu_si512(p));
    even = _mm512_cvtph_ps(_mm512_castsi512_si256(split));
    odd = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(split, 1));
  }
  static void store2(F16* p, Floats even, Floats odd) {
    store_interleaved(p, _mm512_inserti64x4(_mm512_castsi256_si512(narrow_f16(even)), narrow_f16(odd), 1));
  }

 protected:
  static __m256i load_half(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store_half(void* p, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
  // x: sixteen even members, then sixteen odd ones, of 16 bits each.
  static void store_interleaved(void* p, __m512i x) {
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(words_in_pairs(), x));
  }

 private:
  static __m512i evens() { return _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30); }
  static __m512i odds() { return _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31); }
  static __m512i low_pairs() { return _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23); }
  static __m512i high_pairs() {
    return _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
  // 16-bit words; set_epi16 lists the last one first.
  static __m512i words_evens_then_odds() {
    return _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1,  //
                            30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  }
  static __m512i words_in_pairs() {
    return _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,  //
                            23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  }

  static __m256i narrow_f16(Floats x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // The upper 16 bits of each lane hold the bf16.
  static __m512i round_bf16(Floats x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), last);
    const __m512i quiet = _mm512_set1_epi32(0x00400000);
    return _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits, quiet);
  }
};

}  // namespace avx512
}  // namespace
}  // namespace rotary::cpu
