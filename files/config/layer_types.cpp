// The type of each layer: as in the file, from lists of indices, or by the model_type's pattern.
#include <algorithm>

#include "rotary/error.h"
#include "stages.h"
#include "text/io.h"

namespace rotary::files {
namespace {

std::string type_named(LayerKind kind) {
  constexpr const char* types[] = {"full_attention",
                                   "sliding_attention",
                                   "full_attention",
                                   "linear_attention",
                                   "hybrid",
                                   "indexed_attention",
                                   "mlp"};
  return types[static_cast<std::size_t>(kind)];
}

// The modern name of old names and of names in remote code.
std::string modern(const std::string& type) {
  if (type == "attention" || type == "global_attention" || type == "full") return "full_attention";
  if (type == "local_attention" || type == "sliding") return "sliding_attention";
  if (type == "mamba" || type == "mamba2" || type == "recurrent" || type == "linear") return "linear_attention";
  return type;
}

// The class default pattern, stretched to the file's period, if it has one.
std::vector<LayerKind> pattern_of(const Part& part) {
  std::vector<LayerKind> pattern = part.family.pattern.types;
  if (part.family.pattern.period_key.empty()) return pattern;
  const auto period = part.keys.integer(part.family.pattern.period_key, 1, 10000);
  if (!period) return pattern;
  const bool full_first = pattern.front() == LayerKind::full;
  const LayerKind other = full_first ? pattern.back() : pattern.front();
  pattern.assign(static_cast<std::size_t>(*period), other);
  (full_first ? pattern.front() : pattern.back()) = LayerKind::full;
  part.note(NoteKind::derived, "layer_types are not given: made from ", part.family.pattern.period_key);
  part.record("layers", part.family.pattern.period_key);
  return pattern;
}

std::vector<std::string> default_types(const Part& part, std::size_t layers) {
  if (part.family.pattern.types.size() > 1) part.by_default("layers");
  const std::vector<LayerKind> pattern = pattern_of(part);
  std::vector<std::string> types(layers);
  if (pattern.empty()) return types;
  for (std::size_t i = 0; i < layers; ++i) {
    types[i] = type_named(pattern[i % pattern.size()]);
  }
  if (part.family.pattern.first != LayerKind::none) types.front() = type_named(part.family.pattern.first);
  if (part.family.pattern.ends_full || part.family.pattern.last_full) types.back() = "full_attention";
  const std::string_view period = part.family.pattern.period_key;
  const bool noted = !period.empty() && part.keys.has(period);
  if (part.family.pattern.types.size() > 1 && !noted) {
    part.note(NoteKind::model_default, "layer_types are not given: the pattern of ", part.name(), " (", types.front(),
              ", ...)");
  }
  return types;
}

// A list of flags, one for each layer, and the types for 1 and for other numbers.
struct FlagList {
  const char *key, *one, *other;
};
constexpr FlagList minimax = {"attn_type_list", "full_attention", "linear_attention"};
constexpr FlagList mimo = {"hybrid_layer_pattern", "sliding_attention", "full_attention"};

std::vector<std::string> types_from_flags(const Part& part, const FlagList& list, const std::vector<int>& flags) {
  part.record("layers", list.key);
  std::vector<std::string> types;
  for (const int flag : flags) types.emplace_back(flag == 1 ? list.one : list.other);
  return types;
}

// Types from flags, or from a list of the layers with attention.
std::optional<std::vector<std::string>> types_from_numbers(const Part& part, std::size_t layers) {
  if (const auto flags = part.keys.integers(minimax.key)) {
    if (flags->size() != layers) {
      part.keys.refuse(minimax.key, "must have one entry for each of the ", layers, " layers");
    }
    return types_from_flags(part, minimax, *flags);
  }
  if (const auto flags = per_layer(part, mimo.key, layers, part.keys.integers(mimo.key))) {
    return types_from_flags(part, mimo, *flags);
  }
  std::vector<std::string> types(layers, "linear_attention");
  const auto step = part.keys.integer("mamba_step", 2, 10000);
  if (step && part.keys.boolean("mamba_enabled", true)) {  // PLaMo 2: the middle layer of each step has attention
    part.record("layers", "mamba_step");
    const auto period = static_cast<std::size_t>(*step);
    for (std::size_t i = period / 2; i < layers; i += period) types[i] = "full_attention";
    if (layers <= period / 2) types.back() = "full_attention";
    return types;
  }
  for (const char* key : {"attn_layer_indices", "full_attn_idxs"}) {  // Bamba, LFM2
    const auto indices = part.keys.integers(key);
    if (!indices) continue;
    part.record("layers", key);
    for (const int i : *indices) {
      if (i < 0 || static_cast<std::size_t>(i) >= layers) {
        part.keys.refuse(key, "must list layers from 0 to ", layers - 1);
      }
      types[static_cast<std::size_t>(i)] = "full_attention";
    }
    return types;
  }
  return std::nullopt;
}

std::vector<std::string> types_as_written(const Part& part, std::size_t layers) {
  for (const char* key : {"layer_types", "layers_block_type"}) {
    auto types = part.keys.texts(key);
    if (!types) continue;
    part.record("layers", key);
    if (types->size() < layers) {
      part.keys.refuse(key, "must have one entry for each of the ", layers, " layers");
    }
    if (types->size() > layers) {
      part.note(NoteKind::unread, key, " has more entries than there are layers: the last ", types->size() - layers,
                " are not read");
      types->resize(layers);
    }
    std::transform(types->begin(), types->end(), types->begin(), modern);
    for (const std::string& type : *types) {
      if (!attends(type) && !is_listed(type, "linear_attention conv moe mlp sparse dense")) {
        part.keys.refuse(key, "must list known layer types (full_attention, sliding_attention, mamba, conv, ...), not ",
                         in_quotes(type));
      }
    }
    if (part.family.pattern.last_full) types->back() = "full_attention";
    return *types;
  }
  if (auto types = types_from_numbers(part, layers)) return *types;
  if (const auto period = part.keys.texts("block_types"); period && !period->empty()) {  // RecurrentGemma
    part.record("layers", "block_types");
    std::vector<std::string> types;
    for (std::size_t i = 0; i < layers; ++i) types.push_back(modern((*period)[i % period->size()]));
    return types;
  }
  return default_types(part, layers);
}

}  // namespace

bool attends(const std::string& type) {
  if (type == "linear_attention") return false;
  return type.empty() || type.find("attention") != std::string::npos || type.starts_with("hybrid") ||
         type == "minimax_m3_sparse" || type == "main" || type == "compress";
}

bool slides(const std::string& type) { return type == "sliding_attention" || type == "hybrid_sliding"; }

bool has_sliding_rope(const std::string& type) { return slides(type) || type == "main"; }

std::vector<std::string> layer_types(const Part& part, std::size_t layers) {
  std::vector<std::string> types = types_as_written(part, layers);
  const std::vector<LayerKind>& own = part.family.pattern.types;
  if (std::find(own.begin(), own.end(), LayerKind::indexed) != own.end()) {  // older files say full_attention
    std::replace(types.begin(), types.end(), type_named(LayerKind::full), type_named(LayerKind::indexed));
  }
  if (part.family.old == Old::scaling_to_compress) {
    const auto ratios = part.keys.integers("compress_ratios");
    for (std::size_t i = 0; i < layers; ++i) {
      const bool slides = types[i] == "sliding_attention" || (ratios && i < ratios->size() && (*ratios)[i] == 0);
      types[i] = slides ? "main" : "compress";
    }
    if (ratios) part.record("layers", "compress_ratios");
  }
  return types;
}

}  // namespace rotary::files
