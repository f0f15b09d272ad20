// The stages of read_config, in order: the parts, their layers, of each layer its rope, the shape of its heads and its
// scaling, and the keys that nothing read. Before them one reader of fields: what a part of a file says, with its note,
// its origin and its error in one call. The values of a scaling are rows of values/scaling_fields.h; the others are
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

inline constexpr double max_factor = 1e15;  // no published one is larger by far; beyond it the formulas overflow
inline constexpr std::int64_t max_length = std::int64_t{1} << 53;  // positions

// ---- where the values of a rope come from --------------------------------------------------------

// Read from that key of the file, or of a class default: then it is the model_type's.
Origin from_key(const Object& keys, std::string_view key);
// The key at the end of a path: the file's word, for formulas.
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
  // Read where the key is there, else the default.
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

// A part whose rope is understood and cannot be given.
struct NoRope {
  std::string part, why;
};

// One reading of one file.
struct Reading {
  const ConfigOptions& options;
  const Json* file = nullptr;  // the whole
  Model model = {};
  std::vector<NoRope> without = {};
  Ledger ledger = {};
  Origins origins = {};            // the part's, then its rope's
  std::deque<Json> defaults = {};  // class defaults that stand in for objects of the file
  int parts = 0;

  // Notes one sentence about part, once.
  void note(NoteKind, const std::string& part, const std::string& sentence);
  // The part has no rope, and why: noted, and kept in without.
  void note_no_rope(const std::string& part, const std::string& why);
};

// A sub-config that has, or may have, a rope.
struct Part {
  Reading& reading;
  std::string path;  // "", "text_config"
  Object keys;
  const Family& family;
  bool known = true;  // false: --pairing decides, generic keys

  std::string name() const { return known ? std::string(family.type) : "a model_type that is not known"; }
  Origins& origins() const { return reading.origins; }
  template <class... Parts>
  void note(NoteKind kind, const Parts&... sentence) const {
    reading.note(kind, path, detail::sentence_of(sentence...));
  }
  // Adds it to the model's parts.
  ModelPart& add_to_model(int layers) const;
  // The origin of a value: a key of the part, the class default, a formula.
  void record(std::string_view value, std::string_view key) const { origins().read(value, keys, key); }
  void record_or_default(std::string_view value, std::string_view key) const {
    origins().read_or_by_default(value, keys, key, name());
  }
  void by_default(std::string_view value) const { origins().by_default(value, name()); }
  void derived(std::string_view value, std::string formula) const { origins().derived(value, std::move(formula)); }
};

// The pairing of the options, which is recorded, or the part's own. overridden: the words for its own in the note where
// they differ; "": no note.
Pairing given_pairing(const Part&, Pairing own, const std::string& overridden);

// ---- whole numbers -------------------------------------------------------------------------------

using Names = std::string_view;  // spellings of a key, with blanks between them: the first one that is given counts

struct Whole {
  const char* value;  // the rope's value whose origin is recorded; null where none is
  Names keys;         // behind the family's prefix first
  std::int64_t most;
  std::int64_t least = 1;
  int otherwise = 0;                 // the class default, noted as that of the first key; 0: none
  std::string_view needed_for = {};  // without a value: CONFIG_MISSING, "must say NEEDED_FOR"; "": it may be missing
  const Object* in = nullptr;        // null: the part's keys
};
std::optional<int> read_whole(const Part&, const Whole&);
// The class default of a key that is not given, noted and recorded.
int take_default(const Part&, const char* value, const std::string& key, int default_value);
// The file's own key among these, else the first: for formulas.
std::string word_for(const Part&, Names);
[[noreturn]] void missing(const Part&, const std::string& what, Names);  // throws CONFIG_MISSING

// ---- the fields of a scaling under the keys of another format: params.json, gpt-oss, GGUF --------

struct NativeKey {
  std::string_view name;             // as in the row of scaling_fields.h
  std::string_view key = {};         // "": the format has none, and the value is the default of its code
  std::string_view object = {};      // that must have the key, in error sentences; "": the key may be missing
  std::optional<double> least = {};  // and at most max_factor; nothing: every number
};
void read_native(const Object&, const NativeKey&, double&);
void read_native(const Object&, const NativeKey&, std::int64_t&);

