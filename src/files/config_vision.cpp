// Ropes of several axes: vision towers, and M-RoPE in the text model beside them.
#include <numeric>

#include "config.h"
#include "rotary/error.h"

namespace rotary::files {
namespace {

void require_multiple(const Part& part, int head_dim, int of) {
  if (head_dim % of == 0) return;
  throw Error("CONFIG_VALUE", "[read_config] " + part.keys.path_of("head_dim") + " must be a multiple of " +
                                  std::to_string(of) + " for a rope of two axes but got " + std::to_string(head_dim));
}

// Each axis has quarter pairs with the frequencies b^(-2k/(D/2)), k = 0, 1, ...
void two_axes(Rope& rope, Axes axes) {
  const int quarter = rope.head_dim / 4;
  rope.rotary_dim = rope.head_dim;
  rope.exponent_dim = rope.head_dim / 2;
  for (int i = 0; i < 2 * quarter; ++i) {
    const bool by_turns = axes == Axes::column_row_by_turns;
    const int run = by_turns ? i % 2 : i / quarter;
    rope.index.push_back(by_turns ? i / 2 : i % quarter);
    rope.axis.push_back(static_cast<std::uint8_t>(axes == Axes::row_column ? run : 1 - run));
  }
}

// Pixtral: one run b^(-2j/D); rows take the even j, columns the odd ones.
void even_and_odd(Rope& rope) {
  const int quarter = rope.head_dim / 4;
  rope.rotary_dim = rope.exponent_dim = rope.head_dim;
  for (int axis = 0; axis < 2; ++axis) {
    for (int k = 0; k < quarter; ++k) {
      rope.index.push_back(2 * k + axis);
      rope.axis.push_back(static_cast<std::uint8_t>(axis));
    }
  }
}

// Time, row, column: the head's pairs in three equal runs of even width; what is left over stands still.
void three_axes(Rope& rope) {
  const int run = 2 * (2 * (rope.head_dim / 2) / 3 / 2);
  rope.rotary_dim = 3 * run;
  rope.exponent_dim = run;
  for (int axis = 0; axis < 3; ++axis) {
    for (int k = 0; k < run / 2; ++k) {
      rope.index.push_back(k);
      rope.axis.push_back(static_cast<std::uint8_t>(axis));
    }
  }
}

const char* words_of(Axes axes) {
  switch (axes) {
    case Axes::row_column:
      return "axis 0 is the row, axis 1 the column: rows first, frequencies restart";
    case Axes::column_row:
      return "axis 0 is the row, axis 1 the column: columns first, frequencies restart";
    case Axes::column_row_by_turns:
      return "axis 0 is the row, axis 1 the column: pair by pair, columns first";
    case Axes::row_even_column_odd:
      return "axis 0 is the row (even frequencies), axis 1 the column (odd ones)";
    case Axes::blocks:
      return "axis 0 is the row, axis 1 the column: each turns its own half of the head, columns first";
    case Axes::time_row_column:
      return "axes are time, row and column; frequencies restart";
    default:
      return "";
  }
}

void add_blocks(Reading& reading, ModelRope model) {
  const int half = model.rope.head_dim / 2;
  model.rope.rotary_dim = half;
  for (int block = 0; block < 2; ++block) {
    model.first = block * half;
    model.rope.axis.assign(static_cast<std::size_t>(half / 2), static_cast<std::uint8_t>(1 - block));
    reading.model.ropes.push_back(model);
  }
}

// "mrope_section" and its relatives, else the family's.
std::vector<int> sections_of(Reading& reading, const Part& part, const std::optional<Object>& keys, int pairs) {
  const bool four = part.family.axes == Axes::xdrope;
  for (const char* key : {"mrope_section", "xdrope_section"}) {
    const auto given = keys ? keys->integers(key) : std::nullopt;
    if (!given) continue;
    if (given->size() != 3 && !(four && given->size() == 4)) {
      keys->refuse(key, four ? "must have three or four sections" : "must have three sections");
    }
    for (const int section : *given) {
      if (section < 0 || section > 16384) keys->refuse(key, "must list counts of pairs");
    }
    return *given;
  }
  std::vector<int> sections;
  for (const int section : part.family.sections) {
    if (section > 0) sections.push_back(section);
  }
  const bool fits = std::accumulate(sections.begin(), sections.end(), 0) == pairs;
  if (!fits && part.family.axes != Axes::interleaved) sections.clear();
  if (!sections.empty()) {
    std::string listed;
    for (const int section : sections) listed += (listed.empty() ? "" : ", ") + std::to_string(section);
    reading.note(part.path, "mrope_section is not given: [" + listed + "], the default of " + part.name());
  }
  return sections;
}

// The frameworks fill an interleaved layout by position: sections need not sum to the pairs.
std::vector<std::uint8_t> fitted(std::vector<int> sections, int pairs) {
  const int sum = std::accumulate(sections.begin(), sections.end(), 0);
  if (sum < pairs) sections[0] += pairs - sum;
  auto axis = interleaved_axes(sections);
  axis.resize(static_cast<std::size_t>(pairs));
  return axis;
}

}  // namespace

bool is_vision(Axes axes) noexcept { return axes >= Axes::row_column; }

void read_vision_part(Reading& reading, const Part& part) {
  const std::vector<Layer> layers = read_layers(reading, part);
  const RopeSource source(reading, part, layers);
  const HeadShape heads = head_shape(reading, part, Layer{});
  ModelRope model;
  model.part = part.path;
  model.heads = heads.heads;
  model.kv_heads = heads.heads;
  model.rope.head_dim = heads.head_dim;
  model.rope.pairing = reading.options.pairing.value_or(part.family.pairing);
  if (model.rope.pairing != part.family.pairing) {
    reading.note(part.path, std::string("the pairing given, ") + name(model.rope.pairing) + ", overrides " +
                                name(part.family.pairing) + " of " + part.name());
  }
  std::optional<RopeKeys> keys;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].turns && !keys) keys = source.of(layers[i]);
    (layers[i].turns ? model.layers : model.layers_without_rope).push_back(static_cast<int>(i));
  }
  if (!keys) return;
  if (keys->type != "default" && keys->type != "axial") {
    keys->scaling->refuse(keys->scaling->has("rope_type") ? "rope_type" : "type",
                          "must be default or axial for a vision tower");
  }
  model.rope.base = keys->base;
  const Axes axes = part.family.axes;
  if (axes == Axes::time_row_column) {
    three_axes(model.rope);
  } else {
    require_multiple(part, heads.head_dim, 4);
    if (axes == Axes::row_even_column_odd) even_and_odd(model.rope);
    if (axes == Axes::row_column || axes == Axes::column_row || axes == Axes::column_row_by_turns) {
      two_axes(model.rope, axes);
    }
  }
  if (keys->scaling) {
    for (const char* key : {"rope_type", "type"}) keys->scaling->mark(key);
  }
  reading.note(part.path, words_of(axes));
  if (!part.family.remark.empty()) reading.note(part.path, std::string(part.family.remark));
  if (axes == Axes::blocks) return add_blocks(reading, std::move(model));
  reading.model.ropes.push_back(std::move(model));
}

