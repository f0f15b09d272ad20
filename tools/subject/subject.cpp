#include "subject.h"

#include <algorithm>
#include <limits>

#include "text/io.h"
#include "values/fail.h"

namespace rotary::tools {

namespace {

bool is_in(int layer, const std::vector<int>& layers) { return std::ranges::find(layers, layer) != layers.end(); }

// The ropes of the parts that list the layer, with a rope or without: those of the tensor's width and part, and those
// that count tokens, if there are any.
std::vector<const ModelRope*> ropes_listing(const Model& model, int layer, const TensorInfo* tensor) {
  std::vector<const ModelRope*> found;
  for (const ModelRope& rope : model.ropes) {
    if (is_in(layer, rope.layers) || is_in(layer, layers_without_rope(model, rope.part))) found.push_back(&rope);
  }
  const auto prefer = [&found](const auto& is_true) {
    std::vector<const ModelRope*> kept = found;
    std::erase_if(kept, [&](const ModelRope* rope) { return !is_true(*rope); });
    if (!kept.empty()) found = kept;
  };
  if (tensor != nullptr) {
    prefer([&](const ModelRope& rope) { return fits_width(*tensor, rope); });
    prefer([&](const ModelRope& rope) { return names_part(tensor->name, rope.part); });
  }
  prefer([](const ModelRope& rope) { return !rope.coordinates; });
  return found;
}

// model.ropes[choice.rope], by default the first.
const ModelRope& rope_by_number(const Model& model, const Choice& choice) {
  if (model.ropes.empty()) {
    std::string reason;  // from the config reader
    for (const Note& note : model.notes) reason += (reason.empty() ? "" : " ") + sentence_of(note);
    const std::string of = choice.config.empty() ? "" : " of " + files::printable(choice.config);
    fail(Code::ROPE, "rope", "the model", of, " must have a rope but got none: ", reason);
  }
  const int index = choice.rope.value_or(0);
  if (index < 0 || static_cast<std::size_t>(index) >= model.ropes.size()) {
    fail(Code::ROPE, "rope", "--rope must be below the model's number of ropes, ", model.ropes.size(),
         ", and counts from 0 but got ", index);
  }
  return model.ropes[static_cast<std::size_t>(index)];
}

// rope_of_layer for a layer that the choice names.
const ModelRope* named_layer(const Model& model, int layer, const TensorInfo* tensor) {
  if (const auto found = rope_of_layer(model, layer, tensor)) return *found;
  if (!ropes_listing(model, layer, tensor).empty()) {
    fail(Code::ROPE, "rope", "--layer must name a layer of one rope but got ", layer,
         ", which several have: --rope names one of the model's ", model.ropes.size());
  }
  int last = -1;
  for (const ModelRope& rope : model.ropes) {
    for (const int one : rope.layers) last = std::max(last, one);
    for (const int one : layers_without_rope(model, rope.part)) last = std::max(last, one);
  }
  if (last < 0) fail(Code::ROPE, "rope", "--layer must be of a model with layers but the config lists none");
  fail(Code::ROPE, "rope", "--layer must be one of the model's layers, 0 to ", last, ", but got ", layer);
}

// subject_of without the query scale.
Subject turned_subject(const Model& model, const Choice& choice, const TensorInfo* tensor) {
  Subject subject{.chosen = choice.rope.has_value(), .length = choice.length, .layout = choice.layout};
  if (tensor != nullptr) subject.role = role_of(tensor->name);
  if (choice.layer) {
    subject.layer = choice.layer;
    subject.used = named_layer(model, *choice.layer, tensor);
  } else if (const auto layer = tensor != nullptr && !choice.rope ? layer_of(tensor->name) : std::nullopt) {
    const auto found = rope_of_layer(model, *layer, tensor);
    if (found) subject.layer = layer;
    subject.used = found.value_or(nullptr);
  }
  if (subject.layer) {
    subject.chosen = true;
    subject.turns = subject.used != nullptr;
    if (!subject.turns) subject.used = ropes_listing(model, *subject.layer, tensor).front();
  }
  if (subject.used == nullptr) subject.used = &rope_by_number(model, choice);
  subject.context = part_of(model, subject.used->part).context;
  for (const ModelRope& rope : model.ropes) {
    if (!subject.chosen && model.ropes.size() > 1 && tensor != nullptr && fits_width(*tensor, rope))
      subject.rivals.push_back(&rope);
  }
  return subject;
}

}  // namespace

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
  // The k of MLA is one head. The tensor's role must be known, because one q of many heads may be bare too.
  const std::vector<std::int64_t> counts = head_counts(role == Role::k && is_bare(read.head_dim));
  if (std::find(counts.begin(), counts.end(), read.heads) != counts.end()) return 2;
  return used->heads % read.heads == 0 ? 1 : 0;
}