// Reads the fields of the rows into scaling, whose values are the defaults, and records where each comes from.
// otherwise: the origin of a default.
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
// The end of a sentence on a missing pairing: the suggestion, which may be "", and the caller's way to give one, which
// may be "" too.
std::string with_advice(const std::string& suggestion, const std::string& advice);

// A config's JSON file in the three forms that who changes it needs, from one reading.
struct ConfigFile {
  std::string text;
  Json json;
  Model model;
};

// config.json or params.json; no folder. Throws as read_config does.
ConfigFile read_config_file(const std::filesystem::path&, const ConfigOptions&);

struct HeadShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int first = 0;  // where the rotated block begins, when it is an MLA's
  int block = 0;  // the elements that partial_rotary_factor is a fraction of: the head, or MLA's rope block
  bool mla = false;
  Origin block_from = {};  // an MLA's
};

// A head that cannot turn: the library's error for the file's own answer.
struct OddHead : Error {
  using Error::Error;
};

// ---- shape (config/shape.cpp) ----
inline constexpr Names hidden_keys = "hidden_size n_embd n_embed d_model width dim embed_dim hidden_dim";
int layer_count(const Part&);
bool is_mla(const Part&);  // a family of MLA heads, unless the file says use_mla: false
struct Layer;
HeadShape head_shape(const Part&, const Layer&);
int read_head_dim(const Part&, int heads);
int hidden_per_head(const Part&, int heads);
// Layers of one type that have heads of their own: the swa_ keys and further spellings.
void read_heads_of_type(const Part&, const std::string& layer_type, HeadShape&);
// The positions that the model was made for: max_position_embeddings, by any of its names. Each of these throws
// CONFIG_VALUE where the key that says it holds no length.
std::optional<std::int64_t> context_length(const Object&);
std::optional<std::string> context_key(const Object&);  // the key that says it
void record_context(const Part&);                       // its origin, where the file says it

// ---- layers (config/layers.cpp) ----
struct Layer {
  std::string type;  // "full_attention", ...; "" where the model has no types
  bool turns = true;
  std::optional<double> base;  // where the file has a list
  std::optional<double> partial;
  bool scaled = true;                           // Molmo 2: layers outside rope_scaling_layers keep the base only
  int heads = 0, kv_heads = 0, head_dim = 0;    // per_layer_config; 0: the part's
  int nope = 0, rotating = 0;                   // an MLA's
  std::vector<ValueOrigin> origins = {};        // for the values that differ from the part's
  Origin partial_from = {}, turning_from = {};  // these two's
  bool has_own() const {
    return base || partial || !scaled || heads != 0 || kv_heads != 0 || head_dim != 0 || nope != 0 || rotating != 0;
  }
};
std::vector<Layer> read_layers(const Part&);
// One for each layer; "" where the model has no types (layer_types.cpp).
std::vector<std::string> layer_types(const Part&, std::size_t layers);
bool attends(const std::string& type);
bool slides(const std::string& type);  // sliding_attention, hybrid_sliding
// The types with a base of their own, unscaled, in old spellings: the sliding ones and DeepSeek-V4's "main".
bool has_sliding_rope(const std::string& type);
// values, the list of that key, with one value for each layer; nothing where it is not given or empty.
template <typename T>
std::optional<std::vector<T>> per_layer(const Part& part, const char* key, std::size_t layers,
                                        std::optional<std::vector<T>> values) {
  if (!values || values->empty()) return std::nullopt;
  if (values->size() < layers) {
    part.keys.refuse(key, "must have one entry for each of the " + std::to_string(layers) + " layers");
  }
  if (values->size() > layers) {
    part.note(NoteKind::unread,
              std::string(key) + " has more entries than there are layers: the last ones are not read");
    values->resize(layers);
  }
  return values;
}

