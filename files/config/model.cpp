// The values of a Model, and the words for them.
#include <algorithm>
#include <iterator>
#include <string>

#include "rotary/config.h"
#include "text/io.h"
#include "values/fail.h"

namespace rotary {

namespace {

// In the order of the enumerators.
constexpr const char* origin_names[] = {"given",          "chosen",    "weights", "default",
                                        "method_default", "published", "derived"};
constexpr const char* note_names[] = {"chosen",  "default",  "derived", "unread",    "read_as",     "no_rope",
                                      "layers",  "axes",     "scaling", "attention", "query_scale", "awaits_weights",
                                      "weights", "compared", "warning", "published", "model"};
static_assert(std::size(origin_names) == static_cast<std::size_t>(OriginKind::derived) + 1);
static_assert(std::size(note_names) == static_cast<std::size_t>(NoteKind::model) + 1);

}  // namespace

const char* name(OriginKind kind) noexcept { return origin_names[static_cast<std::size_t>(kind)]; }
const char* name(NoteKind kind) noexcept { return note_names[static_cast<std::size_t>(kind)]; }

const char* origin_word(OriginKind kind) noexcept {
  if (kind <= OriginKind::weights) return "given";
  return kind <= OriginKind::method_default ? "default" : "derived";
}

bool is_about(const Note& note, std::span<const std::string> layer_types) {
  return note.layer_type.empty() || layer_types.empty() ||
         std::find(layer_types.begin(), layer_types.end(), note.layer_type) != layer_types.end();
}

const ModelRope* rope_of_layer(const Model& model, int layer, std::string_view part) {
  if (part.empty() && part_of(model, part).layers == 0 && !model.ropes.empty()) part = model.ropes.front().part;
  const int layers = part_of(model, part).layers;
  if (layers == 0 && !model.parts.empty()) {
    std::string paths;
    for (const ModelPart& one : model.parts) paths += (paths.empty() ? "" : ", ") + files::in_quotes(one.path);
    detail::fail(Code::ROPE, "rope_of_layer", "part must be one of ", paths, " but got ", files::in_quotes(part));
  }
  if (layers > 0 && (layer < 0 || layer >= layers))
    detail::fail(Code::ROPE, "rope_of_layer", "layer must be one of the ", layers, " of part ", files::in_quotes(part),
                 ", from 0 on, but got ", layer);
  for (const ModelRope& rope : model.ropes) {
    if (rope.part == part && std::ranges::count(rope.layers, layer) != 0) return &rope;
  }
  return nullptr;
}

std::string sentence_of(const Note& note) { return (note.part.empty() ? "" : note.part + ": ") + note.text; }

std::vector<std::string> sentences_of(std::span<const Note> notes) {
  std::vector<std::string> sentences;
  std::transform(notes.begin(), notes.end(), std::back_inserter(sentences), sentence_of);
  return sentences;
}

const ModelPart& part_of(const Model& model, std::string_view path) {
  static const ModelPart none;
  const auto is_it = [path](const ModelPart& part) { return part.path == path; };
  const auto found = std::find_if(model.parts.begin(), model.parts.end(), is_it);
  return found == model.parts.end() ? none : *found;
}

std::vector<int> layers_without_rope(const Model& model, std::string_view part) {
  std::vector<bool> turns(static_cast<std::size_t>(part_of(model, part).layers));
  for (const ModelRope& rope : model.ropes) {
    if (rope.part != part) continue;
    for (const int layer : rope.layers) {
      if (static_cast<std::size_t>(layer) < turns.size()) turns[static_cast<std::size_t>(layer)] = true;
    }
  }
  std::vector<int> without;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (!turns[i]) without.push_back(static_cast<int>(i));
  }
  return without;
}

std::vector<std::string> layer_types_of(const Model& model, const ModelRope& rope) {
  const std::vector<std::string>& all = part_of(model, rope.part).layer_types;
  std::vector<std::string> types;
  for (const int layer : rope.layers) {
    if (static_cast<std::size_t>(layer) >= all.size()) continue;
    const std::string& type = all[static_cast<std::size_t>(layer)];
    if (!type.empty() && std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  return types;
}

std::vector<Note> notes_on(const Model& model, const ModelRope& used) {
  const auto is_part = [&](std::string_view path) {
    return path.ends_with("_config") || std::any_of(model.ropes.begin(), model.ropes.end(),
                                                    [&](const ModelRope& rope) { return rope.part == path; });
  };
  const std::vector<std::string> types = layer_types_of(model, used);
  std::vector<Note> notes;
  for (const Note& note : model.notes) {
    const bool of_its_part = note.part.empty() || note.part == used.part || !is_part(note.part);
    if (of_its_part && is_about(note, types)) notes.push_back(note);
  }
  return notes;
}

bool is_everywhere(const Model& model, const ModelQueryScale& scale) {
  return std::ssize(scale.layers) == part_of(model, scale.part).layers;
}

}  // namespace rotary
