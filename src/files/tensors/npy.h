// What an .npy says of its tensor.
#pragma once

#include <filesystem>

#include "rotary/tensors.h"

namespace rotary::files {

// Reads the header only, and proves it against the file's length. Throws FILE, FORMAT.
TensorInfo npy_info(const std::filesystem::path&);

}  // namespace rotary::files
