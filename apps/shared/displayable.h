// Makes text of unknown origin safe to show in a plot or a table.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rotary::cli {

// Valid UTF-8 that XML may hold. Control characters, characters that reorder text, and bytes that are not UTF-8
// become \xNN.
std::string displayable(std::string_view text);

// For results of displayable():
char32_t next_character(std::string_view& text);  // removes and returns the first character; text must not be empty
std::size_t columns(std::string_view text);       // width in a terminal: 2 for a wide character, 0 for a combining one
std::string shorten(std::string_view text, std::size_t max_columns);  // "a long na…"
// "a long…name-2": beginning and end, which tell names of models and runs apart.
std::string shorten_middle(std::string_view text, std::size_t max_columns);

// Whether the locale (LC_ALL, LC_CTYPE, LANG) shows UTF-8. Otherwise tables and trees are drawn in ASCII.
bool shows_utf8();
std::string shorten_for_terminal(std::string_view text, std::size_t max_columns);  // or "a long n..."
std::string shorten_middle_for_terminal(std::string_view text, std::size_t max_columns);

}  // namespace rotary::cli
