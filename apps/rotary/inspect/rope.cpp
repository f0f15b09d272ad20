#include "rope.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <type_traits>
#include <utility>

#include "apps/shared/columns.h"
#include "apps/shared/text.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

std::int64_t trained_length(const Scaling& scaling) {
  const auto* length = scalings::value_of<std::int64_t>(scaling, "trained_length");
  return length == nullptr ? 0 : *length;
}

// The stretch of a fully stretched pair: the scaling's factor, or the largest stretch of any pair.
double whole_stretch(const Scaling& scaling, double most) {
  switch (scalings::stretch_of(scaling)) {
    case scalings::Stretch::by_factor:
      return std::min(*scalings::value_of<double>(scaling, "factor"), most);
    case scalings::Stretch::per_pair:
      return 0;
    case scalings::Stretch::none:
    case scalings::Stretch::by_length:
      break;
  }
  return most;
}

const char* effect_of(double stretch, double whole) {
  constexpr double slack = 1e-9;  // for rounding errors, far below any published factor
  if (stretch == 0) return "still";
  if (std::abs(stretch - 1) <= slack) return "kept";
  if (stretch < 1) return "shortened";
  return stretch >= whole * (1 - slack) ? "stretched" : "blended";
}

// ---- for people ----

class Header {
 public:
  explicit Header(const RopeView& view) : view_(view) {}

  void print() {
    add_head();
    add_turning();
    add_scaling();
    constexpr std::size_t max_width = 32;  // a longer value shifts its own origin only
    const Columns columns = Columns({{.width = 18}, {}, {}}, 2, "  ").fit(rows_, max_width);
    for (const Cells& row : rows_) std::cout << columns.line(row) << '\n';
  }

 private:
  std::string origin_of(const std::string& value) const {
    for (const ValueOrigin& known : view_.origins) {
      if (known.value == value) {
        const bool by_default = known.origin == Origin::model_default;
        return (by_default ? "default of " : std::string(name(known.origin)) + ": ") + printable(known.from);
      }
    }
    return "";
  }

  void add(const std::string& key, const std::string& value, const std::string& named) {
    const std::string origin = origin_of(named);
    rows_.push_back(origin.empty() ? Cells{key, value} : Cells{key, value, origin});
  }

  void add_head() {
    const ModelRope& used = *view_.used;
    add("layers", ranges(used.layers), "layers");
    if (!used.layers_without_rope.empty()) add("layers without", ranges(used.layers_without_rope), "layers");
    if (used.heads > 0) {
      add("heads", std::to_string(used.heads), "heads");
      add("kv_heads", std::to_string(used.kv_heads), "kv_heads");
    }
    add("head_dim", std::to_string(used.rope.head_dim), "head_dim");
  }

  void add_turning() {
    const ModelRope& used = *view_.used;
    const int width = used.rope.rotary_dim;
    add("rotary_dim", std::to_string(width) + " elements (" + std::to_string(width / 2) + " pairs)", "rotary_dim");
    if (used.first != 0) add("first", std::to_string(used.first), "first");
    add("pairing", name(used.rope.pairing), "pairing");
    if (used.rope.clockwise) add("direction", direction(used.rope), "direction");
    if (view_.axes > 1) add("axes", axes_text(), "axis");
    if (used.rope.inv_freq.empty()) {
      add("base", significant(used.rope.base, 17), "base");
    } else {
      add("inv_freq", text_of(used.rope.inv_freq), "inv_freq");
    }
    if (!used.rope.multiplier.empty()) add("multiplier", text_of(used.rope.multiplier), "multiplier");
  }

  std::string axes_text() const {
    std::string text = std::to_string(view_.axes) + " (";
    for (int axis = 0; axis < view_.axes; ++axis) {
      const auto pairs = std::count_if(view_.pairs.begin(), view_.pairs.end(),
                                       [axis](const PairView& pair) { return pair.axis == axis; });
      text += (axis == 0 ? "" : ", ") + std::to_string(pairs);
    }
    return text + " pairs)";
  }

  void add_scaling() {
    const Scaling& scaling = view_.used->rope.scaling;
    add("scaling", name(scaling), "scaling");
    scalings::for_each_field(scaling, [this](const auto& field, const auto& value) { add_value(field.name, value); });
    add("attention factor", significant(view_.attention_factor, 17), "attention_factor");
    add("context",
        view_.context > 0 ? std::to_string(view_.context) + " tokens" : "not stated (--length N gives turns)",
        "context");
  }

  // A value without an origin has no effect and is left out.
  template <typename Value>
  void add_value(const std::string& key, const Value& value) {
    const std::string origin = origin_of("scaling." + key);
    if (!origin.empty()) rows_.push_back({"  " + key, text_of(value), origin});
  }

  static std::string text_of(double value) { return significant(value, 10); }
  static std::string text_of(std::int64_t value) { return std::to_string(value); }
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(const std::optional<double>& value) { return value ? significant(*value, 10) : "none"; }
  static std::string text_of(const std::vector<double>& list) {
    const auto [least, most] = std::minmax_element(list.begin(), list.end());
    if (least == list.end()) return "none";
    return std::to_string(list.size()) + " numbers, " + significant(*least, 6) + " to " + significant(*most, 6);
  }

  const RopeView& view_;
  std::vector<Cells> rows_;  // key, value and, where it is known, origin
};

