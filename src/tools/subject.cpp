#include "subject.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "files/text/io.h"

namespace rotary::tools {

Role role_of(std::string_view tensor) {
  constexpr std::array<std::string_view, 7> queries = {"q", "query", "queries", "qproj", "wq", "xq", "xquery"};
  constexpr std::array<std::string_view, 7> keys = {"k", "key", "keys", "kproj", "wk", "xk", "xkey"};
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
    throw Error(Code::ROPE, "[rope] the model" + of + " must have a rope but got none: " + reason);
  }
  const int index = rope.value_or(0);
  if (index < 0 || static_cast<std::size_t>(index) >= model.ropes.size()) {
    throw Error(Code::ROPE, "[rope] --rope must be below the model's number of ropes, " +
                                std::to_string(model.ropes.size()) + ", and counts from 0 but got " +
                                std::to_string(index));
  }
  return model.ropes[static_cast<std::size_t>(index)];
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
