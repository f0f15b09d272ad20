// How the dimensions of a tensor are read as batch, tokens, heads and head_dim: by a word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rotary/heads.h"
#include "rotary/tensors.h"

namespace rotary::files {

//   bthd, bhtd, tbhd                b batch, t tokens, h heads, d head_dim
//   thd, htd                        without batch
//   hd                              one token
//   td                              one head
//   flat                            [batch, tokens, heads * head_dim] or [tokens, heads * head_dim]
extern const std::vector<std::string> layout_words;

// The layout of a tensor read by that word; flat needs head_dim, above 0, and the others take the last dimension. What
// names the operation stands in brackets in error sentences. Throws SHAPE.
Layout layout_of(std::string_view operation, const TensorInfo&, const std::string& word, int head_dim = 0);

}  // namespace rotary::files
