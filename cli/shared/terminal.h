// Whether standard output is a terminal, how wide it is, and the bytes that its locale shows.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "system.h"
#include "text/descriptors.h"
#include "text/io.h"

namespace rotary::cli {

inline bool out_is_terminal() { return files::is_terminal(files::standard_output); }

// Columns of the terminal; 80 if standard output is no terminal or its width is unknown.
inline std::size_t terminal_width() { return terminal_columns().value_or(80); }

// Whether the locale (LC_ALL, LC_CTYPE, LANG) shows UTF-8.
inline bool shows_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = files::lower(value);
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

// Text of a file as the locale can show it: bytes beyond ASCII as \xNN where it is not UTF-8.
inline std::string in_locale(std::string_view text) {
  if (shows_utf8()) return std::string(text);
  constexpr const char* digits = "0123456789ABCDEF";
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      shown += c;
    } else {
      shown += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return shown;
}

}  // namespace rotary::cli
