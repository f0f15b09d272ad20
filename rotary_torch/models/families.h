// The decoders of Hugging Face by family: what the configs say, what the code does, and the names of the tensors.
#pragma once

#include <string>
#include <string_view>

#include "files/text/json.h"
#include "rotary/config.h"
#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

struct DecoderFamily {
  std::string_view name;  // DecoderFacts::names of data/models.json
  // The keys of config.json, as words: the first that a file has counts (attribute_map of the config class).
  std::string_view width, feed_forward, context, activation, norm_eps;
  // The architecture.
  Norm norm = Norm::layer;
  bool grouped = false;  // kv_heads and head_dim are as the config says; otherwise the heads share the width
  bool gated = false;
  bool feed_bias = false, head_bias = false;
  Residual residual = Residual::sequential;  // parallel: unless use_parallel_residual is false
  bool finite_mask = false;
  // The tensors, without the prefix of the trunk.
  std::string_view prefix;  // "model.", which files of a base model omit
  std::string_view trunk;   // the first words of the trunk's names
  std::string_view embedding;
  std::string_view layers;
  std::string_view attention_norm = {}, feed_norm = {};  // in a layer
  std::string_view q = {}, k = {}, v = {};               // or one fused tensor, per head q, k, v
  std::string_view fused = {};
  std::string_view output;
  std::string_view gate = {}, up = {}, down = {};
  std::string_view final_norm;
  std::string_view heads;  // names of the head next to the trunk, the most common first
};

const DecoderFamily* decoder_family(std::string_view model_type);  // nullptr: data/models.json has no such decoder
std::string decoder_types();                                       // "llama, mistral, ..."

// Missing keys have the defaults of transformers' config classes. Throws CONFIG_*.
DecoderConfig read_family(const DecoderFamily&, const std::string& text, const rotary::files::Object& keys);
// Throws ROPE if the model has no rope or several.
rotary::ModelRope sole_rope(const rotary::Model&);

}  // namespace rotary_torch
