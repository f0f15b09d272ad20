// How wide text is in a terminal, and whether that shows UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace rotary::cli {

std::size_t columns(std::string_view text);  // width in a terminal: 2 for a wide character, 0 for a combining one

// Whether the locale (LC_ALL, LC_CTYPE, LANG) shows UTF-8. Otherwise tables and trees are drawn in ASCII.
bool shows_utf8();

}  // namespace rotary::cli
