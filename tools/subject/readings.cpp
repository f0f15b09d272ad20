// Layouts from the names and shapes of tensors.
#include <algorithm>
#include <numeric>
#include <set>

#include "subject.h"
#include "tensors/formats.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::tools {

namespace {

using detail::shape_text;
using files::label;

// A tensor, the subject with its heads, and its readings, the default first.
struct Candidate {
  const Tensor* tensor;
  Subject subject;
  std::vector<Reading> readings = {};

  const Reading& by(std::size_t n) const { return readings[std::min(n, readings.size() - 1)]; }
  std::vector<std::int64_t> counts() const {
    return subject.head_counts(!tensor->shape.empty() && subject.is_bare(tensor->shape.back()));
  }
  bool is_count(std::int64_t heads) const { return std::ranges::count(counts(), heads) != 0; }
  bool is_shard(std::int64_t heads) const {
    return heads > 0 && std::ranges::any_of(counts(), [heads](std::int64_t count) { return count % heads == 0; });
  }
};
using File = std::vector<Candidate>;

// The words that can read the tensor, the default first; empty if none can be chosen.
std::vector<std::string> words_for(const Candidate& one) {
  const std::vector<std::int64_t>& shape = one.tensor->shape;
  const Rope& rope = one.subject.used->rope;
  if (shape.size() == 4) return {"bthd", "bhtd"};
  if (shape.size() != 2 && shape.size() != 3) return {};
  const bool known = rope.head_dim > 0 && one.subject.used->heads > 0;
  const std::int64_t last = shape.back(), head_dim = one.subject.head_dim_of(*one.tensor);
  const bool whole = last == rope.head_dim || one.subject.is_bare(last);
  const bool flat = known && last % head_dim == 0;
  const std::int64_t flat_heads = flat ? last / head_dim : 0;
  if (shape.size() == 3) {
    if (known && !whole) return {flat && one.is_shard(flat_heads) ? "flat" : "thd"};
    if (flat && one.is_count(flat_heads)) return {"thd", "htd", "flat"};
    return {"thd", "htd"};
  }
  if (known && whole && one.is_count(shape[0])) return {"hd"};
  if (flat && one.is_shard(flat_heads) && (flat_heads > 1 || one.is_count(1))) return {"flat"};
  return {};
}

[[noreturn]] void refuse_dimensions(const Tensor& tensor, const ModelRope& used) {
  std::string rule = label(tensor) + " must have 4 dimensions (bthd, bhtd, tbhd) or 3 (thd: tokens, heads, head_dim)";
  if (used.heads > 0) {
    rule += ", or be [" + std::to_string(used.heads) + " heads, " + std::to_string(used.rope.head_dim) +
            "] of one token, or hold all heads in its last dimension,";
  }
  fail(Code::SHAPE, "apply", rule, " but got ", shape_text(tensor.shape),
       tensor.shape.size() == 2 ? " (--layout hd: one token; td: one head)" : "");
}

// Whether q and k have the config's ratio of heads, as in one shard. Shards may share the last head of k, and either
// tensor may be one head alone.
bool shards_agree(const File& file, std::size_t n, const ModelRope& used) {
  std::int64_t q = 0, k = 0;
  for (const Candidate& one : file) {
    if (one.subject.role == Role::q) q = one.by(n).layout.heads;
    if (one.subject.role == Role::k && !one.subject.is_bare(one.tensor->shape.back())) k = one.by(n).layout.heads;
  }
  if (q <= 1 || k <= 1 || used.heads % q != 0 || used.kv_heads < 1) return true;
  return k == std::max<std::int64_t>(1, used.kv_heads / (used.heads / q));
}

struct Fit {
  bool exact = true;        // each tensor has the config's heads
  bool possible = true;     // or a shard of them
  bool one_head = true;     // each tensor has one head
  bool same_tokens = true;  // all tensors have the same number of tokens
  bool roles = true;        // each tensor is known to be q or k
};
// The fit of all tensors by their n-th readings, or by their last ones if there are fewer.
Fit fit_of(const File& file, std::size_t n, const ModelRope& used) {
  Fit fit{.possible = shards_agree(file, n, used)};
  std::optional<std::int64_t> tokens;
  for (const Candidate& one : file) {
    if (one.tensor->elements() == 0) continue;
    const Layout& layout = one.by(n).layout;
    fit.exact = fit.exact && one.is_count(layout.heads);
    fit.possible = fit.possible && one.is_shard(layout.heads);
    fit.one_head = fit.one_head && layout.heads == 1;
    fit.same_tokens = fit.same_tokens && tokens.value_or(layout.tokens) == layout.tokens;
    fit.roles = fit.roles && is_q_or_k(one.subject.role);
    tokens = layout.tokens;
  }
  return fit;
}

bool contradicts(const Fit& other, const Fit& chosen) {
  if (chosen.exact) return false;
  if (!chosen.possible) return other.exact || (other.possible && !other.one_head && other.same_tokens);
  if (!other.exact || !other.roles || (chosen.same_tokens && !other.same_tokens)) return false;
  return !chosen.one_head || !chosen.same_tokens;
}

// "tensor 'q' must have the config's 32 heads and tensor 'k' its 8 but got 16 and 16 in layout bthd". Among
// equal tensors, such as those of many layers, only the first is named.
std::string sentence_on(const File& file) {
  std::string wanted, got, words;
  std::set<std::pair<std::vector<std::int64_t>, std::int64_t>> named;
  std::set<std::string> layouts;
  for (const Candidate& one : file) {
    const auto& [word, layout] = one.readings.front();
    if (layouts.insert(word).second) words += (words.empty() ? "" : " and ") + word;
    const std::vector<std::int64_t> allowed = one.counts();
    if (one.tensor->elements() == 0 || !named.emplace(allowed, layout.heads).second) continue;
    const bool either = allowed.size() > 1 && allowed[0] != allowed[1];
    const std::string number = std::to_string(allowed[0]) + (either ? " or " + std::to_string(allowed[1]) : "");
    wanted += wanted.empty() ? label(*one.tensor) + " must have the config's " + number + " heads"
                             : " and " + label(*one.tensor) + " its " + number;
    got += (got.empty() ? "" : " and ") + std::to_string(layout.heads);
  }
  return wanted + " but got " + got + " in layout " + words;
}

std::string to_text(const Layout& layout) {
  return std::to_string(layout.heads) + (layout.heads == 1 ? " head of " : " heads of ") +
         std::to_string(layout.tokens) + (layout.tokens == 1 ? " token" : " tokens");
}

// The notes on the n-th readings of the tensors, beside the chosen ones.
std::vector<std::string> notes_on(const File& file, std::size_t n) {
  std::vector<std::string> notes;
  for (const Candidate& one : file) {
    notes.push_back("note: " + label(*one.tensor) + " is read as " + to_text(one.readings[0].layout) + "; in layout " +
                    one.by(n).word + " it would be " + to_text(one.by(n).layout));
  }
  return notes;
}

}  // namespace

