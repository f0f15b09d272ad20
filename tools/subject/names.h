// The meaning of a tensor's name in a checkpoint, "model.layers.3.self_attn.q_proj.weight", or in a dump, "xq_rot" and
// "Qcur-3".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rotary::tools {

enum class Role : std::uint8_t {
  other,
  q,  // queries, or their projection; for MLA from its latent
  k,
  v,
  kv,      // the fused projection of keys and values
  qkv,     // fused
  latent,  // MLA: kv_a_proj_with_mqa, whose last rows are the rotated part of the single key
  q_norm,
  k_norm,
};

constexpr bool is_q_or_k(Role role) noexcept { return role == Role::q || role == Role::k; }

// ---- any tensor ----

// q, k, v, qkv or other, by the last word of the name that shows it: "q", "layers.0.self_attn.q_proj", "wq" and
// "xq_rot" are queries, "k", "cached_key" and "kproj" are keys.
Role role_of(std::string_view tensor);
// The number after "layers", "layer", "blk", "block", "h.", "past_key_values" and similar words, and after llama.cpp's
// "Qcur-". Empty if the name has no such number, or several.
std::optional<int> layer_of(std::string_view tensor);
// Whether the name shows the part of the model with this path: "visual.blocks.3" shows vision_config.
bool names_part(std::string_view tensor, std::string_view part);
// Whether the tensor is an attention's output in front of its projection: "attn_output", "layers.0.attn_out".
bool names_output(std::string_view tensor);
// Whether the tensor belongs to the indexer beside an attention: "indexer.wq_b", "index_k".
bool names_indexer(std::string_view tensor);

// ---- a parameter of a checkpoint ----

struct TensorName {
  std::string stack = {};  // before the layer: "model.layers"
  int layer = 0;
  std::string module = {};  // between the layer and the role: "self_attn"; empty: nothing
  std::string word = {};    // the word of the role: "q_proj"
  Role role = Role::other;
  std::string suffix = {};  // after the role: "weight", "lora_B.weight"
  int head = -1;            // for norms that are one module per head: "q_layernorm.norms.5.weight"

  std::string layer_name() const { return stack + "." + std::to_string(layer); }
};

// Splits a name at the layer: the number that layer_of reads, else the first that follows another word. Empty if there
// is no number: the tensor is of no layer. A name without a role has the module "" and its whole rest as suffix.
std::optional<TensorName> parse_name(std::string_view name);

bool contains_word(std::string_view dotted, std::string_view part);  // whether one of its words contains part

// Whether the stack, such as "visual.blocks", belongs to an image, audio or speech model, or to the modules that join
// one to a text model.
bool is_of_another_model(std::string_view stack);
// Whether the stack is named as that of the text model among several: "language_model.model.layers".
bool is_named_text(std::string_view stack);
// Whether the attention attends to another sequence, whose positions are no places of tokens in this one.
bool is_cross_attention(std::string_view module);
// Whether the layers draft further tokens beside the model: "mtp.layers".
bool is_draft(std::string_view stack);
// Whether a tensor of an attention is independent of the order of elements of q and k, by the first word after the
// module: "v_proj", "sinks".
bool is_independent(std::string_view word);

}  // namespace rotary::tools
