// Ropes of several axes: vision towers, and M-RoPE in the text model beside them.
#include <algorithm>
#include <numeric>

#include "rotary/error.h"
#include "rotary/makers.h"
#include "stages.h"
#include "values/fail.h"
#include "values/names.h"

namespace rotary::files {
namespace {

int sum_of(const std::vector<int>& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

// The layout is the class's own; no file says it.
void record_layout(const Part& part, const ModelRope& model) {
  part.derived("rotary_dim", std::string(part.family.tower->width));
  if (model.first != 0) part.derived("first", "head_dim / 2");
  part.by_default("axis");
  part.derived("attention_factor", "1 for default");
}

void add_blocks(const Part& part, std::vector<ModelRope> blocks) {
  for (ModelRope& model : blocks) {
    record_layout(part, model);
    model.origins = part.origins().of_rope();
    part.reading.model.ropes.push_back(std::move(model));
  }
}

// One rope for each number of key heads that layers have for themselves.
void add_by_kv_heads(const Part& part, const std::vector<Layer>& layers, const ModelRope& whole) {
  auto& ropes = part.reading.model.ropes;
  const std::size_t begin = ropes.size();
  for (const int i : whole.layers) {
    const Layer& layer = layers[static_cast<std::size_t>(i)];
    const int kv_heads = layer.kv_heads != 0 ? layer.kv_heads : whole.kv_heads;
    auto found = std::find_if(ropes.begin() + static_cast<std::ptrdiff_t>(begin), ropes.end(),
                              [kv_heads](const ModelRope& rope) { return rope.kv_heads == kv_heads; });
    if (found == ropes.end()) {
      part.origins().add(layer.origins);
      found = ropes.insert(ropes.end(), whole);
      found->kv_heads = kv_heads;
      found->layers.clear();
      found->origins = part.origins().of_rope();
    }
    found->layers.push_back(i);
  }
}

// The counts of pairs that the key lists, of three axes, or four where that is allowed; nothing without the key.
std::optional<std::vector<int>> given_sections(const Object& keys, const char* key, bool four = false) {
  const auto given = keys.integers(key);
  if (given && given->size() != 3 && !(four && given->size() == 4))
    keys.refuse(key, four ? "must have three or four sections" : "must have three sections");
  for (const int section : given.value_or(std::vector<int>())) {
    if (section < 0 || section > 16384) keys.refuse(key, "must list counts of pairs");
  }
  return given;
}

// Ling 3 VL: mrope_section stands beside the text_config, and in its rope too where transformers saved the file.
std::optional<std::vector<int>> sections_beside(const Part& part, const std::optional<Object>& keys) {
  const Object file(*part.reading.file, "", part.reading.ledger);
  const auto beside = given_sections(file, "mrope_section");
  const auto inside = keys ? keys->integers("mrope_section") : std::nullopt;
  if (beside && inside && *beside != *inside) keys->refuse("mrope_section", "must be that of the whole file");
  if (beside && !inside) part.origins().read("axis", file, "mrope_section");
  return inside ? std::nullopt : beside;
}

// "mrope_section" and its relatives, else the family's.
std::vector<int> sections_of(const Part& part, const std::optional<Object>& keys, int pairs) {
  const bool four = part.family.axes == Axes::xdrope;
  if (part.family.axes == Axes::bailing) {
    if (const auto beside = sections_beside(part, keys)) return *beside;
  }
  for (const char* key : {"mrope_section", "xdrope_section"}) {
    const auto given = keys ? given_sections(*keys, key, four) : std::nullopt;
    if (!given) continue;
    part.origins().read("axis", *keys, key);
    return *given;
  }
  std::vector<int> sections;
  for (const int section : part.family.sections) {
    if (section > 0) sections.push_back(section);
  }
  if (part.family.sections_are_weights) {
    const int sum = sum_of(sections);
    for (int& section : sections) section = pairs * section / sum;
    sections[0] += pairs - sum_of(sections);
  }
  if (sum_of(sections) != pairs && part.family.axes != Axes::interleaved) sections.clear();
  if (!sections.empty()) {
    std::string listed;
    for (const int section : sections) listed += (listed.empty() ? "" : ", ") + std::to_string(section);
    part.note(NoteKind::model_default, "mrope_section is not given: [", listed, "], the default of ", part.name());
    part.by_default("axis");
  }
  return sections;
}

}  // namespace

std::vector<std::uint8_t> interleaved_by(std::vector<int> sections, int pairs) {
  sections[0] += std::max(pairs - sum_of(sections), 0);
  auto axis = interleaved_axes(sections);
  axis.resize(static_cast<std::size_t>(pairs));
  return axis;
}

void read_vision_part(const Part& part) {
  part.origins() = {};
  const std::vector<Layer> layers = read_layers(part);
  const RopeOfLayer rope_of = rope_source(part, layers);
  const HeadShape heads = head_shape(part, Layer{});
  ModelRope model;
  model.part = part.path;
  model.coordinates = true;
  model.heads = heads.heads;
  model.kv_heads = part.family.shape.kv_heads != 0 ? heads.kv_heads : heads.heads;
  model.rope.head_dim = heads.head_dim;
  part.by_default("pairing");
  model.rope.pairing =
      given_pairing(part, part.family.pairing, detail::familiar(part.family.pairing) + " of " + part.name());
  std::optional<RopeKeys> keys;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].turns && !keys) keys = rope_of(layers[i]);
    if (layers[i].turns) model.layers.push_back(static_cast<int>(i));
  }
  part.add_to_model(static_cast<int>(layers.size())).model_type.clear();
  if (!keys) {  // LFM3-VL's first layers are convolutions
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"}) ignore_known(part.keys, key);
    return part.note(NoteKind::no_rope, "no layer has a rope");
  }
  if (keys->type != "default" && keys->type != "axial") {
    keys->scaling->refuse(keys->scaling->has("rope_type") ? "rope_type" : "type",
                          "must be default or axial for a vision tower");
  }
  model.rope.base = keys->base;
  if (keys->partial.value_or(1) != 1 && !part.family.reads_partial) {
    part.note(NoteKind::unread, "partial_rotary_factor has no effect: transformers turns the whole head of ",
              part.name());
  }
  const Tower& tower = *part.family.tower;
  tower.layout->lay_out(part, *keys, model.rope);
  if (keys->scaling) {
    for (const char* key : {"rope_type", "type"}) keys->scaling->mark(key);
  }
  part.note(NoteKind::axes, tower.words);
  if (!part.family.remark.text.empty()) part.note(NoteKind::model, part.family.remark.text);
  const std::vector<std::string_view> axes = words(tower.axes);
  model.axis_names.assign(axes.begin(), axes.end());
  if (const auto blocks = tower.layout->blocks) return add_blocks(part, blocks(model));
  record_layout(part, model);
  add_by_kv_heads(part, layers, model);
}

