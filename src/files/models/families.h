// What a model_type says without saying it: the one table of the models. Data only; the readers are in src/files/config.
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
  alternating,          // rows and columns pair by pair, one run            (NeoMME)
  row_column,           // first half of the pairs rows, the rest columns, frequencies restart (Qwen-VL towers)
  column_row,           // the same, columns first
  column_row_by_turns,  // pair by pair, frequencies restart                 (Kimi)
  row_column_by_turns,  // the same, rows first                              (EfficientLoFTR)
  row_even_column_odd,  // rows take b^(-2i/D) of even i, columns of odd i   (Pixtral)
  blocks,               // a block of the head for columns, then one for rows, each paired inside (Gemma 4 vision)
  time_row_column,      // three equal runs, what does not divide stands still (MiniMax-M3 vision)
  space_and_token,      // x, y and z of an atom, then its token, with a base of their own (ESMFold 2)
  window_and_frame,     // two runs of partial * head_dim elements each      (Music Flamingo)
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
  unless_null,          // none where rope_parameters or its rope_theta is null
  if_rotary,            // only where position_embedding(s)_type says "rope" or "rotary"
  if_hidden_4096,       // Baichuan: the larger models use ALiBi
  if_attn_config_rope,  // MPT
  use_rope_layers,      // that list of booleans, where it is not empty (Step 3.5)
  not_cross,            // none in cross_attention_layers, which look at the image
};

// How the old spelling (rope_theta, rope_scaling) maps onto layer types.
enum class Old : std::uint8_t {
  one_for_all,      // one rope, whatever the layer type
  all_to_all,       // the same, copied to each layer type with rope_theta as the base of all (Dots 3 Note)
  scaling_to_full,  // rope_scaling bends full_attention only
  scaling_to_both,
  scaling_to_compress,  // DeepSeek-V4: layers are "main" (sliding) or "compress", which alone is scaled
};

// Class defaults: how many layers at either end have a key head per head, and the key heads of those between.
struct Between {
  int first = 0, last = 0, kv_heads = 0;
};

// A boolean of the file that says whether anything turns.
struct Flag {
  std::string_view key = {};
  bool on = true;      // the value at which layers turn
  bool usual = false;  // its class default
};

struct Family {
  std::string_view type;
  Pairing pairing = Pairing::half;
  Shape shape = {};
  Shape sliding = {};               // class defaults of the sliding layers' own heads (swa_...), where they have some
  int sliding_nope = 0;             // and of their swa_qk_nope_head_dim
  bool multi_query = false;         // class default of that key: one key head for all
  int sliding_kv_times = 1;         // their key heads are the others' times this, where the file does not say them
  Between grouped_between = {};     // layers that share key heads, between first and last ones that do not (Sapiens 2)
  std::string_view prefix = {};     // before the names of its layers, heads and width: "memory_attention_"
  bool embed_dim_is_width = false;  // of a tower whose hidden_size is its output (Qwen2-VL)
  bool one_head = false;            // turns before the heads are cut: one head of the whole width
  bool derives_head_dim = false;    // hidden_size / heads, whatever head_dim says
  std::string_view width_in = {};   // the sub-config that says that width
  bool once = false;                // turns once, beside the layers
  double base = 10000;
  double partial = 1;            // the fraction of the head that turns
  double sliding_partial = 0;    // the same of sliding layers; 0: the same
  bool reads_partial = false;    // the framework's default rope honours partial_rotary_factor (others do not)
  bool reads_scaling = true;     // false: rope_scaling and rope_parameters mean nothing to it and are refused
  bool partial_of_head = false;  // of an MLA: the fraction counts the whole head, not its rope block
  bool derives_partial = false;  // of an MLA: qk_rope_head_dim decides, whatever the file's fraction says
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
  std::string_view usual_positions = {};  // what position_embedding_type says where the file does not
  Flag turns_where = {};
  Old old = Old::one_for_all;
  double sliding_base = 0;                   // where sliding layers have their own; 0: the same
  std::string_view base_key = "rope_theta";  // the first of these that is given; "": fixed
  std::string_view sliding_base_key = {};    // "rope_local_base_freq", "local_rope_theta"
  std::string_view partial_key = "partial_rotary_factor";
  std::string_view scaling_key = {};       // where rope_scaling lies under another name: "attn_config.rope_hf_config"
  std::string_view scaled_types_key = {};  // lists the layer types that rope_scaling bends: "yarn_only_types"
  bool lists_bases = false;                // rope_theta may be a list, one base for each layer
  int full_head_dim = 0;                   // full_attention layers have their own: global_head_dim
  int full_kv_heads = 0;                   // and num_global_key_value_heads
  std::string_view dim_key = {};           // an absolute width: "rotary_dim"
  int dim = 0;                             // its class default
  std::string_view half_head_of = {};      // half of this width over the heads turns, at least dim (CLVP)
  bool switches_pairing = false;           // rope_interleave: false means half
  bool clockwise = false;                  // the other way: by minus the angle
  bool alpha_is_ntk = false;               // Hunyuan: dynamic + alpha is static NTK
  bool yarn_is_longrope = false;           // Phi-3
  bool short_factors_only = false;         // Phi-3.5-MoE in transformers: long_factor is never used
  bool yarn_keeps_length = false;          // yarn without an attention factor unless one is given
  std::string_view harmless = {};          // rope keys of published files that nothing reads, separated by blanks
  std::string_view remark = {};            // the surprising fact, told in the notes
  // Learned: the ends of a tensor's name in the checkpoint, separated by blanks. Its exp, one value per pair,
  // multiplies inv_freq; it is 0 at initialisation.
  std::string_view log_multiplier = {};
};

// A sub-config with a rope: what the parent makes of one that does not name its model_type.
struct Child {
  std::string_view parent, part, type;
  Shape shape = {};     // where the parent's defaults are not the type's own; 0: the same
  double base = 0;      //
  bool merged = false;  // they stand in for single keys of a sub-config that is given, not only for a whole one
};

// A published file whose model_type is another model's: its architecture tells.
struct Misnamed {
  std::string_view type, architecture, family;
};

// What no Rope can say.
struct Refusal {
  std::string_view type, why;
};

std::span<const Family> families() noexcept;
std::span<const Child> children() noexcept;
std::span<const Refusal> refused_types() noexcept;
std::span<const std::string_view> types_without_rope();
const Family* find_family(std::string_view model_type) noexcept;
// The class default of max_position_embeddings; 0 where there is none.
std::int64_t usual_context(std::string_view model_type);
// Models known to have no rotary positions.
bool known_without_rope(std::string_view model_type);
// Why the rope of this model_type cannot be described here; "" where it can, or is not known.
std::string_view refusal(std::string_view model_type) noexcept;
// The words of a list separated by blanks.
std::vector<std::string_view> words(std::string_view list);
// A sub-config without a model_type in transformers: the name is ours, and no file's.
bool is_our_name(std::string_view model_type) noexcept;
const Child* find_child(std::string_view parent, std::string_view part) noexcept;
// The model_type that a file of this architecture means; "" where it means what it says.
std::string_view meant_type(std::string_view model_type, std::string_view architecture) noexcept;
// "" where the parent says nothing.
std::string_view child_type(std::string_view parent, std::string_view part) noexcept;

}  // namespace rotary::files
