// The text model of a config, where the heads are in the tensors of its projections, and how each of these changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "change.h"
#include "files/models/families.h"
#include "files/text/json.h"
#include "rotary/config.h"
#include "tools/names.h"

namespace rotary::conversion {

// ---- part.cpp ----

// The model whose projections are converted. Every value of the config that a conversion needs and Model does not have.
struct TextPart {
  std::string path;  // "", "text_config"
  std::string model_type;
  files::AttentionFacts attention;
  files::Json quantization;      // its quantization_config, else the model's; null: there is none
  bool latent = false;           // MLA
  std::int64_t latent_rows = 0;  // kv_lora_rank of an MLA; 0: the config does not say it
  std::int64_t value_dim = 0;    // v_head_dim, where a gate has its width
  Indexer indexer;               // rotates from its first element; heads 0: there is none, or its pairing is its own
  bool beside_towers = false;    // the config has an image, audio or speech model too
  bool may_lack_keys = false;    // layers that use the keys of an earlier one have none
  std::int64_t layers_in_stack = 0;  // of a model that runs its layers several times; 0: they are as many as ropes
  // The key of the config that says the pairing, empty where the model_type does; its JSON, and that of the indexers'
  // key; "" where the file does not have it.
  std::string pairing_key, pairing_json, indexer_json;
  bool has_rope_interleave = false;                       // whether or not it is the key
  bool has_own_code = false;                              // auto_map
  std::vector<std::string> other_parts;                   // with ropes that are left as they are
  std::vector<std::size_t> ropes;                         // of the part, one or more, in Model::ropes
  std::vector<std::optional<std::size_t>> rope_of_layer;  // empty: it has none

  // Whether the layers stand behind the model's own, or in another stack, to draft further tokens.
  bool is_drafting(const std::string& stack, int layer) const;
};

inline constexpr const char* indexer_key = "indexer_rope_interleave";

// Throws ROPE (no text model with a rope), MODEL_TYPE (a layout that is not known, several text models),
// CONFIG_MISSING.
TextPart text_part(const files::Json& config, const Model&);

// ---- heads.cpp ----

using tools::Role;
using tools::TensorName;

// Heads along the permuted axis of a projection or a norm.
struct Heads {
  int q = 0, k = 0;                       // heads of queries and of keys
  int dim = 0;                            // rows of a head
  RotatedBlock block = {};                // in a head
  std::int64_t rows = 0;                  // of the axis
  std::vector<std::int64_t> starts = {};  // the first row of each head
};

// By the config. Throws TENSOR, SHAPE, MODEL_TYPE, CONFIG_MISSING.
Heads heads_in(const TensorInfo&, const TensorName&, const ModelRope&, const TextPart&);
// `count` heads of queries, each in `stride` rows.
Heads of_queries(const ModelRope&, int count, std::int64_t stride);
Heads heads_of_indexer(Role, const ModelRope&, const TextPart&);
// Heads that begin every `stride` rows and fill the axis.
Heads evenly_spaced(Heads, int count, std::int64_t stride);
std::shared_ptr<const Sources> order_of(const Heads&, Pairing to);

// ---- suffixes.cpp: how a part of a projection or a norm changes, by the end of its name ----

struct Projection {
  std::shared_ptr<const Sources> sources;                      // of its output
  std::function<const TensorInfo*(std::string_view)> part_of;  // its tensor of that suffix; null: it has none
  bool fused = false;                                          // q, k and v in one
  files::Json quantization = {};                               // quantization_config; null: there is none
};

// Empty: the tensor does not change, as lora_A, a single scale, or one without elements. Throws SHAPE (the output's
// size is no dimension of the tensor), TENSOR (an unknown suffix; scales that rows cannot leave), DTYPE (a format or a
// packing that is not read; elements that are no whole bytes), CONFIG_VALUE (bits, weight_block_size).
std::optional<Change> change_of(const TensorInfo&, std::string_view suffix, const Projection&);

}  // namespace rotary::conversion
