// One tensor: what a rotation did to it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

#include "examination.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::significant;

// ---- what the norms and the layout say ----

// Whether the rope would move anything: not at position 0.
bool would_move(const Examination& exam) {
  const Layout layout = plausible_readings(exam.sample, exam.subject).front().layout;
  return std::ranges::any_of(expected_positions(layout, exam.subject), [](const std::vector<double>& positions) {
    return std::ranges::any_of(positions, [](double position) { return position != 0; });
  });
}

void examine_unchanged(Examination& exam) {
  exam.explained = true;
  const bool zero = std::ranges::all_of(exam.sample.before, [](double x) { return x == 0; });
  const Layout layout = plausible_readings(exam.sample, exam.subject).front().layout;
  if (zero) {
    exam.find(Verdict::cannot_tell, zeros_said);
  } else if (const auto block = asked_block(exam.subject, exam.sample.head_dim); !would_move(exam)) {
    const auto asked = [&] { return ask(exam.subject, *block, layout); };
    const double factor = block ? asked().motion.factor : 1;
    if (factor != 1) {
      return exam.find(Verdict::attention_factor,
                       "is without the attention factor: before and after are the same; the "
                       "model asks " +
                           significant(factor, 7));
    }
    exam.find(Verdict::cannot_tell,
              "cannot tell, because at position 0 no rope moves anything: before and after are the same");
  } else {
    const std::vector<double> asked = expected_positions(layout, exam.subject)[0];
    const bool away = std::ranges::none_of(asked, [](double position) { return position == 0; });
    std::string text = "is not rotated: before and after are the same";
    if (!exam.sample.noisy()) text += ", bit for bit";
    if (away) {
      text += "; rotated at position 0 it would look the same, but position " + significant(asked[0], 10) + " is asked";
    }
    exam.find(Verdict::not_rotated, text);
  }
}

void find_heads(Examination& exam) {
  const auto all = static_cast<std::size_t>(exam.turns.layout().heads);
  const std::size_t some = exam.turns.heads.size();
  if (some == all) return;
  exam.find(Verdict::some_heads, "is rotated in " + std::to_string(some) + " of its " + std::to_string(all) +
                                     " heads only (" + ranges(exam.turns.heads) +
                                     "); the others are the same before and after");
}

void find_pairing(Examination& exam, const Block& asked) {
  const Kind kind = exam.turns.block.kind;
  exam.set_pairing();
  if (kind == asked.kind) return;
  const auto misfit = [&](Kind one) { return exam.search.misfit_of_kind[static_cast<std::size_t>(one)]; };
  std::string said = std::string("is rotated in the ") + name(kind) + " pairing; the model uses " + name(asked.kind) +
                     evidence(misfit(kind), misfit(asked.kind));
  const bool same_pairs = Block{kind, 0, 2}.input(0) == Block{asked.kind, 0, 2}.input(0);
  if (exam.turns.block.pairs > 1) {
    said = said + (same_pairs ? "; the elements have another order: " + std::string(same_scores)
                              : "; right only with weights whose rows were put into that order");
  }
  exam.find(Verdict::pairing, said);
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

// Of pairs side by side the slow ones at the end may not visibly move, so the block that is seen is the least that
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

void examine_block(Examination& exam, const Block& asked) {
  settle_width(exam);
  find_heads(exam);
  find_pairing(exam, asked);
  find_block(exam, asked);
  examine_with_rope(exam);
}

void examine(Examination& exam) {
  const std::optional<Block> asked = asked_block(exam.subject, exam.sample.head_dim);
  const bool reorders = asked && asked->kind == Kind::interleaved_to_half;
  exam.search = search_blocks(exam.sample, asked);
  if (exam.search.touched.empty() && (!reorders || would_move(exam))) return examine_unchanged(exam);
  if (exam.search.found.empty()) {
    exam.explained = std::ranges::all_of(exam.sample.after, [](double y) { return y == 0; });
    if (exam.explained) return exam.find(Verdict::elements, "is zero after the rotation, in every element");
    if (std::ranges::all_of(exam.sample.before, [](double x) { return x == 0; }))
      return exam.find(Verdict::elements, "is zero before the rotation, in every element, and not after it");
    const double least = std::ranges::min(exam.search.misfit_of_kind);
    exam.find(Verdict::cannot_tell,
              "cannot tell, because no pairing of its elements keeps the norms of the pairs, as a rotation does" +
                  residual_said(least, " at best"));
    return;
  }
  if (!find_layout(exam))
    return exam.find(Verdict::cannot_tell, "cannot tell, because its angles differ from head to head in every layout");
  if (!asked) {
    find_heads(exam);
    return examine_without_rope(exam);
  }
  const Block found = exam.turns.block;
  if (found.first == asked->first && found.pairs == asked->pairs &&
      should_move_and_does_not(exam, ask(exam.subject, *asked, exam.turns.layout(), exam.expected))) {
    if (exam.sample.noisy() || exam.turns.apart) {  // slow pairs of another base may be lost in the noise
      Examination whole = exam;
      examine_block(whole, *asked);
      if (whole.explained && (whole.facts.base || exam.turns.apart)) {
        exam = std::move(whole);
        return;
      }
    }
    if (BlockSearch again = search_blocks(exam.sample, std::nullopt); !again.found.empty()) {
      exam.search = std::move(again);
      exam.findings.clear();
      find_layout(exam);
    }
  }
  examine_block(exam, *asked);
}

// ", with noise of 1.0e-3 rms"; what stands between the turns and their rounding.
std::string noise_said(const Sample& sample) {
  if (sample.loose) return std::string(", within the rounding of its before, which is ") + sample.before_type;
  if (sample.noise.rms == 0) return "";
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.1e", sample.noise.rms);
  std::string text = digits.data();
  if (const std::size_t zero = text.find("e-0"); zero != std::string::npos) text.erase(zero + 2, 1);
  return ", with noise of " + text + " rms";
}

// The sentence behind the tensor's name.
std::string said_of(const Examination& exam) {
  if (exam.findings.empty()) {
    return " is rotated as the config asks" + noise_said(exam.sample) + ": " +
           (exam.facts.pairing ? *exam.facts.pairing + " pairing, " : "") +
           block_text(exam.turns.block, exam.sample.head_dim) + ", layout " + exam.facts.layout +
           residual_said(exam.residual);
  }
  std::string said = exam.findings.front().said.starts_with("cannot tell") ? ": " : " ";
  for (const Finding& finding : exam.findings)
    said += (&finding == &exam.findings.front() ? "" : "; and it ") + finding.said;
  return said + noise_said(exam.sample);
}

}  // namespace

