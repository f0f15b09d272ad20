// Functions of the operating system beside files, implemented in system_posix.cpp and system_windows.cpp.
#pragma once

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "text/descriptors.h"
#include "text/paths.h"

namespace rotary::cli {

// COLUMNS if it is set, else the width of standard output; empty if it is no terminal or its width is unknown.
std::optional<std::size_t> terminal_columns();

// Called before anything is opened or printed: opens closed standard descriptors and switches streams to bytes.
void prepare_streams();

using files::environment;

// The number of COLUMNS, where it is one.
inline std::optional<std::size_t> columns_asked() {
  const std::string given = environment("COLUMNS");
  std::size_t columns = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), columns);
  const bool known = error == std::errc() && end == given.data() + given.size() && columns > 0;
  return known ? std::optional(columns) : std::nullopt;
}

// The path of the running program; empty if the system does not give it.
std::filesystem::path program_path();
// The place of an installed file or folder of data. It is beside the program, wherever that lies: the path of an
// installation that a compiler saw may be anybody's folder on another machine.
inline std::filesystem::path data_beside(const char* name) {
  return (program_path().parent_path() / "../share/rotary" / name).lexically_normal();
}
// `given` if it is not empty, otherwise the data that are installed; empty where there are none.
inline std::filesystem::path find_data(const std::filesystem::path& given, const std::filesystem::path& installed) {
  std::error_code ignored;
  if (!given.empty()) return given;
  return std::filesystem::exists(installed, ignored) ? installed : std::filesystem::path();
}

}  // namespace rotary::cli
