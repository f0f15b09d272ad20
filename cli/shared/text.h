// Text that the commands print: numbers, short lists, lines; and fail(), by which they throw.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"
#include "text/io.h"
#include "text/json.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::cli {

std::size_t columns(std::string_view utf8);                             // characters, each of one column of a terminal
std::string pad(std::string_view text, std::size_t width);              // text, then spaces
std::string lead(std::string_view text, std::size_t width);             // spaces, then text
std::string counted(std::size_t count, const char* noun);               // "1 pair", "64 pairs"
const char* direction(const Rope&) noexcept;                            // "counterclockwise", "clockwise"
std::string joined(const std::vector<std::string>& words, std::string_view between = ", ");

std::string in_shell_quotes(std::string_view word);  // 'it'\''s', one word of a shell's command line

// Lines of at most width columns, broken between words; a longer word (the path of a key) after a dot.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);
// The same as one text. All lines but the first begin with indent spaces; the first begins in that column.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

// A value of a scaling: a number with at most that many digits, "true", "none"; of a list "1, 2".
std::string value_text(double value, int digits);
std::string value_text(std::int64_t value, int digits);
std::string value_text(bool value, int digits);
std::string value_text(const std::optional<double>& value, int digits);
std::string value_text(const std::vector<double>& values, int digits);

// A JSON object of the program's output: "version" stands first in each. docs/cli.md says what a version promises.
std::string with_version(std::string json);
inline std::string versioned(const nlohmann::ordered_json& object) { return with_version(files::json_text(object)); }

// Elements in row-major order as nested lists.
nlohmann::ordered_json nested(std::span<const nlohmann::ordered_json> elements, std::span<const std::int64_t> shape);

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
using files::ranges;

}  // namespace rotary::cli
