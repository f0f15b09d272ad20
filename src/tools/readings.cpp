#include "readings.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "files/tensors/input.h"
#include "files/tensors/layouts.h"
#include "subject.h"
#include "values/number_text.h"

namespace rotary::tools {

namespace {

using detail::shape_text;
using files::label;
using files::layout_of;

using Words = std::vector<std::string>;

// "bthd"; "bthd and thd" of tensors of several dimensions.
std::string words_of(const std::vector<Reading>& readings) {
  std::string text;
  Words seen;
  for (const Reading& reading : readings) {
    if (std::find(seen.begin(), seen.end(), reading.word) != seen.end()) continue;
    seen.push_back(reading.word);
    text += (text.empty() ? "" : " and ") + reading.word;
  }
  return text;
}

// The config's heads for the tensors, and what follows for a reading of them.
class Judge {
 public:
  Judge(std::span<const Tensor* const> tensors, const ModelRope& used) : tensors_(tensors), used_(used) {}

  bool knows_heads() const { return used_.heads > 0; }

  bool is_bare(const Tensor& tensor) const {
    return used_.first > 0 && !tensor.shape.empty() && tensor.shape.back() == used_.rope.rotary_dim;
  }
  bool is_whole(const Tensor& tensor) const { return tensor.shape.back() == used_.rope.head_dim || is_bare(tensor); }
  int flat_head_dim(const Tensor& tensor) const { return is_bare(tensor) ? used_.rope.rotary_dim : used_.rope.head_dim; }

  // The numbers of heads that the config allows.
  std::vector<std::int64_t> counts(const Tensor& tensor) const {
    const Role role = role_of(tensor.name);
    std::vector<std::int64_t> allowed;
    if (role != Role::key) allowed.push_back(used_.heads);
    if (role != Role::query) allowed.push_back(used_.kv_heads > 0 ? used_.kv_heads : used_.heads);
    if (is_bare(tensor)) allowed.push_back(1);
    return allowed;
  }
  bool is_count(const Tensor& tensor, std::int64_t heads) const {
    const std::vector<std::int64_t> allowed = counts(tensor);
    return std::find(allowed.begin(), allowed.end(), heads) != allowed.end();
  }
  bool is_shard(const Tensor& tensor, std::int64_t heads) const {
    const std::vector<std::int64_t> allowed = counts(tensor);
    return heads > 0 && std::any_of(allowed.begin(), allowed.end(), [heads](std::int64_t n) { return n % heads == 0; });
  }

  struct Fit {
    bool exact = true;        // each tensor has the config's heads
    bool possible = true;     // or a shard of them
    bool one_head = true;     // each tensor
    bool same_tokens = true;  // all tensors
    bool roles = true;        // each tensor is known to be q or k
  };
  Fit fit(const std::vector<Reading>& readings) const {
    Fit fit;
    std::optional<std::int64_t> tokens;
    for (std::size_t i = 0; i < readings.size(); ++i) {
      const Tensor& tensor = *tensors_[i];
      if (tensor.elements() == 0) continue;
      const Layout& layout = readings[i].layout;
      fit.exact = fit.exact && is_count(tensor, layout.heads);
      fit.possible = fit.possible && is_shard(tensor, layout.heads);
      fit.one_head = fit.one_head && layout.heads == 1;
      fit.same_tokens = fit.same_tokens && tokens.value_or(layout.tokens) == layout.tokens;
      fit.roles = fit.roles && role_of(tensor.name) != Role::unknown;
      tokens = layout.tokens;
    }
    fit.possible = fit.possible && shards_agree(readings);
    return fit;
  }

  // Whether `other` speaks against `used`.
  static bool contradicts(const Fit& other, const Fit& used) {
    if (used.exact) return false;
    if (!used.possible) return other.exact || (other.possible && !other.one_head && other.same_tokens);
    if (!other.exact || !other.roles || (used.same_tokens && !other.same_tokens)) return false;
    return !used.one_head || !used.same_tokens;
  }

