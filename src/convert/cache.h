// The keys of a KV cache in a file, from one pairing to the other.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "change.h"
#include "folder.h"
#include "rotary/config.h"

namespace rotary::convert {

// Where the rotated block of a key lies, where no config says it.
struct KeyShape {
  int head_dim = 0;
  int rotary_dim = 0;  // 0: head_dim
  int first = 0;
};

struct CacheRequest {
  Pairing to = Pairing::half;
  std::optional<Pairing> from;   // none: what the metadata or the config say
  const Model* model = nullptr;  // else `keys` says the shape, and `from` the pairing
  KeyShape keys;
  std::vector<std::string> tensors;  // names; empty: those whose names say key
};

struct CacheTensor {
  TensorInfo info;
  std::size_t entry = 0;
  Change change;
  int head_dim = 0;
  RotatedBlock block;
};

struct CachePlan {
  Pairing from = Pairing::half;
  Pairing to = Pairing::interleaved;
  std::vector<CacheTensor> tensors;
};

// Finds the keys among a file's tensors: their last dimension is a head, or all heads of a token; with latent attention
// the latent with the rotated part behind it, or that part alone. Keys of layers without a rope stay. Throws PAIRING,
// TENSOR, SHAPE, ROPE.
CachePlan plan_cache(const std::vector<TensorInfo>& tensors, const std::map<std::string, std::string>& metadata,
                     const CacheRequest&);

// Whether the tensors are a checkpoint's: it has projections.
bool is_checkpoint(const std::vector<TensorInfo>& tensors);

}  // namespace rotary::convert
