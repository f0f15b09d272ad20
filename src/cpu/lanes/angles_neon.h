// Four pairs at a time, in two vectors of two doubles: AArch64 NEON. Two vectors hide the latency of the multiply-add,
// and floats and Ziv's test take the low words of four doubles in one vector.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace rotary::cpu {
namespace {

struct Lanes {
  static constexpr int width = 4;
  struct Int {
    uint64x2_t low, high;
  };
  struct Real {
    float64x2_t low, high;
  };
  struct Float {
    float32x4_t v;
  };

  static Int integer(std::uint64_t x) { return {vdupq_n_u64(x), vdupq_n_u64(x)}; }
  static Real real(double x) { return {vdupq_n_f64(x), vdupq_n_f64(x)}; }
  static Float floats(float x) { return {vdupq_n_f32(x)}; }
  static Int load(const std::uint64_t* p) { return {vld1q_u64(p), vld1q_u64(p + 2)}; }
  static Real load(const double* p) { return {vld1q_f64(p), vld1q_f64(p + 2)}; }
  static Float load(const float* p) { return {vld1q_f32(p)}; }
  static void store(double* p, Real x) {
    vst1q_f64(p, x.low);
    vst1q_f64(p + 2, x.high);
  }
  static void store(float* p, Float x) { vst1q_f32(p, x.v); }

  static Int add(Int a, Int b) { return {vaddq_u64(a.low, b.low), vaddq_u64(a.high, b.high)}; }
  static Int multiply_32(Int a, Int b) {
    const uint32x4_t x = low_words(a.low, a.high), y = low_words(b.low, b.high);
    return {vmull_u32(vget_low_u32(x), vget_low_u32(y)), vmull_high_u32(x, y)};
  }
  static Int both(Int a, Int b) { return {vandq_u64(a.low, b.low), vandq_u64(a.high, b.high)}; }
  template <int N>
  static Int left(Int a) {
    return {vshlq_n_u64(a.low, N), vshlq_n_u64(a.high, N)};
  }
  template <int N>
  static Int right(Int a) {
    return {vshrq_n_u64(a.low, N), vshrq_n_u64(a.high, N)};
  }

  static Real add(Real a, Real b) { return {vaddq_f64(a.low, b.low), vaddq_f64(a.high, b.high)}; }
  static Real subtract(Real a, Real b) { return {vsubq_f64(a.low, b.low), vsubq_f64(a.high, b.high)}; }
  static Real multiply(Real a, Real b) { return {vmulq_f64(a.low, b.low), vmulq_f64(a.high, b.high)}; }
  static Real multiply_add(Real a, Real b, Real c) {
    return {vfmaq_f64(c.low, a.low, b.low), vfmaq_f64(c.high, a.high, b.high)};
  }
  static Real negative_multiply_add(Real a, Real b, Real c) {
    return {vfmsq_f64(c.low, a.low, b.low), vfmsq_f64(c.high, a.high, b.high)};
  }
  static Float multiply(Float a, Float b) { return {vmulq_f32(a.v, b.v)}; }

  static Real widen(Float a) { return {vcvt_f64_f32(vget_low_f32(a.v)), vcvt_high_f64_f32(a.v)}; }
  static Float rounded(Real a) { return {vcvt_high_f32_f64(vcvt_f32_f64(a.low), a.high)}; }
  static Real of_signed(Int a) {
    return {vcvtq_f64_s64(vreinterpretq_s64_u64(a.low)), vcvtq_f64_s64(vreinterpretq_s64_u64(a.high))};
  }
  static Real of_32_bits(Int a) { return {vcvtq_f64_u64(a.low), vcvtq_f64_u64(a.high)}; }
  static Int bits(Real a) { return {vreinterpretq_u64_f64(a.low), vreinterpretq_u64_f64(a.high)}; }

  template <int N>
  static Real choose(Int which, Real a, Real b) {
    const uint64x2_t bit = vdupq_n_u64(std::uint64_t{1} << N);
    return {vbslq_f64(vtstq_u64(which.low, bit), b.low, a.low), vbslq_f64(vtstq_u64(which.high, bit), b.high, a.high)};
  }
  static Real flip_sign(Real x, Int which) { return {flip_sign(x.low, which.low), flip_sign(x.high, which.high)}; }

  static bool any_open(Real a, Real b, std::uint32_t offset, std::uint32_t mask, Real x, Real y) {
    const uint32x4_t more = vdupq_n_u32(offset), tested = vdupq_n_u32(mask);
    const Int i = bits(a), j = bits(b);
    const uint32x4_t cos = vtstq_u32(vaddq_u32(low_words(i.low, i.high), more), tested);
    const uint32x4_t sin = vtstq_u32(vaddq_u32(low_words(j.low, j.high), more), tested);
    const uint32x4_t less = low_words(vcltq_f64(x.low, y.low), vcltq_f64(x.high, y.high));
    return vminvq_u32(vbicq_u32(vandq_u32(cos, sin), less)) == 0;
  }
  static unsigned differing(Float a, Float b, Float c, Float d) {
    constexpr std::uint32_t bit_of_lane[4] = {1, 2, 4, 8};
    const uint32x4_t equal = vandq_u32(vceqq_f32(a.v, b.v), vceqq_f32(c.v, d.v));
    return vaddvq_u32(vbicq_u32(vld1q_u32(bit_of_lane), equal));
  }

 private:
  static uint32x4_t low_words(uint64x2_t low, uint64x2_t high) {
    return vuzp1q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high));
  }
  static float64x2_t flip_sign(float64x2_t x, uint64x2_t which) {
    const uint64x2_t sign = vandq_u64(which, vdupq_n_u64(std::uint64_t{1} << 63));
    return vreinterpretq_f64_u64(veorq_u64(vreinterpretq_u64_f64(x), sign));
  }
};

}  // namespace
}  // namespace rotary::cpu
