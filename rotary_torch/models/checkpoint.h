// The tensors of a checkpoint folder: read by name and with the expected shape, into the parameters of a model.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotary/tensors.h"
#include "rotary_torch/nn/layers.h"

namespace rotary::files {
class Checkpoint;
}

namespace rotary_torch {

// A parameter, or a part of one, and the tensor of the file that it is read from.
struct Stored {
  std::string name;
  at::Tensor parameter;
  std::int64_t heads =
      0;  // above 0: the file has q, k, v of each head in turn, the parameter q of all heads, then k, v
};
// Adds weight and bias of a linear layer: all rows, or rows [first, first + count).
void add_linear(std::vector<Stored>&, const std::string& name, const torch::nn::Linear& layer, std::int64_t first = 0,
                std::int64_t count = -1, std::int64_t heads = 0);

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
  // A model of make() with the parameters that rows(*model) lists, in evaluation mode. A model without memory is made
  // before, so that a file that lacks tensors of the config's sizes is refused before these are allocated.
  template <class Make, class Rows>
  auto load(const Make& make, const Rows& rows) {
    {
      const MetaDevice no_memory;
      for (const Stored& stored : rows(*make())) expect(stored.name, stored.parameter.sizes());
    }
    auto model = make();
    for (const Stored& stored : rows(*model)) read_into(stored);
    model->eval();
    return model;
  }
  std::vector<std::string> unused() const;  // names not read, in order

 private:
  void read_into(const Stored&);

  std::shared_ptr<const rotary::files::Checkpoint> files_;
  std::map<std::string, bool> used_;  // by name
};

// Whether the name is that of a mask or table which files store with the weights but which is computed here: it ends in
// a name that any family may use, or in one of `more`.
bool is_buffer(std::string_view name, std::span<const std::string_view> more = {});

// Whether the architectures of a folder's config.json name a language model; empty where it names none at all. Throws
// FILE, JSON.
std::optional<bool> says_language_model(const std::filesystem::path& dir);

// Conversions of f32, f16, bf16, f64, integer and bool tensors. Throw DTYPE.
rotary::Tensor file_tensor(std::string name, const at::Tensor&);
at::Tensor torch_tensor(const rotary::Tensor&);

// Writes named tensors and metadata to one file, atomically.
void write_tensors(const std::filesystem::path&, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::map<std::string, std::string>& metadata = {});

}  // namespace rotary_torch