const char* name(Verdict verdict) noexcept {
  constexpr std::array<const char*, 21> names = {
      "as_configured", "pairing", "direction",   "offset",           "positions", "base",
      "scaling",       "block",   "layout",      "attention_factor", "precision", "twice",
      "some_heads",    "axis",    "not_rotated", "cannot_tell",      "noise",     "layer",
      "elements",      "heads",   "phase"};
  return names[static_cast<std::size_t>(verdict)];
}

void Examination::set_pairing() {
  const bool one_alone = search.found.size() < 2;
  const auto told_apart = [&] { return !alike(sample, search.found[0].misfit, search.found[1].misfit); };
  if (one_alone || (turns.block.pairs > 1 && told_apart())) facts.pairing = diagnose::name(turns.block.kind);
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

namespace {

// Without a look at parts of the sample.
struct Examined : Answer {
  bool named = true;
};
Examined examined(const Sample& sample, const Subject& subject) {
  Examination exam{.sample = sample, .subject = subject};
  examine(exam);
  Examined result;
  result.as_one = exam.explained;
  result.bounds = sample;
  if (!exam.explained && !exam.findings.empty() && exam.findings.front().verdict == Verdict::cannot_tell)
    examine_composites(exam);
  result.explained = exam.explained;
  result.named = exam.named;
  Diagnosis& one = result.diagnosis;
  const bool noisy = sample.noise.rms > 0;
  one.verdict = !exam.findings.empty() ? exam.findings.front().verdict
                : noisy                ? Verdict::noise
                                       : Verdict::as_configured;
  one.sentence = sample.name + said_of(exam);
  for (const Finding& finding : exam.findings) one.findings.push_back(finding.said);
  one.facts = exam.facts;
  if (noisy) one.facts.noise = sample.noise.rms;
  one.residual = exam.residual;
  return result;
}

// Without noise first; then with a before of fewer digits than after; then with the noise that the norms show.
Examined diagnose_whole(const Sample& sample, const Subject& subject) {
  const Examined first = examined(sample, subject);
  // Elements that are not rotated look rotated where they are rounded again.
  if (first.explained && first.diagnosis.verdict != Verdict::block) return first;
  const std::optional<Block> asked = asked_block(subject, sample.head_dim);
  if (sample.before_unit > sample.unit && (!asked || norms_are_within_before(sample, *asked))) {
    if (const Examined rounded = examined(sample.loosened(), subject); rounded.explained) return rounded;
  }
  Sample noisy = sample;
  noisy.noise = measure_noise(sample, asked);
  if (noisy.noise.rms == 0) return first;
  const Examined second = examined(noisy, subject);
  const Verdict verdict = second.diagnosis.verdict;
  const bool says_more = first.explained ? second.explained : verdict != Verdict::cannot_tell;
  const bool is_rounding =
      verdict == first.diagnosis.verdict && (first.explained || noisy.noise.relative <= sample.unit);
  return says_more && !is_rounding ? second : first;
}

}  // namespace

Answer answer_as_one(const Sample& sample, const Subject& subject) { return examined(sample, subject); }

Answer answer(const Sample& sample, const Subject& subject, int depth) {
  if (!sample.finite) {
    Diagnosis result;
    const Layout layout = plausible_readings(sample, subject).front().layout;
    result.findings = {"cannot tell, because every element must be finite " + not_finite_said(sample, layout)};
    result.sentence = sample.name + ": " + result.findings[0];
    return {result, true};
  }
  const Examined whole = diagnose_whole(sample, subject);
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

Diagnosis diagnose_pair(const Tensor& before, const Tensor& after, const Subject& subject) {
  Sample sample = sample_of(before, after, subject);
  bring_near_1(sample);
  subject.step();
  return diagnose(sample, subject, {});
}

}  // namespace rotary::diagnose
