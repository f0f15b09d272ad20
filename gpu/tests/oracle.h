// rms_norm as a simple loop over the host's memory: what gpu/include/rotary/gpu.h says, element by element. Shares no
// code with the kernels. The order of the sum of squares is theirs (gpu/kernels/step_sum.cuh).
#pragma once

#include "core/tests/support/oracle.h"
#include "rotary/gpu.h"

namespace rotary::tests::oracle {

// One head's sum: 64 partial sums, each of every 64th vector of 16 bytes, then neighbours added, and their neighbours.
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

}  // namespace rotary::tests::oracle
