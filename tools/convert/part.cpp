#include <algorithm>

#include "plan.h"

namespace rotary::conversion {
namespace {

using files::Json;
using tools::is_of_another_model;

bool flag(const Json& keys, const std::string& key, bool default_value) {
  const auto found = keys.find(key);
  return found != keys.end() && found->is_boolean() ? found->get<bool>() : default_value;
}

// The one text model with ropes.
std::string path_of_text(const Model& model, TextPart& part) {
  std::vector<std::string> paths;
  for (const ModelRope& rope : model.ropes) {
    std::vector<std::string>& list = rope.coordinates || is_of_another_model(rope.part) ? part.other_parts : paths;
    if (std::find(list.begin(), list.end(), rope.part) == list.end()) list.push_back(rope.part);
  }
  if (paths.size() == 1) return paths[0];
  if (paths.empty()) {
    fail(Code::ROPE, operation, "a checkpoint must have a text model that rotates its q and k but ",
         model.model_type.empty() ? "this one" : model.model_type, " has none");
  }
  fail(Code::MODEL_TYPE, operation, "a checkpoint must have one text model but ", model.model_type,
       " has several: ", paths[0], " and ", paths[1]);
}

files::AttentionFacts attention_of(const Json& keys, const std::string& model_type, const files::Family& family) {
  if (flag(keys, "rotary_value", false)) {
    fail(Code::MODEL_TYPE, operation,
         "a model must rotate q and k alone but rotary_value is true: its values rotate too");
  }
  files::AttentionFacts attention = family.attention;
  if (!attention.why_not.empty()) {
    fail(Code::MODEL_TYPE, operation, "a model must rotate the outputs of its q and k projections, which ", model_type,
         " does not: ", attention.why_not);
  }
  for (const files::FusedWhere& where : attention.fused_where) {
    if (!flag(keys, std::string(where.key), where.default_value)) continue;
    attention.fused = where.fused;
    break;
  }
  return attention;
}

void place_ropes(const Model& model, TextPart& part) {
  for (std::size_t i = 0; i < model.ropes.size(); ++i) {
    const ModelRope& rope = model.ropes[i];
    if (rope.part != part.path || rope.coordinates) continue;
    part.ropes.push_back(i);
    part.rope_of_layer.resize(static_cast<std::size_t>(part_of(model, rope.part).layers));
    for (const int layer : rope.layers) part.rope_of_layer[static_cast<std::size_t>(layer)] = i;
  }
}

}  // namespace

std::int64_t TextPart::number(std::string_view key) const {
  constexpr std::uint64_t most = 1U << 30;
  const auto found = keys.find(key);
  if (found == keys.end() || !found->is_number_integer()) return 0;
  const auto count = found->get<std::uint64_t>();  // above `most` if it is negative
  if (count > most)
    fail(Code::CONFIG_VALUE, operation, key, " must be from 0 to ", most, " but got ", files::shown(*found));
  return static_cast<std::int64_t>(count);
}

std::string TextPart::json(const std::string& key) const { return keys.contains(key) ? keys.at(key).dump() : ""; }

bool TextPart::is_drafting(const std::string& stack, int layer) const {
  return tools::is_draft(stack) || layer >= static_cast<int>(rope_of_layer.size());
}

TextPart text_part(const Json& config, const Model& model) {
  TextPart part;
  part.path = path_of_text(model, part);
  place_ropes(model, part);
  const Json* own = files::object_at(config, part.path);  // a key with a dot in its name is no path
  if (own == nullptr) {
    fail(Code::ROPE, operation, "a config must hold an object at the place of its rope but ", in_quotes(part.path),
         " is no object");
  }
  const Json& keys = part.keys = *own;
  const ModelRope& first = model.ropes[part.ropes.front()];
  const ModelPart& read = part_of(model, part.path);
  part.model_type = read.model_type.empty() ? model.model_type : read.model_type;
  static const files::Family unknown;
  const files::Family* known = files::find_family(part.model_type);
  const files::Family& family = known == nullptr ? unknown : *known;
  part.attention = attention_of(keys, part.model_type, family);
  const bool mla = family.mla.rope != 0 || keys.contains("kv_lora_rank");  // as in params.json
  part.latent = mla && first.first != 0;
  for (const Json* object : {&config, &keys}) {
    for (const char* key : {"quantization_config", "compression_config"})
      if (object->contains(key) && object->at(key).is_object()) part.quantization = object->at(key);
  }
  if (part.attention.indexer.pairing != Pairing::unset) part.attention.indexer = {};  // its own, whatever the attention
  if (part.attention.indexer.heads != 0) part.indexer = read.indexer;
  for (const auto& [key, value] : config.items())
    part.beside_towers = part.beside_towers || (value.is_object() && is_of_another_model(key));
  if (part.attention.gated_by_value && part.number("v_head_dim") == 0)
    fail(Code::CONFIG_MISSING, operation, "the config must have v_head_dim but it is missing");
  part.pairing_key = family.pairing_key.empty() ? family.attention.pairing_key : family.pairing_key;
  // transformers reads rope_interleave; remote code reads the other keys, and may have versions without.
  if (part.pairing_key != "rope_interleave" && !keys.contains(part.pairing_key)) part.pairing_key.clear();
  part.has_own_code = config.contains("auto_map");
  return part;
}

}  // namespace rotary::conversion
