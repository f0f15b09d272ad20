// The fused operations as simple loops over the host's memory: what include/rotary/gpu.h says, element by element.
// Shares no code with the kernels. The order of the sum of squares is theirs (src/gpu/kernels/step_sum.cuh).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "rotary/gpu.h"
#include "tests/support/heads.h"

namespace rotary::tests::oracle {

// ---- formats, by their values ----

// The values of the codes from 0 up, rising; the last one is the largest finite.
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

// The code of the value that is nearest to |x|, of two the even one; one more than the last where x is that far beyond.
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
  if (dtype == DType::f32) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  const Format f = format(dtype);
  const std::uint32_t magnitude = bits & (f.sign - 1);
  const float x = magnitude < f.infinity    ? static_cast<float>(values_of(dtype)[magnitude])
                  : magnitude == f.infinity ? std::numeric_limits<float>::infinity()
                                            : std::numeric_limits<float>::quiet_NaN();
  return (bits & f.sign) != 0 ? -x : x;
}

inline std::uint32_t narrow(float x, DType dtype) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
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

// ---- rms_norm ----

// Of one head: 64 partial sums, each of every 64th vector of 16 bytes, then neighbours added, and their neighbours.
inline float sum_of_squares(const float* x, int head_dim, DType dtype) {
  const int vector = dtype == DType::f32 ? 4 : 8;
  float p[64] = {};
  for (int d = 0; d < head_dim; ++d) p[d / vector % 64] = std::fma(x[d], x[d], p[d / vector % 64]);
  for (int step = 1; step < 64; step *= 2) {
    for (int i = 0; i < 64; i += 2 * step) p[i] += p[i + step];
  }
  return p[0];
}

inline void norm_token(const ConstHeads& x, const Heads& out, const gpu::Norm& norm, std::int64_t b, std::int64_t t,
                       std::int64_t first, std::int64_t heads) {
  std::vector<float> values;
  for (std::int64_t h = first; h < first + heads; ++h) {
    for (int d = 0; d < x.layout.head_dim; ++d) values.push_back(at(x, offset(x.layout, b, t, h) + d));
  }
  float sum = 0;
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(x.layout.head_dim)) {
    sum += sum_of_squares(values.data() + i, x.layout.head_dim, x.dtype);
  }
  const float mean = sum / static_cast<float>(values.size());
  const float scale = 1.0f / std::sqrt(mean + norm.eps);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto head = static_cast<std::int64_t>(i) / x.layout.head_dim,
               d = static_cast<std::int64_t>(i) % x.layout.head_dim;
    float y = values[i] * scale;
    if (norm.weight != nullptr) {
      if (norm.round_before) y = widen(narrow(y, x.dtype), x.dtype);
      float weight = widen(bits_at(norm.weight, norm.dtype, static_cast<std::int64_t>(i)), norm.dtype);
      if (norm.one_plus) weight = 1.0f + weight;
      y = y * weight;
    }
    set_bits(out.data, out.dtype, offset(out.layout, b, t, first + head) + d, narrow(y, out.dtype));
  }
}

inline void rms_norm(const ConstHeads& x, const Heads& out, const gpu::Norm& norm) {
  for (std::int64_t b = 0; b < x.layout.batch; ++b) {
    for (std::int64_t t = 0; t < x.layout.tokens; ++t) {
      if (norm.across_heads) {
        norm_token(x, out, norm, b, t, 0, x.layout.heads);
      } else {
        for (std::int64_t h = 0; h < x.layout.heads; ++h) norm_token(x, out, norm, b, t, h, 1);
      }
    }
  }
}

// ---- append ----

struct Slot {
  std::int64_t page = -1;
  std::int64_t token = 0;  // in the page
};

// Of token i; page -1: nowhere.
inline Slot slot_of(const gpu::Slots& s, const gpu::Cache& cache, std::int64_t i) {
  Slot to;
  if (s.slot != nullptr) {
    if (s.slot[i] >= 0) to = {s.slot[i] / cache.page_size, s.slot[i] % cache.page_size};
  } else {
    const std::int32_t sequence = s.batch_indices[i], position = s.positions[i];
    if (sequence < 0 || sequence >= s.sequences || position < 0) return {};
    const std::int64_t entry = std::int64_t{s.indptr[sequence]} + position / cache.page_size;
    if (entry >= s.indptr[sequence + 1]) return {};
    to = {s.indices[entry], position % cache.page_size};
  }
  return to.page < 0 || to.page >= cache.pages ? Slot{} : to;
}

inline void store(const ConstHeads& x, std::int64_t from, const gpu::Cache& cache, void* data, float scale,
                  std::int64_t to) {
  for (int d = 0; d < cache.head_dim; ++d) {
    if (cache.type == gpu::CacheType::same) {
      set_bits(data, x.dtype, to + d, bits_at(x.data, x.dtype, from + d));
    } else {
      static_cast<std::uint8_t*>(data)[to + d] = to_e4m3(at(x, from + d) / scale);
    }
  }
}

inline void append(const ConstHeads& k, const ConstHeads& v, const gpu::Cache& cache, const gpu::Slots& slots) {
  const float k_scale = cache.scales != nullptr ? cache.scales[0] : cache.k_scale;
  const float v_scale = cache.scales != nullptr ? cache.scales[1] : cache.v_scale;
  for (std::int64_t b = 0; b < k.layout.batch; ++b) {
    for (std::int64_t t = 0; t < k.layout.tokens; ++t) {
      const Slot slot = slot_of(slots, cache, b * k.layout.tokens + t);
      if (slot.page < 0) continue;
      for (std::int64_t h = 0; h < cache.heads; ++h) {
        const std::int64_t to = slot.page * cache.page_stride + slot.token * cache.token_stride + h * cache.head_stride;
        store(k, offset(k.layout, b, t, h), cache, cache.k, k_scale, to);
        store(v, offset(v.layout, b, t, h), cache, cache.v, v_scale, to);
      }
    }
  }
}

}  // namespace rotary::tests::oracle
