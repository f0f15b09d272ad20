// Four lanes, AArch64 NEON.
#pragma once

#include <arm_neon.h>

#include "scalar.h"

namespace rotary::cpu {
namespace {
namespace neon {

struct CalmLanes;

struct Lanes : Traits {
  static constexpr int width = 4;
  static constexpr int resident = 8;
  template <class T>
  static constexpr bool watches_rows = is_bf16<T>;
  using Floats = float32x4_t;
  using Narrower = scalar::Lanes;
  using Calm = CalmLanes;

  static Floats splat(float x) { return vdupq_n_f32(x); }
  static Floats mul(Floats a, Floats b) { return vmulq_f32(a, b); }
  static Floats add(Floats a, Floats b) { return vaddq_f32(a, b); }
  static Floats sub(Floats a, Floats b) { return vsubq_f32(a, b); }

  static Floats load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, Floats x) { vst1q_f32(p, x); }
  static void load2(const float* p, Floats& even, Floats& odd) {
    const float32x4x2_t both = vld2q_f32(p);
    even = both.val[0];
    odd = both.val[1];
  }
  static void store2(float* p, Floats even, Floats odd) { vst2q_f32(p, (float32x4x2_t{{even, odd}})); }

  // Whether the row has no NaN. See round_ordered in avx2.h.
  static bool calm(const float* cos, const float* sin, int pairs) {
    uint32x4_t ordered = vdupq_n_u32(~0u);
    int i = 0;
    for (; i + width <= pairs; i += width) {
      const Floats c = load(cos + i), s = load(sin + i);
      ordered = vandq_u32(ordered, vandq_u32(vceqq_f32(c, c), vceqq_f32(s, s)));
    }
    bool all = vminvq_u32(ordered) != 0;
    for (; i < pairs; ++i) all = all && cos[i] == cos[i] && sin[i] == sin[i];
    return all;
  }

  // For T = f16, bf16.
  template <class T>
  static Floats load(const T* p) {
    return widen(vld1_u16(&p->bits), p);
  }
  template <class T>
  static void store(T* p, Floats x) {
    vst1_u16(&p->bits, narrow(x, p));
  }
  template <class T>
  static void load2(const T* p, Floats& even, Floats& odd) {
    const uint16x4x2_t both = vld2_u16(&p->bits);
    even = widen(both.val[0], p);
    odd = widen(both.val[1], p);
  }
  template <class T>
  static void store2(T* p, Floats even, Floats odd) {
    vst2_u16(&p->bits, (uint16x4x2_t{{narrow(even, p), narrow(odd, p)}}));
  }

 protected:
  static Floats widen(uint16x4_t x, const f16*) { return vcvt_f32_f16(vreinterpret_f16_u16(x)); }
  static Floats widen(uint16x4_t x, const bf16*) { return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(x), 16)); }
  static uint16x4_t narrow(Floats x, const f16*) { return vreinterpret_u16_f16(vcvt_f16_f32(x)); }
  static uint16x4_t narrow(Floats x, const bf16*) {
    const uint32x4_t quiet = vorrq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x00400000));
    return vbsl_u16(vmovn_u32(vceqq_f32(x, x)), round_ordered(x), vshrn_n_u32(quiet, 16));
  }
  static uint16x4_t round_ordered(Floats x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddhn_u32(bits, vaddq_u32(last, vdupq_n_u32(0x7fff)));
  }
};

// For the results of a calm row.
struct CalmLanes : Lanes {
  template <class T>
  static constexpr bool watches_rows = false;
  using Lanes::store;
  using Lanes::store2;
  static void store(bf16* p, Floats x) { vst1_u16(&p->bits, round_ordered(x)); }
  static void store2(bf16* p, Floats even, Floats odd) {
    const uint16x4x2_t both = {{round_ordered(even), round_ordered(odd)}};
    vst2_u16(&p->bits, both);
  }
};

}  // namespace neon
}  // namespace
}  // namespace rotary::cpu
