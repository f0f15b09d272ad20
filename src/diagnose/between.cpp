// Two engines' rotated tensors, without one before: the same, in another order of elements, or rotated further.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "examination.h"

namespace rotary::diagnose {

namespace {

constexpr std::array<Kind, 4> kinds = {Kind::half, Kind::interleaved, Kind::half_to_interleaved,
                                       Kind::interleaved_to_half};
constexpr double rms_of_roundings = 0.8;  // of cos and sin, two products and their sum, in units

Block with_kind(Block block, Kind kind) {
  block.kind = kind;
  return block;
}

// With the orders of both files, where they differ.
Finding with_order(Finding one, Kind kind) {
  const bool differs = kind != Kind::half && kind != Kind::interleaved;
  if (differs) one.numbers.push_back({kind == Kind::half_to_interleaved ? "halves_first" : "pairs_first", true});
  return one;
}

// `after` against `before` in the block's order of elements. Both engines round: an element may be off by twice what it
// may be of one, and those of a pair together by what roundings add up to; of two types the one of fewer digits rounds
// its input too. rms: of the differences, relative.
Checked compare(const Sample& as_given, const Layout& layout, const Asked& asked, const Block& block,
                std::optional<double> tolerance, double& rms) {
  const Sample sample = as_given.loosened();
  Checked result;
  struct Sums {
    double off = 0, usual = 0, norm = 0;
  };
  std::vector<Sums> sums(static_cast<std::size_t>(block.pairs));
  const auto add_head = [&](std::span<const Element> head) {
    for (const Element& one : head) {
      add(result, one, tolerance.value_or(2 * one.allowed));
      if (!one.place.pair) continue;
      Sums& of_pair = sums[static_cast<std::size_t>(*one.place.pair)];
      const double usual = one.norm * 2 * (rms_of_roundings * sample.unit + one.steps) + sample.least;
      of_pair.off += one.off() * one.off();
      of_pair.usual += usual * usual / 2;
      of_pair.norm += one.norm * one.norm / 2;
    }
  };
  hold_heads(sample, layout, block, asked.motion, 0, layout.batch * layout.tokens, false, add_head);
  double off = 0, all = 0;
  result.equal = !result.first;
  for (const Sums& one : sums) {
    result.equal = result.equal && (tolerance || one.off <= one.usual);
    off += one.off;
    all += one.norm;
  }
  rms = all > 0 ? std::sqrt(off / all) : 0;
  return result;
}

// By how many positions the second is ahead of the first, of about 64 tokens; 0: the same but for noise.
std::optional<double> offset_of(Sample sample, Reading reading, const Asked& asked, Kind kind) {
  Layout& layout = reading.layout;
  const std::int64_t step = std::max<std::int64_t>(1, layout.tokens / 64);
  layout.tokens = (layout.tokens + step - 1) / step;
  layout.token_stride *= step;
  sample.unit += sample.before_unit;
  const double most = 0.02 + 3 * sample.unit;
  const Turns turns = measure(sample, reading, with_kind(asked.block, kind), asked.motion.apart > 0);
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
  NamedCheck result{{pair.name, {}}, {}};
  Diagnosis& one = result.diagnosis;
  Finding found;
  one.facts.layout = reading.word;
  double rms = 0;
  for (const Kind kind : kinds) {
    double of_kind = 0;
    const Checked checked = compare(sample, reading.layout, asked, with_kind(asked.block, kind), tolerance, of_kind);
    if (kind != kinds[0] && !checked.equal && of_kind >= rms) continue;
    result.checked = checked;
    rms = of_kind;
    if (!checked.equal) continue;
    const bool same_order = kind == Kind::half || kind == Kind::interleaved;
    found = with_order(finding(same_order ? Cause::same : Cause::same_in_another_order), kind);
    if (!same_order) one.facts.pairing = name(kind);
    break;
  }
  result.outcome = result.checked.equal ? Outcome::equal : Outcome::differs;
  if (!result.checked.equal) found = explain_difference(one, sample, reading, asked, rms);
  if (result.checked.equal && std::ranges::all_of(sample.before, [](double value) { return value == 0; })) {
    result.outcome = Outcome::undecided;
    found = finding(Cause::zero_in_both);
  }
  one.verdict = found.verdict;
  one.found = {std::move(found)};
  return result;
}

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
