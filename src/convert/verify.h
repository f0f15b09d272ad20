// Whether a converted checkpoint gives the same attention scores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan.h"

namespace rotary::convert {

struct LayerCheck {
  std::string layer;                  // "model.layers.3.self_attn"
  std::int64_t scores = 0;            // compared
  double largest_difference = 0;      // of the scores before and after; 0: all are equal
  double difference_unconverted = 0;  // what it would be if the weights had not been converted

  bool operator==(const LayerCheck&) const = default;
};

// Reads the q and k projections of every layer from the source and from the converted folder, projects the same random
// hidden states with both, adds biases, normalises, rotates at several positions, the one in the pairing before and the
// other in the new one, and compares q k of all heads. In double; sums are in the same order for both, so that equal
// weights give equal scores. Of quantised weights each row's integers, scales and zero points are read as the row's
// numbers. Without a folder the source's tensors are changed in memory, one at a time, as write_folder would.
// Throws FILE, FORMAT, TENSOR.
std::vector<LayerCheck> verify(const Plan&, const std::optional<std::filesystem::path>& converted,
                               const std::function<void(std::size_t done, std::size_t layers)>& progress);

}  // namespace rotary::convert
