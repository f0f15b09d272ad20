// The loss of a Decoder at several window lengths, also past the trained length.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

// The last tokens of each row of ids [rows, tokens] and one target after them: int64 [rows, windows * longest + 1].
// There are as many windows as max_tokens allow in all rows together, at least one per row; max_tokens 0: all. Every
// length that divides `longest` is measured on this part, so that all predict the same tokens. Throws SHAPE if a row is
// too short.
at::Tensor measured_part(const at::Tensor& ids, std::int64_t longest, std::int64_t max_tokens);

struct WindowLoss {
  double loss = 0;          // mean cross-entropy in nats
  double last_quarter = 0;  // the same over the last quarter of each window, at least one token
  std::int64_t tokens = 0;  // predicted
};
// Cuts the rows of ids [rows, n * length + 1 or more] into windows of `length` tokens that do not overlap; each token
// predicts the next, with its own window as the context. Throws POSITION if there are fewer learned positions than
// `length`.
WindowLoss window_loss(Decoder& model, const at::Tensor& ids, std::int64_t length);

}  // namespace rotary_torch
