// Facts about each model_type that a config.json leaves out: the rows of files/models/models.json as values. A row's
// fields have the names of these structs' members and state the values that differ from the defaults here. Read by
// files/config, tools/convert, tools/extend and rotary_torch.
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

// The coordinate of a position for each pair of a text model's rope. For towers see quirks/quirk.h.
enum class Axes : std::uint8_t {
  one,
  sectioned,    // M-RoPE ttt hhh www over one run of frequencies (Qwen2-VL)
  interleaved,  // M-RoPE thw thw ... ttt                           (Qwen3-VL)
  ernie,        // h w h w ... t t t                                (Ernie 4.5 VL)
  xdrope,       // sections of the pairs, three or four axes         (Hunyuan VL)
  alternating,  // rows and columns pair by pair, one run            (NeoMME)
  bailing,      // as ernie; the sections are in the order t, h, w   (Ling 3 VL, Ming's video_rope)
  openpangu,    // by shares, t last; sectioned unless interleaved   (openPangu VL)
  glm,          // thw thw ... of the axes with pairs left           (SGLang's mrope_interleaved_glm)
};

// MLA heads are [nope | rope]: head_dim = qk_nope_head_dim + qk_rope_head_dim, the last qk_rope_head_dim turn.
struct Mla {
  int nope = 0, rope = 0;  // class defaults of the two; rope 0: no MLA
};

enum class LayerKind : std::uint8_t { none, sliding, full, linear, hybrid, indexed, mlp };

// The layer types of a file that has none.
struct Pattern {
  std::vector<LayerKind> types = {};  // repeated
  std::string_view period_key = {};   // the key of the pattern's length in the file
  LayerKind first = LayerKind::none;  // the type of the first layer
  bool ends_full = false;             // and then the last layer is full_attention
  bool last_full = false;             // the last layer is full_attention, whatever the file says
};

// Which of the layers with attention have a rope.
enum class Rule : std::uint8_t {
  all,
  sliding,              // sliding_attention layers only
  sliding_or_dense,     // these, and the dense layers before them
  sliding_or_all,       // these, or all layers if sliding_window is null
  no_rope_layers,       // the list of that name (1 = rope!); else every no_rope_layer_interval-th has none
  layer_rope_theta,     // not where that list has 0
  layer_rope_flags,     // the same; other values of layer_rope_theta are not read as bases
  unless_null,          // none if rope_parameters or its rope_theta is null
  if_rotary,            // only if position_embedding(s)_type is "rope" or "rotary"
  unless_not_rotary,    // likewise, or if it is missing
  unless_alibi_size,    // Baichuan: the larger models use ALiBi
  if_attn_config_rope,  // MPT
  use_rope_layers,      // the list of booleans of that name, if not empty (Step 3.5)
  not_cross,            // not cross_attention_layers, which attend to the image
};

// How the old spelling (rope_theta, rope_scaling) maps onto layer types.
enum class Old : std::uint8_t {
  one_for_all,      // one rope, whatever the layer type
  all_to_all,       // likewise, copied to each layer type with rope_theta as the base of all (Dots 3 Note)
  scaling_to_full,  // rope_scaling applies to full_attention only
  scaling_to_both,
  scaling_to_compress,  // DeepSeek-V4: layers are "main" (sliding) or "compress", which alone is scaled
};

// A boolean of the file that switches the ropes on or off.
struct Flag {
  std::string_view key = {};
  bool on = true;              // the value with which layers have a rope
  bool default_value = false;  // its class default
};

// A fact that may surprise, for the notes.
struct Remark {
  std::string_view text = {};
  std::vector<std::string_view> keys = {};  // rope keys that it explains, and that need no other note
};

// ---- for converting checkpoints: the place of q and k in the projections ----

// The order of the rows of a fused projection of q, k and v, with H heads and K key heads of D rows each.
enum class Fused : std::uint8_t {
  none,        // q and k have separate projections
  joined,      // q of all heads, k of all, v of all
  gate_first,  // a gate of all heads, q of all, k of all, v of all
  by_head,     // [q k v] of head 0, of head 1, ...
  by_group,    // [q ... q k v] of each key head and the queries that use it
  four_parts,  // four equal parts, each [q v k] of a quarter of the heads (CodeGen)
};

// The order of the rows of a fused projection of k and v.
enum class FusedKeys : std::uint8_t {
  none,
  joined,   // k of all heads, v of all
  by_head,  // [k v] of head 0, of head 1, ...
};

