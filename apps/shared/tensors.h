// A file of tensors in memory, and its tensors seen as heads.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/tensors.h"

namespace rotary::cli {

struct TensorFile {
  std::vector<Tensor> tensors;  // in the file's order; an .npy holds one, without a name
  std::map<std::string, std::string> metadata;
};

// An .npy, or else a .safetensors. Throws FORMAT for any other ending.
bool is_npy(const std::filesystem::path&);

TensorFile load(const std::filesystem::path&);
void save(const std::filesystem::path&, const TensorFile&);  // all or nothing

// Throws FILE where no such file could be written: before the work, not after it.
void check_output(const std::filesystem::path&);

// layout is "bthd", "bhtd", "tbhd", "thd", or "" for what the number of dimensions says.
// Throws SHAPE, DTYPE.
Heads heads_of(Tensor&, const std::string& layout);

// The one f32 tensor of an .npy, or the tensor of that name in a safetensors file. Throws TENSOR, DTYPE.
Tensor load_rows(const std::filesystem::path&, const std::string& name);

// "tensor 'q'", or "the tensor" of an .npy.
std::string label(const TensorInfo&);

}  // namespace rotary::cli
