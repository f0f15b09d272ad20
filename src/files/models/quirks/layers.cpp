// Layers that differ from the rest of their model, and a model that rotates clockwise.
#include <algorithm>

#include "files/config/stages.h"

namespace rotary::files {
namespace {

// Sapiens 2: the first and the last layers have a key head for each head, those between share.
void share_between(const Part& part, std::vector<Layer>& layers) {
  if (part.keys.has("num_key_value_heads_per_layer")) return;
  const auto read = [&](const char* key) {
    return static_cast<std::size_t>(part.keys.integer(key, 0, max_layers).value_or(8));
  };
  constexpr const char* key = "num_key_value_attention_heads";
  const std::size_t first = read("num_first_full_attention_layers");
  const std::size_t last = read("num_last_full_attention_layers");
  const std::size_t kv_heads = read(key);
  const From from = part.keys.has(key) ? from_key(part.keys, key) : From{Origin::model_default, part.name()};
  for (std::size_t i = first; i + last < layers.size(); ++i) {
    layers[i].kv_heads = static_cast<int>(kv_heads);
    layers[i].origins.push_back({"kv_heads", from.origin, from.from});
  }
  part.note("the layers between the first " + std::to_string(first) + " and the last " + std::to_string(last) +
            " share " + std::to_string(kv_heads) + " key heads");
}

// Step 3.5: rope_scaling bends the layer types of that list.
std::optional<bool> yarn_only(const Part& part, const std::string& layer_type) {
  const auto listed = part.keys.texts("yarn_only_types");
  if (!listed || listed->empty()) return std::nullopt;
  return std::find(listed->begin(), listed->end(), layer_type) != listed->end();
}

// NeoMME: the whole head turns in the sliding layers.
std::optional<double> whole_where_sliding(const Layer& layer) {
  return has_sliding_rope(layer.type) ? std::optional(1.0) : std::nullopt;
}

// nanochat rotates by minus the angle.
void turn_clockwise(const Part&, ModelRope& model) { model.rope.clockwise = true; }

constexpr Quirk rows[] = {
    {.name = "nanochat", .rope = turn_clockwise},
    {.name = "neomme", .partial = whole_where_sliding},
    {.name = "sapiens2", .layers = share_between},
    {.name = "step3p5", .lists_bases = true, .is_scaled = yarn_only},
};

}  // namespace

constexpr std::span<const Quirk> quirks::layers = rows;

}  // namespace rotary::files
