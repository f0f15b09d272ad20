// How the dimensions of tensors are read as batch, tokens, heads and head_dim, and whether the config's heads agree.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/config.h"
#include "rotary/tensors.h"

namespace rotary::tools {

struct Reading {
  std::string word;  // of files::layout_words
  Layout layout;
};

struct Readings {
  std::vector<Reading> tensors;       // one for each tensor
  std::vector<std::string> notes;     // what the heads leave open
  std::vector<std::string> warnings;  // what speaks against the written layout
};

// used: the rope that turns them, whose heads theirs are to be; one without heads: nothing is known of them.
// Reads tensors by the written word of files::layout_words, or without one by their dimensions: bthd, thd, [heads, head_dim]
// of one token, or [..., heads * head_dim] where the rope gives the heads. A tensor is q or k by its name.
// Without a written word a layout is refused that the config's heads contradict and another layout fits: a number of
// heads that is neither the config's nor a divisor of it, as a shard has, or fewer heads where the other layout has
// exactly the config's. One head alone contradicts nothing. Throws SHAPE.
Readings read_heads(std::string_view operation, std::span<const Tensor* const> tensors, const std::string& written,
                    const ModelRope& used);

}  // namespace rotary::tools
