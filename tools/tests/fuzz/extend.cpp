// Any text as the config of a model to extend, for a context that it chooses: refused under a known code, or a plan
// whose new config is read.
#include "rotary/extend.h"

#include <cmath>

#include "core/tests/fuzz/fuzz.h"

namespace rotary::fuzz {
namespace {

void check(const extend::MethodPlan& method) {
  if (!method.refused.empty()) return;
  require(std::isfinite(method.factor) && method.factor > 0, "factor");
  for (const extend::RopePlan& rope : method.ropes) {
    for (const double speed : rope.frequencies.inv_freq) require(std::isfinite(speed), "a frequency must be finite");
  }
  if (!method.config.empty()) parse_config(method.config);
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      R"({"model_type":"llama","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,)"
      R"("num_key_value_heads":2,"max_position_embeddings":8192,"rope_theta":500000.0})",
      R"({"model_type":"llama","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":1,"rope_theta":500000.0,)"
      R"("max_position_embeddings":131072,"rope_scaling":{"factor":8.0,"low_freq_factor":1.0,)"
      R"("high_freq_factor":4.0,"original_max_position_embeddings":8192,"rope_type":"llama3"}})",
      R"({"model_type":"gemma3_text","hidden_size":64,"num_attention_heads":4,"head_dim":16,"num_hidden_layers":7,)"
      R"("max_position_embeddings":32768,"rope_parameters":{"full_attention":{"rope_type":"linear","factor":8.0,)"
      R"("rope_theta":1e6},"sliding_attention":{"rope_type":"default","rope_theta":1e4}}})",
      R"({"model_type":"phi3","hidden_size":32,"num_attention_heads":4,"num_hidden_layers":1,)"
      R"("max_position_embeddings":4096,"original_max_position_embeddings":4096,"rope_theta":10000.0})",
      R"({"dim":64,"n_layers":2,"head_dim":16,"n_heads":4,"hidden_dim":8,"norm_eps":1,"rope_theta":1e6,)"
      R"("max_position_embeddings":16384,"yarn":{"original_max_position_embeddings":16384,"factor":2.0,)"
      R"("apply_scale":false,"beta":32,"alpha":1}})",
      R"({"model_type":"llava","text_config":{"model_type":"qwen2","hidden_size":64,"num_attention_heads":4,)"
      R"("num_hidden_layers":1,"max_position_embeddings":32768,"rope_theta":1e6}})",
      R"({"model_type":"llama","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,)"
      R"("max_position_embeddings":8192,"rope_parameters":{"rope_theta":500000.0,"other":{}}})",
      R"({"model_type":"llava","te.xt":{"model_type":"qwen2","max_position_embeddings":32768}})"};
}

std::vector<std::string> words() {
  return words_of(R"(
"rope_theta": "rope_scaling": "rope_parameters": "rope_type": "dynamic" "linear" "yarn" "longrope" "default"
"factor": "max_position_embeddings": "original_max_position_embeddings": "partial_rotary_factor":0.5,
"layer_types":["full_attention"], "full_attention":{}, "factor":{}, "sliding_window":512, "text_config": { } , null
true 0 -1 1e-300 1e300 9007199254740993)");
}

// The length of the text chooses the context.
void one(const std::string& input) {
  extend::Request request;
  request.config = input;
  request.context = std::int64_t{1} << (12 + input.size() % 42);
  try {
    request.model = parse_config(request.config);
  } catch (const Error&) {
    return;
  }
  try {
    for (const extend::MethodPlan& method : extend::plan(request).methods) check(method);
  } catch (const Error& error) {
    if (error.code() == Code::SCALING) return require_refusal(error, "[frequencies] ", {"SCALING"});  // a base of 1e308
    require_refusal(error, request.model.ropes.empty() ? "[rope] " : "[extend] ",
                    {"VALUE", "ROPE", "CONFIG_MISSING", "FORMAT"});
  }
}

}  // namespace rotary::fuzz
