// Writing a converted checkpoint, and the check of its bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "plan.h"
#include "rotary/convert.h"

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

// Reads every changed tensor of the converted folder, applies the inverse of its change and compares the bytes with
// those of the source; without a folder, of the tensors as they would be written. A plan that takes the wrong rows
// passes: tools/convert_transformers.py is the proof of a plan. Throws CHECK (a tensor differs), FILE, FORMAT, TENSOR.
std::vector<VerifiedLayer> verify(const Plan&, const std::optional<std::filesystem::path>& converted,
                                  const std::function<void(std::uint64_t done, std::uint64_t layers)>& progress);

}  // namespace rotary::conversion
