// The keys of a KV cache in a file, from one pairing to the other.
#pragma once

#include "rotary/convert.h"

namespace rotary::conversion {

// Whether the tensors are a checkpoint's: it has projections.
bool is_checkpoint(const std::vector<TensorInfo>&);

// The keys among a file's tensors have a head in their last dimension, or all heads of a token; with latent attention
// the latent with the rotated part behind it, or that part alone. Keys of layers without a rope stay. Throws PAIRING,
// TENSOR, SHAPE, DTYPE, ROPE, FILE, FORMAT.
ConvertResult convert_keys(const ConvertRequest&);

}  // namespace rotary::conversion
