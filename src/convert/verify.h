// Whether the changes of a conversion can be undone: a check of the written bytes, not of the plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "plan.h"
#include "rotary/convert.h"

namespace rotary::conversion {

// Reads every changed tensor of the converted folder, applies the inverse of its change and compares the bytes with
// those of the source; without a folder, of the tensors as they would be written. A plan that takes the wrong rows
// passes: tools/convert_transformers.py is the proof of a plan. Throws CHECK (a tensor differs), FILE, FORMAT, TENSOR.
std::vector<VerifiedLayer> verify(const Plan&, const std::optional<std::filesystem::path>& converted,
                                  const std::function<void(std::uint64_t done, std::uint64_t layers)>& progress);

}  // namespace rotary::conversion
