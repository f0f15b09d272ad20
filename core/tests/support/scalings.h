// The scaling that a row of golden data describes.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "rotary/rope.h"

namespace rotary::test {

// {"scaling": its name, and values by the names of its fields}; other keys are ignored.
inline Scaling scaling_of(const nlohmann::json& json) {
  Scaling scaling = parse_scaling(json.value("scaling", "default"));
  for (const ScalingValue& one : values_of(scaling)) {
    const auto found = json.find(one.name);
    if (found == json.end()) continue;
    std::visit(
        [&]<class Value>(Value* value) {
          if constexpr (std::is_same_v<Value, std::optional<double>>) {
            *value = found->template get<double>();
          } else {
            found->get_to(*value);
          }
        },
        one.value);
  }
  return scaling;
}

}  // namespace rotary::test
