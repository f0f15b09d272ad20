#include <algorithm>
#include <charconv>

#include "steps.h"

namespace rotary::conversion {
namespace {

struct RoleWords {
  Role role;
  std::string_view words;
};
// linear_q_adapter_list: Zamba2's two matrices that are added to the projection. experts.input_linear: JetMoE's, one
// for each expert.
constexpr RoleWords role_words[] = {
    {Role::q, "q_proj q_b_proj query wq wq_b to_q linear_q_adapter_list experts.input_linear"},
    {Role::k, "k_proj key wk to_k linear_k_adapter_list"},
    {Role::kv, "kv_proj key_value"},
    {Role::qkv, "qkv_proj query_key_value Wqkv wqkv c_attn W_pack att_proj gqkv_proj"},
    {Role::latent, "kv_a_proj_with_mqa wkv_a_with_mqa"},
    {Role::q_norm, "q_norm q_layernorm query_layernorm q_ln norm_q"},
    {Role::k_norm, "k_norm k_layernorm key_layernorm k_ln norm_k"},
};

// Modules and buffers beside the projections of an attention that have no element for each one of a head of q or k.
// Single numbers, as the scales of a quantised cache, need no name here.
constexpr std::string_view independent_words =
    "v_proj value wv to_v linear_v_adapter_list to_out v_norm o_proj out_proj out_lin dense dense_bias proj c_proj Wo "
    "wo "
    "output kv_b_proj wkv_b q_a_proj q_a_layernorm wq_a q_a_norm kv_a_layernorm kv_a_norm ssmax_scaling experts "
    "rotary_emb rotary_pos_emb rotary_embeddings rotary_fn rotary rope sinks softmax_offset learnable_sink_param "
    "attn_out linear_gate sink attention_sink_bias gate_proj g_proj gate gate_bias masked_bias causal_mask bias "
    "embed_positions A dt_proj attn_sub_norm inner_attn_ln o_norm core_attention exclusive_self_attention "
    "output_projection lambda_q1 lambda_k1 lambda_q2 lambda_k2 groupnorm subln indexer LayerNorm self v_scale";

Role role_of(std::string_view word) {
  for (const RoleWords& row : role_words) {
    if (is_listed(word, row.words)) return row.role;
  }
  return Role::other;
}

// The role that begins at words[at], and how many words name it. A bare "qkv" is one where the layer itself has it
// (NeoBERT), and of an image tower elsewhere.
struct FoundRole {
  Role role = Role::other;
  std::size_t words = 1;
};
FoundRole role_at(const std::vector<std::string_view>& words, std::size_t at, bool first) {
  if (first && words[at] == "qkv") return {Role::qkv, 1};
  if (at + 1 < words.size()) {
    const Role pair = role_of(std::string(words[at]) + "." + std::string(words[at + 1]));
    if (pair != Role::other) return {pair, 2};
  }
  return {role_of(words[at]), 1};
}

std::vector<std::string_view> split(std::string_view name) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    words.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::optional<int> number(std::string_view word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || word[0] == '-' || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::string joined(const std::vector<std::string_view>& words, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) text += (i == begin ? "" : ".") + std::string(words[i]);
  return text;
}

bool any_of(std::string_view dotted, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [dotted](auto part) { return contains_word(dotted, part); });
}

}  // namespace

bool contains_word(std::string_view dotted, std::string_view part) {
  return dotted.find(part) != std::string_view::npos;  // part has no dot
}

bool is_of_another_model(std::string_view stack) {
  return any_of(stack,
                {"vision",    "visual",  "image",     "audio",     "speech", "siglip", "vit",    "talker",  "code2wav",
                 "token2wav", "clip",    "whisper",   "vpm",       "apm",    "tts",    "vae",    "vqmodel", "projector",
                 "resampler", "qformer", "connector", "perceiver", "codec",  "tower",  "protein"});
}

bool is_named_text(std::string_view stack) { return any_of(stack, {"language_model", "text_model", "llm"}); }

bool is_cross_attention(std::string_view module) {
  return any_of(module, {"cross", "encoder_attn", "EncDec"}) || module == "adapter";  // Evolla's, of proteins
}

bool is_draft(std::string_view stack) { return any_of(stack, {"mtp", "eagle"}); }

std::optional<TensorName> parse_name(std::string_view name) {
  const std::vector<std::string_view> words = split(name);
  std::size_t at = 1;
  while (at < words.size() && !number(words[at])) ++at;
  if (at >= words.size()) return std::nullopt;
  TensorName parsed;
  parsed.stack = joined(words, 0, at);
  parsed.layer = *number(words[at]);
  const std::size_t begin = at + 1;
  std::size_t role = begin;
  FoundRole found;
  for (; role < words.size(); ++role) {
    found = role_at(words, role, role == begin);
    if (found.role != Role::other) break;
  }
  if (role == words.size()) {
    parsed.suffix = joined(words, begin, words.size());
    return parsed;
  }
  parsed.module = joined(words, begin, role);
  parsed.word = joined(words, role, role + found.words);
  parsed.role = found.role;
  std::size_t rest = role + found.words;
  if (rest + 1 < words.size() && words[rest] == "norms" && number(words[rest + 1])) {
    parsed.head = *number(words[rest + 1]);
    rest += 2;
  }
  while (rest < words.size() && words[rest] == "base_layer") ++rest;  // PEFT wraps the module
  parsed.suffix = joined(words, rest, words.size());
  return parsed;
}

bool is_independent(std::string_view word) { return is_listed(word, independent_words); }

}  // namespace rotary::conversion
