// Eight lanes, AVX2 and F16C.
#pragma once

#include "runtime/compiler.h"
#include "scalar.h"
#include "x86_intrinsics.h"

namespace rotary::cpu {
namespace {
namespace avx2 {

// The lanes for the last elements of a block.
struct Four : Traits {
  static constexpr int width = 4;
  using Floats = __m128;
  using Narrower = scalar::Lanes;

  static Floats splat(float x) { return _mm_set1_ps(x); }
  static Floats mul(Floats a, Floats b) { return _mm_mul_ps(a, b); }
  static Floats add(Floats a, Floats b) { return _mm_add_ps(a, b); }
  static Floats sub(Floats a, Floats b) { return _mm_sub_ps(a, b); }

  static Floats load(const float* p) { return _mm_loadu_ps(p); }
  static void store(float* p, Floats x) { _mm_storeu_ps(p, x); }
  static void load2(const float* p, Floats& even, Floats& odd) {
    const Floats low = load(p), high = load(p + 4);
    even = _mm_shuffle_ps(low, high, 0x88);
    odd = _mm_shuffle_ps(low, high, 0xdd);
  }
  static void store2(float* p, Floats even, Floats odd) {
    store(p, _mm_unpacklo_ps(even, odd));
    store(p + 4, _mm_unpackhi_ps(even, odd));
  }

  // For T = f16, bf16.
  template <class T>
  static Floats load(const T* p) {
    return widen(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), p);
  }
  template <class T>
  static void store(T* p, Floats x) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), narrow(x, p));
  }
  template <class T>
  static void load2(const T* p, Floats& even, Floats& odd) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i low = _mm_blend_epi16(both, _mm_setzero_si128(), 0xaa);
    const __m128i split = _mm_packus_epi32(low, _mm_srli_epi32(both, 16));
    even = widen(split, p);
    odd = widen(_mm_unpackhi_epi64(split, split), p);
  }
  template <class T>
  static void store2(T* p, Floats even, Floats odd) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_unpacklo_epi16(narrow(even, p), narrow(odd, p)));
  }

 private:
  static Floats widen(__m128i x, const f16*) { return _mm_cvtph_ps(x); }
  static Floats widen(__m128i x, const bf16*) { return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), x)); }
  static __m128i narrow(Floats x, const f16*) { return _mm_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // The same steps as encode_bf16 in storage.h.
  static __m128i narrow(Floats x, const bf16*) {
    const __m128i bits = _mm_castps_si128(x), last = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));
    const __m128i rounded = _mm_add_epi32(_mm_add_epi32(bits, _mm_set1_epi32(0x7fff)), last);
    const __m128i quiet = _mm_or_si128(bits, _mm_set1_epi32(0x00400000));
    const Floats upper = _mm_blendv_ps(_mm_castsi128_ps(rounded), _mm_castsi128_ps(quiet), _mm_cmpunord_ps(x, x));
    const __m128i words = _mm_srli_epi32(_mm_castps_si128(upper), 16);
    return _mm_packus_epi32(words, words);
  }
};

template <bool past_caches>
struct CalmLanes;
struct NearLanes;

// past_caches: the stores of whole vectors are non-temporal, to addresses that are multiples of the vector's size.
template <bool past_caches>
struct LanesWith : Traits {
  static constexpr int width = 8;
  template <class T>
  static constexpr bool watches_rows = is_bf16<T>;
  template <class T>
  static constexpr bool cheap_evens = is_bf16<T>;
  template <class T>
  static constexpr bool cheap_swap = std::is_same_v<T, f16>;  // NearLanes: floats too
  template <class T>
  static constexpr bool cheap_split = std::is_same_v<T, float>;
  using Floats = __m256;
  using Narrower = Four;
  using HalfLanes = Four;
  using NearLanes = avx2::NearLanes;
  using Calm = CalmLanes<past_caches>;
  using Streaming = LanesWith<true>;
  template <class T>
  static constexpr bool streams = true;

  static Floats splat(float x) { return _mm256_set1_ps(x); }
  static Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats sub(Floats a, Floats b) { return _mm256_sub_ps(a, b); }

