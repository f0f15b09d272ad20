// The stages of read_config, in order: the parts, their layers, for each layer its rope, the shape of its heads and its
// scaling, and the keys that nothing read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fields.h"
#include "models/quirks/quirk.h"
#include "rotary/error.h"

namespace rotary::files {

inline constexpr int max_layers = 10000;
inline constexpr int max_heads = 65536;
inline constexpr int max_head_dim = 16384;

Reading read_json(const Json&, const ConfigOptions&);
// The end of a sentence on a missing pairing: a suggestion and the caller's way to set a pairing; either may be "".
std::string with_advice(const std::string& suggestion, const std::string& advice);
// The caller's ways to name a type that is not known: type, or a pairing; with a base if no rope key is in the file.
std::string ways_on(const CallerWords&, const std::string& type, bool rope_keys);

// A config's JSON file read once, in the three forms that are needed to change it.
struct ConfigFile {
  std::string text;
  Json json;
  Model model;
};

// Reads config.json or params.json, not a folder. Throws what read_config throws.
ConfigFile read_config_file(const std::filesystem::path&, const ConfigOptions&);

struct HeadShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int first = 0;  // where the rotated block begins, for MLA
  int block = 0;  // elements of which partial_rotary_factor is a fraction: the head, or MLA's rope block
  bool mla = false;
  Origin block_from = {};  // for MLA
};

// The error for a whole head that is to rotate and has an odd head_dim.
struct OddHead : Error {
  using Error::Error;
};

// ---- shape (config/shape.cpp) ----
inline constexpr Names hidden_keys = "hidden_size n_embd n_embed d_model width dim embed_dim hidden_dim";
int layer_count(const Part&);
bool is_mla(const Part&);  // a family with MLA heads, unless the file has use_mla: false
struct Layer;
HeadShape head_shape(const Part&, const Layer&);
int read_head_dim(const Part&, int heads);
int hidden_per_head(const Part&, int heads);
// Reads the heads of layers of one type that have their own: the swa_ keys and other spellings.
void read_heads_of_type(const Part&, const std::string& layer_type, HeadShape&);
// The number of positions that the model is made for: max_position_embeddings, by any of its names. Each of these
// throws CONFIG_VALUE if the key does not hold a length.
std::optional<std::int64_t> context_length(const Object&);
std::optional<std::string> context_key(const Object&);  // its key
void record_context(const Part&);                       // its origin, if it is in the file

// ---- layers (config/layers.cpp) ----
struct Layer {
  std::string type;  // "full_attention", ...; "" if the model has no types
  bool turns = true;
  std::optional<double> base;  // set if the file has a list
  std::optional<double> partial;
  bool scaled = true;                           // Molmo 2: layers outside rope_scaling_layers keep the base only
  int heads = 0, kv_heads = 0, head_dim = 0;    // from per_layer_config; 0: as in the part
  int nope = 0, rotating = 0;                   // for MLA
  std::vector<ValueOrigin> origins = {};        // for values that differ from the part's
  Origin partial_from = {}, turning_from = {};  // origins of these two
  bool has_own() const {
    return base || partial || !scaled || heads != 0 || kv_heads != 0 || head_dim != 0 || nope != 0 || rotating != 0;
  }
};
std::vector<Layer> read_layers(const Part&);
bool attends(const std::string& type);
bool slides(const std::string& type);  // sliding_attention, hybrid_sliding
// The types that in old spellings have their own base, unscaled: the sliding ones and DeepSeek-V4's "main".
bool has_sliding_rope(const std::string& type);

// ---- the parameters of one rope, from any spelling (config/rope.cpp) ----
struct RopeKeys {
  std::string type = "default";  // as returned by scaling_type
  double base = 10000;
  std::optional<double> partial;            // not set: the family's
  std::optional<Origin> partial_from = {};  // origin of partial
  std::optional<Object> scaling;            // the object that holds the scaling's keys, if any
  bool truncate_elsewhere = false;          // rope_parameters is nested: truncate is read one level up
  std::optional<bool> truncate;
  Origin truncate_from = {};  // origin of truncate
};
// The type that scaling_type returns for a word of rope_type; "" if the word is unknown.
std::string published_type(std::string_view type_word);
// The rope of a layer; nothing if rope_parameters has null for the layer's type.
using RopeOfLayer = std::function<std::optional<RopeKeys>(const Layer&)>;
RopeOfLayer rope_source(const Part&, const std::vector<Layer>&);

