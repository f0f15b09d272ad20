// Reads a model's ropes from its config.json. Link rotary_files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/query_scale.h"
#include "rotary/rotary.h"

namespace rotary {

// Where a value of a rope comes from.
enum class OriginKind : std::uint8_t {
  given,           // a key of the file
  chosen,          // the caller: ConfigOptions, set_inv_freq() or an option of the program
  weights,         // a tensor or the metadata of a checkpoint
  model_default,   // the file does not state it: the default in the code of this model_type
  method_default,  // the default of the scaling method
  published,       // the model's publisher states it outside the file
  derived,         // computed from other values
};
// "given", "chosen", "weights", "default", "method_default", "published", "derived".
ROTARY_API const char* name(OriginKind) noexcept;
// A coarser word: "given" for the first three, "default" for both defaults, else "derived".
ROTARY_API const char* origin_word(OriginKind) noexcept;

struct Origin {
  OriginKind kind = OriginKind::model_default;
  // The key's path, the tensor, the option, the owner of the default ("llama", "yarn"), or the formula.
  std::string key = {};
};

struct ValueOrigin {
  std::string value;  // "base", "head_dim", "scaling.factor", ...
  Origin origin = {};
};

// The subject of a note.
enum class NoteKind : std::uint8_t {
  chosen,          // a choice of the caller replaces the value of the file or of the model_type
  model_default,   // a key is missing: the default of the model_type or of the format is used
  derived,         // a key is missing: its value follows from others
  unread,          // a key, or a part of its value, has no effect
  read_as,         // a key, a word or the whole file means something other than its name says
  no_rope,         // the part has no rope
  layers,          // layers of the part differ: rope or none, base, scaling or heads
  axes,            // the coordinate by which each pair rotates
  scaling,         // how the scaling acts, or that there is no scaling
  attention,       // a step of the attention beside the rotation
  query_scale,     // queries are multiplied by their position
  awaits_weights,  // learned values have their initial values until the checkpoint is read
  weights,         // a fact from the checkpoint
  compared,        // the result of a comparison with another file or with a checkpoint's buffers
  warning,         // values of the file contradict each other, or are unlike all other models'
  published,       // the model's publisher states it outside the file
  model,           // another fact about the model or its format
};
ROTARY_API const char* name(NoteKind) noexcept;  // the enumerator's name; "default" for model_default

// A note about how the file was read: something that its reader may not expect.
struct Note {
  std::string part;  // ModelPart::path; "" if the note is about the file
  NoteKind kind = NoteKind::model;
  std::string text;  // a sentence
  std::string layer_type = {};  // the type of the layers whose rope it is about; "" if it is about the whole part
  bool operator==(const Note&) const = default;
};
// Whether the note is about a rope of its part whose layers have these types. A note of no type is about each of them.
ROTARY_API bool is_about(const Note&, std::span<const std::string> layer_types);
// The text; for a note on a part with "text_config: " before it.
ROTARY_API std::string sentence_of(const Note&);
ROTARY_API std::vector<std::string> sentences_of(std::span<const Note>);

// The heads that choose the tokens of sparse attention (DeepSeek-V3.2). They rotate like the attention's heads, but in
// their first elements, and have one key head. In the data of families, an unset pairing means the attention's.
struct Indexer {
  int heads = 0, head_dim = 0;
  Pairing pairing = Pairing::unset;
};

// A sub-config whose layers attend: a text model, an image tower.
struct ModelPart {
  std::string path;             // dotted: "", "text_config", "vision_config"
  std::string model_type = {};  // for a text model; "" if unknown, and for GGUF, params.json and towers
  int layers = 0;               // number of layers
  std::vector<std::string> layer_types = {};  // for each layer, "full_attention"; empty if the part has no types
  std::int64_t context = 0;                   // max_position_embeddings; 0 if it is not in the file
  Indexer indexer = {};                       // heads is 0 if there is none, or nothing is known of it
  int latent = 0;            // elements in front of the rotated ones in a row of MLA's cache (kv_lora_rank); 0: no MLA
  bool norm_behind = false;  // queries and keys pass their norm behind the rotation (HunYuan), else in front of it
  bool turns_back = false;   // the attention output is turned back by the query's position (DeepSeek-V4)
};

// One rope of a part. Ropes of one part may have different heads.
struct ModelRope {
  std::string part;         // ModelPart::path
  std::vector<int> layers;  // indices of the layers that use it
  int heads = 0;            // heads in these layers
  int kv_heads = 0;
  int first = 0;                          // element of the head where the rotated block begins
  Rope rope;                              // rope.rotary_dim is always filled in
  std::vector<ValueOrigin> origins = {};  // for each value above, the context, and each value of the scaling
  // Names of the coordinates of a position, in order: "time", "height", "width". Empty if there is one, or the file
  // does not name them.
  std::vector<std::string> axis_names = {};
  // The attention multiplies the scale of its softmax by this, in addition to the rope's attention factor: DeepSeek's
  // (0.1 * mscale_all_dim * ln(factor) + 1)^2.
  double softmax_factor = 1;
  bool coordinates = false;  // positions are coordinates, as of image patches, and not places of tokens in a text
};

// The layers of a part that scale their queries by position: the whole head, however much of it rotates, also in layers
// without a rope.
struct ModelQueryScale {
  std::string part;  // ModelPart::path
  QueryScale scale;
  std::vector<int> layers;
  std::string from;  // the key that states it, for messages
};

struct Model {
  std::string model_type;
  std::vector<ModelPart> parts = {};  // one for each path with a rope or a query scale
  std::vector<ModelRope> ropes = {};
  std::vector<Note> notes = {};
  std::vector<ModelQueryScale> query_scales = {};  // at most one for a part
};

// The part of that path, or a part without layers if the model has none.
ROTARY_API const ModelPart& part_of(const Model&, std::string_view path);
// The first rope of a layer; null if the layer has none. If no part has the path "", that path means the first rope's
// part, which is the text of most models. Throws ROPE (no such layer or part, as the layer behind the last one in which
// an engine keeps the draft of DeepSeek-V3).
ROTARY_API const ModelRope* rope_of_layer(const Model&, int layer, std::string_view part = {});
// Indices of the part's layers that have no rope.
ROTARY_API std::vector<int> layers_without_rope(const Model&, std::string_view part);
// The types of the layers that use the rope, each once; empty if the part has no types.
ROTARY_API std::vector<std::string> layer_types_of(const Model&, const ModelRope&);
// The notes on the rope, without those on other parts of the model and on other layers' ropes.
ROTARY_API std::vector<Note> notes_on(const Model&, const ModelRope&);
// Whether the query scale applies to every layer of its part.
ROTARY_API bool is_everywhere(const Model&, const ModelQueryScale&);

// Names that notes, origins and errors use for this API, so that a program can print the names of its own options.
struct CallerWords {
  std::string pairing = "ConfigOptions::pairing";
  std::string model_type = "ConfigOptions::model_type";
  std::string give_pairing = {};  // advice if only the pairing is missing: "pass --pairing half or interleaved"
  std::string give_type = {};     // advice if the file does not say which model it is: "pass --model-type NAME"
  std::string give_base = {};     // advice if the file does not say that anything turns: "add --base B"
  std::string weights = "apply_weights() reads the checkpoint";
  std::string inv_freq = "set_inv_freq() uses such values";
};

struct ConfigOptions {
  std::optional<Pairing> pairing;  // used if the model_type is unknown, and overrides it if it is known
  std::string model_type = {};     // in place of the file's, which may state none; of a GGUF, its architecture
  bool class_defaults = false;     // layers and heads missing at the top level get the model_type's defaults
  bool sets_base = false;          // the caller sets its own base: a file without any rope key may have none
  bool sets_scaling = false;       // the caller sets its own scaling: no note says that the file has none
  CallerWords words = {};
};

// Reads config.json of Hugging Face, params.json of Mistral and Meta, or a GGUF file. path is the file, or the folder
// that holds one of the two JSON files. A rope key that nothing reads is an error. Throws FILE, JSON, FORMAT, TENSOR,
// ROPE, CONFIG_KEY, CONFIG_VALUE, CONFIG_MISSING, MODEL_TYPE (unknown, and no pairing given); errors of read_config
// name the file.
ROTARY_API Model read_config(const std::filesystem::path& path, const ConfigOptions& = {});
ROTARY_API Model parse_config(std::string_view json, const ConfigOptions& = {});

// ---- the sheet of models -------------------------------------------------------------------------

// The sheet of models, files/models/models.json, holds the facts of each model_type that its files leave out. It is
// built in. A newer file, or one with rows of one's own (docs/models.md), may take its place: that of use_models() or,
// without it, the one that the environment's ROTARY_MODELS names.
struct ModelData {
  std::string version;              // "2026.11.2"
  std::filesystem::path file = {};  // empty for the sheet built in
};
ROTARY_API ModelData model_data();
// Reads a sheet and checks every row; then all threads read models by it. A reading that has begun ends with the sheet
// that it began with, so any thread may call this at any time; a sheet, about 1 MB, is never freed. After an error the
// earlier sheet stays in use. Throws FILE, JSON, FORMAT; so do, of a bad file in ROTARY_MODELS, the functions above.
ROTARY_API void use_models(const std::filesystem::path& file);
ROTARY_API void use_own_models();  // ends the use of that file
// For a program or a package that carries the sheet as a file: where the file exists, it is read in place of the one
// built in. Call it before the first reading.
ROTARY_API void set_models_beside(const std::filesystem::path& file);

// ---- queries multiplied by their position --------------------------------------------------------

// The query scale of a layer of a part; its form is none if the queries are not scaled. Throws ROPE if no layer is
// named and the layers differ, and for a layer that the part does not have, if its layers are known.
ROTARY_API QueryScale query_scale_of(const Model&, std::string_view part, std::optional<int> layer = {});
// The factors of the first rope's part or, if that has no query scale (the rope may be a tower's), of the first part
// that has one: f32, 1 for a model without one. Throws what query_scale_of and query_scale(QueryScale) throw.
ROTARY_API std::vector<float> query_scale(const Model&, std::span<const std::int64_t> positions,
                                          std::optional<int> layer = {});

// ---- rotate by a model's rope --------------------------------------------------------------------

// Same as rotate_qk(q, k, Rope, ...) of rotary.h for whole heads, of the rope's head_dim: rotates elements
// [rope.first, rope.first + rotary_dim) of every head in place.
ROTARY_API void rotate_qk(const Heads& q, const Heads& k, const ModelRope& rope, std::int64_t first_position,
                          const RotateOptions& = {});

// ---- learned frequencies -------------------------------------------------------------------------

// Frequencies, in one row or in several.
struct PairRows {
  std::vector<double> values;  // radians per position: [pairs], [summed_axes, pairs] or [rows, axes, pairs]
  int rows = 1;                // 1: all heads rotate alike
  int summed_axes = 0;         // 0: each pair has one coordinate
  int pairs = 0;
};
// Reads an .npy, or a safetensors file (its only tensor, or the one whose name is or ends in inv_freq).
// Throws FILE, FORMAT, TENSOR (none or several, not finite), DTYPE (not F64, F32, F16, BF16), SHAPE.
ROTARY_API PairRows read_pair_rows(const std::filesystem::path&);
// Sets the frequencies of model.ropes[rope]; `from` names their source in origins and notes. Throws SHAPE.
ROTARY_API void set_inv_freq(Model&, std::size_t rope, PairRows inv_freq, const std::string& from);
// Reads the learned values of ropes, multipliers or directions, from a checkpoint, and its pairing if `rotary convert`
// has converted it. weights is model.safetensors, model.safetensors.index.json or the folder of either. The inv_freq
// buffers of older checkpoints are only compared; the notes report the result. Throws FILE, FORMAT, JSON, TENSOR,
// DTYPE, SHAPE, PAIRING.
ROTARY_API void apply_weights(Model&, const std::filesystem::path& weights, const CallerWords& = {});
// Whether ropes of the part have learned values that are not read yet and so have their initial values.
ROTARY_API bool awaits_weights(const Model&, std::string_view part);

// ---- writing a rope ------------------------------------------------------------------------------

// The JSON object rope_parameters of config.json in the form of transformers 5: rope_type, rope_theta,
// partial_rotary_factor (rotary_dim / head_dim; for Proportional its fraction), and every value of the scaling under
// the key that read_config reads. A config with this object, the same head_dim and a model_type that reads these keys
// is read back as the same rope, value for value, with rotary_dim filled in. Pairing and direction follow from the
// model_type.
// Some names are not from transformers. vLLM's: rope_type ntk (NtkFixed) with mixed_b, deepseek_yarn and
// telechat3-yarn, attn_factor, extrapolation_factor. SGLang's: yarn_log, theta_scale. Rotary's own: rope_type ntk_aware
// (Ntk), magnitude and mscale_ratio (Yarn), trained_length (Dynamic: transformers uses max_position_embeddings, which
// the config should set to the same value). These keys are written only where the value is not the default. Throws ROPE
// for what the object cannot express: inv_freq, multiplier, phase, xpos, attention_factor, axis, index, an exponent_dim
// other than rotary_dim or one less, Proportional in a part of the head, numbers that read_config refuses.
ROTARY_API std::string rope_parameters(const Rope&);
// The same for a model's rope. If the rotated block ends the head (first > 0, as in DeepSeek), partial_rotary_factor is
// left out, because the config's qk_rope_head_dim states its width. Also throws ROPE for a block in the middle of the
// head.
ROTARY_API std::string rope_parameters(const ModelRope&);

}  // namespace rotary
