// Four lanes, SSE2. f16 and bf16 convert by integer arithmetic.
#pragma once

#include <emmintrin.h>

#include "scalar.h"

namespace rotary::cpu {
namespace {
namespace sse2 {

template <bool past_caches>
struct CalmLanes;

// past_caches: the stores of whole vectors are non-temporal, to addresses that are multiples of the vector's size.
template <bool past_caches>
struct LanesWith : Traits {
  static constexpr int width = 4;
  template <class T>
  static constexpr bool cheap_evens = is_bf16<T>;
  template <class T>
  static constexpr bool watches_rows = is_bf16<T>;
  using Floats = __m128;
  using Narrower = scalar::Lanes;
  using Calm = CalmLanes<past_caches>;
  using Streaming = LanesWith<true>;
  template <class T>
  static constexpr bool streams = sizeof(T) == 4 || is_bf16<T>;
  static constexpr bool streaming = past_caches;

  static Floats splat(float x) { return _mm_set1_ps(x); }
  static Floats mul(Floats a, Floats b) { return _mm_mul_ps(a, b); }
  static Floats add(Floats a, Floats b) { return _mm_add_ps(a, b); }
  static Floats sub(Floats a, Floats b) { return _mm_sub_ps(a, b); }

  static Floats load(const float* p) { return _mm_loadu_ps(p); }
  static void store(float* p, Floats x) { past_caches ? _mm_stream_ps(p, x) : _mm_storeu_ps(p, x); }
  static void stream(float* p, Floats x) { _mm_stream_ps(p, x); }
  static void fence() { _mm_sfence(); }
  static void load2(const float* p, Floats& even, Floats& odd) {
    const Floats low = load(p), high = load(p + 4);
    even = _mm_shuffle_ps(low, high, 0x88);
    odd = _mm_shuffle_ps(low, high, 0xdd);
  }
  static void store2(float* p, Floats even, Floats odd) {
    store(p, _mm_unpacklo_ps(even, odd));
    store(p + 4, _mm_unpackhi_ps(even, odd));
  }

  // Whether the row has no NaN. See round_ordered.
  static bool calm(const float* cos, const float* sin, int pairs) {
    Floats unordered = _mm_setzero_ps();
    int i = 0;
    for (; i + width <= pairs; i += width) {
      unordered = _mm_or_ps(unordered, _mm_cmpunord_ps(load(cos + i), load(sin + i)));
    }
    bool ordered = _mm_movemask_ps(unordered) == 0;
    for (; i < pairs; ++i) ordered = ordered && cos[i] == cos[i] && sin[i] == sin[i];
    return ordered;
  }

  static Floats load(const bf16* p) { return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), load_half(p))); }
  static void store(bf16* p, Floats x) { store_low_words(p, _mm_srai_epi32(round_bf16(x), 16)); }
  static void load2(const bf16* p, Floats& even, Floats& odd) {
    const __m128i both = load_whole(p);
    even = _mm_castsi128_ps(_mm_slli_epi32(both, 16));
    odd = _mm_castsi128_ps(_mm_and_si128(both, upper()));
  }
  static void store2(bf16* p, Floats even, Floats odd) {
    store_whole(p, _mm_or_si128(_mm_srli_epi32(round_bf16(even), 16), _mm_and_si128(round_bf16(odd), upper())));
  }

  static Floats load(const f16* p) { return widen_f16(_mm_unpacklo_epi16(load_half(p), _mm_setzero_si128())); }
  static void store(f16* p, Floats x) { store_low_words(p, _mm_srai_epi32(_mm_slli_epi32(narrow_f16(x), 16), 16)); }
  static void load2(const f16* p, Floats& even, Floats& odd) {
    const __m128i both = load_whole(p);
    even = widen_f16(_mm_andnot_si128(upper(), both));
    odd = widen_f16(_mm_srli_epi32(both, 16));
  }
  static void store2(f16* p, Floats even, Floats odd) {
    store_whole(p, _mm_or_si128(narrow_f16(even), _mm_slli_epi32(narrow_f16(odd), 16)));
  }

