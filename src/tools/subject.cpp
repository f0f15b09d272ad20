#include "subject.h"

#include <algorithm>

#include "files/text/io.h"
#include "values/fail.h"

namespace rotary::tools {

bool Subject::is_bare(std::int64_t last_dimension) const noexcept {
  return used != nullptr && used->first > 0 && last_dimension == used->rope.rotary_dim;
}

int Subject::head_dim_of(const TensorInfo& tensor) const noexcept {
  if (used == nullptr || tensor.shape.empty()) return 0;
  return is_bare(tensor.shape.back()) ? used->rope.rotary_dim : used->rope.head_dim;
}

std::vector<std::int64_t> Subject::head_counts(bool bare) const {
  std::vector<std::int64_t> counts;
  if (role != Role::k) counts.push_back(used->heads);
  if (role != Role::q) counts.push_back(used->kv_heads > 0 ? used->kv_heads : used->heads);
  if (bare) counts.push_back(1);
  return counts;
}

int Subject::plausibility(const Layout& read) const {
  if (used == nullptr || used->heads == 0) return 1;
  // The k of MLA is one head; whose tensor it is must be known, as one q of many heads may be bare too.
  const std::vector<std::int64_t> counts = head_counts(role == Role::k && is_bare(read.head_dim));
  if (std::find(counts.begin(), counts.end(), read.heads) != counts.end()) return 2;
  return used->heads % read.heads == 0 ? 1 : 0;
}

const ModelRope& chosen_rope(const Model& model, std::optional<int> rope, const std::string& config) {
  if (model.ropes.empty()) {
    std::string reason;  // as given by the config reader
    for (const std::string& note : model.notes) reason += (reason.empty() ? "" : " ") + note;
    const std::string of = config.empty() ? "" : " of " + files::printable(config);
    fail(Code::ROPE, "rope", "the model", of, " must have a rope but got none: ", reason);
  }
  const int index = rope.value_or(0);
  if (index < 0 || static_cast<std::size_t>(index) >= model.ropes.size()) {
    fail(Code::ROPE, "rope", "--rope must be below the model's number of ropes, ", model.ropes.size(),
         ", and counts from 0 but got ", index);
  }
  return model.ropes[static_cast<std::size_t>(index)];
}

std::vector<const ModelRope*> blocks_of(const Model& model, const ModelRope& used) {
  const auto ends_before = [](const ModelRope& one, const ModelRope& other) {
    return one.first + one.rope.rotary_dim <= other.first;
  };
  std::vector<const ModelRope*> blocks;
  for (const ModelRope& other : model.ropes) {
    const bool beside = other.part == used.part && other.layers == used.layers &&
                        other.rope.head_dim == used.rope.head_dim &&
                        (ends_before(used, other) || ends_before(other, used));
    if (&other == &used || beside) blocks.push_back(&other);
  }
  return blocks;
}

std::optional<const ModelRope*> rope_of_layer(const Model& model, int layer, const TensorInfo* tensor) {
  const auto has = [layer](const std::vector<int>& layers) {
    return std::find(layers.begin(), layers.end(), layer) != layers.end();
  };
  std::vector<const ModelRope*> found;  // of a part whose layer has no rope: each of its ropes
  for (const ModelRope& rope : model.ropes) {
    if (has(rope.layers) || has(rope.layers_without_rope)) found.push_back(&rope);
  }
  // Keeps those of which it is true, unless it is of none.
  const auto prefer = [&found](const auto& is_true) {
    std::vector<const ModelRope*> kept;
    for (const ModelRope* rope : found) {
      if (is_true(*rope)) kept.push_back(rope);
    }
    if (!kept.empty()) found = kept;
  };
  if (tensor != nullptr) {
    prefer([&](const ModelRope& rope) { return fits_width(*tensor, rope); });
    prefer([&](const ModelRope& rope) { return names_part(tensor->name, rope.part); });
  }
  prefer([](const ModelRope& rope) { return !rope.coordinates; });
  std::optional<const ModelRope*> only;
  for (const ModelRope* rope : found) {
    const ModelRope* used = has(rope->layers) ? blocks_of(model, *rope).front() : nullptr;
    if (only.value_or(used) != used || (only && rope->part != found.front()->part)) return std::nullopt;
    only = used;
  }
  return only;
}

const ModelRope* named_layer(const Model& model, int layer, const TensorInfo* tensor) {
  if (const auto found = rope_of_layer(model, layer, tensor)) return *found;
  int last = -1;
  bool listed = false;
  for (const ModelRope& rope : model.ropes) {
    for (const std::vector<int>* layers : {&rope.layers, &rope.layers_without_rope}) {
      for (const int one : *layers) last = std::max(last, one);
      listed = listed || std::find(layers->begin(), layers->end(), layer) != layers->end();
    }
  }
  if (listed) {
    fail(Code::ROPE, "rope", "--layer must name a layer of one rope but got ", layer,
         ", which several have: --rope names one of the model's ", model.ropes.size());
  }
  if (last < 0) fail(Code::ROPE, "rope", "--layer must be of a model with layers but the config lists none");
  fail(Code::ROPE, "rope", "--layer must be one of the model's layers, 0 to ", last, ", but got ", layer);
}

std::optional<ModelRope> rope_of_indexer(const TensorInfo& tensor, const ModelRope& attention) {
  const Indexer& indexer = attention.indexer;
  const bool named = names_indexer(tensor.name);
  if (indexer.heads == 0 || tensor.shape.empty()) return std::nullopt;
  if (!named && (fits_width(tensor, attention) || tensor.shape.back() != indexer.head_dim)) return std::nullopt;
  ModelRope used = attention;
  used.heads = indexer.heads;
  used.kv_heads = 1;
  used.first = 0;
  used.rope.pairing = indexer.pairing;
  const bool bare = tensor.shape.back() == used.rope.rotary_dim;
  used.rope.head_dim = bare ? used.rope.rotary_dim : indexer.head_dim;
  return used;
}

std::vector<std::string> notes_on(const Model& model, const ModelRope& used) {
  const auto is_part = [&](std::string_view path) {
    return path.ends_with("_config") || std::any_of(model.ropes.begin(), model.ropes.end(),
                                                    [&](const ModelRope& rope) { return rope.part == path; });
  };
  std::vector<std::string> notes;
  for (const std::string& note : model.notes) {  // "vision_config: ..."
    const std::string_view path = std::string_view(note).substr(0, note.find(": "));
    if (path == used.part || !is_part(path)) notes.push_back(note);
  }
  return notes;
}

bool fits_width(const TensorInfo& tensor, const ModelRope& used) {
  const std::int64_t last = tensor.shape.empty() ? 0 : tensor.shape.back();
  if (used.first > 0 && last == used.rope.rotary_dim) return true;
  return last == used.rope.head_dim || (tensor.shape.size() < 4 && last % used.rope.head_dim == 0);
}

}  // namespace rotary::tools
