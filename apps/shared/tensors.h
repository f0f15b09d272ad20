// A file of tensors in memory, and views of its tensors as heads.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/tensors.h"

namespace rotary::cli {

struct TensorFile {
  std::vector<Tensor> tensors;  // in the order of the file; an .npy holds one, which has no name
  std::map<std::string, std::string> metadata;
};

// True for .npy, false for .safetensors. Throws FORMAT for any other extension.
bool is_npy(const std::filesystem::path&);

TensorFile load(const std::filesystem::path&);
void save(const std::filesystem::path&, const TensorFile&);  // writes the whole file or nothing

// Throws FILE if the folder does not exist, so that the error comes before the work.
void check_output(const std::filesystem::path&);

// layout is "bthd", "bhtd", "tbhd" or "thd"; "" is bthd for four dimensions, thd for three.
// Throws SHAPE, DTYPE.
Heads heads_of(Tensor&, const std::string& layout);

// The one f32 tensor of an .npy, or the tensor of that name in a safetensors file. Throws TENSOR, DTYPE.
Tensor load_rows(const std::filesystem::path&, const std::string& name);

// "tensor 'q'", or "the tensor" of an .npy.
std::string label(const TensorInfo&);

}  // namespace rotary::cli
