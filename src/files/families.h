// What a model_type says without saying it: the one table of the models. Data only; the readers are config_*.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::files {

// Class defaults of the framework, for the keys that a file leaves out. 0: none, or derived
// (kv_heads = heads, head_dim = hidden / heads).
struct Shape {
  int layers = 0, heads = 0, kv_heads = 0, hidden = 0, head_dim = 0;
};

// Which coordinate of a position drives which pair.
enum class Axes : std::uint8_t {
  one,
  sectioned,            // M-RoPE ttt hhh www over one run of frequencies (Qwen2-VL)
  interleaved,          // M-RoPE thw thw ... ttt                           (Qwen3-VL)
  ernie,                // h w h w ... t t t                                (Ernie 4.5 VL)
  xdrope,               // sections of the pairs, three or four axes         (Hunyuan VL)
  row_column,           // first half of the pairs rows, the rest columns, frequencies restart (Qwen-VL towers)
  column_row,           // the same, columns first
  column_row_by_turns,  // pair by pair, frequencies restart                 (Kimi)
  row_even_column_odd,  // rows take b^(-2i/D) of even i, columns of odd i   (Pixtral)
  blocks,               // a block of the head for columns, then one for rows, each paired inside (Gemma 4 vision)
  time_row_column,      // three equal runs, what does not divide stands still (MiniMax-M3 vision)
};

// Where the rotated block lies.
enum class Block : std::uint8_t {
  leading,
  mla,       // [nope | rope]: head_dim = qk_nope_head_dim + qk_rope_head_dim, the last qk_rope_head_dim turn
  trailing,  // the last partial * head_dim elements
};

// Which of the layers that attend have a rope.
enum class Rule : std::uint8_t {
  all,
  sliding,              // sliding_attention layers only
  sliding_or_dense,     // the same, and the dense layers before them
  sliding_or_all,       // the same, but all layers where sliding_window is null
  no_rope_layers,       // that list (1 = rope!), else every no_rope_layer_interval-th layer has none
  layer_rope_theta,     // 0 in that list
  layer_rope_flags,     // 0 in layer_rope_theta; its other values are not read as bases
  not_alibi,            // none where "alibi" is true
  unless_null,          // none where rope_parameters or its rope_theta is null
  if_rotary,            // only where position_embedding(s)_type says "rope" or "rotary"
  if_use_mem_rope,      // Zamba2
  if_hidden_4096,       // Baichuan: the larger models use ALiBi
  if_attn_config_rope,  // MPT
  if_rope,              // only where "rope" is true: the first OLMo, LLaDA
  not_cross,            // none in cross_attention_layers, which look at the image
};

// How the old spelling (rope_theta, rope_scaling) maps onto layer types.
enum class Old : std::uint8_t {
  one_for_all,      // one rope, whatever the layer type
  scaling_to_full,  // rope_scaling bends full_attention only
  scaling_to_both,
  scaling_to_compress,  // DeepSeek-V4: layers are "main" (sliding) or "compress", which alone is scaled
};

struct Family {
  std::string_view type;
  Pairing pairing = Pairing::half;
  Shape shape = {};
  double base = 10000;
  double partial = 1;            // the fraction of the head that turns
  bool reads_partial = false;    // the framework's default rope honours partial_rotary_factor (others do not)
  bool partial_of_head = false;  // of an MLA: the fraction counts the whole head, not its rope block
  Axes axes = Axes::one;
  std::array<int, 4> sections = {};  // mrope_section where the file has none
  Block block = Block::leading;
  int nope = 0, turning = 0;              // class defaults of qk_nope_head_dim and qk_rope_head_dim
  std::string_view rope_parameters = {};  // class default, in the words of config.json
  std::string_view pattern = {};  // layer types where the file has none: s(liding) f(ull) l(inear) h(ybrid), repeated
  std::string_view pattern_key = {};  // a file's own length of that pattern
  bool last_full = false;             // the last layer is full_attention, whatever the pattern says
  char first_type = 0;                // the first layer's own letter
  Rule rule = Rule::all;
  Old old = Old::one_for_all;
  double sliding_base = 0;                   // where sliding layers have their own; 0: the same
  std::string_view base_key = "rope_theta";  // the first of these that is given; "": fixed
  std::string_view sliding_base_key = {};    // "rope_local_base_freq", "local_rope_theta"
  std::string_view partial_key = "partial_rotary_factor";
  int full_head_dim = 0;            // full_attention layers have their own: global_head_dim
  std::string_view dim_key = {};    // an absolute width: "rotary_dim"
  int dim = 0;                      // its class default
  bool switches_pairing = false;    // rope_interleave: false means half
  bool alpha_is_ntk = false;        // Hunyuan: dynamic + alpha is static NTK
  bool yarn_is_longrope = false;    // Phi-3
  bool short_factors_only = false;  // Phi-3.5-MoE in transformers: long_factor is never used
  bool yarn_keeps_length = false;   // yarn without an attention factor unless one is given
  std::string_view harmless = {};   // rope keys of published files that nothing reads, separated by blanks
  std::string_view remark = {};     // the surprising fact, told in the notes
};

// A sub-config that does not name its model_type: what the parent makes of it.
struct Child {
  std::string_view parent, part, type;
};

std::span<const Family> families() noexcept;
const Family* find_family(std::string_view model_type) noexcept;
// Models known to have no rotary positions.
bool known_without_rope(std::string_view model_type) noexcept;
// Why the rope of this model_type cannot be described here; "" where it can, or is not known.
std::string_view refusal(std::string_view model_type) noexcept;
// The words of a list separated by blanks.
std::vector<std::string_view> words(std::string_view list);
// "" where the parent says nothing.
std::string_view child_type(std::string_view parent, std::string_view part) noexcept;

}  // namespace rotary::files
