// Which layers multiply their queries by the position, and how: by the rows of "query_scales" in
// files/models/models.json.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "stages.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// Off only where the file says so; numbers as Python takes them.
bool says_off(const Object& keys, std::string_view key) {
  const Json* given = keys.peek(key);
  return given != nullptr && !given->is_null() && (*given == false || *given == 0);
}

bool is_of(const QueryRow& row, const Part& part) {
  if (row.object == "gguf") return row.type == part.family.type && part.keys.path() == row.type;  // keys "llama4.x"
  return row.type.empty() || row.type == part.family.type ||
         (!part.known && !row.turns_on.empty() && part.keys.has(row.turns_on));
}

// The scale that the keys say; empty where the file has no such factor. scaling: the scaling of the rope whose object
// has the keys; its trained length precedes the length key.
std::optional<QueryScale> scale_of(const QueryRow& row, const Object& keys, const Scaling& scaling) {
  QueryScale scale = row.scale;
  const auto amount = row.amount_key.empty() ? std::nullopt : keys.number(row.amount_key);
  if (!row.amount_key.empty() && !amount && scale.amount == 0) return std::nullopt;
  scale.amount = amount.value_or(scale.amount);
  if (std::fabs(scale.amount) > max_factor) keys.refuse(row.amount_key, "must be at most ", spelled(max_factor));
  const Json* length = row.length_key.empty() ? nullptr : keys.peek(row.length_key);
  if (length != nullptr && scale.form == QueryForm::ratio && length->is_number() && *length <= 0)
    return std::nullopt;  // Grok
  if (length != nullptr) scale.length = keys.length(row.length_key, max_length).value_or(0);
  if (row.object == "rope" && scalings::has_key(scaling, row.length_key))
    scale.length = *scalings::value_of<std::int64_t>(scaling, "trained_length");
  if (length == nullptr && row.length_key == "rope.scaling.original_context_length")
    scale.length = keys.length("context_length", max_length).value_or(0);
  if (row.object == "gguf" && scale.amount != 0 && scale.length == 0)
    keys.refuse(row.amount_key, "must stand beside ", keys.path_of(row.length_key));
  if (scale.form == QueryForm::ratio && scale.length == 1) keys.refuse(row.length_key, "must be at least 2");
  if (scale.length == 0 && scale.form != QueryForm::learned) return std::nullopt;
  return scale;
}

// vLLM muse_spark/nvidia/model.py: of the draft alone (MuseSparkDSparkConfig), whose global layers global_attn_cfg
// counts from the last one on. Muse Spark itself, in transformers too, has no such factor.
void refuse_draft(const Part& part) {
  constexpr std::string_view floor = "attn_temperature_tuning_floor_scale";
  const Json* amount = part.keys.peek("attn_temperature_tuning_q_scale_constant");
  if (part.family.type == "muse_spark_text" || !part.keys.has(floor) || amount == nullptr || amount->is_null()) return;
  part.keys.refuse(floor,
                   "must be absent: by it Muse Spark's draft multiplies queries of some layers, which is not read,");
}

bool is_on_by_default(const QueryRow& row, const Part& part) {
  return !row.turns_on.empty() && !part.keys.has(row.turns_on);
}

// "attn_temperature_tuning, on by default"
std::string source_of(const QueryRow& row, const Part& part, const Object& keys) {
  if (!row.turns_on.empty()) return std::string(row.turns_on) + (is_on_by_default(row, part) ? ", on by default" : "");
  const std::string_view key = row.amount_key.empty() ? row.length_key : row.amount_key;
  return key.empty() ? "the code of " + part.name() : keys.path_of(key);
}

}  // namespace

void read_query_scale(const Part& part, const std::optional<Object>& of_rope, const Scaling& scaling,
                      std::size_t layers, const std::vector<int>& chosen) {
  refuse_draft(part);
  for (const QueryRow& row : query_rows()) {
    if (!is_of(row, part) || says_off(part.keys, row.turns_on) || (row.chosen && chosen.empty())) continue;
    const auto keys = row.object.empty() || row.object == "gguf" ? std::optional(part.keys)
                      : row.object == "rope"                     ? of_rope
                                                                 : part.keys.object(row.object);
    const auto scale = keys ? scale_of(row, *keys, scaling) : std::nullopt;
    if (!scale && row.object == "rope" && keys && keys->number(row.amount_key).value_or(0) != 0)
      part.note(NoteKind::query_scale, keys->path_of(row.amount_key), " multiplies no queries, because ",
                row.length_key, " is not given");
    if (!scale) continue;
    ModelQueryScale found{part.path, *scale, chosen, source_of(row, part, *keys)};
    if (!row.chosen) {
      found.layers.resize(layers);
      std::iota(found.layers.begin(), found.layers.end(), 0);
    }
    part.note(NoteKind::query_scale, found.from, (is_on_by_default(row, part) ? "," : ""),
              " multiplies the queries of ", (found.layers.size() == layers ? "every layer" : "some layers"),
              " by the position, ", formula(*scale), ", beside the rotation",
              (scale->form == QueryForm::learned ? "" : " (query_scale)"));
    part.reading.model.query_scales.push_back(std::move(found));
  }
}

void read_query_scale_without_rope(const Part& part) {
  const std::span<const QueryRow> rows = query_rows();
  const auto row = std::ranges::find(rows, part.family.type, &QueryRow::type);
  if (row == rows.end()) return;
  const auto layers = part.keys.integer("num_hidden_layers", 1, max_layers).value_or(row->layers);
  const auto types = part.keys.texts("layer_types");
  const auto local = part.keys.integers("local_layer_ids");
  std::vector<int> whole;  // every sixth layer unless the file says it
  for (int i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool local_layer = types   ? at < types->size() && slides((*types)[at])
                             : local ? std::find(local->begin(), local->end(), i) != local->end()
                                     : (i + 1) % 6 != 0;
    if (!local_layer) whole.push_back(i);
  }
  part.add_to_model(static_cast<int>(layers));
  read_query_scale(part, {}, Unscaled{}, static_cast<std::size_t>(layers), whole);
}

}  // namespace rotary::files

namespace rotary {

QueryScale query_scale_of(const Model& model, std::string_view part, std::optional<int> layer) {
  const int count = part_of(model, part).layers;
  if (layer && count != 0 && (*layer < 0 || *layer >= count))
    fail(Code::ROPE, "query_scale", "the layer must be one of the model's layers, 0 to ", count - 1, ", but got ",
         *layer);
  for (const ModelQueryScale& known : model.query_scales) {
    if (known.part != part) continue;
    const bool has = layer && std::find(known.layers.begin(), known.layers.end(), *layer) != known.layers.end();
    if (!layer && !is_everywhere(model, known))
      fail(Code::ROPE, "query_scale",
           "a layer must be named where some multiply their queries by the position and some do not, but got none: of ",
           model.model_type, " the first that does is ", known.layers.front());
    return !layer || has ? known.scale : QueryScale{};
  }
  return {};
}

std::vector<float> query_scale(const Model& model, std::span<const std::int64_t> positions, std::optional<int> layer) {
  const std::vector<ModelQueryScale>& known = model.query_scales;
  std::string part = model.ropes.empty() ? "" : model.ropes.front().part;
  const bool has = std::ranges::find(known, part, &ModelQueryScale::part) != known.end();
  if (!has && !known.empty()) part = known.front().part;
  return query_scale(query_scale_of(model, part, layer), positions);
}

}  // namespace rotary
