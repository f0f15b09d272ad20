// Eight pairs at a time: AVX-512 F, DQ and VL.
#pragma once

#include "angles_operators.h"
#include "x86_intrinsics.h"

namespace rotary::cpu {
namespace {

using Ints [[gnu::vector_size(64)]] = std::uint64_t;
using Reals [[gnu::vector_size(64)]] = double;
using Floats [[gnu::vector_size(32)]] = float;

struct Lanes : Operators<Ints, Reals, Floats, 8> {
  static Int multiply_32(Int a, Int b) { return Int(_mm512_mul_epu32(__m512i(a), __m512i(b))); }

  static Real multiply_add(Real a, Real b, Real c) { return _mm512_fmadd_pd(a, b, c); }
  static Real negative_multiply_add(Real a, Real b, Real c) { return _mm512_fnmadd_pd(a, b, c); }

  static Real widen(Float a) { return _mm512_cvtps_pd(a); }
  static Float rounded(Real a) { return _mm512_cvtpd_ps(a); }
  static Real of_signed(Int a) { return _mm512_cvtepi64_pd(__m512i(a)); }
  static Real of_32_bits(Int a) { return of_signed(a); }

  template <int N>
  static Real choose(Int which, Real a, Real b) {
    return _mm512_mask_blend_pd(_mm512_test_epi64_mask(__m512i(which), __m512i(integer(1ull << N))), a, b);
  }

  static bool any_open(Real a, Real b, std::uint32_t offset, std::uint32_t mask, Real x, Real y) {
    const __m512 low = _mm512_shuffle_ps(_mm512_castpd_ps(a), _mm512_castpd_ps(b), 0x88);
    const __m512i sum = _mm512_add_epi32(_mm512_castps_si512(low), _mm512_set1_epi32(static_cast<int>(offset)));
    const __mmask16 clear = _mm512_testn_epi32_mask(sum, _mm512_set1_epi32(static_cast<int>(mask)));
    const __mmask8 less = _mm512_cmp_pd_mask(x, y, _CMP_LT_OQ);
    return (static_cast<unsigned>(clear) | static_cast<unsigned>(less)) != 0;
  }
  static unsigned differing(Float a, Float b, Float c, Float d) {
    return static_cast<unsigned>(_mm256_cmp_ps_mask(a, b, _CMP_NEQ_UQ)) |
           static_cast<unsigned>(_mm256_cmp_ps_mask(c, d, _CMP_NEQ_UQ));
  }
};

}  // namespace
}  // namespace rotary::cpu
