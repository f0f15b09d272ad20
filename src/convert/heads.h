// Where the heads are in the tensors of an attention, and the order that their elements get.
#pragma once

#include <memory>
#include <vector>

#include "change.h"
#include "layers.h"
#include "names.h"
#include "rotary/config.h"
#include "rotary/tensors.h"

namespace rotary::conversion {

// The permuted axis of a projection or a norm.
struct Heads {
  int q = 0, k = 0;    // heads of queries and of keys
  int dim = 0;         // rows of a head
  RotatedBlock block;  // in a head
  std::shared_ptr<const Sources> sources = nullptr;
};

// The heads of a projection or a norm, by the config. Throws TENSOR, SHAPE, MODEL_TYPE, CONFIG_MISSING.
Heads heads_in(const TensorInfo&, const TensorName&, const ModelRope&, const TextPart&, Pairing to);
Heads heads_of_indexer(Role, const ModelRope&, const TextPart&, Pairing to);
Heads heads_of_queries(const ModelRope&, int heads, std::int64_t stride, Pairing to);

}  // namespace rotary::conversion
