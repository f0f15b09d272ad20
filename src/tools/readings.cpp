// Layouts from the names and shapes of tensors.
#include <algorithm>
#include <set>
#include <utility>

#include "files/tensors/formats.h"
#include "subject.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::tools {

namespace {

using detail::shape_text;
using files::label;

using Words = std::vector<std::string>;

// The tensors and the config's heads for them.
class Judge {
 public:
  Judge(std::string_view operation, std::span<const Tensor* const> tensors, const ModelRope& used)
      : operation_(operation), tensors_(tensors), used_(used) {
    for (const Tensor* tensor : tensors) {
      Subject& subject = subjects_.emplace_back();
      subject.used = &used;
      subject.role = role_of(tensor->name);
    }
  }

  bool knows_heads() const { return used_.heads > 0; }

  // The words that can read the tensor, the default first. Empty: none can be chosen.
  Words words_for(std::size_t i) const {
    const Tensor& tensor = *tensors_[i];
    const std::size_t dimensions = tensor.shape.size();
    if (dimensions == 4) return {"bthd", "bhtd"};
    if (dimensions != 2 && dimensions != 3) return {};
    const bool known = used_.rope.head_dim > 0 && knows_heads();
    const std::int64_t last = tensor.shape.back(), head_dim = subjects_[i].head_dim_of(tensor);
    const bool whole = last == used_.rope.head_dim || subjects_[i].is_bare(last);
    const bool flat = known && last % head_dim == 0;
    const std::int64_t flat_heads = flat ? last / head_dim : 0;
    if (dimensions == 3) {
      if (!known || whole) return flat && is_count(i, flat_heads) ? Words{"thd", "htd", "flat"} : Words{"thd", "htd"};
      return flat && is_shard(i, flat_heads) ? Words{"flat"} : Words{"thd"};
    }
    if (!known) return {};
    if (whole && is_count(i, tensor.shape[0])) return {"hd"};
    if (flat && is_shard(i, flat_heads) && (flat_heads > 1 || is_count(i, 1))) return {"flat"};
    return {};
  }

  [[noreturn]] void refuse_dimensions(const Tensor& tensor) const {
    std::string rule = label(tensor) + " must have 4 dimensions (bthd, bhtd, tbhd) or 3 (thd: tokens, heads, head_dim)";
    if (knows_heads()) {
      rule += ", or be [" + std::to_string(used_.heads) + " heads, " + std::to_string(used_.rope.head_dim) +
              "] of one token, or hold all heads in its last dimension,";
    }
    refuse(rule + " but got " + shape_text(tensor.shape) +
           (tensor.shape.size() == 2 ? " (--layout hd: one token; td: one head)" : ""));
  }
  [[noreturn]] void refuse(const std::string& sentence) const { fail(Code::SHAPE, operation_, sentence); }

