// The scaling that a row of golden data describes.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "values/scaling_fields.h"

namespace rotary::test {

// {"scaling": its name, and values by the names of its fields}; other keys are ignored.
inline Scaling scaling_of(const nlohmann::json& json) {
  Scaling scaling = parse_scaling(json.value("scaling", "default"));
  const auto set = [&](const auto& field, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if (!json.contains(field.name)) return;
    if constexpr (std::is_same_v<Value, std::optional<double>>) {
      value = json.at(field.name).template get<double>();
    } else {
      json.at(field.name).get_to(value);
    }
  };
  std::visit([&](auto& held) { scalings::for_each_field(held, set); }, scaling);
  return scaling;
}

}  // namespace rotary::test
