// The parts of an .npy.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "rotary/tensors.h"

namespace rotary::files {

// Reads only the header and checks it against the file's length. Throws FILE, FORMAT.
TensorInfo npy_info(const std::filesystem::path&);

// What stands in the file before the elements. Throws FORMAT (a type that numpy lacks), SHAPE.
std::string npy_header(const Tensor&);

// The tensor of an .npy to write. Throws FORMAT if there is not exactly one, or if there is metadata.
const Tensor& only_of_npy(std::span<const Tensor>, const std::map<std::string, std::string>& metadata);

}  // namespace rotary::files
