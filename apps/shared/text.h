// Text that the commands print: numbers, short lists, JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "files/text/io.h"
#include "rotary/rotary.h"
#include "values/number_text.h"

namespace rotary::cli {

std::string ranges(const std::vector<int>& rising);          // "0-3, 5"; "none" when empty
std::string pad(std::string_view text, std::size_t width);   // text, then spaces
std::string lead(std::string_view text, std::size_t width);  // spaces, then text
std::string counted(std::size_t count, const char* noun);    // "1 pair", "64 pairs"
const char* direction(const Rope&) noexcept;                 // "counterclockwise", "clockwise"

using detail::fixed;
using detail::scientific;
using detail::shape_text;
using detail::shortest;
using detail::significant;
using detail::with_separators;
using files::lower;
using files::printable;

// JSON with every double at 17 significant digits, lists of numbers and words on one line. Throws NUMBER for a value
// that JSON cannot express (NaN, infinity).
std::string json_text(const nlohmann::ordered_json& value);
nlohmann::ordered_json finite_or_null(double value);  // JSON has no infinity

}  // namespace rotary::cli
