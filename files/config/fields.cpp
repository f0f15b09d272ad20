#include "fields.h"

#include <algorithm>
#include <utility>

#include "rotary/error.h"
#include "text/io.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// The names of the values of a ModelRope and of every scaling.
const std::vector<std::string>& values_of_rope() {
  static const std::vector<std::string> values = [] {
    std::vector<std::string> all = {"layers",  "heads", "kv_heads", "head_dim",   "rotary_dim", "first",
                                    "pairing", "base",  "inv_freq", "multiplier", "scaling"};
    scalings::for_each_scaling([&](const auto& scaling) {
      scalings::for_each_field(scaling, [&](const auto& field, const auto&) {
        const std::string value = std::string("scaling.") + field.name;
        if (std::find(all.begin(), all.end(), value) == all.end()) all.push_back(value);
      });
    });
    all.insert(all.end(), {"attention_factor", "axis", "context"});
    return all;
  }();
  return values;
}

// The keys as a file may spell them, first with the family's prefix.
std::vector<std::string> spellings(const Part& part, Names names) {
  std::vector<std::string> keys;
  const std::vector<std::string_view> plain = words(names);
  if (!part.family.prefix.empty()) {
    for (const std::string_view name : plain) keys.push_back(std::string(part.family.prefix) + std::string(name));
  }
  keys.insert(keys.end(), plain.begin(), plain.end());
  return keys;
}

// The value of a row, which must exist if the row names the object that must have it.
template <class Value>
std::optional<Value> stated(const NativeKey& row, const std::optional<Value>& value) {
  if (value || row.object.empty()) return value;
  fail(Code::CONFIG_MISSING, "read_config", row.object, " must have ", row.key, " but has none");
}

}  // namespace

Origin from_key(const Object& keys, std::string_view key) {
  if (keys.owner().empty()) return {OriginKind::given, keys.path_of(key)};
  return {OriginKind::model_default, keys.owner()};
}

std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

void Origins::set(std::string_view value, Origin from) {
  values_.insert_or_assign(std::string(value), std::move(from));
}

void Origins::read_or_by_default(std::string_view value, const Object& keys, std::string_view key,
                                 std::string_view whose) {
  set(value, keys.has(key) ? from_key(keys, key) : Origin{OriginKind::model_default, std::string(whose)});
}

void Origins::multiplied(std::string_view value, std::string_view by) {
  const auto found = values_.find(value);
  if (found != values_.end()) derived(value, std::string(by) + " * (" + found->second.key + ")");
}

void Origins::same(std::string_view value, std::string_view other) {
  const auto found = values_.find(other);
  if (found != values_.end()) set(value, found->second);
}

void Origins::add(const std::vector<ValueOrigin>& others) {
  for (const ValueOrigin& other : others) set(other.value, other.origin);
}

std::vector<ValueOrigin> Origins::of_rope() const {
  std::vector<ValueOrigin> all;
  for (const std::string& value : values_of_rope()) {
    const auto found = values_.find(value);
    if (found != values_.end()) all.push_back({value, found->second});
  }
  return all;
}

void Reading::note_no_rope(const std::string& part, const std::string& why) {
  note(NoteKind::no_rope, part, "no rope is given: " + why);
  without.push_back({part, why});
}

void Reading::note(NoteKind kind, const std::string& part, const std::string& sentence) {
  Note one{printable(part), kind, printable(sentence)};
  if (one.text.back() != '.') one.text += '.';
  const auto [known, is_new] = noted.try_emplace({one.part, one.kind, one.text}, model.notes.size());
  if (!is_new) {
    std::string& of_type = model.notes[known->second].layer_type;
    if (of_type != layer_type) of_type.clear();
    return;
  }
  one.layer_type = layer_type;
  model.notes.push_back(std::move(one));
}

ModelPart& Part::add_to_model(int layers) const {
  return reading.model.parts.emplace_back(
      ModelPart{.path = path, .model_type = known ? std::string(family.type) : "", .layers = layers});
}

int take_default(const Part& part, const char* value, const std::string& key, int default_value) {
  part.note(NoteKind::model_default, key, " is not given: ", default_value, ", the default of ", part.name());
  if (value != nullptr) part.by_default(value);
  return default_value;
}

std::string word_for(const Part& part, Names names) {
  for (const std::string& key : spellings(part, names)) {
    if (part.keys.has(key)) return key;
  }
  return std::string(words(names).front());
}

void missing(const Part& part, const std::string& what, Names names) {
  fail(Code::CONFIG_MISSING, "read_config", part.path.empty() ? "the config" : part.path, " must say ", what,
       " but has none of ", listed(words(names)));
}

std::optional<int> read_whole(const Part& part, const Whole& row) {
  const Object& keys = row.in != nullptr ? *row.in : part.keys;
  for (const std::string& key : spellings(part, row.keys)) {
    const auto given = keys.integer(key, row.least, row.most);
    if (!given) continue;
    if (row.value != nullptr) part.origins().read(row.value, keys, key);
    return static_cast<int>(*given);
  }
  if (row.otherwise != 0) return take_default(part, row.value, std::string(words(row.keys).front()), row.otherwise);
  if (!row.needed_for.empty()) missing(part, std::string(row.needed_for), row.keys);
  return std::nullopt;
}

void read_native(const Object& keys, const NativeKey& row, double& value) {
  const auto given = stated(row, keys.number(row.key));
  if (given && row.least && !(*given >= *row.least)) keys.refuse(row.key, "must be at least ", spelled(*row.least));
  if (given && row.least && !(*given <= max_factor)) keys.refuse(row.key, "must be at most ", spelled(max_factor));
  value = given.value_or(value);
}

void read_native(const Object& keys, const NativeKey& row, std::int64_t& value) {
  value = stated(row, keys.length(row.key, max_length)).value_or(value);
}

}  // namespace rotary::files