  // "tensor 'q' must have the config's 32 heads and tensor 'k' its 8 but got 16 and 16 in layout bthd". Of tensors that
  // are alike, as those of many layers, only the first is named.
  std::string sentence(const std::vector<Reading>& readings) const {
    std::string wanted;
    std::string got;
    std::set<std::pair<std::vector<std::int64_t>, std::int64_t>> named;
    for (std::size_t i = 0; i < readings.size(); ++i) {
      const std::vector<std::int64_t> allowed = counts(*tensors_[i]);
      if (tensors_[i]->elements() == 0 || !named.emplace(allowed, readings[i].layout.heads).second) continue;
      const bool either = allowed.size() > 1 && allowed[0] != allowed[1];
      const std::string number = std::to_string(allowed[0]) + (either ? " or " + std::to_string(allowed[1]) : "");
      wanted += wanted.empty() ? label(*tensors_[i]) + " must have the config's " + number + " heads"
                               : " and " + label(*tensors_[i]) + " its " + number;
      got += (got.empty() ? "" : " and ") + std::to_string(readings[i].layout.heads);
    }
    return wanted + " but got " + got + " in layout " + words_of(readings);
  }

 private:
  // q and k of one shard have the config's ratio of heads; a shard's last head of k may serve several shards. One head
  // of either may have been taken out alone.
  bool shards_agree(const std::vector<Reading>& readings) const {
    std::int64_t q = 0;
    std::int64_t k = 0;
    for (std::size_t i = 0; i < readings.size(); ++i) {
      const Role role = role_of(tensors_[i]->name);
      if (role == Role::query) q = readings[i].layout.heads;
      if (role == Role::key && !is_bare(*tensors_[i])) k = readings[i].layout.heads;
    }
    if (q <= 1 || k <= 1 || used_.heads % q != 0 || used_.kv_heads < 1) return true;
    return k == std::max<std::int64_t>(1, used_.kv_heads / (used_.heads / q));
  }

  std::span<const Tensor* const> tensors_;
  const ModelRope& used_;
};

// The words that can read the tensor, the default first. Empty: none can be chosen.
Words words_for(const Tensor& tensor, const Judge& judge, const ModelRope& used) {
  const std::size_t dimensions = tensor.shape.size();
  if (dimensions == 4) return {"bthd", "bhtd"};
  if (dimensions != 2 && dimensions != 3) return {};
  const bool known = used.rope.head_dim > 0 && judge.knows_heads();
  const int head_dim = judge.flat_head_dim(tensor);
  const bool flat = known && tensor.shape.back() % head_dim == 0;
  const std::int64_t flat_heads = flat ? tensor.shape.back() / head_dim : 0;
  if (dimensions == 3) {
    if (!known || judge.is_whole(tensor)) {
      return flat && judge.is_count(tensor, flat_heads) ? Words{"thd", "htd", "flat"} : Words{"thd", "htd"};
    }
    return flat && judge.is_shard(tensor, flat_heads) ? Words{"flat"} : Words{"thd"};
  }
  if (!known) return {};
  if (judge.is_whole(tensor) && judge.is_count(tensor, tensor.shape[0])) return {"hd"};
  if (flat && judge.is_shard(tensor, flat_heads) && (flat_heads > 1 || judge.is_count(tensor, 1))) return {"flat"};
  return {};
}

[[noreturn]] void refuse_dimensions(std::string_view operation, const Tensor& tensor, const ModelRope& used) {
  std::string rule = label(tensor) + " must have 4 dimensions (bthd, bhtd, tbhd) or 3 (thd: tokens, heads, head_dim)";
  if (used.heads > 0) {
    rule += ", or be [" + std::to_string(used.heads) + " heads, " + std::to_string(used.rope.head_dim) +
            "] of one token, or hold all heads in its last dimension,";
  }
  const bool two = tensor.shape.size() == 2;
  throw Error(Code::SHAPE, "[" + std::string(operation) + "] " + rule + " but got " + shape_text(tensor.shape) +
                               (two ? " (--layout hd: one token; td: one head)" : ""));
}

std::vector<Reading> read_by(std::string_view operation, std::span<const Tensor* const> tensors, const Words& words,
                             const Judge& judge) {
  std::vector<Reading> readings;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = *tensors[i];
    readings.push_back({words[i], layout_of(operation, tensor, words[i], judge.flat_head_dim(tensor))});
  }
  return readings;
}

// Tensors of one file lie alike: where one can only be flat, those that can be are flat first. One head of k
// [batch, tokens, head_dim] looks like [tokens, heads, head_dim] too.
void prefer_flat_beside_flat(std::vector<Words>& choices) {
  const Words only = {"flat"};
  if (std::find(choices.begin(), choices.end(), only) == choices.end()) return;
  for (Words& words : choices) {
    std::stable_partition(words.begin(), words.end(), [](const std::string& word) { return word == "flat"; });
  }
}

// All tensors by the n-th word that they can be read by, as far as they have so many.
Words nth_words(const std::vector<Words>& choices, std::size_t n) {
  Words words;
  for (const Words& choice : choices) words.push_back(choice[std::min(n, choice.size() - 1)]);
  return words;
}

std::string text_of(const Reading& reading) {
  return std::to_string(reading.layout.heads) + (reading.layout.heads == 1 ? " head of " : " heads of ") +
         std::to_string(reading.layout.tokens) + (reading.layout.tokens == 1 ? " token" : " tokens");
}

// What the used reading leaves open, beside the other ones that are possible.
void add_notes(Readings& used, std::span<const Tensor* const> tensors, const Judge& judge,
               const std::vector<std::vector<Reading>>& others) {
  const Judge::Fit fit = judge.fit(used.tensors);
  if (judge.knows_heads() && !fit.possible) {
    used.notes.push_back("note: " + judge.sentence(used.tensors) + "; no other layout fits");
    return;
  }
  for (const std::vector<Reading>& other : others) {
    const Judge::Fit other_fit = judge.fit(other);
    const bool open = judge.knows_heads() ? !fit.exact && other_fit.exact
                                          : tensors.size() > 1 && !fit.same_tokens && other_fit.same_tokens;
    if (!open) continue;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      used.notes.push_back("note: " + label(*tensors[i]) + " is read as " + text_of(used.tensors[i]) + "; in layout " +
                           other[i].word + " it would be " + text_of(other[i]));
    }
    return;
  }
}

}  // namespace

