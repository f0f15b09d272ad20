// The decoder families of Hugging Face: reading their configs, and the tensor names in their files.
#pragma once

#include <string>
#include <string_view>

#include "files/models/families.h"
#include "files/text/json.h"
#include "rotary/config.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

using Family = rotary::files::Family;

const Family* decoder_family(std::string_view model_type);  // nullptr: its row says nothing of a decoder
std::string decoder_families();                             // "llama, mistral, ..."

// Missing keys have the defaults of transformers' config classes. Throws CONFIG_*.
DecoderConfig read_family(const Family&, const std::string& text, const rotary::files::Object& keys);
// Throws ROPE if the model has no rope or several.
rotary::ModelRope sole_rope(const rotary::Model&);

// The names of a family's tensors, without the prefix of the trunk.
struct TensorNames {
  std::string_view prefix;  // "model.", which files of a base model omit
  std::string_view trunk;   // the first words of the trunk's names, separated by spaces
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
const TensorNames& tensor_names(const Family&);

}  // namespace rotary_torch
