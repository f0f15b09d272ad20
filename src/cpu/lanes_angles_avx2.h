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

  static Int integer(std::uint64_t x) { return {_mm256_set1_epi64x(static_cast<long long>(x))}; }
  static Real real(double x) { return {_mm256_set1_pd(x)}; }
  static Int load(const std::uint32_t* p) {
    return {_mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  static Real load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static Real float_product(const float* p, const float* q) {
    return {_mm256_cvtps_pd(_mm_mul_ps(_mm_loadu_ps(p), _mm_loadu_ps(q)))};
  }
  static void store(float* p, Real x) { _mm_storeu_ps(p, _mm256_cvtpd_ps(x.v)); }
  static void store(float* p, Real x, float factor) {
    _mm_storeu_ps(p, _mm_mul_ps(_mm256_cvtpd_ps(x.v), _mm_set1_ps(factor)));
  }

  static Int add(Int a, Int b) { return {_mm256_add_epi64(a.v, b.v)}; }
  static Int multiply_low(Int a, Int b) { return {_mm256_mul_epu32(a.v, b.v)}; }
  static Int both(Int a, Int b) { return {_mm256_and_si256(a.v, b.v)}; }
  static Int either(Int a, Int b) { return {_mm256_or_si256(a.v, b.v)}; }
  static Int differ(Int a, Int b) { return {_mm256_xor_si256(a.v, b.v)}; }
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
  static Int bits(Real a) { return {_mm256_castpd_si256(a.v)}; }
  static Real from_bits(Int a) { return {_mm256_castsi256_pd(a.v)}; }

  static Real choose(Int which, Real a, Real b) { return {_mm256_blendv_pd(a.v, b.v, _mm256_castsi256_pd(which.v))}; }
  static unsigned top_bits(Int a) { return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(a.v))); }
};

}  // namespace
}  // namespace rotary::cpu
