// The tensors of a checkpoint folder. Each is read by name and with the expected shape; unused() lists those never
// read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotary/tensors.h"

namespace rotary::files {
class Checkpoint;
}

namespace rotary_torch {

// Opens a file, or of a folder model.safetensors or the shards that model.safetensors.index.json names. Throws FILE,
// FORMAT, JSON; TENSOR if a shard lacks a tensor that the index says it has.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path&);

  bool has(const std::string& name) const;
  // Throws TENSOR if the tensor is missing or has another shape. Does not read it.
  void expect(const std::string& name, at::IntArrayRef shape) const;
  // The tensor as f32, from f32, f16, bf16 or f64 on disk; marks it as used. Throws TENSOR, with the name and both
  // shapes, if it is missing or has another shape or type.
  at::Tensor read(const std::string& name, at::IntArrayRef shape);
  void read_into(const std::string& name, const at::Tensor& parameter);  // reads and copies, under no_grad
  std::vector<std::string> unused() const;                               // names not read, in order

 private:
  std::shared_ptr<const rotary::files::Checkpoint> files_;
  std::map<std::string, bool> used_;  // by name
};

// Whether the name is that of a mask or table which files store with the weights but which is computed here: it ends in
// a name that any family may use, or in one of `more`.
bool is_buffer(std::string_view name, std::span<const std::string_view> more = {});

// Conversions of f32, f16, bf16, f64, integer and bool tensors. Throw DTYPE.
rotary::Tensor file_tensor(std::string name, const at::Tensor&);
at::Tensor torch_tensor(const rotary::Tensor&);

// Writes named tensors and metadata to one file, atomically.
void write_tensors(const std::filesystem::path&, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::map<std::string, std::string>& metadata = {});

}  // namespace rotary_torch
