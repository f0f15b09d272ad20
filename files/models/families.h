// Facts per model_type that a config.json leaves out: the rows of files/models/models.json as values. A row's fields
// have the names of these structs' members and state what differs from the defaults here. Read by files/config,
// tools/convert, tools/extend and rotary_torch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/config.h"
#include "text/io.h"

namespace rotary::files {

// Class defaults of the framework, for the keys that a file leaves out. 0: none, or derived
// (kv_heads = heads, head_dim = hidden / heads).
struct Shape {
  int layers = 0, heads = 0, kv_heads = 0, hidden = 0, head_dim = 0;
};

// Which coordinate of a position drives which pair of a text model's rope. Towers: quirks/quirk.h.
enum class Axes : std::uint8_t {
  one,
  sectioned,    // M-RoPE ttt hhh www over one run of frequencies (Qwen2-VL)
  interleaved,  // M-RoPE thw thw ... ttt                           (Qwen3-VL)
  ernie,        // h w h w ... t t t                                (Ernie 4.5 VL)
  xdrope,       // sections of the pairs, three or four axes         (Hunyuan VL)
  alternating,  // rows and columns pair by pair, one run            (NeoMME)
  bailing,      // as ernie; the sections come as t, h, w            (Ling 3 VL, Ming's video_rope)
  openpangu,    // by shares, t last; sectioned unless interleaved   (openPangu VL)
  glm,          // thw thw ... of those that are left                (SGLang's mrope_interleaved_glm)
};

// MLA heads are [nope | rope]: head_dim = qk_nope_head_dim + qk_rope_head_dim, the last qk_rope_head_dim turn.
struct Mla {
  int nope = 0, rope = 0;  // class defaults of the two; rope 0: no MLA
};

enum class LayerKind : std::uint8_t { none, sliding, full, linear, hybrid, indexed, mlp };

// Layer types where the file has none.
struct Pattern {
  std::vector<LayerKind> types = {};  // repeated
  std::string_view period_key = {};   // a file's own length of that pattern
  LayerKind first = LayerKind::none;  // the first layer's own
  bool ends_full = false;             // and then the last layer is full_attention
  bool last_full = false;             // the last layer is full_attention, whatever the file says
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
  unless_not_rotary,    // the same, and where it says nothing
  unless_alibi_size,    // Baichuan: the larger models use ALiBi
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

// A boolean of the file that says whether anything turns.
struct Flag {
  std::string_view key = {};
  bool on = true;              // the value at which layers turn
  bool default_value = false;  // its class default
};

// A surprising fact, added to the notes.
struct Remark {
  std::string_view text = {};
  std::vector<std::string_view> keys = {};  // rope keys that it explains: no further note says that they are not read
};

// ---- for converting checkpoints: where q and k lie in the projections ----

// The order of the rows of a projection that is q, k and v in one; H heads, K key heads, each of D rows.
enum class Fused : std::uint8_t {
  none,        // q and k are projections of their own
  joined,      // q of all heads, k of all, v of all
  gate_first,  // a gate of all heads, q of all, k of all, v of all
  by_head,     // [q k v] of head 0, of head 1, ...
  by_group,    // [q ... q k v] of each key head and the queries that use it
  four_parts,  // four equal parts, each [q v k] of a quarter of the heads (CodeGen)
};

// The order of the rows of a projection that is k and v in one.
enum class FusedKeys : std::uint8_t {
  none,
  joined,   // k of all heads, v of all
  by_head,  // [k v] of head 0, of head 1, ...
};

// An order that a boolean of the config chooses.
struct FusedWhere {
  std::string_view key = {};
  bool default_value = false;
  Fused fused = Fused::none;
};

struct AttentionFacts {
  std::string_view why_not = {};  // the weights cannot change their pairing: the reason
  Fused fused = Fused::none;
  std::vector<FusedWhere> fused_where = {};  // the first of these that is true decides instead
  FusedKeys fused_keys = FusedKeys::none;
  bool gated_q = false;                   // the projection has rows of the query of a head, then as many of its gate
  bool gated_by_value = false;            // the same; the gate has the width of a value (MLA)
  bool query_experts = false;             // each expert projects as many queries as there are keys (JetMoE)
  bool keys_may_be_values = false;        // layers without a projection of values use that of the keys
  std::string_view pairing_key = {};  // a key of the config that says the pairing, where Family::pairing_key does not
  int first_layer = 0;                    // the number of the first layer in the names of tensors
  std::string_view layers_in_stack =
      {};  // a key of the config: the layers of a stack, whose numbers begin at 0 in each
  Indexer indexer = {};                   // class defaults of index_n_heads and index_head_dim
};

// Methods of a longer context that transformers refuses to load for a model, or fails on, though its config could say
// them.
struct Unusable {
  std::vector<std::string_view> methods = {};
  std::string_view why = {};
};

struct Quirk;  // quirks/quirk.h
struct TowerLayout;  // quirks/quirk.h
namespace quirks {
extern const Quirk none;
}

// The whole that the partial_rotary_factor of an MLA is a fraction of.
enum class Fraction : std::uint8_t {
  rope_block,
  head,
  nothing,  // qk_rope_head_dim decides, whatever the file's fraction says
};

// The part of a rope that the model learns, which its checkpoint holds.
enum class Learns : std::uint8_t {
  nothing,
  multiplier,       // exp(tensor) multiplies the frequencies
  directions,       // inv_freq of every head, [axes, heads, pairs]
  last_directions,  // directions of the last n pairs by height and width, [heads, n, 2]
};
struct Learned {
  Learns what = Learns::nothing;
  std::string_view tensor = {}, also = {};  // the end of the tensor's name, and of its name in other checkpoints
};

// The facts of a rope of several axes that no file says.
struct Tower {
  std::string_view words = {};  // for the notes
  std::string_view axes = {};   // their names, in the order of a position's coordinates, separated by blanks
  std::string_view width = {};  // the formula of rotary_dim
  const TowerLayout* layout = nullptr;
};

// The facts of a model_type. "a.b" is the key b of the object a.
struct Family {
  std::string_view type;
  Pairing pairing = Pairing::half;
  Shape shape = {};
  std::int64_t context = 0;      // class default of max_position_embeddings; 0: none
  std::string_view prefix = {};  // before the names of its layers, heads and width: "memory_attention_"
  double base = 10000;
  double partial = 1;          // the fraction of the head that turns
  bool reads_partial = false;  // the framework's default rope honours partial_rotary_factor (others do not)
  bool reads_scaling = true;   // false: rope_scaling and rope_parameters mean nothing to it and are refused
  Axes axes = Axes::one;
  std::array<int, 4> sections = {};  // mrope_section where the file has none
  const Tower* tower = nullptr;      // not a text model: the layout of its axes
  Mla mla = {};
  std::string rope_parameters = {};  // class default, in the words of config.json
  Pattern pattern = {};
  Rule rule = Rule::all;
  Flag turns_where = {};
  Old old = Old::one_for_all;
  double sliding_base = 0;                                  // where sliding layers have their own; 0: the same
  std::vector<std::string_view> base_key = {"rope_theta"};  // the first of these that is given; empty: fixed
  std::string_view sliding_base_key = {};                   // "rope_local_base_freq", "local_rope_theta"
  std::string_view partial_key = "partial_rotary_factor";
  std::string_view dim_key = {};                // an absolute width: "rotary_dim"
  int dim = 0;                                  // its class default
  std::string_view pairing_key = {};            // a boolean: true interleaves, false means half
  std::vector<std::string_view> harmless = {};  // rope keys of published files that nothing reads
  Remark remark = {};
  const Quirk* quirk = &quirks::none;  // hooks for what only this model does
  AttentionFacts attention = {};
  std::vector<Unusable> unusable = {};
  bool null_head_dim = false;  // its class leaves head_dim null, which the code of yarn, dynamic and longrope reads
  std::string_view width_key = {};    // the key of the width that its heads share; "": hidden_size, by any of its names
  std::string_view scaling_key = {};  // where rope_scaling lies under another name; factor may be missing there
  bool lists_bases = false;           // rope_theta may be a list, one base for each layer
  bool yarn_is_longrope = false;
  bool alpha_is_ntk = false;          // dynamic + alpha is static NTK
  bool sections_are_weights = false;  // sections share the pairs out in that proportion
  Fraction fraction = Fraction::rope_block;
  Learned learned = {};
};

// A sub-config with a rope, and the model_type that its parent gives it where the file names none.
struct Child {
  std::string_view part = {}, type = {};
  Shape shape = {};     // the parent's defaults; 0: the type's own
  double base = 0;      // the same
  bool merged = false;  // shape and base replace single missing keys too, not only a missing sub-config
  bool always = false;  // whatever model_type the file names there: the parent builds it with this one
};

// How the queries of a model are multiplied by their position. A key of "" is none: the value is in the code.
struct QueryRow {
  std::string_view type = {};    // the family's; "": every one
  QueryScale scale = {};         // the class defaults; length 0: a file that does not say it has no such factor
  std::string_view object = {};  // the keys' object; "": the part, "rope": the scaling's, "gguf": a GGUF's metadata
  std::string_view amount_key = {}, length_key = {};
  std::string_view turns_on = {};  // a key, on by default: of numbers 0 is off
  bool chosen = false;             // not every layer has it: those without rope, or those that do not slide
};

// How generate() counts the tokens of a text.
enum class Counts : std::uint8_t {
  none,      // not plainly
  seen,      // the tokens before it that the mask shows; masked tokens are 0
  from_one,  // the same, plus 1; masked tokens are 1
  every,     // all, whatever the mask
};

// The order in which a tower takes the patches of a picture, and what their positions are.
enum class PatchOrder : std::uint8_t {
  none,         // it is no tower
  rows,         // row by row
  blocks,       // merge x merge patches, row by row within and between them
  film_blocks,  // blocks of films, rows of images
  centres,      // rows; place i of n is at 2 (i + 0.5) / n - 1
  windows,      // rows; place i is at i window_size / columns
};

// Whether every picture has a token at (0, 0) before or after its patches.
enum class ClassToken : std::uint8_t { none, before, after };

// How a model_type makes position ids: its row of "positions", and which list of "counted" it stands in. A model that
// makes ids of its own has a variant, the part of one that sees has an order.
struct PositionFacts {
  Counts counts = Counts::none;
  std::string_view variant = {};                                 // tools/positions/variants.cpp
  int image = -1, video = -1, audio = -1, start = -1, end = -1;  // ids of tokens, where the config does not say them
  PatchOrder order = PatchOrder::none;
  int first = 0;  // the number of the first row and column
  ClassToken class_token = ClassToken::none;
  bool frame_axis = false;       // a third axis in front, the frame; else all frames have the same positions
  bool grid_of_blocks = false;   // grids count blocks
  bool fixed_grid = false;       // the grid is the config's; else that of the config only where none is given
  bool width_first = false;      // sizes in the config are [width, height]
  bool clip = false;             // the config says rows and columns, and a grid only how many patches there are
  std::string_view inside = {};  // the part that is meant where the whole is named
  // Keys of a tower's config and defaults of its class: the side of its blocks, of an image (0: the class has none) and
  // of a patch, in pixels; the frames of a clip; the side of a window.
  std::string_view merge_key = "spatial_merge_size", side_key = "image_size", patch_key = "patch_size";
  int merge = 1, side = 0, patch = 1, frames = 1, window = 1;
};

// A published file that states another model's model_type: the architecture identifies it.
struct Misnamed {
  std::string_view type = {}, architecture = {}, family = {};
};

// ---- the architectures of GGUF files: general.architecture in gguf 0.19, and the rope that llama.cpp gives it in
// llama_model_rope_type and the graphs of src/models. bert and starcoder have a rope type there, but learned positions;
// gptj is left out because llama.cpp does not run it. ----

// The rotation that ggml applies to the heads as the GGUF stores them.
enum class GgufRopeType : std::uint8_t {
  none,        // no rotary positions
  norm,        // (2i, 2i + 1)
  neox,        // (i, i + n)
  mrope,       // neox, one run of pairs per axis
  imrope,      // neox, the pairs take the axes in turn
  norm_mrope,  // mrope if the file has sections, else norm
  neox_mrope,  // mrope if the file has sections, else neox
};

// Properties of an architecture's graph that no key of the file states.
enum class GgufQuirk : std::uint8_t {
  plain,
  permuted,         // norm; the conversion from half reordered the rows of q and k
  permuted_switch,  // permuted, and no rope if rope.scaling.finetuned is false (Granite)
  permuted_gaps,    // permuted, and every 4th layer has no rope
  gaps,             // every 4th layer (3, 7, ...) has no rope; if sliding_window is 0, all have one
  gaps_first,       // layers 0, 4, 8, ... have no rope if there is a sliding window
  mla,              // the rotated block is the last of the head
  window_only,      // only the layers with a sliding window have a rope
  window_plain,     // the layers with a sliding window have no scaling, and may have a base of their own
  window_after,     // the same; the first layer of each period has no window, not the last
  hybrid,           // attention on every 4th layer only (full_attention_interval)
};

struct GgufArchitecture {
  GgufRopeType rope_type = GgufRopeType::neox;
  GgufQuirk quirk = GgufQuirk::plain;
  int period = 0;             // the sliding window's: the last layer of each period has none; 0: a key must give it
  bool window_10000 = false;  // without freq_base_swa, the layers with a window have base 10000
};

// nullptr: not known.
const GgufArchitecture* find_architecture(std::string_view name);

// ---- the tables ----

std::vector<std::string_view> model_types();  // that have a Family: of transformers, then of remote code
std::vector<std::string_view> types_with_children();
std::vector<std::string_view> refused_types();
std::vector<std::string_view> types_without_rope();
std::span<const QueryRow> query_rows();
const Family* find_family(std::string_view model_type);  // nullptr: not known
const Tower* find_tower(std::string_view name);          // the same
// Whether a key of config.json, which may be false there, has a rope word and does not say how anything turns.
bool is_harmless_key(std::string_view key, bool is_false);
// Models known to have no rotary positions.
bool known_without_rope(std::string_view model_type);
// Why the rope of this model_type cannot be described here; "" where it can, or is not known.
std::string_view refusal(std::string_view model_type);
// Whether the name is rotary's own, for a sub-config that has no model_type in transformers.
bool is_our_name(std::string_view model_type);
std::span<const Child> children_of(std::string_view parent);  // sorted by part
const Child* find_child(std::string_view parent, std::string_view part);
// Nothing for a type that is neither counted nor in "positions".
std::optional<PositionFacts> find_positions(std::string_view model_type);
// The model_type behind a misnamed file of this architecture; "" where the file's own is right.
std::string_view meant_type(std::string_view model_type, std::string_view architecture);
// The type of find_child; "" where there is none.
std::string_view child_type(std::string_view parent, std::string_view part);

}  // namespace rotary::files

namespace rotary {

// ---- defaults per model_type, as `rotary models` lists them ----

// One part of a model_type, read from its class defaults.
struct KnownModel {
  std::string model_type;  // as the top of a config.json names it
  std::string part;        // dotted path of the sub-config, "" at the top
  Model model = {};        // its ropes by the class defaults, and by sizes that are made up where these have none
  std::string why = {};    // where there are no ropes: why not
  bool rotary = true;      // false: the model has no rotary positions
};

// Sorted by model_type, then part.
std::vector<KnownModel> known_models();

}  // namespace rotary
