// One tensor: what a rotation did to it.
#include <algorithm>
#include <array>
#include <cmath>

#include "examination.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::significant;

constexpr std::array<const char*, 16> verdict_names = {
    "as_configured", "pairing",          "direction", "offset", "positions",  "base", "scaling",     "block",
    "layout",        "attention_factor", "precision", "twice",  "some_heads", "axis", "not_rotated", "cannot_tell"};

Diagnosis cannot_tell(const std::string& who, const std::string& reason) {
  Diagnosis result;
  result.sentence = who + ": cannot tell, because " + reason;
  result.findings = {"cannot tell, because " + reason};
  return result;
}

std::string who(const Tensor& tensor) { return tensor.name.empty() ? "the tensor" : tensor.name; }

// Whether the rope would move anything: not at position 0.
bool would_move(const Examination& exam) {
  const Order order = plausible_orders(exam.sample, exam.subject).front();
  for (const std::vector<double>& positions : expected_positions(order, exam.subject)) {
    if (std::ranges::any_of(positions, [](double position) { return position != 0; })) return true;
  }
  return false;
}

void examine_unchanged(Examination& exam) {
  const bool zero = std::ranges::all_of(exam.sample.before, [](double x) { return x == 0; });
  if (zero) {
    exam.find(Verdict::cannot_tell, "cannot tell, because every element is 0");
  } else if (!would_move(exam)) {
    exam.find(Verdict::cannot_tell,
              "cannot tell, because at position 0 no rope moves anything: before and after are the same");
  } else {
    exam.find(Verdict::not_rotated, "is not rotated: before and after are the same, bit for bit");
  }
}

