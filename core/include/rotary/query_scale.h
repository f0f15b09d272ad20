// Factors by which some models multiply their queries, by position: beside the rotation, or in layers without one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {

// The formula of the factor, with n = position + first, and the models that use it (transformers 5.24, vLLM, SGLang).
enum class QueryForm : std::uint8_t {
  none,     // 1
  steps,    // 1 + amount ln(1 + floor(n / length))   (Llama 4: first 1; Ministral 3, Mistral 4, A.X K1: first 0)
  log,      // 1 + amount ln(max(1, n / length))      (Inkling, Inkling 2, Muse Spark in vLLM: first 1)
  power,    // (1 + n / length)^amount                (Beam: first 1)
  ratio,    // ln(max(n, length)) / ln(length)        (Qwen-1, ReRoPE: first 1; Grok 2: first 0)
  learned,  // each head has its own in the checkpoint: no formula of the position   (Mistral Large 4)
};
ROTARY_API const char* name(QueryForm) noexcept;  // "none", "steps", "log", "power", "ratio", "learned"

struct QueryScale {
  QueryForm form = QueryForm::none;
  double amount = 0;
  std::int64_t length = 0;
  int first = 0;
  bool operator==(const QueryScale&) const = default;
};

// "1 + 0.1 ln(1 + floor((p + 1) / 8192))"
ROTARY_API std::string formula(const QueryScale&);

// One factor for each position: the formula in double, with an exact floor, rounded once to f32. It is 1 if the form is
// none, and at positions below 0, for which no formula is defined. Throws VALUE for a form that is learned or unknown,
// an amount that is not finite, a length below 1 (ratio: below 2), a first other than 0 or 1, a factor not finite.
ROTARY_API std::vector<float> query_scale(const QueryScale&, std::span<const std::int64_t> positions);

// ---- in the same call as the rotation ------------------------------------------------------------

// Same as rotate_qk of rotary.h, but every element of q's heads is also multiplied by the factor of its token, forward
// and backward (the gradient has the same factor). Elements that rotate do so by rows of cos and sin times the factor,
// rounded to f32, which the call allocates; the others become x * factor in f32, rounded to the storage type. k only
// rotates. query_scale: [tokens] or [batch, tokens] of q; empty: no factors. rotate_append and functions on a device
// do not take it. Also throws SHAPE (its size) and VALUE (not finite).
ROTARY_API void rotate_qk(const Heads& q, const Heads& k, const Table&, const RotateOptions&,
                          std::span<const float> query_scale);
ROTARY_API void rotate_qk(const InOut& q, const InOut& k, const Table&, const RotateOptions&,
                          std::span<const float> query_scale);
// Rotates and multiplies queries alone.
ROTARY_API void rotate(const Heads& x, const Table&, const RotateOptions&, std::span<const float> query_scale);
ROTARY_API void rotate(const ConstHeads& x, const Heads& out, const Table&, const RotateOptions&,
                       std::span<const float> query_scale);
// The queries of a layer without a rope: every element times its factor, in place; options.first must be 0.
ROTARY_API void multiply(const Heads& q, std::span<const float> query_scale, const RotateOptions& = {});

}  // namespace rotary
