// The bundled data of rotary demo, made by tools/golden/make_demo_data.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rotary/tensors.h"

namespace rotary::cli {

struct ExactAngles {
  std::int64_t position = 0;
  std::vector<std::string> cos;  // decimals, 25 digits
  std::vector<std::string> sin;
};

struct DemoData {
  Tensor q, k;      // bf16 [batch, tokens, heads, head_dim]
  Tensor q32, k32;  // the same values in f32
  std::vector<double> inv_freq;
  std::vector<ExactAngles> angles;
};

// `wanted` if it is not empty, otherwise the first that exists: ../share/rotary/demo next to the program, the source
// tree, the installation. Throws FILE.
std::filesystem::path find_demo_data(const std::string& wanted);
// Throws FILE, FORMAT, TENSOR, JSON.
DemoData load_demo_data(const std::filesystem::path& folder);

Layout layout_of(const Tensor& bthd_tensor);
std::vector<float> floats_of(const Tensor& f32_tensor);

}  // namespace rotary::cli