// ---- scaling (config/scaling.cpp) ----
Scaling read_scaling(const Part&, const RopeKeys&, int pairs);  // keys.partial must be set

// ---- learned frequencies (learned.cpp) ----
// Makes the rope one with learned values, at their initial values, and adds a note.
void start_learned(const Part&, const Learned&, ModelRope&);
// The part of apply_weights() that reads the pairing: if the weights in the folder were converted, the ropes get their
// pairing, and a note says so. A folder without weights changes nothing. Throws FILE, FORMAT, JSON, PAIRING.
void apply_weights_pairing(Model&, const std::filesystem::path& folder);

// ---- parts ----
void read_text_part(const Part&);                                                 // config/part.cpp
void read_vision_part(const Part&);                                               // config/vision.cpp
void set_mrope_axes(const Part&, const std::optional<Object>& keys, ModelRope&);  // config/vision.cpp
// interleaved_axes() for that many pairs. The frameworks fill the axes by position: sections need not sum to the pairs.
std::vector<std::uint8_t> interleaved_by(std::vector<int> sections, int pairs);  // config/vision.cpp
bool is_diffusers(const Object&);                                                // names a class of diffusers
bool is_class_of_diffusers(std::string_view);                                    // that is known
void read_diffusers(Reading&, const Object&, const std::string& class_name);     // config/diffusers.cpp
bool is_params(const Object&);                     // Mistral's or Meta's params.json
void read_params(Reading&, const Object&);         // config/params.cpp
// Throws MODEL_TYPE for a JSON file that people give in place of a model's config, with what it is.
void refuse_other_files(const Object& root);  // config/other_files.cpp

// ---- notes (config/notes.cpp) ----
// Notes that the part's attention scales its scores by values of the rope, if it does. ropes: those of the part.
void set_softmax_factors(const Part&, std::vector<ModelRope>& ropes);
// Notes a yarn factor that contradicts the model's lengths. transformers warns of such files unless both lengths are
// equal.
void note_reach(const Part&, const std::vector<ModelRope>& ropes, std::int64_t context);
// A note on the values in which params differs from the config.json from which model was read.
Note note_beside(const Model& model, const std::filesystem::path& params, const ConfigOptions&);

// ---- queries multiplied by the position (config/query_scale.cpp) ----
// Adds the part's query scale to Model::query_scales, with a note. of_rope: the object of its first rope's scaling, and
// that scaling. chosen: the layers that have the query scale, if not all do.
void read_query_scale(const Part&, const std::optional<Object>& of_rope, const Scaling&, std::size_t layers,
                      const std::vector<int>& chosen);
// read_query_scale() for a model that has no rope at all.
void read_query_scale_without_rope(const Part&);

// ---- the rest (config/leftover.cpp) ----
// Marks a key that is understood and not used, and the known keys in it, so that an unknown key there stays an error.
void ignore_known(const Object&, const std::string& key);
bool names_rope(std::string_view key);
// Whether the value of a rope key says nothing: null, {}, or an object whose only value is the type default.
bool says_nothing(const Json& value);
// The key by which the file says that its layers have no rope: a switch that is false, or another kind of positions. ""
// if there is none. For a model_type that is not known.
std::string switched_off_by(const Object&);
bool states_rope_positions(const Object&);  // whether a key states that the positions are rotary: "rope"
// For a part with ropes: notes keys that name another kind of positions, and refuses ALiBi.
void check_positions(const Part&);
// Throws CONFIG_KEY for the first rope key below root that nothing read.
void refuse_unread_keys(Reading&, const Json& root);

}  // namespace rotary::files
