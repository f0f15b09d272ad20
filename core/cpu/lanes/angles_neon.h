// Four pairs at a time, in two vectors of two doubles: AArch64 NEON. Two vectors hide the latency of the multiply-add,
// and floats and Ziv's test take the low words of four doubles in one vector.
#pragma once

#include <arm_neon.h>

#include "angles_operators.h"

namespace rotary::cpu {
namespace {

struct Lanes : Operators<Two<uint64x2_t>, Two<float64x2_t>, float32x4_t, 4> {
  static Int multiply_32(Int a, Int b) {
    const uint32x4_t x = low_words(a), y = low_words(b);
    return {vmull_u32(vget_low_u32(x), vget_low_u32(y)), vmull_high_u32(x, y)};
  }

  static Real multiply_add(Real a, Real b, Real c) {
    return {vfmaq_f64(c.low, a.low, b.low), vfmaq_f64(c.high, a.high, b.high)};
  }
  static Real negative_multiply_add(Real a, Real b, Real c) {
    return {vfmsq_f64(c.low, a.low, b.low), vfmsq_f64(c.high, a.high, b.high)};
  }

  static Real widen(Float a) { return {vcvt_f64_f32(vget_low_f32(a)), vcvt_high_f64_f32(a)}; }
  static Float rounded(Real a) { return vcvt_high_f32_f64(vcvt_f32_f64(a.low), a.high); }
  static Real of_signed(Int a) {
    return {vcvtq_f64_s64(vreinterpretq_s64_u64(a.low)), vcvtq_f64_s64(vreinterpretq_s64_u64(a.high))};
  }
  static Real of_32_bits(Int a) { return {vcvtq_f64_u64(a.low), vcvtq_f64_u64(a.high)}; }

  template <int N>
  static Real choose(Int which, Real a, Real b) {
    const uint64x2_t bit = vdupq_n_u64(std::uint64_t{1} << N);
    return {vbslq_f64(vtstq_u64(which.low, bit), b.low, a.low), vbslq_f64(vtstq_u64(which.high, bit), b.high, a.high)};
  }

  static bool any_open(Real a, Real b, std::uint32_t offset, std::uint32_t mask, Real x, Real y) {
    const uint32x4_t more = vdupq_n_u32(offset), tested = vdupq_n_u32(mask);
    const uint32x4_t cos = vtstq_u32(vaddq_u32(low_words(bits(a)), more), tested);
    const uint32x4_t sin = vtstq_u32(vaddq_u32(low_words(bits(b)), more), tested);
    const uint32x4_t less = low_words({vcltq_f64(x.low, y.low), vcltq_f64(x.high, y.high)});
    return vminvq_u32(vbicq_u32(vandq_u32(cos, sin), less)) == 0;
  }
  static unsigned differing(Float a, Float b, Float c, Float d) {
    constexpr std::uint32_t bit_of_lane[4] = {1, 2, 4, 8};
    const uint32x4_t equal = vandq_u32(vceqq_f32(a, b), vceqq_f32(c, d));
    return vaddvq_u32(vbicq_u32(vld1q_u32(bit_of_lane), equal));
  }

 private:
  static uint32x4_t low_words(Int a) { return vuzp1q_u32(vreinterpretq_u32_u64(a.low), vreinterpretq_u32_u64(a.high)); }
};

}  // namespace
}  // namespace rotary::cpu