void set_mrope_axes(Reading& reading, const Part& part, const std::optional<Object>& keys, Rope& rope) {
  Axes axes = part.family.axes;
  std::optional<bool> interleaved;
  for (const char* key : {"interleaved", "mrope_interleaved"}) {
    if ((axes == Axes::one && part.known) || !keys || !keys->has(key)) continue;
    interleaved = keys->boolean(key);
    if (part.known && *interleaved != (axes == Axes::interleaved)) {
      reading.note(part.path, keys->path_of(key) + " has no effect: transformers lays the axes of " + part.name() +
                                  " out by its own rule");
    }
  }
  if (!part.known && keys && keys->has("mrope_section")) {
    axes = interleaved.value_or(false) ? Axes::interleaved : Axes::sectioned;
  }
  if (axes == Axes::one) return;
  const int pairs = rope.rotary_dim / 2;
  const std::vector<int> sections = sections_of(reading, part, keys, pairs);
  if (sections.empty()) {
    reading.note(part.path, "mrope_section is not given, nor a default that fits: every pair listens to axis 0");
    return;
  }
  const int sum = std::accumulate(sections.begin(), sections.end(), 0);
  if (axes == Axes::interleaved) {
    rope.axis = fitted(sections, pairs);
    if (sum != pairs) {
      reading.note(part.path, "mrope_section sums to " + std::to_string(sum) + " for " + std::to_string(pairs) +
                                  " pairs: filled by position, as in transformers");
    }
    return;
  }
  if (sum != pairs) {
    throw Error("CONFIG_VALUE", "[read_config] mrope_section of " + (part.path.empty() ? "the config" : part.path) +
                                    " must sum to the " + std::to_string(pairs) + " pairs but sums to " +
                                    std::to_string(sum));
  }
  rope.axis = axes == Axes::ernie ? ernie_axes(sections) : sectioned_axes(sections);
  if (axes == Axes::ernie) reading.note(part.path, "axes t, h, w; pairs alternate h and w, the last listen to t");
  if (axes == Axes::xdrope) {
    reading.note(part.path,
                 "the sections count pairs, as in vLLM; transformers gives the two members of an image "
                 "token's pair different axes (text tokens agree)");
  }
}

}  // namespace rotary::files
