// Any text as a config is refused with a known code, or gives ropes whose frequencies are valid.
#include <algorithm>
#include <cmath>

#include "core/tests/fuzz/fuzz.h"
#include "rotary/config.h"

namespace rotary::fuzz {
namespace {

void check(const ModelRope& model) {
  const Rope& rope = model.rope;
  require(rope.head_dim > 0 && rope.rotary_dim > 0 && rope.rotary_dim % 2 == 0, "head_dim and rotary_dim");
  require(model.first >= 0 && model.first + rope.rotary_dim <= rope.head_dim, "the rotated block must lie in the head");
  require(std::isfinite(rope.base), "base");
  for (const std::int64_t length : {std::int64_t{0}, std::int64_t{1} << 20}) {
    const Frequencies f = frequencies(rope, length);
    const auto rows = static_cast<std::size_t>(f.head_rows) * static_cast<std::size_t>(std::max(1, f.summed_axes));
    require(f.inv_freq.size() == rows * static_cast<std::size_t>(rope.rotary_dim) / 2, "frequencies of each pair");
    for (const double inv_freq : f.inv_freq) require(std::isfinite(inv_freq), "inv_freq must be finite");
    require(std::isfinite(f.attention_factor), "attention_factor must be finite");
  }
}

void parse(const std::string& text, const ConfigOptions& options) {
  try {
    const Model model = parse_config(text, options);
    require(text.find('\0') == std::string::npos, "a text with a byte 0 is no JSON");
    for (const ModelRope& rope : model.ropes) check(rope);
  } catch (const Error& error) {
    require_refusal(error, "[",
                    {"JSON", "CONFIG_KEY", "CONFIG_VALUE", "CONFIG_MISSING", "MODEL_TYPE", "ROPE", "SCALING", "SHAPE"});
  }
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      R"({"model_type":"llama","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":2,)"
      R"("max_position_embeddings":8192,"rope_theta":500000.0,"rope_scaling":{"factor":8.0,"low_freq_factor":1.0,)"
      R"("high_freq_factor":4.0,"original_max_position_embeddings":8192,"rope_type":"llama3"}})",
      R"({"model_type":"qwen3","hidden_size":64,"num_attention_heads":4,"head_dim":16,"num_hidden_layers":1,)"
      R"("rope_parameters":{"rope_type":"yarn","rope_theta":1e6,"factor":4.0,)"
      R"("original_max_position_embeddings":32768}})",
      R"({"model_type":"phi3","hidden_size":32,"num_attention_heads":4,"num_hidden_layers":1,)"
      R"("max_position_embeddings":131072,"original_max_position_embeddings":4096,)"
      R"("rope_scaling":{"type":"longrope","short_factor":[1,1,1,1],"long_factor":[1,2,3,4]}})",
      R"({"model_type":"qwen2_vl","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":1,)"
      R"("rope_scaling":{"type":"mrope","mrope_section":[2,3,3]}})",
      R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_hidden_layers":1,"rope_theta":1e4,)"
      R"("max_position_embeddings":1024,"rope_scaling":{"rope_type":"dynamic","factor":2147483648.0}})",
      R"({"dim":64,"n_layers":2,"head_dim":16,"n_heads":4,"norm_eps":1,"hidden_dim":8,"rope_theta":1e6})",
      R"({"model_type":"gpt_neox","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"rotary_pct":0.25,)"
      R"("rotary_emb_base":10000})",
      R"({"_class_name":"FluxTransformer2DModel","attention_head_dim":16,"num_attention_heads":2,"num_layers":1,)"
      R"("num_single_layers":1,"axes_dims_rope":[4,6,6]})",
      R"({"_class_name":"LTXVideoTransformer3DModel","attention_head_dim":8,"num_attention_heads":2,"num_layers":1})",
      R"({"_class_name":"AllegroTransformer3DModel","attention_head_dim":12,"interpolation_scale_t":2.2,)"
      R"("num_layers":1})",
      R"({"_class_name":"CosmosTransformer3DModel","attention_head_dim":16,"rope_scale":[1.0,3.0,3.0]})",
      R"({"model_type":"llama4_text","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":4,"head_dim":16,)"
      R"("attn_temperature_tuning":true,"floor_scale":8192,"attn_scale":0.1,"no_rope_layers":[1,1,1,0]})",
  };
}

std::vector<std::string> words() {
  return words_of(R"(
"rope_theta": "rope_scaling": "rope_parameters": "type": "rope_type": "dynamic" "linear" "yarn" "ntk" "su"
"mrope" "proportional" "default" "factor": "head_dim": "partial_rotary_factor": "rotary_dim": "layer_types":
"full_attention" "sliding_attention" "rope_local_base_freq": "no_rope_layers": "qk_rope_head_dim": "alpha":
"text_config": "vision_config": "mrope_section": "mscale": "gemma3_text" "gptj" "deepseek_v3" "llama4"
"hunyuan" "_class_name": "WanTransformer3DModel" "MochiTransformer3DModel" "axes_dims_rope": "attention_head_dim":
"rope_dim": "use_rotary_positional_embeddings": "attn_scale": "floor_scale": "llama_4_scaling_beta":
null true [] {} 0 -1 1e308 1e-320 1e9 1e15 "beta_fast": "beta_slow": "attention_factor": 2147483647
9223372036854775807 0.5 , [[[[)",
                  {std::string(1, '\0')});
}

void one(const std::string& input) {
  parse(input, {});
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved_to_half}) parse(input, {pairing});
}

}  // namespace rotary::fuzz
