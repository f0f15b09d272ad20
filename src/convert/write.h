// Writing a converted checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "plan.h"

namespace rotary::conversion {

using Progress = std::function<void(std::uint64_t bytes)>;  // of all that will be written

std::uint64_t bytes_to_write(const Plan&);

// Throws FILE if output cannot be made: it is there and not an empty folder, its parent is missing, or the disk has no
// room.
void check_output_folder(const Plan&, const std::filesystem::path& output);

// The folders that conversions to this output left when they were killed.
std::vector<std::filesystem::path> left_behind(const std::filesystem::path& output);

// Writes all files into a folder beside output, whose name is output's with ".partial" and the process's number; calls
// check with it; renames it to output. Where anything fails, the partial folder is removed and the error thrown on.
void write_folder(const Plan&, const std::filesystem::path& output, const Progress&,
                  const std::function<void(const std::filesystem::path& partial)>& check);

}  // namespace rotary::conversion
