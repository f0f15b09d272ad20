// The tensors of a checkpoint folder, read by the names of a family and with the expected shapes into the parameters of
// a model.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "rotary/tensors.h"
#include "rotary_torch/nn/layers.h"

namespace rotary::files {
class Checkpoint;
}

namespace rotary_torch {

// The names of a model's parameters in the files of a family: a row of families.json, which describes the members.
// Without a trunk they are the parameters' own names.
struct TensorNames {
  std::string prefix, inside, foreign;
  std::map<std::string, std::string> trunk, head;
  // The rows of q in a parameter that holds q of all heads, then k, then v; and the number of heads, if one tensor of
  // the file has q, k and v head by head.
  std::int64_t query_rows = 0, fused_heads = 0;
};
TensorNames tensor_names(std::string_view model_type, std::int64_t heads, std::int64_t head_dim);

// A parameter, or a part of one, and the tensor of the file from which it is read.
struct Stored {
  std::string name;
  at::Tensor parameter;
  std::int64_t fused_heads = 0;
};

// Opens a file, or of a folder model.safetensors or the shards that model.safetensors.index.json names. Throws FILE,
// FORMAT, JSON; TENSOR if a shard lacks a tensor that the index says it has.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path&, TensorNames names = {});

  // The tensor's name for a parameter ("layers.0.attention.qkv.weight"), or for its first part.
  std::string name_of(const std::string& parameter) const { return names_of(parameter).front(); }
  bool has(const std::string& name) const;
  bool has_head() const;                                     // a part of one
  bool is_base() const noexcept { return prefix_.empty(); }  // the trunk's names have no prefix
  // Throws TENSOR if the tensor is missing or has another shape. Does not read it.
  void expect(const std::string& name, at::IntArrayRef shape) const;
  // Whether the file has another matrix for a head that the config ties to the embedding: transformers then uses it.
  bool unties(const std::string& head, const std::string& embedding, at::IntArrayRef shape);
  // The tensor in the given type, from f32, f16, bf16 or f64 on disk; marks it as used. Throws TENSOR, with the name
  // and both shapes, if it is missing or has another shape or type.
  at::Tensor read(const std::string& name, at::IntArrayRef shape, at::ScalarType type = at::kFloat);
  // A model of make() with its parameters from the file, in evaluation mode. A model without memory is made first, so
  // that a file that lacks tensors of the config's sizes is refused before memory is allocated.
  template <class Make>
  auto load(const Make& make) {
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
  // A sentence for each unused tensor outside the model, buffers aside. Throws TENSOR for one inside.
  std::vector<std::string> foreign() const;

 private:
  bool has_any(const std::string& prefix) const;  // whether a tensor's name begins with it
  std::vector<std::string> names_of(const std::string& parameter) const;
  std::string spelled(const std::string& before, std::string_view alternatives, const std::string& after) const;
  std::vector<Stored> rows(const torch::nn::Module&) const;
  void read_into(const Stored&);

  std::shared_ptr<const rotary::files::Checkpoint> files_;
  std::map<std::string, bool> used_;  // by name
  TensorNames names_;
  std::string prefix_;  // the trunk's prefix in this file
};

// Conversions of f32, f16, bf16, f64, integer and bool tensors. Throw DTYPE.
rotary::Tensor file_tensor(std::string name, const at::Tensor&);
at::Tensor torch_tensor(const rotary::Tensor&);

// Writes named tensors and metadata to one file, atomically.
void write_tensors(const std::filesystem::path&, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::map<std::string, std::string>& metadata = {});

}  // namespace rotary_torch
