#include "layers.h"

#include <algorithm>

#include "files/models/families.h"
#include "files/text/io.h"
#include "files/text/json.h"
#include "files/text/json_edit.h"
#include "names.h"
#include "values/fail.h"

namespace rotary::conversion {
namespace {

constexpr const char* operation = "convert";
using files::Json;

std::int64_t integer_of(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}
bool flag_of(const Json& object, const std::string& key, bool default_value) {
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
    const auto take = [&found](const char* key, Json& value) {
      if (const auto given = found->find(key); given != found->end() && !given->is_null()) value = *given;
    };
    take("bits", quantization.bits);
    take("w_bit", quantization.bits);
    take("weight_block_size", quantization.block);
    quantization.unknown_packing = unknown_packing(*found);
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

const files::Family& family_of(const std::string& model_type) {
  static const files::Family unknown;
  const files::Family* family = files::find_family(model_type);
  return family == nullptr ? unknown : *family;
}

files::AttentionFacts attention_of(const Json& json, const std::string& model_type) {
  if (flag_of(json, "rotary_value", false)) {
    fail(Code::MODEL_TYPE, operation,
         "a model must rotate q and k alone but rotary_value is true: its values rotate too");
  }
  files::AttentionFacts attention = family_of(model_type).attention;
  if (!attention.why_not.empty()) {
    fail(Code::MODEL_TYPE, operation,
         "a model must rotate the outputs of its q and k projections, which " + model_type +
             " does not: " + std::string(attention.why_not));
  }
  for (const files::FusedWhere& where : attention.fused_where) {
    if (!flag_of(json, std::string(where.key), where.default_value)) continue;
    attention.fused = where.fused;
    break;
  }
  return attention;
}

// DeepSeek-V3.2's rotates in halves, whatever the attention does.
void read_indexer(const Json& sub, TextPart& part) {
  const files::Indexer& usual = part.attention.indexer;
  if (usual.heads == 0) return;
  const auto size = [&](const char* key, std::int64_t default_value) {
    const std::int64_t value = sub.contains(key) ? integer_of(sub, key) : default_value;
    return static_cast<int>(std::clamp<std::int64_t>(value, 0, 1 << 20));
  };
  part.indexer = {size("index_n_heads", usual.heads), size("index_head_dim", usual.head_dim)};
  if (sub.contains(indexer_key)) part.indexer_interleaved = flag_of(sub, indexer_key, true);
}

void read_pairing_key(const Json& config, const Json& sub, TextPart& part) {
  const files::Family& family = family_of(part.model_type);
  part.pairing_key = family.pairing_key.empty() ? family.attention.pairing_key : family.pairing_key;
  part.has_unread_key = part.pairing_key.empty() && sub.contains("rope_interleave");
  part.has_own_code = config.contains("auto_map");
  part.key_is_there = !part.pairing_key.empty() && sub.contains(part.pairing_key);
  // transformers reads rope_interleave; remote code reads the other keys, and may have versions without.
  if (!part.key_is_there && part.pairing_key != "rope_interleave") part.pairing_key.clear();
}

void place_ropes(const Model& model, TextPart& part) {
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
}

}  // namespace

bool TextPart::is_drafting(const std::string& stack, int layer) const {
  return is_draft(stack) || layer >= static_cast<int>(rope_of_layer.size());
}

TextPart text_part(const Json& config, const Model& model) {
  TextPart part;
  part.path = path_of_text(model, part);
  const Json& sub = sub_config(config, part.path);
  const ModelRope& first = model.ropes[part.first_rope];
  part.model_type = first.model_type.empty() ? model.model_type : first.model_type;
  part.attention = attention_of(sub, part.model_type);
  const bool mla = family_of(part.model_type).mla.rope != 0 || sub.contains("kv_lora_rank");  // as in params.json
  part.latent = mla && first.first != 0;
  read_quantization(config, part.quantization);
  if (!part.path.empty()) read_quantization(sub, part.quantization);
  part.latent_rows = integer_of(sub, "kv_lora_rank");
  part.value_dim = integer_of(sub, "v_head_dim");
  read_indexer(sub, part);
  for (const auto& [key, value] : config.items())
    part.beside_towers = part.beside_towers || (value.is_object() && is_of_another_model(key));
  part.first_layer = part.attention.first_layer;
  if (!part.attention.layers_in_stack.empty())
    part.layers_in_stack = integer_of(sub, std::string(part.attention.layers_in_stack));
  part.keys_may_be_missing = integer_of(sub, "num_kv_shared_layers") > 0 || sub.contains("kv_source_layers");
  if (part.attention.gated_by_value && part.value_dim == 0)
    fail(Code::CONFIG_MISSING, operation, "the config must have v_head_dim but it is missing");
  read_pairing_key(config, sub, part);
  place_ropes(model, part);
  return part;
}

}  // namespace rotary::conversion
