// Four pairs at a time: AVX2 and FMA.
#pragma once

#include "angles_operators.h"
#include "x86_intrinsics.h"

namespace rotary::cpu {
namespace {

using Ints [[gnu::vector_size(32)]] = std::uint64_t;
using Reals [[gnu::vector_size(32)]] = double;
using Floats [[gnu::vector_size(16)]] = float;

struct Lanes : Operators<Ints, Reals, Floats, 4> {
  static Int multiply_32(Int a, Int b) { return Int(_mm256_mul_epu32(__m256i(a), __m256i(b))); }

  static Real multiply_add(Real a, Real b, Real c) { return _mm256_fmadd_pd(a, b, c); }
  static Real negative_multiply_add(Real a, Real b, Real c) { return _mm256_fnmadd_pd(a, b, c); }

  static Real widen(Float a) { return _mm256_cvtps_pd(a); }
  static Float rounded(Real a) { return _mm256_cvtpd_ps(a); }
  // The upper half becomes the low mantissa bits of 2^84 + 2^63 (the 2^63 is the offset of its sign), the lower half
  // those of 2^52.
  static Real of_signed(Int a) {
    const __m256i low = _mm256_blend_epi32(_mm256_set1_epi64x(0x4330000000000000), __m256i(a), 0x55);
    const Int high = a >> 32 ^ integer(0x4530000080000000);
    return Real(high) - real(0x1p84 + 0x1p63 + 0x1p52) + _mm256_castsi256_pd(low);
  }
  static Real of_32_bits(Int a) { return _mm256_or_pd(Real(a), real(0x1p52)) - real(0x1p52); }

  template <int N>
  static Real choose(Int which, Real a, Real b) {
    return _mm256_blendv_pd(a, b, Real(which << (63 - N)));
  }
  // In doubles: g++ makes constants of integers anew in every round.
  static Real flip_sign(Real x, Int which) { return _mm256_xor_pd(x, _mm256_and_pd(Real(which), real(-0.0))); }

  static bool any_open(Real a, Real b, std::uint32_t offset, std::uint32_t mask, Real x, Real y) {
    const __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castpd_ps(a), _mm256_castpd_ps(b), 0x88));
    const __m256i sum = _mm256_add_epi32(low, _mm256_set1_epi32(static_cast<int>(offset)));
    const __m256i rest = _mm256_and_si256(sum, _mm256_set1_epi32(static_cast<int>(mask)));
    const __m256i clear = _mm256_cmpeq_epi32(rest, _mm256_setzero_si256());
    return _mm256_movemask_epi8(_mm256_or_si256(clear, __m256i(x < y))) != 0;
  }
  static unsigned differing(Float a, Float b, Float c, Float d) {
    return static_cast<unsigned>(_mm_movemask_ps(_mm_or_ps(_mm_cmpneq_ps(a, b), _mm_cmpneq_ps(c, d))));
  }
};

}  // namespace
}  // namespace rotary::cpu
