// Strict JSON. Every key that is read is recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::files {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t max_json_bytes = 16u << 20;

// At most 16 MB, 64 levels and 500,000 values; no duplicate keys, byte 0, byte order mark or broken UTF-8. NaN and
// Infinity are read as Python's json reads them; the getters below refuse them. Throws JSON.
Json parse_json(std::string_view text);

// The whole text of a file, at most 16 MB. operation is the word in brackets in error sentences. Throws FILE, JSON.
std::string json_file_text(const char* operation, const InputFile&);
std::string json_file_text(const char* operation, const std::filesystem::path&);

// JSON as the program and the tools print it: doubles with 17 significant digits, lists of numbers and words on one
// line. Throws NUMBER for a value that JSON cannot express (NaN, infinity).
std::string json_text(const OrderedJson& value);
OrderedJson finite_or_null(double value);  // null for NaN and infinity

bool is_not_finite(const Json&);  // whether it is a number that is NaN or infinite

// The members of an object by their keys: OrderedJson itself looks through all keys for one.
std::unordered_map<std::string_view, const OrderedJson*> members_of(const OrderedJson& object);

// Parses a text that parse_json has taken, and keeps the order of keys. Throws Json::exception for NaN and Infinity.
OrderedJson parse_in_order(std::string_view text);
// Parses a text as parse_json does, but keeps the order of keys, so that it can be changed and written by config_text.
// NaN and Infinity become strings that no file contains.
OrderedJson parse_to_edit(std::string_view text);
// Text as Hugging Face writes config.json: indented by 2, ASCII, NaN and Infinity as in Python, a final newline.
std::string config_text(const OrderedJson&);

// The object at a path of keys separated by dots; null if a key is missing or its value is no object.
// J: Json or OrderedJson.
template <class J>
J* object_at(J& root, std::string_view dotted) {
  J* at = &root;
  for (const std::string_view key : words(dotted, '.')) {
    const auto found = at->find(std::string(key));
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at->is_object() ? at : nullptr;
}
// The string of a key; "" if there is no such key, or its value is no string.
std::string string_of(const Json& object, const char* key);

// Why nlohmann's parser refuses a text, for error sentences: the exception's text after its name and number.
std::string reason_of(const Json::exception&);

// A value for error sentences: at most 60 bytes on one line.
std::string shown(const Json&);

using detail::spelled;

// Records which keys of which objects were read. Keys that nothing read are errors (config/leftover.cpp).
class Ledger {
 public:
  void read(const Json& object, std::string_view key) { read_.emplace(&object, key); }
  // Marks the key and everything below it.
  void read_all(const Json& object, std::string_view key) { whole_.emplace(&object, key); }
  bool was_read(const Json& object, const std::string& key) const {
    return read_.count({&object, key}) != 0 || whole(object, key);
  }
  bool whole(const Json& object, const std::string& key) const { return whole_.count({&object, key}) != 0; }

 private:
  std::set<std::pair<const Json*, std::string>> read_;
  std::set<std::pair<const Json*, std::string>> whole_;
};

// A JSON object with its path. Reading a key marks it in the ledger; null counts as absent. The getters throw
// CONFIG_VALUE with the key, the rule and the value.
class Object {
 public:
  // json must be an object that outlives this. owner: the model_type whose class default the object is, if it is one.
  Object(const Json& json, std::string path, Ledger& ledger, std::string owner = {})
      : json_(&json), path_(std::move(path)), ledger_(&ledger), owner_(std::move(owner)) {}

  const Json& json() const noexcept { return *json_; }
  const std::string& path() const noexcept { return path_; }
  const std::string& owner() const noexcept { return owner_; }  // "" for an object of the file
  std::string path_of(std::string_view key) const;

  // The value in the file, which may be null; nullptr if there is no such key. These three do not mark the key.
  const Json* peek(std::string_view key) const;
  bool has(std::string_view key) const { return peek(key) != nullptr && !peek(key)->is_null(); }
  bool is_null(std::string_view key) const { return peek(key) != nullptr && peek(key)->is_null(); }
  const Json* value(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  std::optional<std::int64_t> length(std::string_view key, std::int64_t max) const;  // from 1; 8192.0 is 8192
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  // Use this instead of boolean(key).value_or(true), which g++ 14 compiles to `payload | !has_value`: neither true nor
  // false if the payload was never written.
  bool boolean(std::string_view key, bool default_value) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<int>> integers(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  std::optional<Object> object(std::string_view key) const;

  void mark(std::string_view key) const { ledger_->read(*json_, key); }
  void mark_all(std::string_view key) const { ledger_->read_all(*json_, key); }

  // "[read_config] PATH.KEY RULE but got VALUE"
  template <class... Parts>
  [[noreturn]] void refuse(std::string_view key, const Parts&... rule) const {
    refuse_sentence(key, detail::sentence_of(rule...));
  }

 private:
  [[noreturn]] void refuse_sentence(std::string_view key, const std::string& rule) const;

  const Json* json_;
  std::string path_;
  Ledger* ledger_;
  std::string owner_;
};

}  // namespace rotary::files