 protected:
  static __m128i load_half(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
  static __m128i load_whole(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static void store_whole(void* p, __m128i x) {
    auto* to = static_cast<__m128i*>(p);
    past_caches ? _mm_stream_si128(to, x) : _mm_storeu_si128(to, x);
  }
  // x: sign-extended 16-bit values.
  static void store_low_words(void* p, __m128i x) { _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packs_epi32(x, x)); }
  static __m128i upper() { return _mm_set1_epi32(static_cast<int>(0xffff0000)); }
  static __m128i select(__m128i where, __m128i yes, __m128i no) {
    return _mm_or_si128(_mm_and_si128(where, yes), _mm_andnot_si128(where, no));
  }

  // The upper 16 bits of each lane hold the bf16. The same steps as to_bf16 in storage.h, for all but a NaN whose upper
  // 16 bits are all ones but the sign. None comes from bf16 elements and a row without NaN: a NaN that an operation
  // makes has 16 zeros below, and so has one that it passes on from an element.
  static __m128i round_ordered(Floats x) {
    const __m128i bits = _mm_castps_si128(x);
    const __m128i last = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));
    return _mm_add_epi32(_mm_add_epi32(bits, _mm_set1_epi32(0x7fff)), last);
  }
  static __m128i round_bf16(Floats x) {
    const __m128i bits = _mm_castps_si128(x);
    const __m128i rounded = round_ordered(x);
    const __m128i quiet = _mm_or_si128(bits, _mm_set1_epi32(0x00400000));
    return select(_mm_castps_si128(_mm_cmpunord_ps(x, x)), quiet, rounded);
  }

  // The lower 16 bits of each lane hold the f16. The same steps as to_float and to_f16 in storage.h.
  static Floats widen_f16(__m128i h) {
    const __m128i sign = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x8000)), 16);
    const __m128i magnitude = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x7fff)), 13);
    const __m128i above = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x0f7fffff));
    const __m128i infinite = _mm_and_si128(above, _mm_set1_epi32(0x7f800000));
    const Floats scaled = _mm_mul_ps(_mm_castsi128_ps(magnitude), splat(0x1p112f));
    return _mm_or_ps(scaled, _mm_castsi128_ps(_mm_or_si128(infinite, sign)));
  }
  static __m128i narrow_f16(Floats x) {
    const __m128i bits = _mm_castps_si128(x);
    const __m128i sign = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(0x8000));
    const __m128i magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fffffff));
    const __m128i last = _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(1));
    const __m128i rounded = _mm_add_epi32(_mm_sub_epi32(magnitude, _mm_set1_epi32(0x38000000 - 0x0fff)), last);
    const __m128i normal = _mm_srli_epi32(rounded, 13);
    const Floats shifted = _mm_add_ps(_mm_castsi128_ps(magnitude), splat(0.5f));
    const __m128i tiny = _mm_sub_epi32(_mm_castps_si128(shifted), _mm_set1_epi32(0x3f000000));
    const __m128i is_nan = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7f800000));
    const __m128i huge = _mm_or_si128(_mm_set1_epi32(0x7c00), _mm_and_si128(is_nan, _mm_set1_epi32(0x0200)));
    const __m128i finite = select(_mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x38800000)), tiny, normal);
    const __m128i result = select(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x477fefff)), huge, finite);
    return _mm_or_si128(result, sign);
  }
};

// For the results of a calm row.
template <bool past_caches>
struct CalmLanes : LanesWith<past_caches> {
  template <class T>
  static constexpr bool watches_rows = false;
  using Base = LanesWith<past_caches>;
  using Base::store;
  using Base::store2;
  using typename Base::Floats;
  static void store(bf16* p, Floats x) { Base::store_low_words(p, _mm_srai_epi32(Base::round_ordered(x), 16)); }
  static void store2(bf16* p, Floats even, Floats odd) {
    const __m128i low = _mm_srli_epi32(Base::round_ordered(even), 16);
    Base::store_whole(p, _mm_or_si128(low, _mm_and_si128(Base::round_ordered(odd), Base::upper())));
  }
};

using Lanes = LanesWith<false>;

}  // namespace sse2
}  // namespace
}  // namespace rotary::cpu
