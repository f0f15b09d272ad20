// UTF-8, RFC 3629: no overlong encodings, no surrogates, nothing past U+10FFFF.
#pragma once

#include <cstddef>
#include <string_view>

namespace rotary::files {

struct Character {
  char32_t code = 0;
  std::size_t length = 0;  // in bytes; 0: the text does not begin with UTF-8
};
Character first_character(std::string_view text) noexcept;

}  // namespace rotary::files
