// How models multiply their queries by the position, beside the rotation and in layers without one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {

// With n = position + first. In brackets who does it, as read in transformers 5.23, vLLM and SGLang.
enum class QueryForm : std::uint8_t {
  none,     // 1
  steps,    // 1 + amount ln(1 + floor(n / length))   (Llama 4: first 1; Ministral 3, Mistral 4, A.X K1: first 0)
  log,      // 1 + amount ln(max(1, n / length))      (Inkling, Inkling 2, Muse Spark in vLLM: first 1)
  power,    // (1 + n / length)^amount                (Beam: first 1)
  ratio,    // ln(max(n, length)) / ln(length)        (Qwen-1, ReRoPE: first 1; Grok 2: first 0)
  learned,  // each head's is in the checkpoint: no formula of the position alone   (Mistral Large 4)
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

// One factor for each position: the formula in double, floor exact, rounded once to f32. 1 where the form is none, and
// at positions below 0, of which no formula speaks. Throws VALUE for a form that is learned or unknown, an amount that
// is not finite, a length below 1 (ratio: below 2), a first other than 0 and 1, a factor that is not finite.
ROTARY_API std::vector<float> query_scale(const QueryScale&, std::span<const std::int64_t> positions);

// ---- in the same call as the rotation ------------------------------------------------------------

// As rotate_qk of rotary.h, and every element of q's heads times the factor of its token, forward or backward (the
// gradient of it is that): those that turn, by rows of cos and sin times the factor, rounded to f32; the others
// x * factor in f32, rounded to the storage type. k is rotated alone. query_scale: [tokens] or [batch, tokens] of q;
// empty: none. The call makes those rows in memory of its own. There is no such argument on a device, of rotate_append
// and of rotate_qkv. Also throws SHAPE (its size) and VALUE (not finite).
ROTARY_API void rotate_qk(const Heads& q, const Heads& k, const Table&, const RotateOptions&,
                          std::span<const float> query_scale);
ROTARY_API void rotate_qk(const InOut& q, const InOut& k, const Table&, const RotateOptions&,
                          std::span<const float> query_scale);
// rotate() of queries alone.
ROTARY_API void rotate(const Heads& x, const Table&, const RotateOptions&, std::span<const float> query_scale);
ROTARY_API void rotate(const ConstHeads& x, const Heads& out, const Table&, const RotateOptions&,
                       std::span<const float> query_scale);
// The queries of a layer without a rope: every element times its factor, in place.
ROTARY_API void multiply(const Heads& q, std::span<const float> query_scale, const Executor& = serial());

}  // namespace rotary
