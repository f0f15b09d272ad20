#include "model_sheet.h"

#include <algorithm>

#include "apps/shared/text.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

std::string or_unknown(int size) { return size > 0 ? std::to_string(size) : "-"; }

std::string heads_text(const ModelRope& model) {
  const bool grouped = model.kv_heads > 0 && model.kv_heads != model.heads;
  return or_unknown(model.heads) + (grouped ? "/" + std::to_string(model.kv_heads) : "");
}

std::string rotary_dim_text(const ModelRope& model, double partial) {
  if (model.rope.rotary_dim == 0) return significant(100 * partial, 4) + "%";
  return std::to_string(model.rope.rotary_dim) + (model.first > 0 ? " from " + std::to_string(model.first) : "");
}

std::string base_text(const Rope& rope) { return rope.inv_freq.empty() ? significant(rope.base, 10) : "-"; }

std::string scaling_text(const Scaling& scaling) {
  const auto* factor = scalings::value_of<double>(scaling, "factor");
  return name(scaling) + (factor == nullptr ? "" : " " + significant(*factor, 6));
}

std::size_t layers_in_all(const std::vector<ModelRope>& ropes) {
  int last = -1;
  for (const ModelRope& model : ropes) {
    for (const auto* layers : {&model.layers, &model.layers_without_rope}) {
      if (!layers->empty()) last = std::max(last, layers->back());
    }
  }
  return static_cast<std::size_t>(last + 1);
}

std::string layers_text(const ModelRope& model, std::size_t all) {
  if (model.layers.empty()) return "-";
  const std::string own = std::to_string(model.layers.size());
  return model.layers.size() == all ? own : own + " of " + std::to_string(all);
}

}  // namespace

int axes_of(const Rope& rope) { return Frequencies{.axis = rope.axis, .summed_axes = rope.summed_axes}.axes(); }

std::vector<SheetRow> sheet_rows(const std::vector<ModelRope>& ropes, double partial) {
  const std::size_t all = layers_in_all(ropes);
  std::vector<SheetRow> rows;
  for (const ModelRope& model : ropes) {
    const Rope& rope = model.rope;
    rows.push_back({.heads = heads_text(model),
                    .head_dim = or_unknown(rope.head_dim),
                    .rotary_dim = rotary_dim_text(model, partial),
                    .pairing = std::string(name(rope.pairing)) + (rope.clockwise ? ", clockwise" : ""),
                    .base = base_text(rope),
                    .scaling = scaling_text(rope.scaling),
                    .axes = std::to_string(axes_of(rope)),
                    .layers = layers_text(model, all)});
  }
  return rows;
}

}  // namespace rotary::cli
