// Continuing token sequences with a Decoder, step by step on its KV cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

struct GenerateOptions {
  std::int64_t tokens = 100;
  double temperature = 1;  // 0: greedy; among equal logits the lowest id
  std::int64_t top_k = 0;  // 0: all
  std::uint64_t seed = 1337;
};
// prompt int64 [batch, tokens], at least one token; returns [batch, tokens + N], the prompt first. There are always N
// new tokens, because no id ends a text. on_token, if given, is called with each new column int64 [batch]; if it
// returns false, generate returns the tokens so far. Positions continue past the trained length; with learned positions
// each token sees only the last `context` before it, counted from position 0, as in nanoGPT. Throws SHAPE, DTYPE,
// VALUE.
at::Tensor generate(Decoder& model, const at::Tensor& prompt, const GenerateOptions&,
                    const std::function<bool(const at::Tensor&)>& on_token = {});

// Samples ids from softmax(logits / temperature) over the top_k largest logits (among equals the lower ids), in double.
class Sampler {
 public:
  // Each row has its own random numbers, which do not depend on the other rows.
  Sampler(double temperature, std::int64_t top_k, std::uint64_t seed, std::int64_t rows);  // throws VALUE
  std::int64_t choose(std::span<const float> logits, std::int64_t row);                    // throws VALUE: not finite

 private:
  void keep_top(std::span<const float> logits);

  double temperature_;
  std::size_t top_k_;
  std::vector<std::mt19937_64> random_;  // one per row
  std::vector<std::int64_t> kept_;       // ids, rising
  std::vector<double> sums_;             // of the weights of kept_, cumulative
};

}  // namespace rotary_torch