// An order selected by a boolean of the config.
struct FusedWhere {
  std::string_view key = {};
  bool default_value = false;
  Fused fused = Fused::none;
};

struct AttentionFacts {
  std::string_view why_not = {};  // the reason why the weights cannot change their pairing, if so
  Fused fused = Fused::none;
  std::vector<FusedWhere> fused_where = {};  // the first of these that is true replaces fused
  FusedKeys fused_keys = FusedKeys::none;
  bool gated_q = false;         // for each head the projection has rows of the query, then as many of its gate
  bool gated_by_value = false;  // likewise; the gate has the width of a value (MLA)
  bool query_experts = false;             // each expert projects as many queries as there are keys (JetMoE)
  bool keys_may_be_values = false;        // layers without a value projection use the key projection
  std::string_view pairing_key = {};      // a config key of the pairing, if Family::pairing_key is not set
  int first_layer = 0;                    // the number of the first layer in the names of tensors
  std::string_view layers_in_stack =
      {};  // a config key: the number of layers in a stack; numbers begin at 0 in each stack
  Indexer indexer = {};                   // class defaults of index_n_heads and index_head_dim
};

// Scaling methods that transformers refuses to load for a model, or fails on, although its config could express them.
struct Unusable {
  std::vector<std::string_view> methods = {};
  std::string_view why = {};
};

struct Quirk;  // quirks/quirk.h
struct TowerLayout;  // quirks/quirk.h
namespace quirks {
extern const Quirk none;
}

// The whole of which partial_rotary_factor is a fraction, for MLA.
enum class Fraction : std::uint8_t {
  rope_block,
  head,
  nothing,  // qk_rope_head_dim decides, whatever the file's fraction
};

// The learned values of a rope, which are in the checkpoint.
enum class Learns : std::uint8_t {
  nothing,
  multiplier,       // exp(tensor) multiplies the frequencies
  directions,       // inv_freq of every head, [axes, heads, pairs]
  last_directions,  // frequencies by height and width of the last n pairs, [heads, n, 2]
};
struct Learned {
  Learns what = Learns::nothing;
  std::string_view tensor = {}, also = {};  // suffix of the tensor's name, and of its name in other checkpoints
};

// The facts of a rope of several axes that no file states.
struct Tower {
  std::string_view words = {};  // text for notes
  std::string_view axes = {};   // names of the axes in the order of coordinates, separated by blanks
  std::string_view width = {};  // the formula of rotary_dim
  const TowerLayout* layout = nullptr;
};

// The facts of a model_type. "a.b" is the key b of the object a.
struct Family {
  std::string_view type;
  Pairing pairing = Pairing::half;
  Shape shape = {};
  std::int64_t context = 0;      // class default of max_position_embeddings; 0: none
  std::string_view prefix = {};  // prefix of the keys of layers, heads and width: "memory_attention_"
  double base = 10000;
  double partial = 1;          // the fraction of the head that turns
  bool reads_partial = false;  // the framework's default rope uses partial_rotary_factor (others do not)
  bool reads_scaling = true;   // false: it has no rope_scaling and rope_parameters, and they are refused
  Axes axes = Axes::one;
  std::array<int, 4> sections = {};  // mrope_section if the file has none
  const Tower* tower = nullptr;      // not a text model: the layout of its axes
  Mla mla = {};
  std::string rope_parameters = {};  // class default, in the words of config.json
  Pattern pattern = {};
  Rule rule = Rule::all;
  Flag turns_where = {};
  Old old = Old::one_for_all;
  double sliding_base = 0;                                  // the base of sliding layers; 0: the same
  std::vector<std::string_view> base_key = {"rope_theta"};  // the first of these in the file; empty: fixed
  std::string_view sliding_base_key = {};                   // "rope_local_base_freq", "local_rope_theta"
  std::string_view partial_key = "partial_rotary_factor";
  std::string_view dim_key = {};                // an absolute width: "rotary_dim"
  int dim = 0;                                  // its class default
  std::string_view pairing_key = {};            // a boolean: true interleaves, false means half
  std::vector<std::string_view> harmless = {};  // rope keys of published files that nothing reads
  Remark remark = {};
  const Quirk* quirk = &quirks::none;  // hooks for behaviour of this model alone
  AttentionFacts attention = {};
  std::vector<Unusable> unusable = {};
  bool null_head_dim = false;  // the class leaves head_dim null, which the code of yarn, dynamic and longrope reads
  std::string_view width_key = {};    // the key of the width shared by its heads; "": hidden_size, by any of its names
  std::string_view scaling_key = {};  // another name of rope_scaling; factor may be missing there
  std::string_view divisor_key = "rope_condense_ratio";  // a number that divides the positions
  bool lists_bases = false;           // rope_theta may be a list, one base for each layer
  bool yarn_is_longrope = false;
  bool alpha_is_ntk = false;          // dynamic + alpha is static NTK
  bool sections_are_weights = false;  // pairs are divided in proportion to the sections
  Fraction fraction = Fraction::rope_block;
  Learned learned = {};
  bool norm_behind = false;  // ModelPart::norm_behind
  bool turns_back = false;   // ModelPart::turns_back
};