  // All tensors by the n-th of their words, or by the last where there are fewer.
  std::vector<Reading> read_by(const std::vector<Words>& choices, std::size_t n) const {
    std::vector<Reading> readings;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::string& word = choices[i][std::min(n, choices[i].size() - 1)];
      const int head_dim = subjects_[i].head_dim_of(*tensors_[i]);
      readings.push_back({word, files::layout_of(operation_, *tensors_[i], word, head_dim)});
    }
    return readings;
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
      if (tensors_[i]->elements() == 0) continue;
      const Layout& layout = readings[i].layout;
      fit.exact = fit.exact && is_count(i, layout.heads);
      fit.possible = fit.possible && is_shard(i, layout.heads);
      fit.one_head = fit.one_head && layout.heads == 1;
      fit.same_tokens = fit.same_tokens && tokens.value_or(layout.tokens) == layout.tokens;
      fit.roles = fit.roles && is_q_or_k(subjects_[i].role);
      tokens = layout.tokens;
    }
    fit.possible = fit.possible && shards_agree(readings);
    return fit;
  }

  // Whether `other` speaks against `chosen`.
  bool contradicts(const std::vector<Reading>& other_readings, const Fit& chosen) const {
    if (!knows_heads() || chosen.exact) return false;
    const Fit other = fit(other_readings);
    if (!chosen.possible) return other.exact || (other.possible && !other.one_head && other.same_tokens);
    if (!other.exact || !other.roles || (chosen.same_tokens && !other.same_tokens)) return false;
    return !chosen.one_head || !chosen.same_tokens;
  }

  // "tensor 'q' must have the config's 32 heads and tensor 'k' its 8 but got 16 and 16 in layout bthd". Of tensors that
  // are alike, as those of many layers, only the first is named.
  std::string sentence(const std::vector<Reading>& readings) const {
    std::string wanted, got, words;
    std::set<std::pair<std::vector<std::int64_t>, std::int64_t>> named;
    std::set<std::string> said;
    for (std::size_t i = 0; i < readings.size(); ++i) {
      if (said.insert(readings[i].word).second) words += (words.empty() ? "" : " and ") + readings[i].word;
      const std::vector<std::int64_t> allowed = counts(i);
      if (tensors_[i]->elements() == 0 || !named.emplace(allowed, readings[i].layout.heads).second) continue;
      const bool either = allowed.size() > 1 && allowed[0] != allowed[1];
      const std::string number = std::to_string(allowed[0]) + (either ? " or " + std::to_string(allowed[1]) : "");
      wanted += wanted.empty() ? label(*tensors_[i]) + " must have the config's " + number + " heads"
                               : " and " + label(*tensors_[i]) + " its " + number;
      got += (got.empty() ? "" : " and ") + std::to_string(readings[i].layout.heads);
    }
    return wanted + " but got " + got + " in layout " + words;
  }

 private:
  std::vector<std::int64_t> counts(std::size_t i) const {
    const std::vector<std::int64_t>& shape = tensors_[i]->shape;
    return subjects_[i].head_counts(!shape.empty() && subjects_[i].is_bare(shape.back()));
  }
  bool is_count(std::size_t i, std::int64_t heads) const {
    return std::ranges::any_of(counts(i), [heads](std::int64_t count) { return count == heads; });
  }
  bool is_shard(std::size_t i, std::int64_t heads) const {
    return heads > 0 && std::ranges::any_of(counts(i), [heads](std::int64_t count) { return count % heads == 0; });
  }

  // q and k of one shard have the config's ratio of heads; a shard's last head of k may serve several shards. One head
  // of either may have been taken out alone.
  bool shards_agree(const std::vector<Reading>& readings) const {
    std::int64_t q = 0, k = 0;
    for (std::size_t i = 0; i < readings.size(); ++i) {
      if (subjects_[i].role == Role::q) q = readings[i].layout.heads;
      if (subjects_[i].role == Role::k && !subjects_[i].is_bare(tensors_[i]->shape.back()))
        k = readings[i].layout.heads;
    }
    if (q <= 1 || k <= 1 || used_.heads % q != 0 || used_.kv_heads < 1) return true;
    return k == std::max<std::int64_t>(1, used_.kv_heads / (used_.heads / q));
  }

  std::string operation_;
  std::span<const Tensor* const> tensors_;
  const ModelRope& used_;
  std::vector<Subject> subjects_;  // one for each tensor
};

// Tensors of one file lie alike: where one can only be flat, those that can be are flat first. One head of k
// [batch, tokens, head_dim] looks like [tokens, heads, head_dim] too.
void prefer_flat_beside_flat(std::vector<Words>& choices) {
  if (std::find(choices.begin(), choices.end(), Words{"flat"}) == choices.end()) return;
  for (Words& words : choices) {
    std::stable_partition(words.begin(), words.end(), [](const std::string& word) { return word == "flat"; });
  }
}

std::string text_of(const Layout& layout) {
  return std::to_string(layout.heads) + (layout.heads == 1 ? " head of " : " heads of ") +
         std::to_string(layout.tokens) + (layout.tokens == 1 ? " token" : " tokens");
}

// What the chosen readings leave open, beside the other ones that are possible.
std::vector<std::string> notes_of(const std::vector<Reading>& chosen, const std::vector<std::vector<Reading>>& others,
                                  std::span<const Tensor* const> tensors, const Judge& judge) {
  const Judge::Fit fit = judge.fit(chosen);
  if (judge.knows_heads() && !fit.possible) return {"note: " + judge.sentence(chosen) + "; no other layout fits"};
  for (const std::vector<Reading>& other : others) {
    const Judge::Fit other_fit = judge.fit(other);
    const bool open = judge.knows_heads() ? !fit.exact && other_fit.exact
                                          : tensors.size() > 1 && !fit.same_tokens && other_fit.same_tokens;
    if (!open) continue;
    std::vector<std::string> notes;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      notes.push_back("note: " + label(*tensors[i]) + " is read as " + text_of(chosen[i].layout) + "; in layout " +
                      other[i].word + " it would be " + text_of(other[i].layout));
    }
    return notes;
  }
  return {};
}

}  // namespace

