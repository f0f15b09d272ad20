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

Finding with_order(Finding one, const std::optional<std::string>& pairing) {
  if (pairing == name(Kind::half_to_interleaved)) one.numbers.push_back({"halves_first", true});
  if (pairing == name(Kind::interleaved_to_half)) one.numbers.push_back({"pairs_first", true});
  return one;
}

// About 64 tokens are diagnosed as if every one of the first file were at position 0, if they can hold the block.
Finding explain_difference(Diagnosis& one, const Sample& sample, const Subject& subject, const Reading& reading,
                           const Block& block, double rms) {
  if (rms <= 0.02 + 3 * (sample.unit + sample.before_unit))
    return finding(Cause::same_but_noise, {{"rms", rms, 2, std::numeric_limits<double>::infinity()}});
  if (block.pairs == 0) return finding(Cause::another_in_second);
  const std::int64_t tokens = reading.layout.tokens;
  Numbers some;
  for (std::int64_t t = 0; t < tokens; t += std::max<std::int64_t>(1, tokens / 64)) some.push_back(t);
  Subject at_0 = subject;
  at_0.layout = reading.word;
  const int axes = subject.used->rope.axes();
  std::vector<double> zeros(static_cast<std::size_t>(axes) * some.size(), 0);
  at_0.positions = PositionSet{.reals = std::move(zeros), .axes = axes, .tokens = std::ssize(some)};
  Bounds both = sample.loosened();
  both.unit = sample.unit + sample.before_unit;
  const Answer further = answer_as_one(sample.part(reading, 1, some).within(both), at_0);
  const Facts& facts = further.diagnosis.facts;
  const bool is_offset = std::ranges::count(further.diagnosis.found, Cause::offset, &Finding::cause) == 1;
  if (!further.explained || !is_offset) {
    const bool turned = !search_blocks(sample, block).found.empty();
    return finding(turned ? Cause::turned_otherwise : Cause::another_in_second);
  }
  const double offset = facts.positions[0][0], far = std::abs(offset);
  one.facts.positions = {std::vector<double>(static_cast<std::size_t>(tokens), offset)};
  return with_order(
      finding(Cause::further, {{far == 1 ? "position" : "positions", far, 10}, {offset > 0 ? "late" : "early", true}}),
      facts.pairing);
}

// The findings on one of two rotated files, if the other is rotated as the config asks, whose rotation is undone.
std::vector<Finding> explain_by_undoing(const Sample& sample, const Subject& subject, const Reading& reading,
                                        const Asked& asked) {
  Subject read = subject;
  read.layout = reading.word;
  for (const bool is_second : {true, false}) {
    std::vector<double> undone = (is_second ? sample.before : sample.after).copied();
    rotate(undone, reading.layout, asked.block.reversed(), asked.motion.reversed());
    Sample one = sample;
    if (!is_second) one.after = sample.before;
    one.before = std::move(undone);
    Bounds both = sample.loosened();
    both.unit = sample.unit + sample.before_unit;
    const Answer answer = answer_as_one(one.within(both), read);
    std::vector<Finding> found = answer.diagnosis.found;
    constexpr Cause vague[] = {Cause::unknown_speeds, Cause::other_positions, Cause::twice_mixed};
    const bool is_named = std::ranges::find(vague, found.front().cause) == std::end(vague);
    if (!answer.explained || !is_named || !is_fault(found.front())) continue;
    std::erase_if(found, [](const Finding& of) { return of.cause == Cause::coarse_before; });  // the undone tensor's
    found.push_back(finding(Cause::other_as_asked, {{is_second ? "second" : "first", true}}));
    return found;
  }
  return {};
}

}  // namespace

NamedCheck judge_between(const TensorPair& pair, const Subject& subject, std::optional<double> tolerance) {
  const bool fits = subject.turns || tools::fits_width(pair.before, *subject.used);  // the values of MLA are narrower
  const Sample sample = sample_as_given(pair.before, pair.after, subject, fits);
  const Reading reading = plausible_readings(sample, subject).front();
  refuse_not_finite(sample, pair, reading.layout);
  Asked asked = ask(subject, *asked_block(subject, sample.head_dim), reading.layout);
  if (!fits) asked.block.pairs = 0;
  std::optional<Comparison> best;  // without a difference, else with the least; of equal ones the first
  Kind order = kinds[0];
  for (const Kind kind : kinds) {
    if (best && best->checked.equal) break;
    const Block block{kind, asked.block.first, asked.block.pairs};
    Comparison one = compare_rows(sample.loosened(), reading.layout, block, asked.motion, tolerance, false);
    if (best && !one.checked.equal && one.rms() > 0.999 * best->rms()) continue;
    best = std::move(one);
    order = kind;
  }
  NamedCheck result{.name = pair.name, .checked = best->checked};
  Diagnosis& one = result.diagnosis;
  one.facts.layout = reading.word;
  const bool equal = best->checked.equal;
  result.outcome = equal ? Outcome::equal : Outcome::differs;
  if (equal && std::ranges::all_of(sample.before, [](double value) { return value == 0; })) {
    result.outcome = Outcome::undecided;
    one.found = {finding(Cause::zero_in_both)};
  } else if (equal && is_same_order(order)) {
    one.found = {finding(Cause::same)};
  } else if (equal) {
    one.facts.pairing = name(order);
    one.found = {with_order(finding(Cause::same_in_another_order), one.facts.pairing)};
  } else {
    one.found = {explain_difference(one, sample, subject, reading, asked.block, best->rms())};
    if (one.found[0].cause == Cause::turned_otherwise) {
      std::vector<Finding> named = explain_by_undoing(sample, subject, reading, asked);
      if (!named.empty()) one.found = std::move(named);
    }
  }
  one.verdict = one.found.front().verdict;
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
