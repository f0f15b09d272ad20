// The names of tensors in a checkpoint: "model.layers.3.self_attn.q_proj.weight".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rotary::conversion {

enum class Role : std::uint8_t {
  q,  // the projection of the queries; of MLA, from its latent
  k,
  kv,      // keys and values in one
  qkv,     // fused
  latent,  // MLA: kv_a_proj_with_mqa, whose last rows are the rotated part of the single key
  q_norm,
  k_norm,
  other,
};

struct TensorName {
  std::string stack;  // in front of the layer: "model.layers"
  int layer = 0;
  std::string module;  // between the layer and the role: "self_attn"; empty: nothing
  std::string word;    // the role's own: "q_proj"; of `other`, the word after the module
  Role role = Role::other;
  std::string suffix;  // after the role: "weight", "lora_B.weight"
  int head = -1;       // of norms that are one module per head: "q_layernorm.norms.5.weight"
};

// Splits a name at its first number that follows another word; empty where there is none: the tensor is of no layer.
// A name without a role has the module "" and its whole rest as suffix.
std::optional<TensorName> parse_name(std::string_view name);

bool contains_word(std::string_view dotted, std::string_view part);  // whether one of its words contains part
bool is_listed(std::string_view word, std::string_view list);        // whether it is one of the list's, between blanks

// Whether the stack, as "visual.blocks", is of an image, audio or speech model, or of the modules that join one to a
// text model.
bool is_of_another_model(std::string_view stack);
// Whether the stack says that it is of the text model of several: "language_model.model.layers".
bool is_named_text(std::string_view stack);
// Whether the attention looks at another sequence, whose positions are no places of tokens in this one.
bool is_cross_attention(std::string_view module);
// Whether the layers are drafts of further tokens, which stand beside the model: "mtp.layers".
bool is_draft(std::string_view stack);

// Whether a tensor of an attention does not depend on the order of the elements of q and k, by the first word behind
// the module: "v_proj", "sinks".
bool is_independent(std::string_view word);

}  // namespace rotary::conversion