// "0-15" for 0, 1, ..., 15.
std::string ranges(const std::vector<std::int64_t>& rising) {
  std::string text;
  for (std::size_t i = 0; i < rising.size();) {
    std::size_t last = i;
    while (last + 1 < rising.size() && rising[last + 1] == rising[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(rising[i]);
    if (last > i) text += "-" + std::to_string(rising[last]);
    i = last + 1;
  }
  return text;
}

void find_heads(Examination& exam) {
  const auto all = static_cast<std::size_t>(exam.turns.order.heads);
  const std::size_t some = exam.turns.heads.size();
  if (some == all) return;
  exam.find(Verdict::some_heads, "is rotated in " + std::to_string(some) + " of its " + std::to_string(all) +
                                     " heads only (" + ranges(exam.turns.heads) +
                                     "); the others are the same before and after");
}

void find_pairing(Examination& exam, const Block& asked) {
  const Block& block = exam.turns.block;
  if (exam.kind_is_known()) exam.facts.pairing = name(block.kind);
  if (block.kind == asked.kind) return;
  const auto misfit = [&](Kind kind) { return exam.search.misfit_of_kind[static_cast<std::size_t>(kind)]; };
  std::string text = std::string("is rotated in the ") + name(block.kind) + " pairing; the model uses " +
                     name(asked.kind) + " (" + residuals(misfit(block.kind), misfit(asked.kind)) + ")";
  const auto reorders = [](Kind kind) { return kind == Kind::interleaved_to_half; };
  const bool same_scores = (reorders(block.kind) && asked.kind == Kind::interleaved) ||
                           (reorders(asked.kind) && block.kind == Kind::interleaved);
  if (same_scores) text += "; the elements have another order, scores of q and k that both have it are the same";
  exam.find(Verdict::pairing, text);
}

std::string block_text(const Block& block, int head_dim) {
  if (block.rotary_dim() == head_dim) return "all " + std::to_string(head_dim) + " elements";
  return "elements " + std::to_string(block.first) + " to " + std::to_string(block.first + block.rotary_dim() - 1);
}

void find_block(Examination& exam, const Block& asked) {
  const Block& block = exam.turns.block;
  exam.facts.first = block.first;
  exam.facts.rotary_dim = block.rotary_dim();
  if (block.first == asked.first && block.pairs == asked.pairs) return;
  std::string text = "is rotated in " + block_text(block, exam.sample.head_dim) + " of each head; the model rotates " +
                     block_text(asked, exam.sample.head_dim);
  const auto touched = static_cast<int>(exam.search.touched.size());
  const int span = exam.search.touched.back() + 1 - exam.search.touched.front();
  if (touched <= span * 3 / 4) text += " (the pairs that move are spread: " + std::to_string(touched) + " elements)";
  exam.find(Verdict::block, text);
}

bool touches(const Examination& exam, const Block& block, int pair) {
  const auto contains = [&](int element) {
    return std::binary_search(exam.search.touched.begin(), exam.search.touched.end(), element);
  };
  const auto [u, v] = block.output(pair);
  return contains(u) || contains(v);
}

// The asked block is preferred where the data allow it; not if it has pairs that should move visibly and do not.
bool should_move_and_does_not(const Examination& exam, const Asked& asked) {
  const Block& block = exam.turns.block;
  for (int pair = 0; pair < block.pairs; ++pair) {
    if (touches(exam, block, pair)) continue;
    for (std::int64_t row = 0; row < exam.turns.rows(); ++row) {
      if (std::abs(asked.motion.angle(row, pair)) > 16 * exam.sample.unit) return true;
    }
  }
  return false;
}

void finish(Examination& exam, Diagnosis& result, const std::string& who) {
  result.facts = exam.facts;
  result.residual = exam.residual;
  if (exam.findings.empty()) return;
  result.verdict = exam.findings.front().verdict;
  result.sentence = who + (result.verdict == Verdict::cannot_tell ? ": " : " ") + exam.findings.front().text;
  for (const Finding& finding : exam.findings) {
    if (&finding != &exam.findings.front()) result.sentence += "; and it " + finding.text;
    result.findings.push_back(finding.text);
  }
}

void as_configured(const Examination& exam, Diagnosis& result, const std::string& who) {
  result.verdict = Verdict::as_configured;
  result.sentence =
      who + " is rotated as the config asks: " + (exam.facts.pairing ? *exam.facts.pairing + " pairing, " : "") +
      block_text(exam.turns.block, exam.sample.head_dim) + ", layout " + exam.facts.layout + " (residual " +
      significant(exam.residual, 2) + ")";
}

bool holds(const Examination& exam, const Turns& turns) {
  Asked rope = ask(*exam.subject.used, turns.block, exam.subject, exam.expected);
  rope.motion.factor = exam.factor;
  return compare(turns, rope.motion).holds;
}

// Of pairs side by side the slow ones at the end may not visibly move, so the block that is seen is the least that
// rotates. Where the turns are not those of the asked rope, the narrowest block is taken in which its base explains
// them.
void settle_width(Examination& exam) {
  if (exam.turns.block.kind == Kind::half || holds(exam, exam.turns)) return;
  for (const FoundBlock& seen : search_blocks(exam.sample, std::nullopt).found) {
    if (seen.block.kind != exam.turns.block.kind) continue;
    for (int pairs = seen.block.pairs; seen.block.first + 2 * pairs <= exam.sample.head_dim; ++pairs) {
      const Turns turns = measure(exam.sample, exam.turns.order, {seen.block.kind, seen.block.first, pairs});
      if (!holds(exam, turns)) continue;
      exam.turns = turns;
      return;
    }
  }
}

void examine(Examination& exam) {
  const std::optional<Block> asked = asked_block(exam.subject, exam.sample.head_dim);
  const bool reorders = asked && asked->kind == Kind::interleaved_to_half;
  if (exam.sample.before == exam.sample.after && (!reorders || would_move(exam))) return examine_unchanged(exam);
  exam.search = search_blocks(exam.sample, asked);
  if (exam.search.found.empty()) {
    if (examine_composites(exam)) return;
    double least = 1;
    for (const double misfit : exam.search.misfit_of_kind) least = std::min(least, misfit);
    exam.find(Verdict::cannot_tell,
              "cannot tell, because no pairing of its elements keeps the norms of the pairs, as a "
              "rotation does (residual " +
                  significant(least, 2) + " at best)");
    return;
  }
  const bool alike = find_order(exam);
  const Block found_block = exam.turns.block;
  if (asked && found_block.first == asked->first && found_block.pairs == asked->pairs && alike) {
    const Asked rope = ask(*exam.subject.used, *asked, exam.subject, exam.expected);
    if (should_move_and_does_not(exam, rope)) {
      exam.search = search_blocks(exam.sample, std::nullopt);
      exam.findings.clear();
      find_order(exam);
    }
  }
  if (asked && alike) settle_width(exam);
  if (!alike) {
    examine_heads(exam);
    return;
  }
  find_heads(exam);
  if (asked) {
    find_pairing(exam, *asked);
    find_block(exam, *asked);
    examine_with_rope(exam);
  } else {
    if (exam.kind_is_known()) exam.facts.pairing = name(exam.turns.block.kind);
    examine_without_rope(exam);
  }
}

}  // namespace

const char* name(Verdict verdict) noexcept { return verdict_names[static_cast<std::size_t>(verdict)]; }

std::string residuals(double found, double asked) {
  return "residual " + significant(found, 2) + " against " + significant(asked, 2);
}

void Examination::set_positions(const std::vector<double>& position) {
  facts.positions.clear();
  const auto tokens = static_cast<std::ptrdiff_t>(turns.order.tokens);
  for (auto begin = position.begin(); begin != position.end(); begin += tokens) {
    facts.positions.emplace_back(begin, begin + tokens);
  }
  const bool alike = std::ranges::all_of(facts.positions, [&](const auto& row) { return row == facts.positions[0]; });
  if (alike) facts.positions.resize(1);
}

bool Examination::kind_is_known() const {
  if (search.found.size() < 2) return true;
  return turns.block.pairs > 1 && !alike(sample, search.found[0].misfit, search.found[1].misfit);
}

Diagnosis diagnose(const Tensor& before, const Tensor& after, const Subject& subject) {
  const Tensor& named = before;
  const Sample sample = make_sample(before, after, subject.head_dim_of(before));
  if (!sample.not_finite.empty()) return cannot_tell(who(named), sample.not_finite);
  Examination exam{sample, subject, {}, {}, {}, 1, {}, {}, 0};
  examine(exam);
  Diagnosis result;
  finish(exam, result, who(named));
  if (exam.findings.empty()) as_configured(exam, result, who(named));
  return result;
}

namespace {

int weight(Verdict verdict) {
  if (verdict == Verdict::as_configured) return 0;
  return verdict == Verdict::cannot_tell ? 1 : 2;
}

// "q", "q and k", "q, k and v".
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

// The sentence without its residuals, which differ between tensors that have one fault.
std::string without_residuals(const NamedDiagnosis& one) {
  std::string text = one.diagnosis.sentence.substr(one.name.size());
  for (std::size_t at = 0; (at = text.find(" (residual ")) != std::string::npos;)
    text.erase(at, text.find(')', at) + 1 - at);
  return text;
}

// One sentence for tensors of which the same is said, with the residuals of the first.
std::string sentence_of(const std::vector<NamedDiagnosis>& tensors, std::size_t first, std::vector<bool>& said) {
  std::vector<std::string> names;
  for (std::size_t i = first; i < tensors.size(); ++i) {
    if (said[i] || tensors[i].name.empty() || without_residuals(tensors[i]) != without_residuals(tensors[first]))
      continue;
    names.push_back(tensors[i].name);
    said[i] = true;
  }
  said[first] = true;
  if (names.size() < 2) return tensors[first].diagnosis.sentence;
  const std::string rest = tensors[first].diagnosis.sentence.substr(tensors[first].name.size());
  return list_of(names) + (rest.starts_with(" is ") ? " are " + rest.substr(4) : rest);
}

}  // namespace

Diagnosis combine(const std::vector<NamedDiagnosis>& tensors) {
  const auto worst = std::max_element(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return weight(a.diagnosis.verdict) < weight(b.diagnosis.verdict);
  });
  Diagnosis result = worst->diagnosis;
  std::vector<std::string> still, moved, right;
  std::vector<bool> said(tensors.size(), false);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Verdict verdict = tensors[i].diagnosis.verdict;
    (verdict == Verdict::not_rotated ? still : moved).push_back(tensors[i].name);
    if (verdict != Verdict::as_configured) continue;
    right.push_back(tensors[i].name);
    said[i] = weight(result.verdict) > 0;
  }
  const bool some = !still.empty() && !moved.empty();
  if (some) {
    result.verdict = Verdict::some_heads;
    result.sentence = "only " + list_of(moved) + (moved.size() == 1 ? " is" : " are") + " rotated; " + list_of(still) +
                      (still.size() == 1 ? " is" : " are") + " the same before and after";
    for (std::size_t i = 0; i < tensors.size(); ++i)
      said[i] = said[i] || tensors[i].diagnosis.verdict == Verdict::not_rotated;
  } else {
    result.sentence = sentence_of(tensors, static_cast<std::size_t>(worst - tensors.begin()), said);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!said[i]) result.sentence += ". " + sentence_of(tensors, i, said);
  }
  if (weight(result.verdict) > 0 && !right.empty() && !some) {
    result.sentence += ". " + list_of(right) + (right.size() == 1 ? " is" : " are") + " as the config asks";
  }
  return result;
}

}  // namespace rotary::diagnose
