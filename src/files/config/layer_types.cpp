// The type of each layer: as written, from lists of indices, or the model_type's own pattern.
#include <algorithm>

#include "files/text/io.h"
#include "rotary/error.h"
#include "stages.h"

namespace rotary::files {
namespace {

std::string type_named(char letter) {
  switch (letter) {
    case 's':
      return "sliding_attention";
    case 'l':
      return "linear_attention";
    case 'h':
      return "hybrid";
    case 'i':
      return "indexed_attention";
    default:
      return "full_attention";
  }
}

// Old and remote-code names.
std::string modern(const std::string& type) {
  if (type == "attention" || type == "global_attention" || type == "full") return "full_attention";
  if (type == "local_attention" || type == "sliding") return "sliding_attention";
  if (type == "mamba" || type == "mamba2" || type == "recurrent" || type == "linear") return "linear_attention";
  return type;
}

// The types of layers without attention.
bool is_known_without_attention(const std::string& type) {
  static constexpr std::string_view known[] = {"linear_attention", "conv", "moe", "mlp", "sparse", "dense"};
  return std::find(std::begin(known), std::end(known), type) != std::end(known);
}

// The class default pattern, stretched to the file's own period where it has one.
std::string pattern_of(Reading& reading, const Part& part) {
  std::string pattern(part.family.pattern.types);
  if (part.family.pattern.period_key.empty()) return pattern;
  const auto period = part.keys.integer(part.family.pattern.period_key, 1, 10000);
  if (!period) return pattern;
  const bool full_first = pattern.front() == 'f';
  const char other = full_first ? pattern.back() : pattern.front();
  pattern.assign(static_cast<std::size_t>(*period), other);
  (full_first ? pattern.front() : pattern.back()) = 'f';
  reading.note(part.path, "layer_types are not given: made from " + std::string(part.family.pattern.period_key));
  reading.origins.read("layers", part.keys, part.family.pattern.period_key);
  return pattern;
}

std::vector<std::string> default_types(Reading& reading, const Part& part, std::size_t layers) {
  if (part.family.pattern.types.size() > 1) reading.origins.by_default("layers", part.name());
  const std::string pattern = pattern_of(reading, part);
  std::vector<std::string> types(layers);
  if (pattern.empty()) return types;
  for (std::size_t i = 0; i < layers; ++i) {
    types[i] = type_named(pattern[i % pattern.size()]);
  }
  if (part.family.pattern.first != 0) types.front() = type_named(part.family.pattern.first);
  if (part.family.pattern.ends_full || part.family.pattern.last_full) types.back() = "full_attention";
  if (part.family.pattern.types.size() > 1) {
    reading.note(part.path,
                 "layer_types are not given: the pattern of " + part.name() + " (" + types.front() + ", ...)");
  }
  return types;
}

// attn_layer_indices (Bamba), full_attn_idxs (LFM2): the layers that attend; the others do not.
std::optional<std::vector<std::string>> types_from_indices(Reading& reading, const Part& part, std::size_t layers) {
  if (const auto flags = part.keys.integers("attn_type_list")) {  // MiniMax-01
    if (flags->size() != layers) {
      part.keys.refuse("attn_type_list", "must have one entry for each of the " + std::to_string(layers) + " layers");
    }
    reading.origins.read("layers", part.keys, "attn_type_list");
    std::vector<std::string> types;
    for (const int flag : *flags) types.push_back(flag == 1 ? "full_attention" : "linear_attention");
    return types;
  }
  if (const auto slides = integer_per_layer(reading, part, "hybrid_layer_pattern", layers)) {  // MiMo-V2
    reading.origins.read("layers", part.keys, "hybrid_layer_pattern");
    std::vector<std::string> types;
    for (const int flag : *slides) types.push_back(flag == 1 ? "sliding_attention" : "full_attention");
    return types;
  }
  const auto step = part.keys.integer("mamba_step", 2, 10000);
  if (step && part.keys.boolean("mamba_enabled", true)) {  // PLaMo 2: the middle one of each step attends
    reading.origins.read("layers", part.keys, "mamba_step");
    const auto period = static_cast<std::size_t>(*step);
    std::vector<std::string> types(layers, "linear_attention");
    for (std::size_t i = period / 2; i < layers; i += period) types[i] = "full_attention";
    if (layers <= period / 2) types.back() = "full_attention";
    return types;
  }
  for (const char* key : {"attn_layer_indices", "full_attn_idxs"}) {
    const auto indices = part.keys.integers(key);
    if (!indices) continue;
    reading.origins.read("layers", part.keys, key);
    std::vector<std::string> types(layers, "linear_attention");
    for (const int i : *indices) {
      if (i < 0 || static_cast<std::size_t>(i) >= layers) {
        part.keys.refuse(key, "must list layers from 0 to " + std::to_string(layers - 1));
      }
      types[static_cast<std::size_t>(i)] = "full_attention";
    }
    return types;
  }
  return std::nullopt;
}

std::vector<std::string> types_as_written(Reading& reading, const Part& part, std::size_t layers) {
  for (const char* key : {"layer_types", "layers_block_type"}) {
    auto types = part.keys.texts(key);
    if (!types) continue;
    reading.origins.read("layers", part.keys, key);
    if (types->size() < layers) {
      part.keys.refuse(key, "must have one entry for each of the " + std::to_string(layers) + " layers");
    }
    if (types->size() > layers) {
      reading.note(part.path, std::string(key) + " has more entries than there are layers: the last " +
                                  std::to_string(types->size() - layers) + " are not read");
      types->resize(layers);
    }
    std::transform(types->begin(), types->end(), types->begin(), modern);
    for (const std::string& type : *types) {
      if (!attends(type) && !is_known_without_attention(type)) {
        part.keys.refuse(key,
                         "must list known layer types (full_attention, sliding_attention, mamba, conv, ...), not " +
                             in_quotes(type));
      }
    }
    if (part.family.pattern.last_full) types->back() = "full_attention";
    return *types;
  }
  if (auto types = types_from_indices(reading, part, layers)) return *types;
  if (const auto period = part.keys.texts("block_types"); period && !period->empty()) {  // RecurrentGemma
    reading.origins.read("layers", part.keys, "block_types");
    std::vector<std::string> types;
    for (std::size_t i = 0; i < layers; ++i) types.push_back(modern((*period)[i % period->size()]));
    return types;
  }
  return default_types(reading, part, layers);
}

}  // namespace

bool attends(const std::string& type) {
  if (type == "linear_attention") return false;
  return type.empty() || type.find("attention") != std::string::npos || type.starts_with("hybrid") ||
         type == "minimax_m3_sparse" || type == "main" || type == "compress";
}

bool slides(const std::string& type) { return type == "sliding_attention" || type == "hybrid_sliding"; }

bool has_sliding_rope(const std::string& type) { return slides(type) || type == "main"; }

std::vector<std::string> layer_types(Reading& reading, const Part& part, std::size_t layers) {
  std::vector<std::string> types = types_as_written(reading, part, layers);
  if (part.family.pattern.types.find('i') != std::string_view::npos) {  // older files say full_attention
    std::replace(types.begin(), types.end(), type_named('f'), type_named('i'));
  }
  if (part.family.old == Old::scaling_to_compress) {
    const auto ratios = part.keys.integers("compress_ratios");
    for (std::size_t i = 0; i < layers; ++i) {
      const bool slides = types[i] == "sliding_attention" || (ratios && i < ratios->size() && (*ratios)[i] == 0);
      types[i] = slides ? "main" : "compress";
    }
    if (ratios) reading.origins.read("layers", part.keys, "compress_ratios");
  }
  return types;
}

}  // namespace rotary::files
