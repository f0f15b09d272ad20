// The decoder families of Hugging Face: what their configs say, and how their files name the weights.
#pragma once

#include <string>
#include <string_view>

#include "files/text/json.h"
#include "rotary/config.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

struct Family;  // families.cpp

const Family* decoder_family(std::string_view model_type) noexcept;  // nullptr: none of ours
std::string decoder_families();                                      // "llama, mistral, ..."

// The defaults of keys that are missing are those of transformers' config classes. Throws CONFIG_*.
DecoderConfig read_family(const Family&, const std::string& text, const rotary::files::Object& keys);
// Throws ROPE where a model has none or several.
rotary::ModelRope sole_rope(const rotary::Model&);

// How the tensors of a family are called, after the prefix of the trunk.
struct TensorNames {
  std::string_view prefix;  // "model.": files of a base model leave it out
  std::string_view trunk;   // the first words of the trunk's names, separated by blanks
  std::string_view embedding;
  std::string_view layers;
  std::string_view attention_norm, feed_norm;  // in a layer
  std::string_view q, k, v;                    // or one fused tensor, per head q, k, v
  std::string_view fused;
  std::string_view output;
  std::string_view gate, up, down;
  std::string_view final_norm;
  std::string_view heads;  // names of the head next to the trunk, the most common first
};
const TensorNames& tensor_names(const Family&) noexcept;

}  // namespace rotary_torch
