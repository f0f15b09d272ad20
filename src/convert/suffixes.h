// The parts of a projection or a norm by the end of their names, and the axis along which each has the heads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "change.h"
#include "files/text/json.h"

namespace rotary::conversion {

// As quantization_config says it; checked where a tensor needs it.
struct Quantization {
  files::Json bits;             // of packed numbers; null: 4
  files::Json block;            // weight_block_size, rows and columns that share a scale; null: [128, 128]
  std::string unknown_packing;  // AWQ's version, GPTQ's checkpoint_format; empty: one that is known
};

struct Projection {
  std::shared_ptr<const Sources> sources;     // of its output
  std::function<bool(std::string_view)> has;  // whether the projection has a tensor of that suffix
  bool fused = false;                         // q, k and v in one
  bool awq = false;                           // its qweight is packed along the output, as AWQ does
  Quantization quantization;
};

// Empty: the tensor does not change, as lora_A, a single scale, or one without elements. Throws SHAPE (the output's
// size is no dimension of the tensor), TENSOR (an unknown suffix; scales that rows cannot leave), DTYPE (a format or a
// packing that is not read; elements that are no whole bytes), CONFIG_VALUE (bits, weight_block_size).
std::optional<Change> change_of(const TensorInfo&, std::string_view suffix, const Projection&);

}  // namespace rotary::conversion