// A sub-config with a rope, and the model_type that its parent uses if the file names none.
struct Child {
  std::string_view part = {}, type = {};
  Shape shape = {};     // defaults of the parent; 0: those of the type
  double base = 0;      // the same
  bool merged = false;  // shape and base also replace single missing keys, not only a missing sub-config
  bool always = false;  // the parent builds it with this type, whatever model_type the file names there
};

// The query scale of a model. A key "" means that the value is in the code.
struct QueryRow {
  std::string_view type = {};    // the family; "": every family
  QueryScale scale = {};         // class defaults; length 0: no factor unless the file has the length
  std::string_view object = {};  // object of the keys; "": the part, "rope": the scaling's, "gguf": the metadata
  std::string_view amount_key = {}, length_key = {};
  std::string_view turns_on = {};  // a key that switches it, on by default; the number 0 is off
  bool chosen = false;             // only the layers without rope, or those that do not slide, have it
  int layers = 0;                  // the default of num_hidden_layers, for a type without rope
};

// How generate() counts the tokens of a text.
enum class Counts : std::uint8_t {
  none,      // neither of these
  seen,      // visible tokens before it; masked tokens have 0
  from_one,  // likewise plus 1; masked tokens have 1
  every,     // all tokens before it, whatever the mask
};

// The order of an image's patches in a tower, and their positions.
enum class PatchOrder : std::uint8_t {
  none,         // not a tower
  rows,         // row by row
  blocks,       // merge x merge patches, row by row within and between them
  film_blocks,  // blocks for videos, rows for images
  centres,      // rows; place i of n is at 2 (i + 0.5) / n - 1
  windows,      // rows; place i is at i window_size / columns
};

// Whether every image has a token at (0, 0) before or after its patches.
enum class ClassToken : std::uint8_t { none, before, after };

// A way of position ids that tools/positions/variants.cpp has a function for.
enum class PositionVariant : std::uint8_t {
  none,
  whole_film,
  film_in_seconds,
  film_merged_in_time,
  film_by_frame,
  frame_after_frame,
  between_marks,
  words_keep_counting,
  page,
  canvas,
  omni_by_pieces,
  omni_by_time,
};

// How a model_type computes position ids: its row of "positions" and its list in "counted". A model with its own ids
// has a variant; a part for images has an order.
struct PositionFacts {
  Counts counts = Counts::none;
  PositionVariant variant = PositionVariant::none;
  int image = -1, video = -1, audio = -1, start = -1, end = -1;  // token ids that are not in the config
  PatchOrder order = PatchOrder::none;
  int first = 0;  // the number of the first row and column
  ClassToken class_token = ClassToken::none;
  bool frame_axis = false;       // the frame is a third axis, in front; else all frames have the same positions
  bool grid_of_blocks = false;   // grids count blocks
  bool fixed_grid = false;       // the grid is always the config's; else only if none is given
  bool width_first = false;      // sizes in the config are [width, height]
  bool clip = false;             // the config has rows and columns, and a grid only gives the number of patches
  std::string_view inside = {};  // the part that is meant if the whole is named
  // Keys of a tower's config and class defaults: the side of a block, of an image (0: no default) and of a patch in
  // pixels; the frames of a clip; the side of a window.
  std::string_view merge_key = "spatial_merge_size", side_key = "image_size", patch_key = "patch_size";
  int merge = 1, side = 0, patch = 1, frames = 1, window = 1;
};

