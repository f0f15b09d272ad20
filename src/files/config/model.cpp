// The values of a Model, and the words for them.
#include <algorithm>
#include <iterator>

#include "rotary/config.h"
#include "values/names.h"

namespace rotary {

namespace {

constexpr detail::Named<OriginKind> origin_names[] = {{OriginKind::given, "given"},
                                                      {OriginKind::chosen, "chosen"},
                                                      {OriginKind::weights, "weights"},
                                                      {OriginKind::model_default, "default"},
                                                      {OriginKind::method_default, "method_default"},
                                                      {OriginKind::published, "published"},
                                                      {OriginKind::derived, "derived"}};

constexpr detail::Named<NoteKind> note_names[] = {{NoteKind::chosen, "chosen"},
                                                  {NoteKind::model_default, "default"},
                                                  {NoteKind::derived, "derived"},
                                                  {NoteKind::unread, "unread"},
                                                  {NoteKind::read_as, "read_as"},
                                                  {NoteKind::no_rope, "no_rope"},
                                                  {NoteKind::layers, "layers"},
                                                  {NoteKind::axes, "axes"},
                                                  {NoteKind::scaling, "scaling"},
                                                  {NoteKind::attention, "attention"},
                                                  {NoteKind::query_scale, "query_scale"},
                                                  {NoteKind::awaits_weights, "awaits_weights"},
                                                  {NoteKind::weights, "weights"},
                                                  {NoteKind::compared, "compared"},
                                                  {NoteKind::warning, "warning"},
                                                  {NoteKind::published, "published"},
                                                  {NoteKind::model, "model"}};

}  // namespace

const char* name(OriginKind kind) noexcept { return detail::name_in(origin_names, kind); }
const char* name(NoteKind kind) noexcept { return detail::name_in(note_names, kind); }

const char* origin_word(OriginKind kind) noexcept {
  switch (kind) {
    case OriginKind::given:
    case OriginKind::chosen:
    case OriginKind::weights:
      return "given";
    case OriginKind::model_default:
    case OriginKind::method_default:
      return "default";
    case OriginKind::published:
    case OriginKind::derived:
      break;
  }
  return "derived";
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

bool is_everywhere(const Model& model, const ModelQueryScale& scale) {
  return std::ssize(scale.layers) == part_of(model, scale.part).layers;
}

}  // namespace rotary