std::vector<Reading> readings_of(const std::vector<std::int64_t>& shape) {
  TensorInfo tensor;
  tensor.shape = shape;
  std::vector<Reading> readings;
  for (const char* word : {"bthd", "bhtd", "tbhd", "thd", "htd", "td", "hd"}) {
    if (std::string_view(word).size() == shape.size())
      readings.push_back({word, files::layout_of("layout", tensor, word)});
  }
  return readings;
}

std::string common_layout(std::span<const TensorInfo> tensors, const std::vector<std::string>& found,
                          const Subject& subject) {
  if (subject.used == nullptr) return "";
  std::string best;
  int most = 0;
  bool alone = true, tied = false;
  for (const std::string& word : found) {
    if (word.empty() || word == best) continue;
    alone = alone && word == found.front();
    int fits = 0;
    for (const TensorInfo& tensor : tensors) {
      Subject of_tensor = subject;
      of_tensor.role = role_of(tensor.name);
      for (const Reading& reading : readings_of(tensor.shape))
        fits += reading.word == word && of_tensor.plausibility(reading.layout) == 2 ? 1 : 0;
    }
    tied = tied ? fits <= most : fits == most;
    if (fits <= most) continue;
    most = fits;
    best = word;
  }
  return alone || tied ? "" : best;
}

ModelRope shard_of(const ModelRope& used, std::span<const TensorInfo> tensors) {
  std::set<std::pair<std::int64_t, std::int64_t>> found;
  for (const TensorInfo& q : tensors) {
    for (const TensorInfo& k : tensors) {
      if (role_of(q.name) != Role::q || role_of(k.name) != Role::k) continue;
      for (const Reading& of_q : readings_of(q.shape)) {
        for (const Reading& of_k : readings_of(k.shape)) {
          const std::int64_t heads = of_q.layout.heads, kv_heads = of_k.layout.heads;
          if (of_q.word == of_k.word && heads * used.kv_heads == kv_heads * used.heads) found.insert({heads, kv_heads});
        }
      }
    }
  }
  ModelRope shard = used;
  if (found.size() != 1 || used.heads == used.kv_heads) return shard;
  shard.heads = static_cast<int>(found.begin()->first);
  shard.kv_heads = static_cast<int>(found.begin()->second);
  return shard;
}

Readings read_heads(std::string_view operation, std::span<const Tensor* const> tensors, const Subject& subject) {
  const std::string& written = subject.layout;
  const ModelRope unknown;
  const Judge judge(operation, tensors, subject.used == nullptr ? unknown : *subject.used);
  std::vector<Words> choices;
  std::size_t most = 1;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Words words = judge.words_for(i);
    if (!written.empty()) {
      std::erase(words, written);
      words.insert(words.begin(), written);
    }
    if (words.empty()) judge.refuse_dimensions(*tensors[i]);
    most = std::max(most, words.size());
    choices.push_back(std::move(words));
  }
  if (written.empty()) prefer_flat_beside_flat(choices);
  Readings found{judge.read_by(choices, 0), {}, {}};
  std::vector<std::vector<Reading>> others;
  for (std::size_t n = 1; n < most; ++n) others.push_back(judge.read_by(choices, n));
  // The config's own heads first, then a shard's.
  std::stable_partition(others.begin(), others.end(), [&](const auto& other) { return judge.fit(other).exact; });
  const Judge::Fit fit = judge.fit(found.tensors);
  const auto better =
      std::find_if(others.begin(), others.end(), [&](const auto& other) { return judge.contradicts(other, fit); });
  if (better == others.end()) {
    if (written.empty()) found.notes = notes_of(found.tensors, others, tensors, judge);
    return found;
  }
  std::size_t i = 0;  // the first tensor that the two read in different layouts
  while (i + 1 < tensors.size() && (*better)[i].word == found.tensors[i].word) ++i;
  const std::string &fitting = (*better)[i].word, &word = found.tensors[i].word;
  const std::string sentence = judge.sentence(found.tensors) + "; layout " + fitting;
  if (written.empty()) {
    judge.refuse(sentence + " fits: say --layout " + fitting + ", or --layout " + word + " to have them read so");
  }
  found.warnings.push_back("warning: " + sentence + " would fit; --layout " + word + " is believed");
  return found;
}

}  // namespace rotary::tools
