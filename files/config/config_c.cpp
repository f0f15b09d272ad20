// rotary_config_c.h.
#include "rotary/rotary_config_c.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "c/guarded.h"
#include "c/structs.h"
#include "rotary/config.h"
#include "text/paths.h"

struct rotary_model {
  rotary::Model values;
  std::vector<std::string> notes;  // its sentences

  explicit rotary_model(rotary::Model model) : values(std::move(model)), notes(rotary::sentences_of(values.notes)) {}
};

namespace rotary::c {
namespace {

ConfigOptions options_of(std::int32_t pairing) {
  ConfigOptions options;
  if (pairing != 0) options.pairing = pairing_of("model", pairing);
  return options;
}

const ModelRope& rope_at(const rotary_model* model, std::int32_t rope) {
  check_given("model", "model", model);
  const auto& ropes = model->values.ropes;
  if (rope >= 0 && static_cast<std::size_t>(rope) < ropes.size()) return ropes[static_cast<std::size_t>(rope)];
  fail(Code::ROPE, "model", "rope must be one of the model's ", ropes.size(), ", from 0, but got ", rope);
}

bool has_note(const rotary_model* model, std::int32_t note) {
  return model != nullptr && note >= 0 && static_cast<std::size_t>(note) < model->notes.size();
}

}  // namespace
}  // namespace rotary::c

using namespace rotary;     // NOLINT
using namespace rotary::c;  // NOLINT

extern "C" {

rotary_status rotary_use_models(const char* path) {
  return guarded([&] { path == nullptr ? use_own_models() : use_models(files::path_of(path)); });
}
rotary_status rotary_model_read(const char* path, int32_t pairing, rotary_model** model) {
  return guarded([&] {
    check_given("model", "path", path);
    check_given("model", "model", model);
    *model = new rotary_model(read_config(files::path_of(path), options_of(pairing)));
  });
}
rotary_status rotary_model_parse(const char* json, int32_t pairing, rotary_model** model) {
  return guarded([&] {
    check_given("model", "json", json);
    check_given("model", "model", model);
    *model = new rotary_model(parse_config(json, options_of(pairing)));
  });
}
void rotary_model_free(rotary_model* model) { delete model; }
int32_t rotary_model_ropes(const rotary_model* model) {
  return model == nullptr ? 0 : static_cast<int32_t>(model->values.ropes.size());
}
const char* rotary_model_note(const rotary_model* model, int32_t note) {
  return has_note(model, note) ? model->notes[static_cast<std::size_t>(note)].c_str() : nullptr;
}
const char* rotary_model_note_part(const rotary_model* model, int32_t note) {
  return has_note(model, note) ? model->values.notes[static_cast<std::size_t>(note)].part.c_str() : nullptr;
}
const char* rotary_model_note_kind(const rotary_model* model, int32_t note) {
  return has_note(model, note) ? name(model->values.notes[static_cast<std::size_t>(note)].kind) : nullptr;
}
int32_t rotary_model_rope_of_layer(const rotary_model* model, int32_t layer, const char* part) {
  int32_t number = -2;
  guarded([&] {
    check_given("rope_of_layer", "model", model);
    const ModelRope* found = rope_of_layer(model->values, layer, part == nullptr ? "" : part);
    number = found == nullptr ? -1 : static_cast<int32_t>(found - model->values.ropes.data());
  });
  return number;
}

void rotary_model_rope_init(rotary_model_rope* rope, size_t size) { init(rope, size); }
rotary_status rotary_model_rope_get(const rotary_model* model, int32_t rope, rotary_model_rope* values) {
  return guarded([&] {
    const ModelRope& from = rope_at(model, rope);
    rotary_model_rope to = read("model", "values", values);
    to.head_dim = from.rope.head_dim, to.rotary_dim = from.rope.rotary_dim, to.first = from.first;
    to.pairing = pairing_constants.zero + static_cast<int32_t>(from.rope.pairing), to.heads = from.heads,
    to.kv_heads = from.kv_heads;
    const auto& axis = from.rope.axis;
    to.axes = axis.empty() ? 1 : 1 + *std::max_element(axis.begin(), axis.end());
    to.scaling = ROTARY_UNSCALED + static_cast<int32_t>(from.rope.scaling.index());
    to.depends_on_length = depends_on_length(from.rope.scaling) ? 1 : 0;
    to.base = from.rope.base, to.context = part_of(model->values, from.part).context, to.part = from.part.c_str();
    to.softmax_factor = from.softmax_factor;
    std::memcpy(values, &to, std::min<std::size_t>(values->size, sizeof to));
  });
}
rotary_status rotary_model_frequencies_make(const rotary_model* model, int32_t rope, int64_t length,
                                            rotary_frequencies** frequencies) {
  return guarded([&] {
    check_given("model", "frequencies", frequencies);
    *frequencies = new rotary_frequencies{frequencies_of(rope_at(model, rope).rope, length)};
  });
}

}  // extern "C"
