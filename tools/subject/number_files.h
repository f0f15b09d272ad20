// Integers and reals of an .npy, whatever their stored type.
#pragma once

#include "rotary/tensors.h"

namespace rotary::tools {

template <class T>
struct NumberFile {
  std::vector<T> values;  // row-major
  std::vector<std::int64_t> shape;
};

// Reads the numbers of a file. what: "a mask", for error sentences. Integers are bool, uint8, int32 or int64; reals
// these, float32 or float64, and finite. Throws DTYPE, POSITION, and what read_npy throws. Operation "positions".
NumberFile<std::int64_t> read_integers(std::string_view file, const std::string& what);
NumberFile<double> read_reals(std::string_view file, const std::string& what);
// The same, from a tensor that is read already.
NumberFile<std::int64_t> integers_of(const Tensor&, const std::string& file, const std::string& what);
NumberFile<double> reals_of(const Tensor&, const std::string& file, const std::string& what);

}  // namespace rotary::tools
