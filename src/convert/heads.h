// Where the heads are in the tensors of an attention, and the order that their elements get.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "change.h"
#include "layers.h"
#include "names.h"
#include "rotary/config.h"
#include "rotary/tensors.h"

namespace rotary::conversion {

// The permuted axis of a projection or a norm.
struct Heads {
  Sources sources;
  int q = 0, k = 0;    // heads of queries and of keys
  int dim = 0;         // rows of a head
  RotatedBlock block;  // in a head
};
using SharedHeads = std::shared_ptr<const Heads>;

using files::Fused;
using Starts = std::vector<std::int64_t>;  // the first row of each head
Starts heads_at(int heads, std::int64_t stride);
// Of a fused projection: the heads of q, then of k.
Starts fused_heads(Fused, int heads, int kv_heads, int head_dim);
// The rows of a fused projection; values have the width of keys.
std::int64_t fused_rows(Fused, int heads, int kv_heads, int head_dim);

class HeadFinder {
 public:
  HeadFinder(const TextPart& part, Pairing to) : part_(&part), to_(to) {}

  // The heads of a projection or a norm, by the config. Throws TENSOR, SHAPE, MODEL_TYPE, CONFIG_MISSING.
  SharedHeads of(const TensorInfo&, const TensorName&, const ModelRope&);
  SharedHeads of_indexer(Role, const ModelRope&);
  SharedHeads of_queries(const ModelRope&, int heads, std::int64_t stride);

 private:
  SharedHeads one_of(const TensorInfo&, const TensorName&, const ModelRope&);
  SharedHeads of_keys(const ModelRope&, files::FusedKeys);
  SharedHeads of_latent(const TensorInfo&, const TensorName&, const ModelRope&);
  SharedHeads of_fused(const TensorInfo&, const ModelRope&);
  SharedHeads of_norm(const TensorInfo&, const TensorName&, const ModelRope&);
  SharedHeads made(std::int64_t rows, const Starts&, const Heads&);
  [[noreturn]] void refuse(const TensorInfo&) const;

  const TextPart* part_;
  Pairing to_;
  std::map<std::tuple<std::int64_t, Starts, std::int64_t, int, int>, SharedHeads> made_;
};

}  // namespace rotary::conversion