// A file that states no model_type, or another model's: its architecture identifies it, or a key that only files of
// that model have (whose text contains `text`, in lower case).
struct Misnamed {
  std::string_view type = {}, architecture = {}, key = {}, text = {}, family = {};
};

// ---- the architectures of GGUF files: general.architecture in gguf 0.19 and llama.cpp of September 2026, and its rope
// by llama_model_rope_type of llama.cpp and the graphs of src/models. bert and starcoder have a rope type there, but
// learned positions. ----

// The rotation that ggml applies to the heads as the GGUF stores them.
enum class GgufRopeType : std::uint8_t {
  none,        // no rotary positions
  norm,        // (2i, 2i + 1)
  neox,        // (i, i + n)
  mrope,       // neox, one run of pairs per axis
  imrope,      // neox, the axes alternate over the pairs
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
  mla,              // the rotated block ends the head
  compressed,       // likewise; the layers that compress keys have a base of their own and the scaling (DeepSeek-V4)
  window_only,      // only the layers with a sliding window have a rope
  window_or_dense,  // these and the leading dense layers; the first layer of each period has no window
  window_plain,     // the layers with a sliding window have no scaling, and may have a base of their own
  window_after,     // likewise, but the first layer of each period has no window, not the last
  hybrid,           // attention on the last layer of each period only (4, or full_attention_interval)
};

struct GgufArchitecture {
  GgufRopeType rope_type = GgufRopeType::neox;
  GgufQuirk quirk = GgufQuirk::plain;
  int period = 0;             // the sliding window's: the last layer of a period has none; 0: from a key (hybrid: 4)
  bool window_10000 = false;  // without freq_base_swa, the layers with a window have base 10000
};

// Returns nullptr for an unknown architecture.
const GgufArchitecture* find_architecture(std::string_view name);

// ---- the tables ----

class ModelTable;
// A reading by one sheet: while it lives, this thread reads the sheet that was in use when it began, or the one given.
class SheetOfReading {
 public:
  explicit SheetOfReading(const ModelTable* = nullptr);
  ~SheetOfReading();
  SheetOfReading(const SheetOfReading&) = delete;
  SheetOfReading& operator=(const SheetOfReading&) = delete;

 private:
  const ModelTable* before_;
};

std::vector<std::string_view> model_types();  // the types with a Family: of transformers, then of remote code
std::vector<std::string_view> types_with_children();
std::vector<std::string_view> refused_types();
std::vector<std::string_view> types_without_rope();
std::span<const QueryRow> query_rows();
const Family* find_family(std::string_view model_type);  // nullptr: unknown
const Tower* find_tower(std::string_view name);          // likewise
// Whether a key of config.json (is_false: with the value false) has a rope word but no effect on a rotation.
bool is_harmless_key(std::string_view key, bool is_false);
// Models known to have no rotary positions.
bool known_without_rope(std::string_view model_type);
// Why the rope of this model_type cannot be represented here; "" if it can be, or the type is unknown.
std::string_view refusal(std::string_view model_type);
// Whether the name is rotary's own, for a sub-config that has no model_type in transformers.
bool is_our_name(std::string_view model_type);
std::span<const Child> children_of(std::string_view parent);  // sorted by part
const Child* find_child(std::string_view parent, std::string_view part);
// Returns nothing for a type that is neither in "counted" nor in "positions".
std::optional<PositionFacts> find_positions(std::string_view model_type);
std::span<const Misnamed> misnamed();
// Whether a row of models.json, for a model or a class of diffusers, has the name.
bool is_known_type(std::string_view model_type);
// The known model_type whose class it is, by the usual spelling of names: "QWenLMHeadModel" is qwen's. "" if none is.
std::string_view type_of_class(std::string_view class_name);
// The type of find_child; "" if there is no child.
std::string_view child_type(std::string_view parent, std::string_view part);

}  // namespace rotary::files

namespace rotary {

// ---- defaults of each model_type, as listed by `rotary models` ----

// One part of a model_type, read from its class defaults.
struct KnownModel {
  std::string model_type;  // as at the top of a config.json
  std::string part;        // dotted path of the sub-config, "" at the top
  Model model = {};        // its ropes by the class defaults, with arbitrary sizes where these have none
  std::string why = {};    // the reason if there are no ropes
  bool rotary = true;      // false: the model has no rotary positions
};

// Sorted by model_type, then part.
std::vector<KnownModel> known_models();

}  // namespace rotary
