// Four pairs at a time: AVX2 and FMA.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace rotary::cpu {
namespace {

struct Lanes {
  static constexpr int width = 4;
  struct Int {
    __m256i v;
  };
  struct Real {
    __m256d v;
  };
  struct Float {
    __m128 v;
  };

  static Int integer(std::uint64_t x) { return {_mm256_set1_epi64x(static_cast<long long>(x))}; }
  static Real real(double x) { return {_mm256_set1_pd(x)}; }
  static Float floats(float x) { return {_mm_set1_ps(x)}; }
  static Int load(const std::uint64_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  static Real load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static Float load(const float* p) { return {_mm_loadu_ps(p)}; }
  static void store(double* p, Real x) { _mm256_storeu_pd(p, x.v); }
  static void store(float* p, Float x) { _mm_storeu_ps(p, x.v); }

  static Int add(Int a, Int b) { return {_mm256_add_epi64(a.v, b.v)}; }
  static Int multiply_32(Int a, Int b) { return {_mm256_mul_epu32(a.v, b.v)}; }
  static Int both(Int a, Int b) { return {_mm256_and_si256(a.v, b.v)}; }
  template <int N>
  static Int left(Int a) {
    return {_mm256_slli_epi64(a.v, N)};
  }
  template <int N>
  static Int right(Int a) {
    return {_mm256_srli_epi64(a.v, N)};
  }

  static Real add(Real a, Real b) { return {_mm256_add_pd(a.v, b.v)}; }
  static Real subtract(Real a, Real b) { return {_mm256_sub_pd(a.v, b.v)}; }
  static Real multiply(Real a, Real b) { return {_mm256_mul_pd(a.v, b.v)}; }
  static Real multiply_add(Real a, Real b, Real c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
  static Real negative_multiply_add(Real a, Real b, Real c) { return {_mm256_fnmadd_pd(a.v, b.v, c.v)}; }
  static Float multiply(Float a, Float b) { return {_mm_mul_ps(a.v, b.v)}; }

  static Real widen(Float a) { return {_mm256_cvtps_pd(a.v)}; }
  static Float rounded(Real a) { return {_mm256_cvtpd_ps(a.v)}; }
  // The upper half becomes the low mantissa bits of 2^84 + 2^63 (the 2^63 is the offset of its sign), the lower half
  // those of 2^52.
  static Real of_signed(Int a) {
    const __m256i low = _mm256_blend_epi32(_mm256_set1_epi64x(0x4330000000000000), a.v, 0x55);
    const __m256i high = _mm256_xor_si256(_mm256_srli_epi64(a.v, 32), _mm256_set1_epi64x(0x4530000080000000));
    const __m256d upper = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(0x1p84 + 0x1p63 + 0x1p52));
    return {_mm256_add_pd(upper, _mm256_castsi256_pd(low))};
  }
  static Real of_32_bits(Int a) {
    const __m256d lead = _mm256_set1_pd(0x1p52);
    return {_mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(a.v), lead), lead)};
  }
  static Int bits(Real a) { return {_mm256_castpd_si256(a.v)}; }

  template <int N>
  static Real choose(Int which, Real a, Real b) {
    return {_mm256_blendv_pd(a.v, b.v, _mm256_castsi256_pd(_mm256_slli_epi64(which.v, 63 - N)))};
  }
  static Real flip_sign(Real x, Int which) {
    return {_mm256_xor_pd(x.v, _mm256_and_pd(_mm256_castsi256_pd(which.v), _mm256_set1_pd(-0.0)))};
  }

  static bool any_open(Real a, Real b, std::uint32_t offset, std::uint32_t mask, Real x, Real y) {
    const __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castpd_ps(a.v), _mm256_castpd_ps(b.v), 0x88));
    const __m256i sum = _mm256_add_epi32(low, _mm256_set1_epi32(static_cast<int>(offset)));
    const __m256i rest = _mm256_and_si256(sum, _mm256_set1_epi32(static_cast<int>(mask)));
    const __m256i clear = _mm256_cmpeq_epi32(rest, _mm256_setzero_si256());
    const __m256i less = _mm256_castpd_si256(_mm256_cmp_pd(x.v, y.v, _CMP_LT_OQ));
    return _mm256_movemask_epi8(_mm256_or_si256(clear, less)) != 0;
  }
  static unsigned differing(Float a, Float b, Float c, Float d) {
    return static_cast<unsigned>(_mm_movemask_ps(_mm_or_ps(_mm_cmpneq_ps(a.v, b.v), _mm_cmpneq_ps(c.v, d.v))));
  }
};

}  // namespace
}  // namespace rotary::cpu
