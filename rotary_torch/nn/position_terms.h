// Positions that are added instead of rotated: sinusoids for the embedding, ALiBi for the scores.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rotary_torch {

// f32 [tokens, width], width even: sin(p / 10000^(2i/width)) and its cosine at 2i and 2i + 1, p from 0.
// arXiv:1706.03762.
at::Tensor sinusoids(std::int64_t tokens, std::int64_t width);

// One slope per head: 2^(-8/n), 2^(-16/n), ... if n heads are a power of two; otherwise the slopes of the next lower
// power, then every second slope of twice that power. arXiv:2108.12409 and its code.
std::vector<double> alibi_slopes(std::int64_t heads);
// slope * (key - query), f32 [1, heads, queries, past + queries]; the queries follow `past` keys.
at::Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t past, const at::TensorOptions&);

}  // namespace rotary_torch
