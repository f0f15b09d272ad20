// Eight pairs at a time: AVX-512 F, DQ and VL.
#pragma once

// g++ 12 takes the undefined operand of its own intrinsics for a mistake.
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

  static Int integer(std::uint64_t x) { return {_mm512_set1_epi64(static_cast<long long>(x))}; }
  static Real real(double x) { return {_mm512_set1_pd(x)}; }
  static Int load(const std::uint32_t* p) {
    return {_mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Real load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Real float_product(const float* p, const float* q) {
    return {_mm512_cvtps_pd(_mm256_mul_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(q)))};
  }
  static void store(float* p, Real x) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(x.v)); }
  static void store(float* p, Real x, float factor) {
    _mm256_storeu_ps(p, _mm256_mul_ps(_mm512_cvtpd_ps(x.v), _mm256_set1_ps(factor)));
  }

  static Int add(Int a, Int b) { return {_mm512_add_epi64(a.v, b.v)}; }
  static Int multiply_low(Int a, Int b) { return {_mm512_mul_epu32(a.v, b.v)}; }
  static Int both(Int a, Int b) { return {_mm512_and_si512(a.v, b.v)}; }
  static Int either(Int a, Int b) { return {_mm512_or_si512(a.v, b.v)}; }
  static Int differ(Int a, Int b) { return {_mm512_xor_si512(a.v, b.v)}; }
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
  static Int bits(Real a) { return {_mm512_castpd_si512(a.v)}; }
  static Real from_bits(Int a) { return {_mm512_castsi512_pd(a.v)}; }

  static Real choose(Int which, Real a, Real b) {
    return {_mm512_mask_blend_pd(_mm512_movepi64_mask(which.v), a.v, b.v)};
  }
  static unsigned top_bits(Int a) { return static_cast<unsigned>(_mm512_movepi64_mask(a.v)); }
};

}  // namespace
}  // namespace rotary::cpu
