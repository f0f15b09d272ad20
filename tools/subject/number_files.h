// Integers and reals of an .npy, whatever their stored type.
#pragma once

#include "rotary/tensors.h"

namespace rotary::tools {

// The elements of a tensor of `file`, row-major. what: "a mask", for error sentences. Integers are bool, uint8, int32
// or int64; reals these, float32 or float64, and finite. Operation "positions". Throws DTYPE, POSITION.
std::vector<std::int64_t> integers_of(const Tensor&, const std::string& file, const std::string& what);
std::vector<double> reals_of(const Tensor&, const std::string& file, const std::string& what);

}  // namespace rotary::tools
