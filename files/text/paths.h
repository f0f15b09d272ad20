// Paths as text. Text of this library is UTF-8. On Windows, where paths are UTF-16, path(text) and path.string() of
// std::filesystem use the code page and so are both wrong.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>

namespace rotary::files {

inline constexpr bool paths_are_bytes = std::is_same_v<std::filesystem::path::value_type, char>;

inline std::filesystem::path path_of(std::string_view text) {
  if constexpr (paths_are_bytes) {
    return std::filesystem::path(text);
  } else {
    return std::filesystem::path(std::u8string(text.begin(), text.end()));
  }
}

inline std::string path_text(const std::filesystem::path& path) {
  if constexpr (paths_are_bytes) {
    return path.string();
  } else {
    const std::u8string text = path.u8string();
    return {text.begin(), text.end()};
  }
}

}  // namespace rotary::files
