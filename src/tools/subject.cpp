#include "subject.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>

#include "files/text/io.h"
#include "values/fail.h"

namespace rotary::tools {

namespace {

constexpr std::string_view digits = "0123456789";

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Whether a word of the name begins with part.
bool contains_part(std::string_view name, std::string_view part) {
  for (std::size_t at = 0; (at = name.find(part, at)) != std::string_view::npos; ++at) {
    if (at == 0 || !is_letter(name[at - 1])) return true;
  }
  return false;
}

// Whether a number behind this beginning of a name, in lower case, is that of a layer.
bool says_layer(std::string_view text) {
  constexpr std::array<std::string_view, 12> layers = {"layers",          "layer",    "blk",       "blocks", "block",
                                                       "decoder",         "encoder",  "resblocks", "qcur",   "kcur",
                                                       "past_key_values", "key_cache"};
  const auto ends = [&](std::string_view word) {
    return text.ends_with(word) && (text.size() == word.size() || !is_letter(text[text.size() - word.size() - 1]));
  };
  if (ends("h.") || ends("l")) return true;  // GPT-2's h.3, and l3
  const auto trim = [&] { text = text.substr(0, text.find_last_not_of("._-/[ :") + 1); };
  trim();
  for (const std::string_view word : {"idx", "id", "index"}) {  // layer_idx_3
    if (!ends(word)) continue;
    text.remove_suffix(word.size());
    trim();
  }
  return std::any_of(layers.begin(), layers.end(), ends);
}

// Whether the tensor's name says the part of the model: "visual.blocks.3" that of vision_config.
bool names_part(const TensorInfo& tensor, const ModelRope& rope) {
  const std::string name = files::lower(tensor.name);
  for (std::size_t at = 0; at < rope.part.size(); at = std::min(rope.part.find('.', at), rope.part.size()) + 1) {
    if (contains_part(name, std::string_view(rope.part).substr(at, 3))) return true;
  }
  return false;
}

}  // namespace

Role role_of(std::string_view tensor) {
  constexpr std::array<std::string_view, 8> queries = {"q", "query", "queries", "qproj", "wq", "xq", "xquery", "qcur"};
  constexpr std::array<std::string_view, 8> keys = {"k", "key", "keys", "kproj", "wk", "xk", "xkey", "kcur"};
  const std::string_view part = tensor.substr(0, tensor.find_last_not_of("0123456789._/") + 1);  // without a layer
  const std::size_t dot = part.find_last_of("./");  // past_key_values.3.value
  if (dot != std::string_view::npos && is_value(std::string(part.substr(dot + 1)))) return Role::unknown;
  const auto is_among = [](const auto& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  Role role = Role::unknown;
  std::string word;
  for (const char c : files::lower(std::string(tensor)) + ".") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    if (is_among(queries, word)) role = Role::query;
    if (is_among(keys, word)) role = Role::key;
    word.clear();
  }
  return role;
}

bool is_value(const std::string& tensor) {
  static const std::regex word("(^|[^a-z])(v|value|values|v_?proj|wv|xv|vcur)([^a-z]|$)", std::regex::icase);
  return role_of(tensor) == Role::unknown && std::regex_search(tensor, word);
}

std::optional<int> layer_of(std::string_view tensor) {
  const std::string name = files::lower(std::string(tensor));
  if (contains_part(name, "mtp")) return std::nullopt;  // layers that draft tokens are counted apart
  std::optional<int> layer;
  for (std::size_t begin = 0, end = 0; (begin = name.find_first_of(digits, end)) != std::string::npos;) {
    end = std::min(name.find_first_not_of(digits, begin), name.size());
    if (!says_layer(std::string_view(name).substr(0, begin)) || end - begin > 6) continue;
    const int number = std::stoi(name.substr(begin, end - begin));
    if (layer.value_or(number) != number) return std::nullopt;
    layer = number;
  }
  return layer;
}

bool Subject::is_bare(std::int64_t last_dimension) const noexcept {
  return used != nullptr && used->first > 0 && last_dimension == used->rope.rotary_dim;
}

int Subject::head_dim_of(const TensorInfo& tensor) const noexcept {
  if (used == nullptr || tensor.shape.empty()) return 0;
  return is_bare(tensor.shape.back()) ? used->rope.rotary_dim : used->rope.head_dim;
}

std::vector<std::int64_t> Subject::head_counts(bool bare) const {
  std::vector<std::int64_t> counts;
  if (role != Role::key) counts.push_back(used->heads);
  if (role != Role::query) counts.push_back(used->kv_heads > 0 ? used->kv_heads : used->heads);
  if (bare) counts.push_back(1);
  return counts;
}

int Subject::plausibility(const Layout& read) const {
  if (used == nullptr || used->heads == 0) return 1;
  // The k of MLA is one head; whose tensor it is must be known, as one q of many heads may be bare too.
  const std::vector<std::int64_t> counts = head_counts(role == Role::key && is_bare(read.head_dim));
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
    prefer([&](const ModelRope& rope) { return names_part(*tensor, rope); });
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
  static const std::regex word("indexer|index_?[qk]([^a-z]|$)|(^|[^a-z])[qk]_?index", std::regex::icase);
  const Indexer& indexer = attention.indexer;
  const bool named = std::regex_search(tensor.name, word);
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
