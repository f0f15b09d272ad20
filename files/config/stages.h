// The stages of read_config, in order: the parts, their layers, for each layer its rope, the shape of its heads and its
// scaling, and the keys that nothing read. Before them the reader of fields, which reads a value of a part with its
// note, its origin and its error in one call. The values of a scaling are rows of values/scaling_fields.h; others are
// rows here.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/families.h"
#include "models/quirks/quirk.h"
#include "rotary/config.h"
#include "rotary/error.h"
#include "text/json.h"
#include "values/fail.h"
#include "values/scaling_fields.h"

namespace rotary::files {

inline constexpr double max_factor = 1e15;  // far above every published factor; beyond it the formulas overflow
inline constexpr std::int64_t max_length = std::int64_t{1} << 53;  // positions

// ---- where the values of a rope come from --------------------------------------------------------

// The origin of a key of the file or, if keys are a class default, of the model_type's default.
Origin from_key(const Object& keys, std::string_view key);
// The last key of a path, as the file spells it, for formulas.
std::string last_word(const std::string& path);

// The origins of the current rope's values; a later record replaces an earlier one. For output only.
class Origins {
 public:
  void set(std::string_view value, Origin);
  void read(std::string_view value, const Object& keys, std::string_view key) { set(value, from_key(keys, key)); }
  void weights(std::string_view value, std::string tensor) { set(value, {OriginKind::weights, std::move(tensor)}); }
  void by_default(std::string_view value, std::string_view whose) {
    set(value, {OriginKind::model_default, std::string(whose)});
  }
  void derived(std::string_view value, std::string formula) { set(value, {OriginKind::derived, std::move(formula)}); }
  // The origin of the key if it is there, else of the default.
  void read_or_by_default(std::string_view value, const Object& keys, std::string_view key, std::string_view whose);
  // Prefixes the recorded formula of value with "by * ".
  void multiplied(std::string_view value, std::string_view by);
  // Copies the origin of another value.
  void same(std::string_view value, std::string_view other);
  void add(const std::vector<ValueOrigin>&);

  // The origins of a ModelRope, in the order of its fields.
  std::vector<ValueOrigin> of_rope() const;

 private:
  std::map<std::string, Origin, std::less<>> values_;
};

// ---- the reading of a file -----------------------------------------------------------------------

// A part with a rope that this library cannot represent, and why.
struct NoRope {
  std::string part, why;
};

// The state of reading one file.
struct Reading {
  const ConfigOptions& options;
  const Json* file = nullptr;  // the whole file
  Model model = {};
  std::vector<NoRope> without = {};
  Ledger ledger = {};
  Origins origins = {};            // origins of the part, then of its rope
  std::deque<Json> defaults = {};  // class defaults that replace missing objects of the file
  int parts = 0;
  std::string layer_type = {};  // the type of the layers whose rope is read

  // Adds a note about part, once.
  void note(NoteKind, const std::string& part, const std::string& sentence);
  // Records in a note and in `without` that the part has no rope, and why.
  void note_no_rope(const std::string& part, const std::string& why);
};

// A sub-config that has, or may have, a rope.
struct Part {
  Reading& reading;
  std::string path;  // "", "text_config"
  Object keys;
  const Family& family;
  bool known = true;  // false: the pairing is an option's, and the keys are generic

