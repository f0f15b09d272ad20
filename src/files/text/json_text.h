// JSON as the program and the tools print it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rotary::files {

// Every double at 17 significant digits, lists of numbers and words on one line. Throws NUMBER for a value that JSON
// cannot express (NaN, infinity).
std::string json_text(const nlohmann::ordered_json& value);
nlohmann::ordered_json finite_or_null(double value);  // JSON has no infinity

}  // namespace rotary::files