  // x, in a register: otherwise g++ folds a load into each operation that uses it, and loads are the bottleneck.
  static Floats held(Floats x) {
    ROTARY_IN_REGISTER("x", x);
    return x;
  }
  static Floats load(const float* p) { return held(_mm256_loadu_ps(p)); }
  static void store(float* p, Floats x) { past_caches ? _mm256_stream_ps(p, x) : _mm256_storeu_ps(p, x); }
  static void fence() { _mm_sfence(); }
  static Floats swap(Floats x) { return _mm256_permute_ps(x, 0xb1); }
  static Floats load_twice(const float* p) {
    const __m256i order = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), order);
  }
  static Floats alternating(float x) { return _mm256_setr_ps(-x, x, -x, x, -x, x, -x, x); }
  // Separates the pairs within each half of 128 bits: their order is 0 1 4 5 2 3 6 7. join undoes it.
  static void split(Floats low, Floats high, Floats& even, Floats& odd) {
    even = _mm256_shuffle_ps(low, high, 0x88);
    odd = _mm256_shuffle_ps(low, high, 0xdd);
  }
  static void join(Floats even, Floats odd, Floats& low, Floats& high) {
    low = _mm256_unpacklo_ps(even, odd);
    high = _mm256_unpackhi_ps(even, odd);
  }
  static Floats load_split(const float* row) { return middle_crossed(load(row)); }
  static void load2(const float* p, Floats& even, Floats& odd) {
    split(load(p), load(p + 8), even, odd);
    even = middle_crossed(even);
    odd = middle_crossed(odd);
  }
  static void store2(float* p, Floats even, Floats odd) {
    Floats low, high;
    join(middle_crossed(even), middle_crossed(odd), low, high);
    store(p, low);
    store(p + 8, high);
  }

  // Whether the row has no NaN. See round_ordered.
  static bool calm(const float* cos, const float* sin, int pairs) {
    Floats unordered = _mm256_setzero_ps();
    int i = 0;
    for (; i + width <= pairs; i += width) {
      const Floats both = _mm256_cmp_ps(_mm256_loadu_ps(cos + i), _mm256_loadu_ps(sin + i), _CMP_UNORD_Q);
      unordered = _mm256_or_ps(unordered, both);
    }
    bool ordered = _mm256_movemask_ps(unordered) == 0;
    for (; i < pairs; ++i) ordered = ordered && cos[i] == cos[i] && sin[i] == sin[i];
    return ordered;
  }

  static Floats load(const bf16* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(p)), 16));
  }
  static void store(bf16* p, Floats x) { store_words(p, _mm256_srli_epi32(round_bf16(x), 16)); }
  static void load2(const bf16* p, Floats& even, Floats& odd) {
    const __m256i both = load_whole(p);
    even = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    odd = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
  }
  static void store2(bf16* p, Floats even, Floats odd) {
    const __m256i low = _mm256_srli_epi32(round_bf16(even), 16);
    store_whole(p, _mm256_blend_epi16(low, round_bf16(odd), 0xaa));
  }

  static Floats load(const f16* p) { return _mm256_cvtph_ps(load_half(p)); }
  static void store(f16* p, Floats x) { store_half(p, narrow_f16(x)); }
  static void load2(const f16* p, Floats& even, Floats& odd) {
    const __m256i both = load_whole(p);
    const __m256i low = _mm256_blend_epi16(both, _mm256_setzero_si256(), 0xaa);
    const __m256i split = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, _mm256_srli_epi32(both, 16)), 0xd8);
    even = _mm256_cvtph_ps(_mm256_castsi256_si128(split));
    odd = _mm256_cvtph_ps(_mm256_extracti128_si256(split, 1));
  }
  static void store2(f16* p, Floats even, Floats odd) {
    const __m128i low = narrow_f16(even), high = narrow_f16(odd);
    store_half(p, _mm_unpacklo_epi16(low, high));
    store_half(p + 8, _mm_unpackhi_epi16(low, high));
  }

 protected:
  static __m128i load_half(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static void store_words(void* p, __m256i words) {
    store_half(p, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  static void store_whole(void* p, __m256i x) {
    auto* to = static_cast<__m256i*>(p);
    past_caches ? _mm256_stream_si256(to, x) : _mm256_storeu_si256(to, x);
  }
  static __m256i load_whole(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store_half(void* p, __m128i x) {
    auto* to = static_cast<__m128i*>(p);
    past_caches ? _mm_stream_si128(to, x) : _mm_storeu_si128(to, x);
  }
  // Orders the 64-bit quarters 0 2 1 3, to undo the interleaving of the halves by 256-bit shuffles.
  static Floats middle_crossed(Floats x) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8)); }
  static __m128i narrow_f16(Floats x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // The upper 16 bits of each lane hold the bf16. The same steps as encode_bf16 in storage.h, for all but a NaN whose
  // upper 16 bits are all ones but the sign. None comes from bf16 elements and a row without NaN: a NaN that an
  // operation makes has 16 zeros below, and so has one that it passes on from an element.
  static __m256i round_ordered(Floats x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), last);
  }
  static __m256i round_bf16(Floats x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i rounded = round_ordered(x);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
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
  static void store(bf16* p, Floats x) { Base::store_words(p, _mm256_srli_epi32(Base::round_ordered(x), 16)); }
  // Rounds 16-bit words: those below carry into those above where below + 0x7fff + (above & 1) reaches 2^16.
  static void store2(bf16* p, Floats even, Floats odd) {
    const __m256i e = _mm256_castps_si256(even), o = _mm256_castps_si256(odd);
    const __m256i below = _mm256_blend_epi16(e, _mm256_slli_epi32(o, 16), 0xaa);
    const __m256i above = _mm256_blend_epi16(_mm256_srli_epi32(e, 16), o, 0xaa);
    const __m256i last = _mm256_and_si256(above, _mm256_set1_epi16(1));
    const __m256i half_sum = _mm256_avg_epu16(below, _mm256_add_epi16(last, _mm256_set1_epi16(0x7ffe)));
    const __m256i rounded = _mm256_add_epi16(above, _mm256_srli_epi16(half_sum, 15));
    Base::store_whole(p, rounded);
  }
};

using Lanes = LanesWith<false>;

struct NearLanes : Lanes {
  template <class T>
  static constexpr bool cheap_swap = true;
  template <class T>
  static constexpr bool cheap_split = false;
};

}  // namespace avx2
}  // namespace
}  // namespace rotary::cpu
