// One rope as rotary inspect shows it.
#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "diagnose/findings.h"
#include "shared/text.h"
#include "shown.h"
#include "values/effects.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

void set_origins(RopeView& view, const ModelRope& used, std::optional<std::int64_t> length) {
  view.origins = used.origins;
  if (length) set_origin(view.origins, {"context", {OriginKind::chosen, "--length"}});
  if (!length && view.stated_context == 0 && view.context > 0) {
    view.origins.push_back({"context", {OriginKind::derived, "trained_length"}});
  }
}

void set_pairs(RopeView& view) {
  const Frequencies& scaled = view.frequencies;
  if (scaled.head_rows > 1 || scaled.summed_axes > 0) return;  // a pair has several speeds
  Rope plain = view.used->rope;
  plain.scaling = Unscaled{};
  const std::vector<double> unscaled = frequencies(plain, 0).inv_freq;
  const auto effects = scalings::effects_of(unscaled, scaled.inv_freq, view.used->rope.scaling);
  for (std::size_t i = 0; i < effects.size(); ++i) {
    const int axis = scaled.axis.empty() ? 0 : scaled.axis[i];
    view.pairs.push_back({axis, scaled.inv_freq[i], effects[i].stretch, effects[i].name});
  }
}

Json lengths_json(const Lengths& lengths) {
  if (*lengths.word == '\0') return nullptr;
  return {{"which", lengths.word},
          {"least", lengths.least},
          {"most", lengths.most > 0 ? Json(lengths.most) : Json(nullptr)}};
}

// Adds inv_freq as [axes, pairs] or [heads, axes, pairs] for a rope with rows per head or sums of axes.
void add_equation(Json& json, const Frequencies& f) {
  if (f.head_rows > 1 || f.summed_axes > 0) {
    const std::vector<Json> values(f.inv_freq.begin(), f.inv_freq.end());
    const std::int64_t shape[] = {f.head_rows, std::max(1, f.summed_axes), f.pairs()};
    json["inv_freq"] = nested(values, std::span(shape).subspan(f.head_rows > 1 ? 0 : 1));
  }
}

}  // namespace

RopeView view_rope(const Model& model, const ModelRope& used, std::optional<std::int64_t> length) {
  RopeView view;
  view.used = &used;
  view.layers_without_rope = layers_without_rope(model, used.part);
  view.has_own_layers = std::ranges::any_of(
      model.ropes, [&](const ModelRope& other) { return other.part == used.part && other.layers != used.layers; });
  if (std::ranges::count(model.ropes, used.part, &ModelRope::part) > 1) view.layer_types = layer_types_of(model, used);
  view.stated_context = part_of(model, used.part).context;
  view.frequencies = frequencies(used.rope, length.value_or(0));
  for (int axis = 0; axis < view.frequencies.axes(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    view.axis_names.push_back(at < used.axis_names.size() ? used.axis_names[at] : std::to_string(axis));
  }
  view.context = length.value_or(view.stated_context > 0 ? view.stated_context : trained_length(used.rope.scaling));
  view.lengths = lengths_of(used.rope, view.frequencies, length.value_or(0));
  view.turns_over = view.lengths.most > 0 ? std::min(view.context, view.lengths.most) : view.context;
  set_origins(view, used, length);
  set_pairs(view);
  return view;
}

double wavelength_of(const PairView& pair) {
  constexpr double circle = 6.283185307179586;
  return circle / pair.inv_freq;
}

Json rope_json(const RopeView& view) {
  const ModelRope& used = *view.used;
  Json inv_freq = Json::array(), axis = Json::array(), effect = Json::array();
  Json wavelength = Json::array(), stretch = Json::array();
  for (const PairView& pair : view.pairs) {
    const bool turns = pair.inv_freq != 0;
    inv_freq.push_back(pair.inv_freq);
    axis.push_back(pair.axis);
    effect.push_back(pair.effect);
    wavelength.push_back(finite_or_null(wavelength_of(pair)));
    stretch.push_back(turns ? finite_or_null(pair.stretch) : Json(nullptr));
  }
  Json origins = Json::object();
  for (const ValueOrigin& known : view.origins) {
    origins[known.value] = {
        {"origin", origin_word(known.origin.kind)}, {"from", known.origin.key}, {"kind", name(known.origin.kind)}};
  }
  const std::int64_t reach = reach_of(used, view.stated_context);
  Json json = {{"part", used.part},
               {"layers", used.layers},
               {"layers_without_rope", view.layers_without_rope},
               {"heads", used.heads},
               {"kv_heads", used.kv_heads},
               {"head_dim", used.rope.head_dim},
               {"rotary_dim", used.rope.rotary_dim},
               {"first", used.first},
               {"pairing", name(used.rope.pairing)},
               {"direction", direction(used.rope)},
               {"base", used.rope.inv_freq.empty() ? Json(used.rope.base) : Json(nullptr)},
               {"scaling", name(used.rope.scaling)},
               {"scaling_parameters", diagnose::fields_json(used.rope.scaling)},
               {"attention_factor", view.frequencies.attention_factor},
               {"softmax_factor", used.softmax_factor},
               {"inv_freq", std::move(inv_freq)},
               {"axis", std::move(axis)},
               {"axis_names", view.axis_names.size() > 1 ? view.axis_names : std::vector<std::string>{}},
               {"context", view.context},
               {"trained_length", trained_length(used.rope.scaling)},
               {"reach", reach > 0 ? Json(reach) : Json(nullptr)},
               {"lengths", lengths_json(view.lengths)},
               {"effect", std::move(effect)},
               {"wavelength", std::move(wavelength)},
               {"stretch", std::move(stretch)},
               {"origins", std::move(origins)}};
  add_equation(json, view.frequencies);
  return json;
}

}  // namespace rotary::cli
