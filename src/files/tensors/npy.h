// The description of the tensor in an .npy.
#pragma once

#include <filesystem>

#include "rotary/tensors.h"

namespace rotary::files {

// Reads only the header and checks it against the file's length. Throws FILE, FORMAT.
TensorInfo npy_info(const std::filesystem::path&);

}  // namespace rotary::files