  std::string name() const { return known ? std::string(family.type) : "a model_type that is not known"; }
  Origins& origins() const { return reading.origins; }
  template <class... Parts>
  void note(NoteKind kind, const Parts&... sentence) const {
    reading.note(kind, path, detail::sentence_of(sentence...));
  }
  // Adds the part to the model.
  ModelPart& add_to_model(int layers) const;
  // These record the origin of a value: a key of the part, the class default, a formula.
  void record(std::string_view value, std::string_view key) const { origins().read(value, keys, key); }
  void record_or_default(std::string_view value, std::string_view key) const {
    origins().read_or_by_default(value, keys, key, name());
  }
  void by_default(std::string_view value) const { origins().by_default(value, name()); }
  void derived(std::string_view value, std::string formula) const { origins().derived(value, std::move(formula)); }
};

// The pairing of the options, which is recorded, or else the part's own. overridden: the words for its own in the note
// if they differ; "": no note.
Pairing given_pairing(const Part&, Pairing own, const std::string& overridden);

// ---- whole numbers -------------------------------------------------------------------------------

using Names = std::string_view;  // spellings of a key, separated by blanks: the first one in the file counts

struct Whole {
  const char* value;  // the value of the rope whose origin is recorded; null: none
  Names keys;         // tried first with the family's prefix
  std::int64_t most;
  std::int64_t least = 1;
  int otherwise = 0;                 // the class default, noted with the first key; 0: none
  std::string_view needed_for = {};  // if missing, CONFIG_MISSING "must say NEEDED_FOR"; "": optional
  const Object* in = nullptr;        // null: the part's keys
};
std::optional<int> read_whole(const Part&, const Whole&);
// Returns the class default of a missing key; notes and records it.
int take_default(const Part&, const char* value, const std::string& key, int default_value);
// The key among these that the file has, else the first; for formulas.
std::string word_for(const Part&, Names);
[[noreturn]] void missing(const Part&, const std::string& what, Names);  // throws CONFIG_MISSING

// ---- the fields of a scaling under the keys of another format: params.json, gpt-oss, GGUF --------

struct NativeKey {
  std::string_view name;             // the field's name in scaling_fields.h
  std::string_view key = {};         // "": not in the format, whose code uses the default
  std::string_view object = {};      // the object that must have the key, for errors; "": optional
  std::optional<double> least = {};  // the range is [least, max_factor]; not set: any number
};
void read_native(const Object&, const NativeKey&, double&);
void read_native(const Object&, const NativeKey&, std::int64_t&);

// Reads the fields of the rows into scaling, which holds the defaults, and records their origins. otherwise: the origin
// of a default.
template <class S>
void read_native(const Part& part, const Object& keys, std::initializer_list<NativeKey> rows, const Origin& otherwise,
                 S& scaling) {
  scalings::for_each_field(scaling, [&](const auto& field, auto& value) {
    for (const NativeKey& row : rows) {
      if (row.name != field.name) continue;
      const std::string recorded = std::string("scaling.") + field.name;
      if (row.key.empty()) {
        part.origins().set(recorded, otherwise);
        continue;
      }
      if constexpr (requires { read_native(keys, row, value); }) read_native(keys, row, value);
      part.origins().set(recorded, keys.has(row.key) ? from_key(keys, row.key) : otherwise);
    }
  });
}

// ==== the stages ====

inline constexpr int max_layers = 10000;
inline constexpr int max_heads = 65536;
inline constexpr int max_head_dim = 16384;

Reading read_json(const Json&, const ConfigOptions&);
// The end of a sentence on a missing pairing: a suggestion and the caller's way to set a pairing; either may be "".
std::string with_advice(const std::string& suggestion, const std::string& advice);

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
// The name of the scaling for any spelling of rope_type, or axial, deepseek_yarn, telechat3-yarn. Throws CONFIG_VALUE
// for an unknown one.
std::string scaling_type(const Part&, const Object& keys);
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
void read_diffusers(Reading&, const Object&);                                    // config/diffusers.cpp
bool is_params(const Object&);                     // Mistral's or Meta's params.json
void read_params(Reading&, const Object&);         // config/params.cpp

// ---- notes (config/notes.cpp) ----
// Notes that the part's attention scales its scores by values of the rope, if it does. ropes: those of the part.
void note_attention_scale(const Part&, const std::vector<ModelRope>& ropes);
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
// For a part with ropes: notes keys that name another kind of positions, and refuses ALiBi.
void check_positions(const Part&);
// Throws CONFIG_KEY for the first rope key below root that nothing read.
void refuse_unread_keys(Reading&, const Json& root);

}  // namespace rotary::files
