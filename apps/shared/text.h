// Text that the commands print: numbers, short lists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/text/io.h"
#include "files/text/json.h"
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
using files::finite_or_null;
using files::json_text;
using files::lower;
using files::printable;

}  // namespace rotary::cli
