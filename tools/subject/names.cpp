#include "names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "models/families.h"
#include "text/io.h"

namespace rotary::tools {
namespace {

using files::is_listed;

// modules: the words between dots of a checkpoint's parameters. tensors: words of letters, in lower case, of any name.
// linear_q_adapter_list: Zamba2's two matrices that are added to the projection. experts.input_linear: JetMoE's, one
// per expert.
struct RoleWords {
  Role role;
  std::string_view modules, tensors = {};
};
constexpr RoleWords role_words[] = {
    {Role::q, "q_proj q_b_proj query wq wq_b to_q linear_q_adapter_list experts.input_linear",
     "q query queries qproj wq xq xquery qcur"},
    {Role::k, "k_proj key wk to_k linear_k_adapter_list", "k key keys kproj wk xk xkey kcur"},
    {Role::v, {}, "v value values vproj wv xv vcur"},
    {Role::kv, "kv_proj key_value"},
    {Role::qkv, "qkv_proj query_key_value Wqkv wqkv c_attn W_pack att_proj gqkv_proj"},
    {Role::latent, "kv_a_proj_with_mqa wkv_a_with_mqa"},
    {Role::q_norm, "q_norm q_layernorm query_layernorm q_ln norm_q"},
    {Role::k_norm, "k_norm k_layernorm key_layernorm k_ln norm_k"},
};

// Modules and buffers beside the projections of an attention whose elements do not follow the heads of q or k.
// Single numbers, such as the scales of a quantised cache, need no name here.
constexpr std::string_view independent_words =
    "v_proj value wv to_v linear_v_adapter_list to_out v_norm o_proj out_proj out_lin dense dense_bias proj c_proj Wo "
    "wo "
    "output kv_b_proj wkv_b q_a_proj q_a_layernorm wq_a q_a_norm kv_a_layernorm kv_a_norm ssmax_scaling experts "
    "rotary_emb rotary_pos_emb rotary_embeddings rotary_fn rotary rope sinks softmax_offset learnable_sink_param "
    "attn_out linear_gate sink attention_sink_bias gate_proj g_proj gate gate_bias masked_bias causal_mask bias "
    "embed_positions A dt_proj attn_sub_norm inner_attn_ln o_norm core_attention exclusive_self_attention "
    "output_projection lambda_q1 lambda_k1 lambda_q2 lambda_k2 groupnorm subln indexer LayerNorm self v_scale";

Role role_of_module(std::string_view word) {
  for (const RoleWords& row : role_words) {
    if (is_listed(word, row.modules)) return row.role;
  }
  return Role::other;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The role in a name by its words of letters: the last q or k, else v, else qkv.
Role role_in(std::string_view name) {
  Role role = Role::other, found = Role::other;
  std::string word;
  for (const char c : files::lower(std::string(name)) + ".") {
    if (is_letter(c)) {
      word += c;
      continue;
    }
    for (const RoleWords& row : role_words) {
      if (is_listed(word, row.tensors)) found = row.role;
    }
    if (found == Role::other && contains_word(word, "qkv")) found = Role::qkv;
    const bool of_both = found == Role::q || found == Role::k;
    if (of_both || role == Role::other || (role == Role::qkv && found == Role::v)) role = found;
    word.clear();
    found = Role::other;
  }
  return role;
}

// Whether a word of the name begins with part.
bool contains_part(std::string_view name, std::string_view part) {
  for (std::size_t at = 0; (at = name.find(part, at)) != std::string_view::npos; ++at) {
    if (at == 0 || !is_letter(name[at - 1])) return true;
  }
  return false;
}

// Whether a number after this beginning of a name, in lower case, is the number of a layer.
bool says_layer(std::string_view text) {
  constexpr std::array<std::string_view, 12> layers = {"layers",          "layer",    "blk",       "blocks", "block",
                                                       "decoder",         "encoder",  "resblocks", "qcur",   "kcur",
                                                       "past_key_values", "key_cache"};
  const auto ends = [&](std::string_view word) {
    return text.ends_with(word) && (text.size() == word.size() || !is_letter(text[text.size() - word.size() - 1]));
  };
  if (ends("h.") || ends("l")) return true;  // GPT-2's h.3, and l3
  const auto trim = [&] { text = text.substr(0, text.find_last_not_of("._-/[ :") + 1); };
  trim();
  for (const std::string_view word : {"idx", "id", "index"}) {  // layer_idx_3
    if (!ends(word)) continue;
    text.remove_suffix(word.size());
    trim();
  }
  return std::any_of(layers.begin(), layers.end(), ends);
}

// The role that begins at words[at], and the number of its words. A bare "qkv" is a role if it is in the layer itself
// (NeoBERT); elsewhere it belongs to an image tower.
struct FoundRole {
  Role role = Role::other;
  std::size_t words = 1;
};
FoundRole role_at(const std::vector<std::string_view>& words, std::size_t at, bool first) {
  if (first && words[at] == "qkv") return {Role::qkv, 1};
  if (at + 1 < words.size()) {
    const Role pair = role_of_module(std::string(words[at]) + "." + std::string(words[at + 1]));
    if (pair != Role::other) return {pair, 2};
  }
  return {role_of_module(words[at]), 1};
}

std::optional<int> number(std::string_view word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || word[0] == '-' || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

bool any_of(std::string_view dotted, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [dotted](auto part) { return contains_word(dotted, part); });
}

// The index of the word that is the layer's number; words.size() if there is none.
std::size_t layer_at(std::string_view name, const std::vector<std::string_view>& words) {
  const std::string lower = files::lower(std::string(name));
  std::size_t first = words.size();
  for (std::size_t at = 1; at < words.size(); ++at) {
    if (!number(words[at])) continue;
    if (says_layer(std::string_view(lower).substr(0, static_cast<std::size_t>(words[at].data() - name.data()))))
      return at;
    first = std::min(first, at);
  }
  return first;
}

}  // namespace

Role role_of(std::string_view tensor) {
  const std::string_view part = tensor.substr(0, tensor.find_last_not_of("0123456789._/") + 1);  // without a layer
  const std::size_t dot = part.find_last_of("./");  // past_key_values.3.value
  if (dot != std::string_view::npos && role_in(part.substr(dot + 1)) == Role::v) return Role::v;
  return role_in(tensor);
}

std::optional<int> layer_of(std::string_view tensor) {
  constexpr std::string_view digits = "0123456789";
  const std::string name = files::lower(std::string(tensor));
  if (contains_part(name, "mtp")) return std::nullopt;  // layers that draft tokens are counted separately
  std::optional<int> layer;
  for (std::size_t begin = 0, end = 0; (begin = name.find_first_of(digits, end)) != std::string::npos;) {
    end = std::min(name.find_first_not_of(digits, begin), name.size());
    if (!says_layer(std::string_view(name).substr(0, begin)) || end - begin > 6) continue;
    const int found = std::stoi(name.substr(begin, end - begin));
    if (layer.value_or(found) != found) return std::nullopt;
    layer = found;
  }
  return layer;
}

bool names_part(std::string_view tensor, std::string_view part) {
  const std::string name = files::lower(std::string(tensor));
  for (std::size_t at = 0; at < part.size(); at = std::min(part.find('.', at), part.size()) + 1) {
    if (contains_part(name, part.substr(at, 3))) return true;
  }
  return false;
}

bool names_output(std::string_view tensor) {
  const std::string name = files::lower(std::string(tensor));
  constexpr std::string_view words[] = {"attn_out", "attn.out", "attention_out", "attention.out"};
  return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

bool names_indexer(std::string_view tensor) {
  const std::string name = "." + files::lower(std::string(tensor)) + ".";
  const auto is_q_or_k = [&](std::size_t at) { return name[at] == 'q' || name[at] == 'k'; };
  constexpr std::string_view index = "index";
  for (std::size_t at = 0; (at = name.find(index, at)) != std::string::npos; at += index.size()) {
    std::size_t before = at - 1, behind = at + index.size();
    if (name[behind] == 'e' && name[behind + 1] == 'r') return true;
    behind += name[behind] == '_' ? 1U : 0U;
    if (is_q_or_k(behind) && !is_letter(name[behind + 1])) return true;
    before -= name[before] == '_' ? 1U : 0U;
    if (is_q_or_k(before) && !is_letter(name[before - 1])) return true;
  }
  return false;
}

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
  return any_of(module, {"cross", "encoder_attn", "EncDec"}) || module == "adapter";  // Evolla's, for proteins
}

bool is_draft(std::string_view stack) { return any_of(stack, {"mtp", "eagle"}); }

std::optional<TensorName> parse_name(std::string_view name) {
  const std::vector<std::string_view> words = files::words(name, '.');
  const std::size_t at = layer_at(name, words);
  if (at >= words.size()) return std::nullopt;
  const auto joined = [&](std::size_t begin, std::size_t end) {  // joined as in the name
    if (begin == end) return std::string();
    return std::string(words[begin].data(), words[end - 1].data() + words[end - 1].size());
  };
  TensorName parsed;
  parsed.stack = joined(0, at);
  parsed.layer = *number(words[at]);
  const std::size_t begin = at + 1;
  std::size_t role = begin;
  FoundRole found;
  for (; role < words.size(); ++role) {
    found = role_at(words, role, role == begin);
    if (found.role != Role::other) break;
  }
  if (role == words.size()) {
    parsed.suffix = joined(begin, words.size());
    return parsed;
  }
  parsed.module = joined(begin, role);
  parsed.word = joined(role, role + found.words);
  parsed.role = found.role;
  std::size_t rest = role + found.words;
  if (rest + 1 < words.size() && words[rest] == "norms" && number(words[rest + 1])) {
    parsed.head = *number(words[rest + 1]);
    rest += 2;
  }
  while (rest < words.size() && words[rest] == "base_layer") ++rest;  // PEFT wraps the module
  parsed.suffix = joined(rest, words.size());
  return parsed;
}

bool is_independent(std::string_view word) { return is_listed(word, independent_words); }

}  // namespace rotary::tools
