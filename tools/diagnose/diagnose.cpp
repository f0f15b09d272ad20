// One tensor: what a rotation did to it.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "examination.h"
#include "values/fail.h"

namespace rotary::diagnose {

namespace {

// ---- findings of the norms and the layout ----

void examine_unchanged(Examination& exam) {
  exam.explained = true;
  const bool zero = std::ranges::all_of(exam.sample.before, [](double x) { return x == 0; });
  const Layout layout = plausible_readings(exam.sample, exam.subject).front().layout;
  const auto block = asked_block(exam.subject, exam.sample.head_dim);
  const bool reorders = block && *block != block->in_place();
  auto asked = expected_positions(layout, exam.subject), from = asked;  // the rope moves nothing from a place to itself
  for (std::vector<double>& positions : from) std::ranges::fill(positions, 0);
  if (exam.subject.from) from = rows_of(*exam.subject.from, layout, exam.subject);
  if (zero) {
    exam.find(Cause::zeros);
  } else if (!reorders && from == asked) {
    const double factor = block ? ask(exam.subject, *block, layout).motion.factor : 1;
    if (factor == 1) return exam.find(Cause::position_0);
    exam.find(Cause::still_without_factor, {{"asked", factor, 7}});
  } else {
    std::vector<Number> numbers;
    if (!exam.sample.noisy()) numbers.push_back({"exact", true});
    const bool away = std::ranges::find(asked[0], 0) == asked[0].end();
    if (away && !exam.subject.from) numbers.push_back({"asked", asked[0][0], 10});
    exam.find(Cause::not_rotated, std::move(numbers));
  }
}

void find_heads(Examination& exam) {
  const std::int64_t all = exam.turns.layout().heads;
  const Numbers& some = exam.turns.heads;
  if (std::ssize(some) == all) return;
  Where still;
  for (std::int64_t head = 0; head < all; ++head) {
    if (!std::ranges::binary_search(some, head)) still.heads.push_back(head);
  }
  still.heads = exam.sample.in_whole(2, still.heads);
  exam.find(finding(Cause::some_heads,
                    {{"some", number(some.size())}, {"all", number(all)}, {"heads", exam.sample.in_whole(2, some)}},
                    std::move(still)));
}

void find_pairing(Examination& exam, const Block& asked) {
  const Kind kind = exam.turns.block.kind;
  exam.set_pairing();
  if (kind == asked.kind) return;
  const auto misfit = [&](Kind one) { return exam.search.misfit_of_kind[static_cast<std::size_t>(one)]; };
  const bool same_pairs = Block{kind, 0, 2}.input(0) == Block{asked.kind, 0, 2}.input(0),
             several = exam.turns.block.pairs > 1;
  Finding one = finding(same_pairs && several ? Cause::order : Cause::pairing,
                        {{"found", name(kind)}, {"asked", name(asked.kind)}});
  if (!same_pairs && several) one.numbers.push_back({"rows", true});
  exam.find(with_residuals(std::move(one), misfit(kind), misfit(asked.kind)));
}

// "all 64 elements", or "elements 0 to 31".
void add_elements(std::vector<Number>& numbers, const std::string& prefix, const Block& block, int head_dim) {
  if (block.rotary_dim() == head_dim) return numbers.push_back({prefix + "all", number(head_dim)});
  numbers.push_back({prefix + "first", number(block.first)});
  numbers.push_back({prefix + "last", number(block.first + block.rotary_dim() - 1)});
}

void find_block(Examination& exam, const Block& asked) {
  const Block& block = exam.turns.block;
  exam.facts.first = block.first;
  exam.facts.rotary_dim = block.rotary_dim();
  if (block.first == asked.first && block.pairs == asked.pairs) return;
  std::vector<Number> numbers;
  add_elements(numbers, "found_", block, exam.sample.head_dim);
  add_elements(numbers, "asked_", asked, exam.sample.head_dim);
  const auto touched = static_cast<int>(exam.search.touched.size());
  const int span = exam.search.touched.back() + 1 - exam.search.touched.front();
  if (touched <= span * 3 / 4) numbers.push_back({"moving", number(touched)});
  exam.find(Cause::block, std::move(numbers));
}

// ---- a block that the norms leave open ----

// The asked block is preferred where the data allow it; not if it has pairs that should move visibly and do not.
bool should_move_and_does_not(const Examination& exam, const Asked& asked) {
  const Block& block = exam.turns.block;
  for (int pair = 0; pair < exam.turns.pairs(); ++pair) {
    const bool touches = std::ranges::any_of(block.output(pair % block.pairs), [&](int element) {
      return std::ranges::binary_search(exam.search.touched, element);
    });
    if (touches) continue;
    for (std::int64_t row = 0; row < exam.turns.rows(); ++row) {
      const double noise = exam.sample.noise.rms == 0 ? 0
                                                      : std::max(12 * exam.turns.sigma[exam.turns.at(row, pair)],
                                                                 4 * exam.sample.noise.relative);
      if (std::abs(asked.motion.size(row, pair)) > 16 * exam.sample.unit + noise) return true;
    }
  }
  return false;
}

bool asked_speeds_hold(const Examination& exam, const Turns& turns) {
  Asked rope = ask(exam.subject, turns.block, turns.layout(), exam.expected);
  rope.motion.factor = exam.factor;
  return compare(turns, rope.motion).holds;
}

// The slow pairs at the end of an interleaved block may not visibly move, so the block that is seen is the least that
// rotates. Where the turns are not those of the asked rope, the narrowest block is taken in which its base explains
// them.
void settle_width(Examination& exam) {
  if (exam.turns.block.kind == Kind::half || asked_speeds_hold(exam, exam.turns)) return;
  for (const FoundBlock& seen : search_blocks(exam.sample, std::nullopt).found) {
    const Block& block = seen.block;
    if (block.kind != exam.turns.block.kind) continue;
    for (int pairs = block.pairs; block.first + 2 * pairs <= exam.sample.head_dim; ++pairs) {
      Turns turns = measure(exam.sample, exam.turns.reading, {block.kind, block.first, pairs}, exam.turns.apart);
      if (!asked_speeds_hold(exam, turns)) continue;
      exam.turns = std::move(turns);
      return;
    }
  }
}

// ---- all of it ----

void examine(Examination& exam) {
  const std::optional<Block> asked = asked_block(exam.subject, exam.sample.head_dim);
  exam.search = search_blocks(exam.sample, asked);
  if (exam.search.touched.empty()) return examine_unchanged(exam);
  if (exam.search.found.empty()) {
    exam.explained = std::ranges::all_of(exam.sample.after, [](double y) { return y == 0; });
    if (exam.explained) return exam.find(Cause::zero_after);
    if (std::ranges::all_of(exam.sample.before, [](double x) { return x == 0; })) return exam.find(Cause::zero_before);
    return exam.find(Cause::norms, {residual(std::ranges::min(exam.search.misfit_of_kind))});
  }
  if (!find_layout(exam)) return exam.find(Cause::heads_differ);
  if (!asked) {
    find_heads(exam);
    return examine_without_rope(exam);
  }
  const Block found = exam.turns.block;
  if (found.first == asked->first && found.pairs == asked->pairs &&
      should_move_and_does_not(exam, ask(exam.subject, *asked, exam.turns.layout(), exam.expected))) {
    if (BlockSearch again = search_blocks(exam.sample, std::nullopt); !again.found.empty()) {
      exam.search = std::move(again);
      exam.findings.clear();
      find_layout(exam);
    }
  }
  settle_width(exam);
  find_heads(exam);
  find_pairing(exam, *asked);
  find_block(exam, *asked);
  examine_with_rope(exam);
}

Number noise_of(const Sample& sample) {
  if (sample.loose) return {"before", sample.before_type};
  return {"noise", sample.noise.rms, 2, std::numeric_limits<double>::infinity()};
}

// The findings, or that it is as configured; and the noise or rounding that stands beside them.
std::vector<Finding> all_found(const Examination& exam) {
  const bool open = exam.sample.noisy();
  std::vector<Finding> all = exam.findings;
  if (all.empty()) {
    std::vector<Number> numbers;
    if (open) numbers.push_back(noise_of(exam.sample));
    if (exam.facts.pairing) numbers.push_back({"pairing", *exam.facts.pairing});
    add_elements(numbers, "", exam.turns.block, exam.sample.head_dim);
    numbers.push_back({"layout", exam.facts.layout});
    numbers.push_back(residual(exam.residual));
    all.push_back(finding(exam.sample.noise.rms > 0 ? Cause::only_noise : Cause::as_configured, std::move(numbers)));
  } else if (open) {
    all.push_back(finding(exam.sample.loose ? Cause::coarse_before : Cause::noise, {noise_of(exam.sample)}));
  }
  return all;
}

// Diagnoses without noise first, then with a before of fewer digits than after, then with the noise that the norms
// show.
Answer diagnose_whole(const Sample& sample, const Subject& subject) {
  const Answer first = answer_as_one(sample, subject);
  // Elements that are not rotated look rotated where they are rounded again.
  if (first.explained && first.diagnosis.verdict != Verdict::block) return first;
  const std::optional<Block> asked = asked_block(subject, sample.head_dim);
  if (sample.before_unit > sample.unit) {
    if (const Answer rounded = answer_as_one(sample.loosened(), subject); rounded.explained) return rounded;
  }
  Sample noisy = sample;
  noisy.noise = measure_noise(sample, asked);
  if (noisy.noise.rms == 0) return first;
  const Answer second = answer_as_one(noisy, subject);
  const Verdict verdict = second.diagnosis.verdict;
  const bool says_more = first.explained ? second.explained : verdict != Verdict::cannot_tell;
  const bool is_rounding = verdict == first.diagnosis.verdict &&
                           (first.explained || !second.explained || noisy.noise.relative <= sample.unit);
  return says_more && !is_rounding ? second : first;
}

// ---- a tensor of many tokens, of which some are diagnosed first; and ropes with a phase or an amplitude ----

constexpr std::int64_t few_tokens = 256;    // tokens that are all looked at
constexpr std::int64_t spread_tokens = 64;  // so many of them, evenly spread
constexpr std::int64_t row_tokens = 16;     // and so many in a row at both ends and in the middle
constexpr std::int64_t most_edges = 64;  // and beside so many places where what is wrong begins or ends

// The likeliest reading, of several the one with the most tokens.
Reading longest_reading(const Sample& all, const Subject& subject) {
  const std::vector<Reading> readings = likeliest_readings(all, subject);
  return *std::ranges::max_element(readings, {}, [](const Reading& one) { return one.layout.tokens; });
}

std::set<std::int64_t> some_tokens(const Layout& layout, const std::vector<double>& wrong) {
  const std::int64_t count = layout.tokens;
  std::set<std::int64_t> some;
  for (std::int64_t i = 0; i < spread_tokens; ++i) some.insert(i * (count - 1) / (spread_tokens - 1));
  for (std::int64_t i = 0; i < row_tokens; ++i) some.insert({i, count / 2 + i, count - 1 - i});
  std::int64_t edges = 0;
  for (std::int64_t row = 1; row < std::ssize(wrong) && edges < most_edges; ++row) {
    const auto at = static_cast<std::size_t>(row);
    if (row % count == 0 || std::abs(wrong[at] - wrong[at - 1]) < 0.05) continue;
    some.insert({row % count - 1, row % count});
    ++edges;
  }
  return some;
}

// A rope's phase and xPos's amplitude are divided out, and the rest is diagnosed by the rope without them.
Diagnosis diagnose_own_turns(const Sample& all, const Subject& subject) {
  ModelRope plain = *subject.used;
  plain.rope.phase.clear();
  plain.rope.xpos = {};
  Subject of_rest = subject;
  const Reading reading = longest_reading(all, subject);
  of_rest.layout = reading.word;
  of_rest.used = &plain;
  const Block block = *asked_block(subject, all.head_dim);
  Motion motion = ask(subject, block, reading.layout).motion.reversed();
  std::ranges::fill(motion.speed, 0);
  motion.factor = 1;
  Sample rest = all;
  std::vector<double> after = all.after.copied();
  rotate(after, reading.layout, block.in_place(), motion);
  rest.after = std::move(after);
  Diagnosis one = diagnose(rest, of_rest);
  const auto is_offset = [](const Finding& of) { return of.verdict == Verdict::offset; };
  if (std::ranges::any_of(one.found, is_offset)) {  // at other positions xPos has another amplitude too
    std::erase_if(one.found, [&](const Finding& of) { return !is_offset(of); });
    one.verdict = Verdict::offset;
  }
  return one;
}

}  // namespace

const char* name(Verdict verdict) noexcept {
  constexpr std::array<const char*, 20> names = {
      "as_configured", "pairing", "direction",  "offset",   "positions",
      "base",          "scaling", "block",      "layout",   "attention_factor",
      "precision",     "twice",   "some_heads", "axis",     "not_rotated",
      "cannot_tell",   "noise",   "layer",      "elements", "heads"};
  return names[static_cast<std::size_t>(verdict)];
}

void Examination::set_pairing() {
  const bool one_alone = search.found.size() < 2;
  const auto are_apart = [&] { return !alike(sample, search.found[0].misfit, search.found[1].misfit); };
  if (one_alone || (turns.block.pairs > 1 && are_apart())) facts.pairing = diagnose::name(turns.block.kind);
}

void Examination::set_positions(const std::vector<double>& position) {
  facts.positions.clear();
  const auto tokens = static_cast<std::ptrdiff_t>(turns.layout().tokens);
  for (auto begin = position.begin(); begin != position.end(); begin += tokens) {
    facts.positions.emplace_back(begin, begin + tokens);
  }
  const bool one = std::ranges::all_of(facts.positions, [&](const auto& row) { return row == facts.positions[0]; });
  if (one) facts.positions.resize(1);
}

void Examination::set_speeds(const std::vector<double>& speed) {
  facts.inv_freq = speed;
  for (double& one : facts.inv_freq) one = std::abs(one);
}

Answer answer_as_one(const Sample& sample, const Subject& subject) {
  Examination exam{.sample = sample, .subject = subject};
  examine(exam);
  Answer result;
  result.as_one = exam.explained;
  result.bounds = sample;
  if (!exam.explained && !exam.findings.empty() && exam.findings.front().verdict == Verdict::cannot_tell)
    examine_composites(exam);
  result.explained = exam.explained;
  result.named = exam.named;
  Diagnosis& one = result.diagnosis;
  one.found = all_found(exam);
  one.verdict = one.found.front().verdict;
  one.facts = exam.facts;
  if (sample.noise.rms > 0) one.facts.noise = sample.noise.rms;
  one.residual = exam.residual;
  return result;
}

Answer answer(const Sample& sample, const Subject& subject, int depth) {
  if (!sample.finite) {
    Diagnosis result;
    const Layout layout = plausible_readings(sample, subject).front().layout;
    result.found = {find_not_finite(sample, layout)};
    return {result, true};
  }
  const Answer whole = diagnose_whole(sample, subject);
  const bool right = whole.diagnosis.verdict == Verdict::as_configured;
  if (depth == 0 || right || (whole.explained && whole.named)) return whole;
  std::optional<Answer> parts =
      answer_by_parts(sample, subject, depth, whole.diagnosis.verdict == Verdict::cannot_tell || !whole.named);
  if (!parts || (whole.explained && !parts->explained)) return whole;
  parts->as_one = false;
  if (parts->diagnosis.verdict == Verdict::cannot_tell)
    parts->diagnosis.verdict = Verdict::elements;  // it is seen where
  if (!whole.explained) return *parts;
  parts->diagnosis.verdict = whole.diagnosis.verdict;
  parts->diagnosis.facts = whole.diagnosis.facts;
  return *parts;
}

Diagnosis diagnose(const Sample& all, const Subject& subject, const std::vector<Compared>& known) {
  if (subject.used != nullptr && (!subject.used->rope.phase.empty() || subject.used->rope.xpos.scale != 0))
    return diagnose_own_turns(all, subject);
  if (!all.finite || !asked_block(subject, all.head_dim)) return answer(all, subject).diagnosis;
  const Reading reading = longest_reading(all, subject);
  if (reading.layout.tokens <= few_tokens) return answer(all, subject).diagnosis;
  const auto same = std::ranges::find(known, reading.word, [](const Compared& one) { return one.reading.word; });
  const Compared compared = same != known.end() ? *same : compare(all, reading, subject, std::nullopt);
  Piece piece = all_of(reading.layout);
  piece[1] = some_tokens(reading.layout, compared.wrong);
  auto [some, subject_of_some] = cut(all, subject, reading, compared.asked, piece);
  some.sampled = true;
  some.off = compared.off;
  const Answer of_some = answer(some, subject_of_some);
  subject.step();
  if (!of_some.explained || !of_some.as_one) return of_some.diagnosis;
  const Answer every = answer_as_one(all.within(of_some.bounds), subject);
  return every.explained ? every.diagnosis : of_some.diagnosis;
}

Diagnosis diagnose(const Around& around, const Subject& subject, const std::vector<Compared>& known) {
  Diagnosis one = diagnose(around.as_found, subject, around.fault ? std::vector<Compared>{} : known);
  if (around.fault) {
    const bool alone = one.verdict == Verdict::as_configured;
    if (alone) one.verdict = around.fault->verdict;
    one.found.insert(alone ? one.found.erase(one.found.begin()) : one.found.end(), *around.fault);
  } else if (one.verdict != Verdict::as_configured) {
    std::ranges::copy(around.remarks, std::back_inserter(one.found));
  }
  return one;
}

Diagnosis diagnose_pair(const Tensor& before, const Tensor& after, const Subject& subject) {
  Around around = without_steps_around(sample_of(before, after, subject), subject);
  bring_near_1(around.as_found);
  subject.step();
  return diagnose(around, subject);
}

}  // namespace rotary::diagnose
