// The reader of fields, which the stages of read_config use (stages.h): it reads a value of a part with its note, its
// origin and its error in one call. The values of a scaling are rows of values/scaling_fields.h; others are rows here.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "models/families.h"
#include "rotary/config.h"
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
  std::map<std::tuple<std::string, NoteKind, std::string>, std::size_t> noted = {};  // the place of each note

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

}  // namespace rotary::files
