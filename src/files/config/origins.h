// Where the values of a rope come from, recorded by the readers: one call beside each value that is read.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "files/text/json.h"
#include "rotary/config.h"

namespace rotary::files {

// An origin without the value's name.
struct From {
  Origin origin = Origin::model_default;
  std::string from = {};
};
// Read from that key of the file, or of a class default: then it is the model_type's.
From from_key(const Object& keys, std::string_view key);

// The origins of the current rope's values; a later record replaces an earlier one. For output only.
class Origins {
 public:
  // Read from that key of the file, or of a class default: then it is the model_type's.
  void read(std::string_view value, const Object& keys, std::string_view key);
  // The same where the key is there, else the default.
  void read_or_by_default(std::string_view value, const Object& keys, std::string_view key, std::string_view whose);
  void given(std::string_view value, std::string path);
  void by_default(std::string_view value, std::string_view whose);
  void derived(std::string_view value, std::string formula);
  // Prefixes the recorded formula of value with "by * ".
  void multiplied(std::string_view value, std::string_view by);
  // Copies the origin of another value.
  void same(std::string_view value, std::string_view other);
  void set(std::string_view value, From);
  void add(const std::vector<ValueOrigin>&);

  // The origins of a ModelRope, in the order of its fields.
  std::vector<ValueOrigin> of_rope() const;

 private:
  std::map<std::string, From, std::less<>> values_;
};

// The key at the end of a path: the file's word, for formulas.
std::string last_word(const std::string& path);

}  // namespace rotary::files