std::vector<Reading> readings_of(const std::vector<std::int64_t>& shape) {
  TensorInfo tensor;
  tensor.shape = shape;
  std::vector<Reading> readings;
  for (const std::string& word : files::layout_words) {
    if (word != "flat" && word.size() == shape.size())
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

Readings read_heads(std::span<const Tensor* const> tensors, const Subject& subject) {
  static const ModelRope unknown;
  const ModelRope& used = subject.used == nullptr ? unknown : *subject.used;
  const std::string& written = subject.layout;
  File file;
  for (const Tensor* tensor : tensors) {
    Candidate& one = file.emplace_back(Candidate{tensor, {.used = &used, .role = role_of(tensor->name)}});
    std::vector<std::string> words = words_for(one);
    if (!written.empty()) {
      std::erase(words, written);
      words.insert(words.begin(), written);
    }
    if (words.empty()) refuse_dimensions(*tensor, used);
    for (const std::string& word : words)
      one.readings.push_back({word, files::layout_of("apply", *tensor, word, one.subject.head_dim_of(*tensor))});
  }
  // Tensors of one file have one layout: if one can only be flat, those that can be flat are read so first. One head of
  // k, [batch, tokens, head_dim], also looks like [tokens, heads, head_dim].
  const auto is_flat = [](const Reading& reading) { return reading.word == "flat"; };
  const bool flat = written.empty() && std::ranges::any_of(file, [&](const Candidate& one) {
                      return one.readings.size() == 1 && is_flat(one.readings[0]);
                    });
  // One head of k, [batch, tokens, head_dim], beside a tensor of four dimensions with that batch and those tokens.
  const auto is_beside = [&](const Layout& layout) {
    return std::ranges::any_of(file, [&](const Candidate& other) {
      const Layout& its = other.readings[0].layout;
      return other.tensor->shape.size() == 4 && its.batch == layout.batch && its.tokens == layout.tokens;
    });
  };
  const auto one_head_beside = [&](const Candidate& one) {
    return std::ranges::any_of(one.readings, [&](const Reading& reading) {
      return is_flat(reading) && one.is_count(reading.layout.heads) && is_beside(reading.layout);
    });
  };
  std::size_t most = 1;
  for (Candidate& one : file) {
    if (flat || (written.empty() && one_head_beside(one)))
      std::stable_partition(one.readings.begin(), one.readings.end(), is_flat);
    most = std::max(most, one.readings.size());
  }
  Readings found;
  for (const Candidate& one : file) found.tensors.push_back(one.readings[0]);
  std::vector<Fit> fits;
  for (std::size_t n = 0; n < most; ++n) fits.push_back(fit_of(file, n, used));
  const Fit& chosen = fits[0];
  std::vector<std::size_t> others(most - 1);
  std::iota(others.begin(), others.end(), std::size_t{1});
  std::stable_partition(others.begin(), others.end(), [&](std::size_t n) { return fits[n].exact; });  // then shards
  const auto better =
      std::ranges::find_if(others, [&](std::size_t n) { return used.heads > 0 && contradicts(fits[n], chosen); });
  if (better == others.end()) {
    if (!written.empty()) return found;
    if (used.heads > 0 && !chosen.possible) {
      found.notes = {"note: " + sentence_on(file) + "; no other layout fits"};
      return found;
    }
    const auto open = std::ranges::find_if(others, [&](std::size_t n) {
      if (used.heads > 0) return !chosen.exact && fits[n].exact;
      return tensors.size() > 1 && !chosen.same_tokens && fits[n].same_tokens;
    });
    if (open != others.end()) found.notes = notes_on(file, *open);
    return found;
  }
  const auto first = std::ranges::find_if(  // the first that the two read in different layouts
      file, [&](const Candidate& one) { return one.by(*better).word != one.readings[0].word; });
  const std::string &fitting = first->by(*better).word, &word = first->readings[0].word;
  const std::string sentence = sentence_on(file) + "; layout " + fitting;
  if (written.empty()) {
    fail(Code::SHAPE, "apply", sentence, " fits: say --layout ", fitting, ", or --layout ", word,
         " to read them in that layout");
  }
  found.warnings.push_back("warning: " + sentence + " would fit; --layout " + word + " is used");
  return found;
}

}  // namespace rotary::tools
