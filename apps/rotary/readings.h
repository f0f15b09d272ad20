// How the dimensions of tensors are read as batch, tokens, heads and head_dim, and whether the config's heads agree.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/tensors.h"

namespace rotary::cli {

// What is known of the model's heads; 0: unknown.
struct HeadFacts {
  int head_dim = 0;
  int rotary_dim = 0;
  int first = 0;
  int heads = 0;     // of q
  int kv_heads = 0;  // of k
};

struct Reading {
  std::string word;  // of layout_words
  Layout layout;
};

struct Readings {
  std::vector<Reading> tensors;       // one for each tensor
  std::vector<std::string> notes;     // what the heads leave open
  std::vector<std::string> warnings;  // what speaks against the written layout
};

// Reads tensors by the written word of layout_words, or without one by their dimensions: bthd, thd, [heads, head_dim]
// of one token, or [..., heads * head_dim] where the facts give the heads. A tensor is q or k by its name.
// Without a written word a layout is refused that the config's heads contradict and another layout fits: a number of
// heads that is neither the config's nor a divisor of it, as a shard has, or fewer heads where the other layout has
// exactly the config's. One head alone contradicts nothing. Throws SHAPE.
Readings read_heads(std::string_view operation, std::span<const Tensor* const> tensors, const std::string& written,
                    const HeadFacts&);

}  // namespace rotary::cli