// ---- the parameters of one rope, from any spelling (config/rope.cpp) ----
struct RopeKeys {
  std::string type = "default";  // as scaling_type gives it
  double base = 10000;
  std::optional<double> partial;            // nothing said: the family's
  std::optional<Origin> partial_from = {};  // where it is given
  std::optional<Object> scaling;            // the object that holds the scaling's keys, if any
  bool truncate_elsewhere = false;          // a nested rope_parameters: truncate is read one level up
  std::optional<bool> truncate;
  Origin truncate_from = {};  // where truncate is given
};
// The type that scaling_type gives for a word of rope_type; "" where the word is unknown.
std::string published_type(std::string_view said);
// The name of the scaling behind any spelling of rope_type, or axial, deepseek_yarn, telechat3-yarn; throws
// CONFIG_VALUE for an unknown one.
std::string scaling_type(const Part&, const Object& keys);
// The rope of each layer; nothing where rope_parameters says null for the layer's type.
using RopeOfLayer = std::function<std::optional<RopeKeys>(const Layer&)>;
RopeOfLayer rope_source(const Part&, const std::vector<Layer>&);

// ---- scaling (config/scaling.cpp) ----
Scaling read_scaling(const Part&, const RopeKeys&, int pairs);  // keys.partial is set

// ---- learned frequencies (learned.cpp) ----
// Makes the rope one that turns by Learned of its part, at its start, and notes so.
void start_learned(const Part&, const Learned&, ModelRope&);
// The part of apply_weights() that reads the pairing: where the weights in the folder were converted, the ropes get
// their pairing and the notes say so. A folder without weights changes nothing. Throws FILE, FORMAT, JSON, PAIRING.
void apply_weights_pairing(Model&, const std::filesystem::path& folder);

// ---- parts ----
void read_text_part(const Part&);                                                 // config/part.cpp
void read_vision_part(const Part&);                                               // config/vision.cpp
void set_mrope_axes(const Part&, const std::optional<Object>& keys, ModelRope&);  // config/vision.cpp
// interleaved_axes() of that many pairs. The frameworks fill the layout by position: sections need not sum to the
// pairs.
std::vector<std::uint8_t> interleaved_by(std::vector<int> sections, int pairs);  // config/vision.cpp
bool is_diffusers(const Object&);                                                // names a class of diffusers
void read_diffusers(Reading&, const Object&);                                    // config/diffusers.cpp
bool is_params(const Object&);                     // Mistral's or Meta's params.json
void read_params(Reading&, const Object&);         // config/params.cpp

// ---- notes (config/notes.cpp) ----
// Where the attention of the part scales its scores by what the rope says: said of ropes, the part's own.
void note_attention_scale(const Part&, const std::vector<ModelRope>& ropes);
// Where the factor of a yarn does not fit the model's lengths. transformers warns of such files unless the two lengths
// are equal.
void note_reach(const Part&, const std::vector<ModelRope>& ropes, std::int64_t context);
// A note on the values in which params differs from the config.json that model was read from.
Note note_beside(const Model& model, const std::filesystem::path& params, const ConfigOptions&);

// ---- queries multiplied by the position (config/query_scale.cpp) ----
// Adds the part's rule to Model::query_scales, with a note. of_rope: the object of its first rope's scaling, and
// that scaling. chosen: the layers that have the rule where not all do.
void read_query_scale(const Part&, const std::optional<Object>& of_rope, const Scaling&, std::size_t layers,
                      const std::vector<int>& chosen);
// read_query_scale() for a model that has no rope at all.
void read_query_scale_without_rope(const Part&);

// ---- the rest (config/leftover.cpp) ----
// A key that is understood and not used: the known words inside it too, so that a made-up one there stays an error.
void ignore_known(const Object&, const std::string& key);
bool names_rope(std::string_view key);
// For a part whose layers turn: notes keys that name another kind of positions, and refuses ALiBi.
void check_positions(const Part&);
// Throws CONFIG_KEY for the first rope key below root that nobody read.
void refuse_unread_keys(Reading&, const Json& root);

}  // namespace rotary::files
