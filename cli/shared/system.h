// The functions that the programs need of the system beside files: system_posix.cpp and system_windows.cpp.
#pragma once

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "text/descriptors.h"

namespace rotary::cli {

// COLUMNS where it is set; else of standard output, and empty where it is no terminal, or one that does not say.
std::optional<std::size_t> terminal_columns();

// Before anything is opened or printed: standard descriptors that are closed are filled, bytes pass as they are.
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

// The program that this process runs; empty where the system does not tell.
std::filesystem::path program_path();

}  // namespace rotary::cli
