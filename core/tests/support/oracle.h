// Storage types by their values, and append as plain loops, element by element. Shares no code with the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/tests/support/elements.h"
#include "rotary/cache.h"

namespace rotary::tests::oracle {

// ---- formats -------------------------------------------------------------------------------------

// The values of the codes 0 to `largest`, in rising order; the last one is the largest finite value.
inline std::vector<double> values_of(int exponent_bits, int fraction_bits, unsigned largest) {
  std::vector<double> values;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  for (unsigned code = 0; code <= largest; ++code) {
    const int exponent = static_cast<int>(code >> fraction_bits);
    const auto fraction = static_cast<double>(code & ((1u << fraction_bits) - 1));
    const double one = std::ldexp(1.0, fraction_bits);
    values.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                   : std::ldexp(one + fraction, exponent - bias - fraction_bits));
  }
  return values;
}
inline const std::vector<double>& values_of(DType dtype) {
  static const std::vector<double> f16 = values_of(5, 10, 0x7bff), bf16 = values_of(8, 7, 0x7f7f);
  return dtype == DType::f16 ? f16 : bf16;
}
inline const std::vector<double>& values_of_e4m3() {
  static const std::vector<double> values = values_of(4, 3, 0x7e);
  return values;
}

// The code of the value that is nearest to |x|; of two that are equally near, the even code. It is one more than the
// last code if |x| is half a step or more beyond the largest value.
inline unsigned nearest(const std::vector<double>& values, double x) {
  const auto above = std::lower_bound(values.begin(), values.end(), std::fabs(x));
  const auto code = static_cast<unsigned>(above - values.begin());
  if (code == 0) return 0;
  const double over = code < values.size() ? *above : 2 * values.back() - values[values.size() - 2];
  const double middle = (values[code - 1] + over) / 2;
  const bool up = std::fabs(x) > middle || (std::fabs(x) == middle && code % 2 == 0);
  return up ? code : code - 1;
}

inline float widen(std::uint32_t bits, DType dtype) {
  if (dtype == DType::f32) return std::bit_cast<float>(bits);
  const Format f = format(dtype);
  const std::uint32_t magnitude = bits & (f.sign - 1);
  const float x = magnitude < f.infinity    ? static_cast<float>(values_of(dtype)[magnitude])
                  : magnitude == f.infinity ? std::numeric_limits<float>::infinity()
                                            : std::numeric_limits<float>::quiet_NaN();
  return (bits & f.sign) != 0 ? -x : x;
}

inline std::uint32_t narrow(float x, DType dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (dtype == DType::f32) return bits;
  const Format f = format(dtype);
  const std::uint32_t sign = (bits >> 31) != 0 ? f.sign : 0;
  if (std::isnan(x)) return sign | f.infinity | (1u << (f.fraction - 1));
  return sign | (std::isinf(x) ? f.infinity : nearest(values_of(dtype), double{x}));
}

inline std::uint8_t to_e4m3(float x) {
  const unsigned sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return static_cast<std::uint8_t>(sign | 0x7f);
  return static_cast<std::uint8_t>(sign | std::min(0x7eu, nearest(values_of_e4m3(), double{x})));
}

inline float at(const ConstHeads& x, std::int64_t i) { return widen(bits_at(x.data, x.dtype, i), x.dtype); }

inline std::int64_t offset(const Layout& l, std::int64_t b, std::int64_t t, std::int64_t h) {
  return b * l.batch_stride + t * l.token_stride + h * l.head_stride;
}

// ---- append --------------------------------------------------------------------------------------

// The storage type of a cache's elements; empty for e4m3, which is none.
inline std::optional<DType> type_in(CacheType type, DType heads) {
  if (type == CacheType::f8_e4m3) return {};
  if (type == CacheType::same) return heads;
  return type == CacheType::f32 ? DType::f32 : type == CacheType::f16 ? DType::f16 : DType::bf16;
}
inline std::size_t bytes_in(CacheType type, DType heads) {
  const std::optional<DType> dtype = type_in(type, heads);
  return dtype ? size_of(*dtype) : 1;
}

// A cache whose keys lie as the values of this one.
template <class Memory>
CacheIn<Memory> v_side(CacheIn<Memory> cache) {
  cache.k_offset = 0;
  if (cache.v_head_dim == 0) return cache;
  cache.head_dim = cache.v_head_dim;
  cache.page_stride = cache.v_page_stride, cache.token_stride = cache.v_token_stride;
  cache.head_stride = cache.v_head_stride;
  return cache;
}

// The offset of the first element of a key's head in a slot. Slots are numbered page by page.
template <class Memory>
std::int64_t offset(const CacheIn<Memory>& cache, std::int64_t slot, std::int64_t head) {
  return cache.k_offset + slot / cache.page_size * cache.page_stride + slot % cache.page_size * cache.token_stride +
         head * cache.head_stride;
}

// Writes the tokens of x to their slots in `data`, the cache's k, as the cache's type; -1: the token is skipped.
template <class Memory>
void append(const ConstHeads& x, const CacheIn<Memory>& cache, Bytes& data, float scale,
            const std::vector<std::int64_t>& slots) {
  const std::optional<DType> to = type_in(cache.type, x.dtype);
  const Layout& l = x.layout;
  for (std::int64_t i = 0; i < l.batch * l.tokens; ++i) {
    const std::int64_t slot = slots[static_cast<std::size_t>(i)];
    if (slot < 0) continue;
    for (std::int64_t h = 0; h < l.heads; ++h) {
      const std::int64_t from = offset(l, i / l.tokens, i % l.tokens, h), there = offset(cache, slot, h);
      for (int d = 0; d < l.head_dim; ++d) {
        if (!to) {
          data[static_cast<std::size_t>(there + d)] = std::byte{to_e4m3(at(x, from + d) / scale)};
        } else {
          const bool copied = *to == x.dtype;
          set_bits(data.data(), *to, there + d,
                   copied ? bits_at(x.data, x.dtype, from + d) : narrow(at(x, from + d), *to));
        }
      }
    }
  }
}

}  // namespace rotary::tests::oracle