Readings read_heads(std::string_view operation, std::span<const Tensor* const> tensors, const std::string& written,
                    const ModelRope& used) {
  const Judge judge(tensors, used);
  std::vector<Words> choices;
  for (const Tensor* tensor : tensors) {
    Words words = words_for(*tensor, judge, used);
    if (!written.empty()) {
      words.erase(std::remove(words.begin(), words.end(), written), words.end());
      words.insert(words.begin(), written);
    }
    if (words.empty()) refuse_dimensions(operation, *tensor, used);
    choices.push_back(std::move(words));
  }
  if (written.empty()) prefer_flat_beside_flat(choices);
  std::size_t most = 1;
  for (const Words& words : choices) most = std::max(most, words.size());
  Readings found;
  found.tensors = read_by(operation, tensors, nth_words(choices, 0), judge);
  std::vector<std::vector<Reading>> others;
  for (std::size_t n = 1; n < most; ++n) others.push_back(read_by(operation, tensors, nth_words(choices, n), judge));
  // The config's own heads first, then a shard's.
  std::stable_partition(others.begin(), others.end(), [&](const auto& other) { return judge.fit(other).exact; });
  const Judge::Fit fit = judge.fit(found.tensors);
  const auto better = std::find_if(others.begin(), others.end(), [&](const std::vector<Reading>& other) {
    return judge.knows_heads() && Judge::contradicts(judge.fit(other), fit);
  });
  if (better != others.end()) {
    std::size_t i = 0;  // the first tensor that the two read in different layouts
    while (i + 1 < tensors.size() && (*better)[i].word == found.tensors[i].word) ++i;
    const std::string& fitting = (*better)[i].word;
    const std::string& word = found.tensors[i].word;
    const std::string sentence = judge.sentence(found.tensors) + "; layout " + fitting;
    if (written.empty()) {
      throw Error(Code::SHAPE, "[" + std::string(operation) + "] " + sentence + " fits: say --layout " + fitting +
                                   ", or --layout " + word + " to have them read so");
    }
    found.warnings.push_back("warning: " + sentence + " would fit; --layout " + word + " is believed");
    return found;
  }
  if (written.empty()) add_notes(found, tensors, judge, others);
  return found;
}

}  // namespace rotary::tools
