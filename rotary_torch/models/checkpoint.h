// The tensors of a checkpoint folder, strictly: each is asked for by name and shape, and what nobody asked for is
// known.
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

namespace rotary_torch {

// model.safetensors, or the shards that model.safetensors.index.json names. Throws FILE, FORMAT, JSON, TENSOR.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& dir);

  bool has(const std::string& name) const;
  // Throws TENSOR where it is missing or has another shape; reads nothing.
  void expect(const std::string& name, at::IntArrayRef shape) const;
  // f32, from f32, f16, bf16 or f64 on disk; marks the tensor as used. Throws TENSOR where it is missing, has another
  // shape or type, with the name, the shape asked for and the shape found.
  at::Tensor read(const std::string& name, at::IntArrayRef shape);
  void read_into(const std::string& name, const at::Tensor& parameter);  // the same, copied under no_grad
  std::vector<std::string> unused() const;                               // names not read, in order

 private:
  std::vector<rotary::SafetensorsFile> files_;
  std::map<std::string, std::pair<std::size_t, bool>> where_;  // file, used
};

// Whether the name is that of a mask or a table which real files carry next to the weights and which is computed anew:
// it ends in one that any family may have, or in one of `more`.
bool is_buffer(std::string_view name, std::span<const std::string_view> more = {});

// Between torch and files: f32, f16, bf16, f64, int64, int32, int16, int8, uint8, bool. Throws DTYPE.
rotary::Tensor file_tensor(std::string name, const at::Tensor&);
at::Tensor torch_tensor(const rotary::Tensor&);

// These tensors, by name, and metadata to one file; atomically.
void write_tensors(const std::filesystem::path&, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::map<std::string, std::string>& metadata = {});

}  // namespace rotary_torch
