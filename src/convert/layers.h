// The text model of a config whose projections are converted: its ropes by layer, and how its attention is laid out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/models/families.h"
#include "rotary/config.h"
#include "suffixes.h"

namespace rotary::conversion {

inline constexpr const char* indexer_key = "indexer_rope_interleave";

struct TextPart {
  std::string path;        // "", "text_config"
  std::string model_type;  // of the part
  files::AttentionFacts attention;
  bool latent = false;  // MLA
  Quantization quantization;
  std::int64_t latent_rows = 0;  // MLA: kv_lora_rank
  std::int64_t value_dim = 0;    // MLA: v_head_dim
  files::Indexer indexer;        // rotates from its first element; heads 0: there is none, or its pairing is its own
  bool beside_towers = false;    // the config has an image, audio or speech model too
  int first_layer = 0;           // its number in the names of the tensors
  std::int64_t layers_in_stack = 0;  // of a model that runs its layers several times; 0: they are as many as ropes
  bool keys_may_be_missing = false;  // layers that use the keys of an earlier one
  std::size_t first_rope = 0;        // in Model::ropes
  std::string pairing_key;           // the key of the config that says the pairing; empty: the model_type does
  bool key_is_there = false;
  bool has_own_code = false;                // auto_map: the checkpoint brings the code of its model
  std::optional<bool> indexer_interleaved;  // the value of indexer_rope_interleave
  bool has_unread_key = false;              // rope_interleave, in a family whose code does not read it
  std::vector<std::string> other_parts;     // with ropes that are left as they are

  std::vector<std::size_t> ropes;                         // in Model::ropes
  std::vector<std::optional<std::size_t>> rope_of_layer;  // empty: it has none
  // Whether the layers stand behind the model's own, or in another stack, to draft further tokens.
  bool is_drafting(const std::string& stack, int layer) const;
};

// Throws ROPE (no text model with a rope), MODEL_TYPE (a layout that is not known, several text models).
TextPart text_part(const files::Json& config, const Model&);

}  // namespace rotary::conversion
