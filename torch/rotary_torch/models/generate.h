// Using a Decoder: continuing token sequences, step by step on its KV cache; its loss at several window lengths, also
// past the trained length.
#pragma once

#include <functional>
#include <random>
#include <span>

#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

struct GenerateOptions {
  std::int64_t tokens = 100;
  double temperature = 1;  // 0: greedy; among equal logits the lowest id
  std::int64_t top_k = 0;  // 0: all
  std::uint64_t seed = 1337;
  rotary::SlidingWindow window = {};  // the tokens that each token sees; the cache holds no more (DecoderCache)
};
// prompt int64 [batch, tokens], at least one token; returns [batch, tokens + N], the prompt first: no id ends a text.
// The random numbers of a row do not depend on the other rows. on_token is called with each new column int64 [batch];
// if it returns false, generate returns the tokens so far. Positions continue past the trained length; with learned
// positions each token sees only the last `context` before it, as in nanoGPT. Throws SHAPE, DTYPE, VALUE.
at::Tensor generate(Decoder& model, const at::Tensor& prompt, const GenerateOptions&,
                    const std::function<bool(const at::Tensor&)>& on_token = {});

// An id drawn from softmax(logits / temperature) over the top_k largest logits (among equals the lower ids), in double.
// Throws VALUE where they are not finite.
std::int64_t sample(std::span<const float> logits, const GenerateOptions&, std::mt19937_64& random);

// The last tokens of each row of ids [rows, tokens] and one target after them: int64 [rows, windows * longest + 1], of
// which every length that divides `longest` predicts the same tokens. There are as many windows as max_tokens allow in
// all rows together, at least one per row; max_tokens 0: all. Throws SHAPE if a row is too short.
at::Tensor measured_part(const at::Tensor& ids, std::int64_t longest, std::int64_t max_tokens);

struct WindowLoss {
  double loss = 0;          // mean cross-entropy in nats
  double last_quarter = 0;  // the same over the last quarter of each window, at least one token
  std::int64_t tokens = 0;  // predicted
};
// Cuts the rows of ids [rows, n * length + 1 or more] into windows of `length` tokens that do not overlap; each token
// predicts the next, with its own window as the context, or what `slides` holds of it (DecoderCache). Throws POSITION
// if there are fewer learned positions than `length`.
WindowLoss window_loss(Decoder& model, const at::Tensor& ids, std::int64_t length,
                       const rotary::SlidingWindow& slides = {});

}  // namespace rotary_torch
