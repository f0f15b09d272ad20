// Ropes of several axes: vision towers, and M-RoPE in the text model beside them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "rotary/error.h"
#include "stages.h"

namespace rotary::files {
namespace {

void require_multiple(const Part& part, int head_dim, int of) {
  if (head_dim % of == 0) return;
  throw Error(Code::CONFIG_VALUE, "[read_config] " + part.keys.path_of("head_dim") + " must be a multiple of " +
                                  std::to_string(of) + " for a rope of two axes but got " + std::to_string(head_dim));
}

// Each axis has quarter pairs with the frequencies b^(-2k/(D/2)), k = 0, 1, ...
void two_axes(Rope& rope, Axes axes) {
  const int quarter = rope.head_dim / 4;
  rope.rotary_dim = rope.head_dim;
  rope.exponent_dim = rope.head_dim / 2;
  for (int i = 0; i < 2 * quarter; ++i) {
    const bool by_turns = axes == Axes::column_row_by_turns || axes == Axes::row_column_by_turns;
    const bool rows_first = axes == Axes::row_column || axes == Axes::row_column_by_turns;
    const int run = by_turns ? i % 2 : i / quarter;
    rope.index.push_back(by_turns ? i / 2 : i % quarter);
    rope.axis.push_back(static_cast<std::uint8_t>(rows_first ? run : 1 - run));
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

// ESMFold 2: x, y, z and the token's number, each with its own run; the spatial ones have a base of their own. What is
// left of the head stands still.
void space_and_token(Reading& reading, const Part& part, Rope& rope) {
  const Object& keys = part.keys;
  const auto each = static_cast<int>(keys.integer("num_spatial_rope_pairs_per_axis", 0, 16384).value_or(2));
  const auto token = static_cast<int>(keys.integer("num_uid_rope_pairs", 0, 16384).value_or(10));
  const double spatial_base = keys.number("spatial_rope_base_frequency").value_or(20);
  if (!(spatial_base > 1) || !std::isfinite(spatial_base)) {
    keys.refuse("spatial_rope_base_frequency", "must be above 1");
  }
  const int pairs = rope.head_dim / 2;
  if (3 * each + token > pairs) {
    keys.refuse("num_uid_rope_pairs", "and three times num_spatial_rope_pairs_per_axis must fit into the " +
                                          std::to_string(pairs) + " pairs of a head");
  }
  rope.rotary_dim = 2 * pairs;
  rope.axis.assign(static_cast<std::size_t>(pairs), 3);
  rope.inv_freq.assign(static_cast<std::size_t>(pairs), 0);
  reading.origins.derived("inv_freq", "spatial_rope_base_frequency^(-i / n) in space, base^(-i / n) of the token");
  for (int i = 0; i < 3 * each + token; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool spatial = i < 3 * each;
    const double exponent = spatial ? double(i % each) / each : double(i - 3 * each) / token;
    rope.inv_freq[at] = std::pow(spatial ? spatial_base : rope.base, -exponent);
    if (spatial) rope.axis[at] = static_cast<std::uint8_t>(i / each);
  }
  reading.note(part.path,
               "the spatial axes have base " + spelled(spatial_base) + ", the token's axis " + spelled(rope.base));
}

// Music Flamingo: two runs of partial * head_dim elements each.
void window_and_frame(const Part& part, double partial, Rope& rope) {
  const auto run = static_cast<int>(rope.head_dim * partial);
  if (run < 2 || run % 2 != 0 || 2 * run > rope.head_dim) {
    throw Error(Code::CONFIG_VALUE, "[read_config] partial_rotary_factor * " + part.keys.path_of("head_dim") +
                                    " must be even and twice fit into the head but got " + std::to_string(run));
  }
  rope.rotary_dim = 2 * run;
  rope.exponent_dim = run;
  for (int i = 0; i < run; ++i) {
    rope.index.push_back(i % (run / 2));
    rope.axis.push_back(static_cast<std::uint8_t>(i / (run / 2)));
  }
}

double partial_of(Reading& reading, const Part& part, const RopeKeys& keys) {
  if (keys.partial) return *keys.partial;
  const auto top = part.keys.number(part.family.partial_key);
  if (top) reading.origins.read("partial", part.keys, part.family.partial_key);
  return top.value_or(part.family.partial);
}

// EfficientLoFTR: the fraction of an attention head must make half of the width, a run for each axis.
void require_half(const Part& part, double partial, int width) {
  const auto heads = part.keys.integer("num_attention_heads", 1, 65536).value_or(part.family.shape.heads);
  const auto run = static_cast<int>(static_cast<double>(width / static_cast<int>(heads)) * partial);
  if (2 * run == width) return;
  throw Error(Code::CONFIG_VALUE, "[read_config] " + part.keys.path_of(part.family.partial_key) +
                                  " of a head must make half of the " + std::to_string(width) + " elements but makes " +
                                  std::to_string(run));
}

const char* words_of(Axes axes) {
  switch (axes) {
    case Axes::row_column:
      return "axis 0 is the row, axis 1 the column: rows first, frequencies restart";
    case Axes::column_row:
      return "axis 0 is the row, axis 1 the column: columns first, frequencies restart";
    case Axes::column_row_by_turns:
      return "axis 0 is the row, axis 1 the column: pair by pair, columns first";
    case Axes::row_column_by_turns:
      return "axis 0 is the row, axis 1 the column: pair by pair, rows first";
    case Axes::row_even_column_odd:
      return "axis 0 is the row (even frequencies), axis 1 the column (odd ones)";
    case Axes::blocks:
      return "axis 0 is the row, axis 1 the column: each turns its own half of the head, columns first";
    case Axes::space_and_token:
      return "axes 0 to 2 are x, y and z, axis 3 the token";
    case Axes::window_and_frame:
      return "axis 0 is the window, axis 1 the frame in it; frequencies restart";
    case Axes::time_row_column:
      return "axes are time, row and column; frequencies restart";
    default:
      return "";
  }
}

const char* width_of(Axes axes) {
  switch (axes) {
    case Axes::blocks:
      return "head_dim / 2";
    case Axes::time_row_column:
      return "6 * floor(head_dim / 6)";
    case Axes::window_and_frame:
      return "2 * head_dim * partial_rotary_factor";
    default:
      return "head_dim";
  }
}

// The layout is the class's own; no file says it.
void record_layout(Origins& origins, const Part& part, const ModelRope& model) {
  origins.derived("rotary_dim", width_of(part.family.axes));
  if (model.first != 0) origins.derived("first", "head_dim / 2");
  origins.usual("axis", part.name());
  origins.derived("attention_factor", "1 for default");
}

void add_blocks(Reading& reading, const Part& part, ModelRope model) {
  const int half = model.rope.head_dim / 2;
  model.rope.rotary_dim = half;
  for (int block = 0; block < 2; ++block) {
    model.first = block * half;
    model.rope.axis.assign(static_cast<std::size_t>(half / 2), static_cast<std::uint8_t>(1 - block));
    record_layout(reading.origins, part, model);
    model.origins = reading.origins.of_rope();
    reading.model.ropes.push_back(model);
  }
}

// One rope for each number of key heads that layers have for themselves.
void add_by_kv_heads(Reading& reading, const std::vector<Layer>& layers, const ModelRope& whole) {
  const std::size_t begin = reading.model.ropes.size();
  for (const int i : whole.layers) {
    const Layer& layer = layers[static_cast<std::size_t>(i)];
    const int kv_heads = layer.kv_heads != 0 ? layer.kv_heads : whole.kv_heads;
    auto& ropes = reading.model.ropes;
    auto found = std::find_if(ropes.begin() + static_cast<std::ptrdiff_t>(begin), ropes.end(),
                              [kv_heads](const ModelRope& rope) { return rope.kv_heads == kv_heads; });
    if (found == ropes.end()) {
      reading.origins.add(layer.origins);
      found = ropes.insert(ropes.end(), whole);
      found->kv_heads = kv_heads;
      found->layers.clear();
      found->origins = reading.origins.of_rope();
    }
    found->layers.push_back(i);
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
    reading.origins.read("axis", *keys, key);
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
    reading.origins.usual("axis", part.name());
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
  reading.origins = {};
  const std::vector<Layer> layers = read_layers(reading, part);
  const RopeSource source(reading, part, layers);
  const HeadShape heads = head_shape(reading, part, Layer{});
  ModelRope model;
  model.part = part.path;
  model.heads = heads.heads;
  model.kv_heads = part.family.shape.kv_heads != 0 ? heads.kv_heads : heads.heads;
  model.rope.head_dim = heads.head_dim;
  model.rope.pairing = reading.options.pairing.value_or(part.family.pairing);
  reading.origins.usual("pairing", part.name());
  if (reading.options.pairing) reading.origins.given("pairing", "--pairing");
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
  if (keys->partial.value_or(1) != 1 && !part.family.reads_partial) {
    reading.note(part.path, "partial_rotary_factor has no effect: transformers turns the whole head of " + part.name());
  }
  const Axes axes = part.family.axes;
  if (axes == Axes::time_row_column) {
    three_axes(model.rope);
  } else if (axes == Axes::space_and_token) {
    space_and_token(reading, part, model.rope);
  } else if (axes == Axes::window_and_frame) {
    window_and_frame(part, partial_of(reading, part, *keys), model.rope);
  } else {
    require_multiple(part, heads.head_dim, 4);
    if (axes == Axes::row_even_column_odd) even_and_odd(model.rope);
    if (part.family.one_head) require_half(part, partial_of(reading, part, *keys), heads.head_dim);
    if (axes <= Axes::row_column_by_turns) two_axes(model.rope, axes);
  }
  if (keys->scaling) {
    for (const char* key : {"rope_type", "type"}) keys->scaling->mark(key);
  }
  reading.note(part.path, words_of(axes));
  if (!part.family.remark.empty()) reading.note(part.path, std::string(part.family.remark));
  if (axes == Axes::blocks) return add_blocks(reading, part, std::move(model));
  record_layout(reading.origins, part, model);
  add_by_kv_heads(reading, layers, model);
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
  if (axes == Axes::alternating) {
    for (int i = 0; i < pairs; ++i) rope.axis.push_back(static_cast<std::uint8_t>(i % 2));
    reading.origins.usual("axis", part.name());
    return reading.note(part.path, "axis 0 is the row, axis 1 the column, pair by pair; text gives both the same");
  }
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
    throw Error(Code::CONFIG_VALUE, "[read_config] mrope_section of " + (part.path.empty() ? "the config" : part.path) +
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
