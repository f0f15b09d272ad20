// For the tests of the models: the distance of two tensors, and all the tensors of a file.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "rotary_torch/models/checkpoint.h"

namespace rotary_torch {

using Tensors = std::map<std::string, at::Tensor>;

// The largest difference, over max(1, the largest value); infinite where the shapes differ or a difference is NaN.
inline double difference(const at::Tensor& got, const at::Tensor& expected) {
  if (got.sizes() != expected.sizes()) return HUGE_VAL;
  const double distance = (got.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
  return std::isnan(distance) ? HUGE_VAL : distance / std::max(1.0, expected.abs().max().item<double>());
}

inline Tensors read_all(const std::filesystem::path& path) {
  const rotary::SafetensorsFile file(path);
  Tensors tensors;
  for (const rotary::TensorInfo& info : file.tensors()) tensors[info.name] = torch_tensor(file.read(info.name));
  return tensors;
}

}  // namespace rotary_torch