void set_mrope_axes(const Part& part, const std::optional<Object>& keys, ModelRope& model) {
  Rope& rope = model.rope;
  Axes axes = part.family.axes;
  Axes declared = Axes::sectioned;
  for (const auto& [key, layout] : {std::pair("interleaved", Axes::interleaved),
                                    {"mrope_interleaved", Axes::interleaved},
                                    {"mrope_interleaved_glm", Axes::glm}}) {
    if (!keys || !keys->has(key) || (part.known && axes == Axes::one && !keys->has("mrope_section"))) continue;
    const bool on = keys->boolean(key, false);
    if (on) declared = layout;
    if (axes != Axes::one && axes != Axes::openpangu && on != (axes == layout)) {
      part.note(NoteKind::unread, keys->path_of(key), " has no effect: transformers lays the axes of ", part.name(),
                " out by its own rule");
    }
  }
  if (axes == Axes::one && keys && keys->has("mrope_section")) {
    axes = declared;
    if (part.known) {
      part.note(NoteKind::axes, "mrope_section in a ", part.name(),
                ": M-RoPE, as vLLM and SGLang read it in every model; transformers gives all pairs one position (text ",
                "tokens agree)");
    }
  }
  if (axes == Axes::openpangu && declared != Axes::interleaved) axes = declared;
  if (keys && keys->text("rope_type").value_or(keys->text("type").value_or("")) == "video_rope") axes = Axes::bailing;
  if (axes == Axes::one) return;
  const int pairs = rope.rotary_dim / 2;
  if (axes == Axes::alternating) {
    for (int i = 0; i < pairs; ++i) rope.axis.push_back(static_cast<std::uint8_t>(i % 2));
    part.by_default("axis");
    model.axis_names = {"height", "width"};
    return part.note(NoteKind::axes,
                     "pairs turn by the row (axis 0) and the column (axis 1) alternately; for text both are the same");
  }
  std::vector<int> sections = sections_of(part, keys, pairs);
  if (sections.empty()) {
    part.note(NoteKind::axes, "mrope_section is not given and no default fits: every pair turns by axis 0");
    return;
  }
  const int sum = sum_of(sections);
  model.axis_names = {"time", "height", "width"};
  if (axes == Axes::xdrope) {  // vLLM's hunyuan_vision.py
    model.axis_names = {"width", "height", "time"};
    if (sections.size() == 4) model.axis_names.insert(model.axis_names.begin(), "position");
  }
  if (axes == Axes::interleaved) {
    rope.axis = interleaved_by(sections, pairs);
    if (sum != pairs) {
      part.note(NoteKind::axes, "mrope_section sums to ", sum, " for ", pairs,
                " pairs: filled by position, as in transformers");
    }
    return;
  }
  if (sum != pairs) {
    fail(Code::CONFIG_VALUE, "read_config", "mrope_section of ", part.path.empty() ? "the config" : part.path,
         " must sum to the ", pairs, " pairs but sums to ", sum);
  }
  rope.axis = axes == Axes::ernie       ? ernie_axes(sections)
              : axes == Axes::bailing   ? videorope_axes(sections)
              : axes == Axes::openpangu ? openpangu_axes(sections)
              : axes == Axes::glm       ? glm_axes(sections)
                                        : sectioned_axes(sections);
  if (axes == Axes::ernie || axes == Axes::bailing)
    part.note(NoteKind::axes, "axes t, h, w: pairs turn by h and w alternately, the last ones by t");
  if (axes == Axes::xdrope) {
    part.note(NoteKind::axes,
              "the sections count pairs, as in vLLM; transformers gives the two members of an image "
              "token's pair different axes (text tokens agree)");
  }
}

}  // namespace rotary::files