void print_pairs(const RopeView& view) {
  constexpr double circle = 6.283185307179586;
  const bool with_axis = view.axes > 1, with_turns = view.context > 0;
  const auto cells = [=](const std::string& pair, const std::string& axis, const std::string& inv_freq,
                         const std::string& wavelength, const std::string& turns, const std::string& scaling) {
    Cells row = {pair, inv_freq, wavelength, scaling};
    if (with_turns) row.insert(row.end() - 1, turns);
    if (with_axis) row.insert(row.begin() + 1, axis);
    return row;
  };
  std::vector<Cells> rows = {cells("pair", "axis", "inv_freq", "wavelength", "turns", "scaling")};
  for (std::size_t i = 0; i < view.pairs.size(); ++i) {
    const PairView& pair = view.pairs[i];
    const bool turns = pair.inv_freq != 0;
    const bool changed = turns && std::string_view(pair.effect) != "kept";
    rows.push_back(cells(std::to_string(i), std::to_string(pair.axis), significant(pair.inv_freq, 17),
                         turns ? significant(circle / pair.inv_freq, 7) : "-",
                         significant(static_cast<double>(view.context) * pair.inv_freq / circle, 5),
                         pair.effect + (changed ? " x " + significant(pair.stretch, 6) : "")));
  }
  std::vector<Column> columns = {{true, 4}, {true, 22}, {true, 12}, {}};
  if (with_turns) columns.insert(columns.end() - 1, {true, 10});
  if (with_axis) columns.insert(columns.begin() + 1, {true, 4});
  const Columns aligned = Columns(std::move(columns), 2, "  ").fit(rows);
  std::cout << '\n';
  for (const Cells& row : rows) std::cout << aligned.line(row) << '\n';
}

}  // namespace

RopeView view_rope(const ModelRope& used, std::optional<std::int64_t> length) {
  Rope plain = used.rope;
  plain.scaling = Unscaled{};
  const std::vector<double> unscaled = frequencies(plain, 0).inv_freq;
  const Frequencies scaled = frequencies(used.rope, length.value_or(0));
  RopeView view;
  view.used = &used;
  view.axes = scaled.axes();
  view.attention_factor = scaled.attention_factor;
  view.context = length.value_or(used.context > 0 ? used.context : trained_length(used.rope.scaling));
  view.origins = used.origins;
  std::erase_if(view.origins, [&](const ValueOrigin& known) { return length && known.value == "context"; });
  if (length) view.origins.push_back({"context", Origin::given, "--length"});
  if (!length && used.context == 0 && view.context > 0) {
    view.origins.push_back({"context", Origin::derived, "trained_length"});
  }
  double most = 1;
  for (std::size_t i = 0; i < scaled.inv_freq.size(); ++i) {
    PairView pair;
    pair.axis = scaled.axis.empty() ? 0 : scaled.axis[i];
    pair.inv_freq = scaled.inv_freq[i];
    pair.stretch = pair.inv_freq == 0 ? 0 : unscaled[i] / pair.inv_freq;
    most = std::max(most, pair.stretch);
    view.pairs.push_back(pair);
  }
  for (PairView& pair : view.pairs) pair.effect = effect_of(pair.stretch, whole_stretch(used.rope.scaling, most));
  return view;
}

Json json_of(const RopeView& view) {
  const ModelRope& used = *view.used;
  Json parameters = Json::object();
  scalings::for_each_field(used.rope.scaling, [&](const auto& field, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::optional<double>>) {
      parameters[field.name] = value ? Json(*value) : Json(nullptr);
    } else {
      parameters[field.name] = value;
    }
  });
  Json inv_freq = Json::array();
  Json axis = Json::array();
  Json effect = Json::array();
  for (const PairView& pair : view.pairs) {
    inv_freq.push_back(pair.inv_freq);
    axis.push_back(pair.axis);
    effect.push_back(pair.effect);
  }
  Json origins = Json::object();
  for (const ValueOrigin& known : view.origins) {
    origins[known.value] = {{"origin", name(known.origin)}, {"from", known.from}};
  }
  return {{"part", used.part},
          {"layers", used.layers},
          {"layers_without_rope", used.layers_without_rope},
          {"heads", used.heads},
          {"kv_heads", used.kv_heads},
          {"head_dim", used.rope.head_dim},
          {"rotary_dim", used.rope.rotary_dim},
          {"first", used.first},
          {"pairing", name(used.rope.pairing)},
          {"direction", direction(used.rope)},
          {"base", used.rope.inv_freq.empty() ? Json(used.rope.base) : Json(nullptr)},
          {"scaling", name(used.rope.scaling)},
          {"scaling_parameters", std::move(parameters)},
          {"attention_factor", view.attention_factor},
          {"inv_freq", std::move(inv_freq)},
          {"axis", std::move(axis)},
          {"context", view.context},
          {"trained_length", trained_length(used.rope.scaling)},
          {"effect", std::move(effect)},
          {"origins", std::move(origins)}};
}

void print_rope(const RopeView& view, std::size_t index) {
  const std::string& part = view.used->part;
  std::cout << "\nrope " << index << (part.empty() ? "" : " of " + printable(part)) << '\n';
  Header(view).print();
  print_pairs(view);
}

}  // namespace rotary::cli