std::int64_t Subject::length_for(std::int64_t tokens) const {
  return length ? *length : positions->closed(std::max(tokens, positions->tokens)).length();
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
  const std::vector<const ModelRope*> found = ropes_listing(model, layer, tensor);
  std::optional<const ModelRope*> only;
  for (const ModelRope* rope : found) {
    const ModelRope* used = is_in(layer, rope->layers) ? blocks_of(model, *rope).front() : nullptr;
    if (only.value_or(used) != used || (only && rope->part != found.front()->part)) return std::nullopt;
    only = used;
  }
  return only;
}

Subject subject_of(const Model& model, const Choice& choice, const TensorInfo* tensor) {
  Subject subject = turned_subject(model, choice, tensor);
  if (!choice.query_scale) return subject;
  std::optional<int> layer = choice.layer;
  if (choice.rope && !subject.used->layers.empty()) layer = subject.used->layers.front();
  if (!choice.names_rope() && tensor != nullptr) layer = layer_of(tensor->name);
  subject.scale = query_scale_of(model, subject.used->part, layer);
  return subject;
}

std::vector<Subject> merged(const std::vector<Subject>& subjects) {
  std::vector<Subject> all;
  for (const Subject& one : subjects) {
    const auto same = std::ranges::find_if(all, [&](const Subject& known) {
      return known.used == one.used && known.rivals == one.rivals && known.turns == one.turns &&
             known.scale == one.scale;
    });
    if (same == all.end()) {
      all.push_back(one);
      continue;
    }
    same->tensors.insert(same->tensors.end(), one.tensors.begin(), one.tensors.end());
    same->chosen &= one.chosen;
  }
  return all;
}

std::vector<Subject> subjects_of(const Model& model, const Choice& choice, std::span<Tensor* const> tensors) {
  std::vector<Subject> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Subject one = subject_of(model, choice, tensors[i]);
    one.tensors = {i};
    one.rivals.clear();
    const bool multiplied = one.scale.form != QueryForm::none && one.role != Role::k;
    if (choice.rope || !one.turns) {
      if (one.turns || multiplied) all.push_back(one);
      continue;
    }
    const std::vector<const ModelRope*> blocks = blocks_of(model, *one.used);
    one.chosen = one.chosen || blocks.size() == model.ropes.size();
    for (const ModelRope* block : blocks) {
      one.used = block;
      all.push_back(one);
    }
  }
  return merged(all);
}

std::optional<ModelRope> rope_of_indexer(const Model& model, const TensorInfo& tensor, const ModelRope& attention) {
  const Indexer& indexer = part_of(model, attention.part).indexer;
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

int last_dimension(const TensorInfo& tensor) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return tensor.shape.empty() ? 0 : static_cast<int>(std::min(tensor.shape.back(), most));
}

bool fits_width(const TensorInfo& tensor, const ModelRope& used) {
  const std::int64_t last = tensor.shape.empty() ? 0 : tensor.shape.back();
  if (used.first > 0 && last == used.rope.rotary_dim) return true;
  return last == used.rope.head_dim || (tensor.shape.size() < 4 && last % used.rope.head_dim == 0);
}

}  // namespace rotary::tools

namespace rotary {

const ModelRope& chosen_rope(const Model& model, const Choice& choice) {
  const tools::Subject subject = tools::turned_subject(model, choice, nullptr);
  if (subject.turns) return *subject.used;
  fail(Code::ROPE, "rope", "--layer must name a layer with a rope but got ", *subject.layer,
       ", which rotates nothing (NoPE)");
}

}  // namespace rotary
