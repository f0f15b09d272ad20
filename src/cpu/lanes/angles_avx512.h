// Eight pairs at a time: AVX-512 F, DQ and VL.
#pragma once

// g++ 12 takes the "undefined" operands inside this header for uninitialised variables (GCC bug 105593).
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

namespace rotary::cpu {
namespace {

struct Lanes {
  static constexpr int width = 8;
  struct Int {
    __m512i v;
  };
  struct Real {
    __m512d v;
  };
  struct Float {
    __m256 v;
  };

  static Int integer(std::uint64_t x) { return {_mm512_set1_epi64(static_cast<long long>(x))}; }
  static Real real(double x) { return {_mm512_set1_pd(x)}; }
  static Float floats(float x) { return {_mm256_set1_ps(x)}; }
  static Int load(const std::uint64_t* p) { return {_mm512_loadu_si512(p)}; }
  static Real load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Float load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static void store(double* p, Real x) { _mm512_storeu_pd(p, x.v); }
  static void store(float* p, Float x) { _mm256_storeu_ps(p, x.v); }

  static Int add(Int a, Int b) { return {_mm512_add_epi64(a.v, b.v)}; }
  static Int multiply_32(Int a, Int b) { return {_mm512_mul_epu32(a.v, b.v)}; }
  static Int both(Int a, Int b) { return {_mm512_and_si512(a.v, b.v)}; }
  template <int N>
  static Int left(Int a) {
    return {_mm512_slli_epi64(a.v, N)};
  }
  template <int N>
  static Int right(Int a) {
    return {_mm512_srli_epi64(a.v, N)};
  }

  static Real add(Real a, Real b) { return {_mm512_add_pd(a.v, b.v)}; }
  static Real subtract(Real a, Real b) { return {_mm512_sub_pd(a.v, b.v)}; }
  static Real multiply(Real a, Real b) { return {_mm512_mul_pd(a.v, b.v)}; }
  static Real multiply_add(Real a, Real b, Real c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
  static Real negative_multiply_add(Real a, Real b, Real c) { return {_mm512_fnmadd_pd(a.v, b.v, c.v)}; }
  static Float multiply(Float a, Float b) { return {_mm256_mul_ps(a.v, b.v)}; }

  static Real widen(Float a) { return {_mm512_cvtps_pd(a.v)}; }
  static Float rounded(Real a) { return {_mm512_cvtpd_ps(a.v)}; }
  static Real of_signed(Int a) { return {_mm512_cvtepi64_pd(a.v)}; }
  static Real of_32_bits(Int a) { return {_mm512_cvtepi64_pd(a.v)}; }
  static Int bits(Real a) { return {_mm512_castpd_si512(a.v)}; }

  template <int N>
  static Real choose(Int which, Real a, Real b) {
    const __mmask8 chosen = _mm512_test_epi64_mask(which.v, _mm512_set1_epi64(static_cast<long long>(1ull << N)));
    return {_mm512_mask_blend_pd(chosen, a.v, b.v)};
  }
  static Real flip_sign(Real x, Int which) {
    const __m512i sign = _mm512_set1_epi64(static_cast<long long>(1ull << 63));
    constexpr int exclusive_or_of_both = 0x78;  // a ^ (b & c)
    return {
        _mm512_castsi512_pd(_mm512_ternarylogic_epi64(_mm512_castpd_si512(x.v), which.v, sign, exclusive_or_of_both))};
  }

  static bool any_open(Real a, Real b, std::uint32_t offset, std::uint32_t mask, Real x, Real y) {
    const __m512 low = _mm512_shuffle_ps(_mm512_castpd_ps(a.v), _mm512_castpd_ps(b.v), 0x88);
    const __m512i sum = _mm512_add_epi32(_mm512_castps_si512(low), _mm512_set1_epi32(static_cast<int>(offset)));
    const __mmask16 clear = _mm512_testn_epi32_mask(sum, _mm512_set1_epi32(static_cast<int>(mask)));
    const __mmask8 less = _mm512_cmp_pd_mask(x.v, y.v, _CMP_LT_OQ);
    return (static_cast<unsigned>(clear) | static_cast<unsigned>(less)) != 0;
  }
  static unsigned differing(Float a, Float b, Float c, Float d) {
    return static_cast<unsigned>(_mm256_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)) |
           static_cast<unsigned>(_mm256_cmp_ps_mask(c.v, d.v, _CMP_NEQ_UQ));
  }
};

}  // namespace
}  // namespace rotary::cpu
