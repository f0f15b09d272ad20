// The fields of a scaling under the keys of another format: params.json, gpt-oss's own config.json, GGUF.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "files/text/json.h"
#include "stages.h"
#include "values/scaling_fields.h"

namespace rotary::files {

// One field of a scaling in such a format.
struct NativeKey {
  std::string_view name;             // as in the row of scaling_fields.h
  std::string key = {};              // "": the format has none, and the value is the default of its code
  std::string_view object = {};      // that must have the key, in error sentences; "": the key may be missing
  std::optional<double> least = {};  // and at most max_factor; nothing: every number
};

std::optional<double> read_native_number(const Object&, const NativeKey&);
std::optional<std::int64_t> read_native_length(const Object&, const NativeKey&);

// Reads the fields of the rows into scaling, whose values are the defaults, and records where each comes from. whose:
// the origin of a default.
template <class S>
void read_native(Reading& reading, const Object& keys, std::initializer_list<NativeKey> rows, std::string_view whose,
                 S& scaling) {
  scalings::for_each_field(scaling, [&]<class Value>(const auto& field, Value& value) {
    for (const NativeKey& row : rows) {
      if (row.name != field.name) continue;
      if constexpr (std::is_same_v<Value, double>) {
        if (!row.key.empty()) value = read_native_number(keys, row).value_or(value);
      } else if constexpr (std::is_same_v<Value, std::int64_t>) {
        if (!row.key.empty()) value = read_native_length(keys, row).value_or(value);
      }
      const std::string recorded = std::string("scaling.") + field.name;
      if (row.key.empty()) {
        reading.origins.by_default(recorded, whose);
      } else {
        reading.origins.read_or_by_default(recorded, keys, row.key, whose);
      }
    }
  });
}

}  // namespace rotary::files
