// Sixteen lanes, AVX-512 with the bf16 conversions.
#pragma once

#include "lanes_avx512.h"

namespace rotary::cpu {
namespace {
namespace avx512bf16 {

// The conversion instructions flush subnormals whatever MXCSR says; a vector that holds one is rounded by integers.
// (A normal f32 never becomes a subnormal bf16: both begin at 2^-126.)
struct Lanes : avx512::Lanes {
  using Plain = avx512::Lanes;
  using Plain::store;
  using Plain::store2;

  static void store(BF16* p, Floats x) {
    if (has_subnormal(x)) [[unlikely]]
      return Plain::store(p, x);
    store_half(p, __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(x)));
  }
  static void store2(BF16* p, Floats even, Floats odd) {
    if (has_subnormal(even) || has_subnormal(odd)) [[unlikely]]
      return Plain::store2(p, even, odd);
    store_interleaved(p, __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(odd, even)));
  }

 private:
  static bool has_subnormal(Floats x) { return _mm512_fpclass_ps_mask(x, 0x20) != 0; }
};

}  // namespace avx512bf16
}  // namespace
}  // namespace rotary::cpu
