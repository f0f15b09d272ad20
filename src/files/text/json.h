// JSON as this library reads it: strict, and every key that is looked at is remembered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "values/number_text.h"

namespace rotary::files {

using Json = nlohmann::json;

constexpr std::size_t max_json_bytes = 16u << 20;

// At most 16 MB, 64 levels and 500,000 values; no duplicate keys, byte 0, byte order mark or broken UTF-8. NaN and
// Infinity are read as Python's json reads them; the getters below refuse them. Throws JSON.
Json parse_json(std::string_view text);

bool is_not_finite(const Json&);  // a number, and NaN or infinite

// A value for sentences: at most 60 bytes on one line.
std::string shown(const Json&);

using detail::spelled;

// Which keys of which objects somebody read. What is left over is an error (config/leftover.cpp).
class Ledger {
 public:
  void read(const Json& object, std::string_view key) { read_.emplace(&object, key); }
  // The key and everything below it.
  void read_all(const Json& object, std::string_view key) { whole_.emplace(&object, key); }
  bool was_read(const Json& object, const std::string& key) const {
    return read_.count({&object, key}) != 0 || whole(object, key);
  }
  bool whole(const Json& object, const std::string& key) const { return whole_.count({&object, key}) != 0; }

 private:
  std::set<std::pair<const Json*, std::string>> read_;
  std::set<std::pair<const Json*, std::string>> whole_;
};

// One JSON object with the path that leads to it. Reading a key marks it in the ledger; null counts as absent.
// The getters throw CONFIG_VALUE with the key, the rule and the value.
class Object {
 public:
  // json must be an object that outlives this. An owner: the model_type whose class default the object is.
  Object(const Json& json, std::string path, Ledger& ledger, std::string owner = {})
      : json_(&json), path_(std::move(path)), ledger_(&ledger), owner_(std::move(owner)) {}

  const Json& json() const noexcept { return *json_; }
  const std::string& path() const noexcept { return path_; }
  const std::string& owner() const noexcept { return owner_; }  // "" for an object of the file
  std::string path_of(std::string_view key) const;

  bool has(std::string_view key) const;      // there, and not null; does not mark
  bool is_null(std::string_view key) const;  // there, and null; does not mark
  const Json* value(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most) const;
  std::optional<std::int64_t> length(std::string_view key, std::int64_t most) const;  // from 1; 8192.0 is 8192
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  // Instead of boolean(key).value_or(true), of which g++ 14 makes `payload | !has_value`: neither true nor false where
  // the payload was never written.
  bool boolean(std::string_view key, bool default_value) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<int>> integers(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  std::optional<Object> object(std::string_view key) const;

  void mark(std::string_view key) const { ledger_->read(*json_, key); }
  void mark_all(std::string_view key) const { ledger_->read_all(*json_, key); }

  // "[read_config] PATH.KEY RULE but got VALUE"
  [[noreturn]] void refuse(std::string_view key, const std::string& rule) const;

 private:
  const Json* json_;
  std::string path_;
  Ledger* ledger_;
  std::string owner_;
};

}  // namespace rotary::files
