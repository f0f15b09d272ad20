#include "layers.h"

#include <algorithm>

#include "files/models/families.h"
#include "files/text/io.h"
#include "files/text/json.h"
#include "files/text/json_edit.h"
#include "files/text/json_file.h"
#include "files/text/paths.h"
#include "names.h"
#include "values/fail.h"

namespace rotary::convert {
namespace {

constexpr const char* operation = "convert";
using files::Json;

std::int64_t integer_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}
bool flag_of(const Json& object, const char* key, bool default_value) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>() : default_value;
}

// A key with a dot or a control character in its name is no path.
const Json& sub_config(const Json& config, const std::string& dotted) {
  if (const Json* found = files::object_at(config, files::json_path(dotted))) return *found;
  fail(Code::ROPE, operation,
       "a config must hold an object at the place of its rope but " + files::in_quotes(dotted) + " is none");
}

// AWQ's other versions and GPTQ's other formats (gemv, marlin) pack the same numbers in other places.
std::string unknown_packing(const Json& quantization) {
  const bool awq = files::string_of(quantization, "quant_method") == "awq";
  const std::string form = files::string_of(quantization, awq ? "version" : "checkpoint_format");
  for (const char* known : {"", "gemm", "GEMM", "gptq", "gptq_v2"}) {
    if (form == known) return "";
  }
  return form;
}

void read_quantization(const Json& config, Quantization& quantization) {
  for (const char* name : {"quantization_config", "compression_config", "quantization"}) {
    const auto found = config.find(name);
    if (found == config.end() || !found->is_object()) continue;
    for (const char* key : {"bits", "w_bit"}) {
      const std::int64_t bits = integer_of(*found, key);
      if (bits >= 1 && bits <= 16) quantization.bits = static_cast<int>(bits);
    }
    quantization.unknown_packing = unknown_packing(*found);
    const auto block = found->find("weight_block_size");
    if (block != found->end() && block->is_array() && !block->empty() && block->front().is_number_integer())
      quantization.block = std::max<std::int64_t>(0, block->front().get<std::int64_t>());
  }
}

// The one text model with ropes.
std::string path_of_text(const Model& model, TextPart& part) {
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < model.ropes.size(); ++i) {
    const ModelRope& rope = model.ropes[i];
    std::vector<std::string>& list = rope.coordinates || is_of_another_model(rope.part) ? part.other_parts : paths;
    if (std::find(list.begin(), list.end(), rope.part) != list.end()) continue;
    if (&list == &paths && paths.empty()) part.first_rope = i;
    list.push_back(rope.part);
  }
  if (paths.size() == 1) return paths[0];
  if (paths.empty()) {
    fail(Code::ROPE, operation,
         "a checkpoint must have a text model that rotates its q and k but " +
             (model.model_type.empty() ? "this one" : model.model_type) + " has none");
  }
  fail(Code::MODEL_TYPE, operation,
       "a checkpoint must have one text model but " + model.model_type + " has several: " + paths[0] + " and " +
           paths[1]);
}

Attention attention_of_part(const Json& json, const std::string& model_type, const ModelRope& rope) {
  if (flag_of(json, "rotary_value", false)) {
    fail(Code::MODEL_TYPE, operation,
         "a model must rotate q and k alone but rotary_value is true: its values rotate too");
  }
  const LayoutFlags flags{
      .multi_query =
          flag_of(json, model_type == "chatglm" ? "multi_query_attention" : "multi_query", model_type == "falcon"),
      .new_decoder_architecture = flag_of(json, "new_decoder_architecture", false)};
  std::optional<Attention> attention = attention_of(model_type, flags);
  if (!attention) {
    fail(Code::MODEL_TYPE, operation,
         "a model must rotate the outputs of its q and k projections, which " + model_type +
             " does not: " + std::string(why_not(model_type)));
  }
  const files::Family* family = files::find_family(model_type);
  const bool mla = (family != nullptr && family->mla.rope != 0) || json.contains("kv_lora_rank");  // as in params.json
  attention->latent = mla && rope.first != 0;
  return *attention;
}

}  // namespace

bool TextPart::is_drafting(const std::string& stack, int layer) const {
  return is_draft(stack) || layer >= static_cast<int>(rope_of_layer.size());
}

TextPart text_part(const Folder& folder, const Model& model) {
  TextPart part;
  part.path = path_of_text(model, part);
  const Json config = files::parse_json(files::json_file_text(operation, folder.path / files::path_of(folder.config)));
  const Json& sub = sub_config(config, part.path);
  const ModelRope& first = model.ropes[part.first_rope];
  part.model_type = first.model_type.empty() ? model.model_type : first.model_type;
  part.attention = attention_of_part(sub, part.model_type, first);
  read_quantization(config, part.quantization);
  if (!part.path.empty()) read_quantization(sub, part.quantization);
  part.latent_rows = integer_of(sub, "kv_lora_rank");
  part.value_dim = integer_of(sub, "v_head_dim");
  // DeepSeek-V3.2's rotates in halves, whatever the attention does.
  if (part.model_type == "glm_moe_dsa" || part.model_type == "mistral_large4_text") {
    const auto size = [&](const char* key, std::int64_t default_value) {
      const std::int64_t value = sub.contains(key) ? integer_of(sub, key) : default_value;
      return static_cast<int>(std::clamp<std::int64_t>(value, 0, 1 << 20));
    };
    part.indexer = {size("index_n_heads", 32), size("index_head_dim", 128)};
    if (sub.contains(indexer_key)) part.indexer_interleaved = flag_of(sub, indexer_key, true);
  }
  for (const auto& [key, value] : config.items())
    part.beside_towers = part.beside_towers || (value.is_object() && is_of_another_model(key));
  if (part.model_type == "mixformer-sequential") part.first_layer = 1;  // behind the embedding
  if (part.model_type == "hrm_text") part.layers_in_stack = integer_of(sub, "num_layers_per_stack");
  part.keys_may_be_missing = integer_of(sub, "num_kv_shared_layers") > 0 || sub.contains("kv_source_layers");
  if (part.attention.gated_by_value && part.value_dim == 0)
    fail(Code::CONFIG_MISSING, operation, "the config must have v_head_dim but it is missing");
  if (const files::Family* family = files::find_family(part.model_type)) {
    part.pairing_key = family->pairing_key;
  }
  if (part.model_type == "chatglm") part.pairing_key = "original_rope";
  part.has_unread_key = part.pairing_key.empty() && sub.contains("rope_interleave");
  part.has_own_code = config.contains("auto_map");
  part.key_is_there = !part.pairing_key.empty() && sub.contains(part.pairing_key);
  // transformers reads rope_interleave; the other keys are those of remote code, which may have versions without.
  if (!part.key_is_there && part.pairing_key != "rope_interleave") part.pairing_key.clear();
  for (std::size_t i = 0; i < model.ropes.size(); ++i) {
    const ModelRope& rope = model.ropes[i];
    if (rope.part != part.path || rope.coordinates) continue;
    part.ropes.push_back(i);
    for (const std::vector<int>* layers : {&rope.layers, &rope.layers_without_rope}) {
      for (const int layer : *layers) {
        const auto at = static_cast<std::size_t>(layer);
        if (at >= part.rope_of_layer.size()) part.rope_of_layer.resize(at + 1);
        if (layers == &rope.layers) part.rope_of_layer[at] = i;
      }
    }
  }
  return part;
}

}  // namespace rotary::convert
