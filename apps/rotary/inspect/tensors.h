// What rotary inspect says of a file of tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "apps/rotary/source.h"

namespace rotary::cli {

// Prints name, dtype and shape of each tensor of the file that source.config names, and the file's metadata. Reads only
// the header. Throws UsageError for an option that describes a rope, and what tensor_infos throws.
void inspect_tensors(const Source& source, bool json);

// The same of the bytes of a stream. Throws what InputTensors throws.
void inspect_tensors(const Source& source, bool json, std::vector<std::byte> whole);

}  // namespace rotary::cli
