// One reader of fields: what a part of a file says, with its note, its origin and its error in one call. The values of
// a scaling are rows of values/scaling_fields.h; the others are rows here.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/models/families.h"
#include "files/text/json.h"
#include "rotary/config.h"
#include "values/scaling_fields.h"

namespace rotary::files {

inline constexpr double max_factor = 1e15;  // no published one is larger by far; beyond it the formulas overflow
inline constexpr std::int64_t max_length = std::int64_t{1} << 53;  // positions

// ---- where the values of a rope come from --------------------------------------------------------

// An origin without the value's name.
struct From {
  Origin origin = Origin::model_default;
  std::string from = {};
};
// Read from that key of the file, or of a class default: then it is the model_type's.
From from_key(const Object& keys, std::string_view key);
// The key at the end of a path: the file's word, for formulas.
std::string last_word(const std::string& path);

// The origins of the current rope's values; a later record replaces an earlier one. For output only.
class Origins {
 public:
  void set(std::string_view value, From);
  void read(std::string_view value, const Object& keys, std::string_view key) { set(value, from_key(keys, key)); }
  void given(std::string_view value, std::string path) { set(value, {Origin::given, std::move(path)}); }
  void by_default(std::string_view value, std::string_view whose) {
    set(value, {Origin::model_default, std::string(whose)});
  }
  void derived(std::string_view value, std::string formula) { set(value, {Origin::derived, std::move(formula)}); }
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
  std::map<std::string, From, std::less<>> values_;
};

// ---- the reading of a file -----------------------------------------------------------------------

// A part whose rope is understood and cannot be given.
struct NoRope {
  std::string part, why;
};

// One reading of one file.
struct Reading {
  const ConfigOptions& options;
  Model model = {};
  std::vector<NoRope> without = {};
  Ledger ledger = {};
  Origins origins = {};            // of the part at hand, then of its rope
  std::deque<Json> defaults = {};  // class defaults that stand in for objects of the file
  int parts = 0;

  // Notes one sentence about part, once, and returns it as Model::notes has it: "text_config: SENTENCE."
  std::string note(const std::string& part, const std::string& sentence);
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
  void note(const std::string& sentence) const { reading.note(path, sentence); }
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

using Names = std::initializer_list<const char*>;  // of a key: the first one that is given counts

struct Whole {
  const char* value;  // of the rope, whose origin is recorded; null: of none
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

// Reads the fields of the rows into scaling, whose values are the defaults, and records where each comes from. whose:
// the origin of a default.
template <class S>
void read_native(const Part& part, const Object& keys, std::initializer_list<NativeKey> rows, std::string_view whose,
                 S& scaling) {
  scalings::for_each_field(scaling, [&](const auto& field, auto& value) {
    for (const NativeKey& row : rows) {
      if (row.name != field.name) continue;
      const std::string recorded = std::string("scaling.") + field.name;
      if (row.key.empty()) {
        part.origins().by_default(recorded, whose);
        continue;
      }
      if constexpr (requires { read_native(keys, row, value); }) read_native(keys, row, value);
      part.origins().read_or_by_default(recorded, keys, row.key, whose);
    }
  });
}

}  // namespace rotary::files
