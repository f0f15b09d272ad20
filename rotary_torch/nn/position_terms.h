// Positions that are added instead of rotated: sinusoids to the embedding, ALiBi to the scores.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rotary_torch {

// f32 [tokens, width], width even: sin(p / 10000^(2i/width)) and its cosine side by side, p from 0. arXiv:1706.03762.
at::Tensor sinusoids(std::int64_t tokens, std::int64_t width);

// One slope per head: 2^(-8/n), 2^(-16/n), ... for n heads, a power of two; else those of the nearest power below,
// then every second one of twice as many. arXiv:2108.12409 and its code.
std::vector<double> alibi_slopes(std::int64_t heads);
// slope * (key - query), f32 [1, heads, queries, past + queries]; the queries stand behind past keys.
at::Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t past, const at::TensorOptions&);

}  // namespace rotary_torch
