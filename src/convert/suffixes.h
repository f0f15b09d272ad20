// What a tensor of a projection or of a norm is, by the end of its name, and along which axis it has the heads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "change.h"

namespace rotary::convert {

struct Quantization {
  int bits = 4;                 // of packed numbers
  std::int64_t block = 0;       // rows that share a scale in weight_scale_inv; 0: the config does not say
  std::string unknown_packing;  // AWQ's version, GPTQ's checkpoint_format; empty: one that is known
};

struct Projection {
  std::shared_ptr<const Sources> sources;     // of its output
  std::function<bool(std::string_view)> has;  // whether the projection has a tensor of that suffix
  bool fused = false;                         // q, k and v in one
  bool awq = false;                           // its qweight is packed along the output, as AWQ does
  Quantization quantization;
};

// Empty: the tensor does not change, as lora_A or a single scale. Throws SHAPE (the output's size is no dimension of
// the tensor), TENSOR (an unknown suffix; scales that rows cannot leave), DTYPE (a packing that cannot be permuted).
std::optional<Change> change_of(const TensorInfo&, std::string_view suffix, const Projection&);

}  // namespace rotary::convert
