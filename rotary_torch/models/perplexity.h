// The loss of a Decoder by the length of its window: what happens past the trained length.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

// The last tokens of each row of ids [rows, tokens], as many windows of the longest length as most tokens hold (at
// least one a row; most 0: all), and the one target behind them: int64 [rows, windows * longest + 1]. What every length
// that divides the longest is measured on, so that all predict the same tokens. Throws SHAPE where a row is too short.
at::Tensor measured_part(const at::Tensor& ids, std::int64_t longest, std::int64_t most);

struct WindowLoss {
  double loss = 0;          // mean cross-entropy in nats
  double last_quarter = 0;  // the same over the last quarter of each window, at least one token
  std::int64_t tokens = 0;  // predicted
};
// Cuts the rows of ids [rows, n * length + 1 or more] into windows of length tokens that do not overlap; each token
// predicts the next, with its own window as the context. Throws POSITION where learned positions are fewer than length.
WindowLoss window_loss(Decoder& model, const at::Tensor& ids, std::int64_t length);

}  // namespace rotary_torch
