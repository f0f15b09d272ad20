// Files beside checkpoints: the keys of a KV cache, from one pairing to the other, and tables of cos and sin, from one
// form to another. No value is rounded.
#pragma once

#include "rotary/convert.h"

namespace rotary::conversion {

// ---- keys.cpp ----

// Whether the tensors are a checkpoint's: it has projections.
bool is_checkpoint(const std::vector<TensorInfo>&);

// The keys among a file's tensors have a head in their last dimension, or all heads of a token; with latent attention
// the latent with the rotated part behind it, or that part alone. Keys of layers without a rope stay. Throws PAIRING,
// TENSOR, SHAPE, DTYPE, ROPE, FILE, FORMAT.
ConvertResult convert_keys(const ConvertRequest&);

// ---- table.cpp ----

// Whether names of tensors say that the file has a table: cos and sin, cos_sin, cos_sin_cache or freqs_cis.
bool has_table(const std::vector<TensorInfo>&);

// Throws PAIRING, TENSOR, SHAPE, DTYPE, FILE, FORMAT.
ConvertResult convert_table(const ConvertRequest&);

}  // namespace rotary::conversion
