// Two engines' rotated tensors, without one before: the same, in another order of elements, or rotated further.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "examination.h"

namespace rotary::diagnose {

namespace {

// The orders of elements that are tried, the same in both files first.
constexpr std::array<Kind, 4> kinds = {Kind::half, Kind::interleaved, Kind::half_to_interleaved,
                                       Kind::interleaved_to_half};

bool is_same_order(Kind kind) { return kind == Kind::half || kind == Kind::interleaved; }

Finding with_order(Finding one, Kind kind) {
  if (!is_same_order(kind))
    one.numbers.push_back({kind == Kind::half_to_interleaved ? "halves_first" : "pairs_first", true});
  return one;
}

// `after` against `before` in an order of elements. Both engines round: an element may be off by twice what it may be
// of one.
struct InOrder {
  Kind kind;
  Checked checked = {};
  double rms = 0;  // the relative rms of the differences
};
InOrder compare(const Sample& sample, const Layout& layout, const Asked& asked, Kind kind,
                std::optional<double> tolerance) {
  InOrder result{kind};
  double off = 0, all = 0;
  hold_heads(sample.loosened(), layout, {kind, asked.block.first, asked.block.pairs}, asked.motion, 0,
             layout.batch * layout.tokens, false, [&](std::span<const Element> head) {
               for (const Element& one : head) {
                 add(result.checked, one, tolerance.value_or(2 * one.allowed));
                 off += square(one.off());
                 all += square(one.wanted);
               }
             });
  result.checked.equal = !result.checked.first;
  result.rms = all > 0 ? std::sqrt(off / all) : 0;
  return result;
}

// The number of positions by which the second is ahead of the first, by about 64 tokens; 0: the same but for noise.
std::optional<double> offset_of(Sample sample, Reading reading, const Asked& asked, Kind kind) {
  Layout& layout = reading.layout;
  const std::int64_t step = std::max<std::int64_t>(1, layout.tokens / 64);
  layout.tokens = (layout.tokens + step - 1) / step;
  layout.token_stride *= step;
  sample.unit += sample.before_unit;
  const double most = 0.02 + 3 * sample.unit;
  const Turns turns = measure(sample, reading, {kind, asked.block.first, asked.block.pairs}, asked.motion.apart > 0);
  if (turns.spread > most || std::ssize(turns.heads) != layout.heads) return std::nullopt;
  Motion motion = asked.motion;
  motion.factor = 1;
  const auto holds_at = [&](double offset) {
    for (std::vector<double>& position : motion.position)
      position.assign(static_cast<std::size_t>(turns.rows()), offset);
    return compare(turns, motion).residual <= most;
  };
  if (holds_at(0)) return 0;
  if (motion.terms > 1) return std::nullopt;  // an offset on each axis
  const FoundPositions found = find_positions(turns, motion, motion.axis_of(0), motion.position[0]);
  const double offset =
      found.position[static_cast<std::size_t>(std::ranges::min_element(found.error) - found.error.begin())];
  return holds_at(offset) ? std::optional(offset) : std::nullopt;
}

Finding explain_difference(Diagnosis& one, const Sample& sample, const Reading& reading, const Asked& asked,
                           double rms) {
  for (const Kind kind : kinds) {
    const std::optional<double> offset = offset_of(sample, reading, asked, kind);
    if (!offset) continue;
    if (*offset == 0) return finding(Cause::same_but_noise, {{"rms", rms, 2, std::numeric_limits<double>::infinity()}});
    one.facts.positions = {std::vector<double>(static_cast<std::size_t>(reading.layout.tokens), *offset)};
    const double far = std::abs(*offset);
    return with_order(finding(Cause::further,
                              {{far == 1 ? "position" : "positions", far, 10}, {*offset > 0 ? "late" : "early", true}}),
                      kind);
  }
  const bool turned = !search_blocks(sample, asked.block).found.empty();
  return finding(turned ? Cause::turned_otherwise : Cause::another_in_second);
}

}  // namespace

NamedCheck judge_between(const TensorPair& pair, const Subject& subject, std::optional<double> tolerance) {
  const Sample sample = sample_as_given(pair.before, pair.after, subject.head_dim_of(pair.before));
  const Reading reading = plausible_readings(sample, subject).front();
  refuse_not_finite(sample, pair, reading.layout);
  const Asked asked = ask(subject, *asked_block(subject, sample.head_dim), reading.layout);
  std::optional<InOrder> best;  // without a difference, else with the least
  for (const Kind kind : kinds) {
    if (best && best->checked.equal) break;
    const InOrder one = compare(sample, reading.layout, asked, kind, tolerance);
    if (!best || one.checked.equal || one.rms < best->rms) best = one;
  }
  NamedCheck result{{pair.name, {}}, best->checked};
  Diagnosis& one = result.diagnosis;
  one.facts.layout = reading.word;
  const bool equal = best->checked.equal;
  result.outcome = equal ? Outcome::equal : Outcome::differs;
  if (equal && std::ranges::all_of(sample.before, [](double value) { return value == 0; })) {
    result.outcome = Outcome::undecided;
    one.found = {finding(Cause::zero_in_both)};
  } else if (equal) {
    const bool same = is_same_order(best->kind);
    one.found = {with_order(finding(same ? Cause::same : Cause::same_in_another_order), best->kind)};
    if (!same) one.facts.pairing = name(best->kind);
  } else {
    one.found = {explain_difference(one, sample, reading, asked, best->rms)};
  }
  one.verdict = one.found.front().verdict;
  return result;
}

// Another order of elements keeps the scores where it is that of q and k; of one alone that is undecided.
void settle_orders(std::vector<NamedCheck>& tensors) {
  for (NamedCheck& one : tensors) {
    const Role role = tools::role_of(one.name);
    if (one.diagnosis.verdict != Verdict::pairing) continue;
    one.outcome = Outcome::undecided;
    for (const NamedCheck& other : tensors) {
      const Role of_other = tools::role_of(other.name);
      const bool are_both = tools::is_q_or_k(role) && tools::is_q_or_k(of_other) && role != of_other;
      if (other.layer != one.layer || !are_both) continue;
      const bool alike = other.diagnosis.facts.pairing == one.diagnosis.facts.pairing;
      one.outcome = alike && one.outcome != Outcome::differs ? Outcome::equal : Outcome::differs;
    }
  }
}

}  // namespace rotary::diagnose
