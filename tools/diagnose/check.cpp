// Whether a tensor is rotated as a rope asks: element by element.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

// Adds the comparison of the elements that follow the elements of `all`.
void add(Checked& all, const Checked& next) {
  all.max_error = std::max(all.max_error, next.max_error);
  all.tolerance = std::max(all.tolerance, next.tolerance);
  all.moves = all.moves || next.moves;
  const bool only_now = next.first && !all.first;
  if (only_now || (next.first.has_value() == all.first.has_value() && next.error >= all.error)) {
    all.error = next.error;
    all.allowed = next.allowed;
  }
  if (only_now) all.first = next.first;
}

void add(Checked& all, const Element& one, double allowed) {
  if (!std::isfinite(allowed)) allowed = 0;
  const double error = one.off();
  const bool off = !(error <= allowed);  // one that is not finite is off
  add(all, Checked{.max_error = error,
                   .tolerance = allowed,
                   .error = error,
                   .allowed = allowed,
                   .first = off ? std::optional(one.place) : std::nullopt,
                   .layout = {}});
}

// The readings between which the number of heads does not decide, the likeliest first, and the readings as a shard of
// the heads; a single reading where the layout is given or settled.
std::vector<Reading> readings_of(const Sample& sample, const Subject& subject) {
  std::vector<Reading> readings = likeliest_readings(sample, subject);
  const Layout likeliest = readings.front().layout;
  // Nothing moves at position 0: such a reading is no rival of a likelier one, and comes after the others.
  const auto moves = [&](const Reading& one) { return one.layout.tokens > 1 || subject.positions.has_value(); };
  if (moves(readings.front())) std::erase_if(readings, [&](const Reading& one) { return !moves(one); });
  std::stable_partition(readings.begin(), readings.end(), moves);
  for (const Reading& one : plausible_readings(sample, subject)) {
    const bool is_shard = subject.plausibility(one.layout) == 1 && one.layout.heads < likeliest.heads;
    if (is_shard && subject.plausibility(likeliest) > 1) readings.push_back(one);
  }
  const auto settled = std::ranges::find(readings, subject.layout_of_heads, &Reading::word);
  return settled == readings.end() ? readings : std::vector{*settled};
}

bool all_zero(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return value == 0; });
}

// Whether every token is as the first of its batch row, before and after, though their positions differ.
bool one_token_for_all(const Sample& sample, const Layout& layout, const Motion& asked) {
  const bool one_position = std::ranges::all_of(asked.position, [](const std::vector<double>& of_rows) {
    return std::ranges::all_of(of_rows, [&](double position) { return position == of_rows[0]; });
  });
  if (layout.tokens < 2 || one_position) return false;
  bool same = true;
  for_each_head(layout, [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    const std::int64_t first_token = at(layout, row / layout.tokens, 0, head);
    same = same && std::ranges::equal(sample.x(first), sample.x(first_token)) &&
           std::ranges::equal(sample.y(first), sample.y(first_token));
  });
  return same;
}

// Why the data show nothing of the rope, where the diagnosis does not say it.
std::optional<Cause> emptiness(const Sample& sample, const Compared& one) {
  if (all_zero(sample.before) && all_zero(sample.after)) return std::nullopt;
  if (one.checked.equal && !one.checked.moves) return Cause::at_position_0;
  if (one_token_for_all(sample, one.reading.layout, one.asked.motion)) return Cause::one_token;
  return std::nullopt;
}

// Equal where no element is off and the diagnosis finds nothing, or within a tolerance nothing but noise, coarse angles
// and single elements.
Outcome outcome_of(const Checked& checked, const Diagnosis& diagnosis, bool tolerant) {
  const Verdict verdict = diagnosis.verdict;
  if (!checked.equal) return Outcome::differs;
  if (verdict == Verdict::as_configured) return Outcome::equal;
  if (verdict == Verdict::cannot_tell) return Outcome::undecided;
  const bool small = verdict == Verdict::noise || verdict == Verdict::precision || verdict == Verdict::elements;
  return tolerant && small ? Outcome::equal : Outcome::differs;
}

}  // namespace

void hold_heads(const Sample& sample, const Layout& layout, const Block& block, const Motion& motion,
                std::int64_t begin, std::int64_t end, bool turned,
                const std::function<void(std::span<const Element>)>& visit) {
  std::vector<Complex> turn(static_cast<std::size_t>(block.pairs), 1);
  std::vector<Element> elements;
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t head = 0; head < layout.heads; ++head) {
      ElementIndex place{row / layout.tokens, row % layout.tokens, head, 0, std::nullopt};
      const std::int64_t first = at(layout, place.batch, place.token, head);
      const auto x = [values = sample.x(first)](int element) { return values[static_cast<std::size_t>(element)]; };
      const auto y = [values = sample.y(first)](int element) { return values[static_cast<std::size_t>(element)]; };
      for (int pair = 0; turned && (head == 0 || motion.apart > 0) && pair < block.pairs; ++pair)
        turn[static_cast<std::size_t>(pair)] = motion.turn(row, motion.of(head, pair));
      elements.clear();
      for (int pair = 0; pair < block.pairs; ++pair) {
        const auto [u, v] = block.input(pair);
        const auto [to_u, to_v] = block.output(pair);
        const Complex by = turn[static_cast<std::size_t>(pair)];
        const double a = x(u) * by.real() - x(v) * by.imag(), b = x(v) * by.real() + x(u) * by.imag();
        const double norm = std::hypot(a, b), steps = steps_of(pair, motion.computed(row, motion.of(head, pair)));
        place.pair = pair;
        for (const auto& [element, wanted] : {std::pair(to_u, a), {to_v, b}}) {
          place.element = element;
          elements.push_back({place, wanted, y(element), norm, most_off(norm, sample.unit, sample.least, steps)});
        }
      }
      place.pair.reset();
      for (place.element = 0; place.element < sample.head_dim; ++place.element) {
        const int offset = place.element - block.first;
        if (offset >= 0 && offset < block.rotary_dim()) continue;
        const double still = x(place.element), norm = std::abs(still);
        elements.push_back({place, still, y(place.element), norm, sample.unit * norm + sample.least});
      }
      visit(elements);
    }
  }
}

Comparison compare_rows(const Sample& sample, const Layout& layout, const Block& block, const Motion& motion,
                        std::optional<double> tolerance, bool turned) {
  const auto compare_some = [&](std::int64_t begin, std::int64_t end) {
    Comparison some;
    for (std::int64_t row = begin; row < end; ++row) {
      double wanted = 0, after = 0;
      const std::int64_t before = some.off;
      hold_heads(sample, layout, block, motion, row, row + 1, turned, [&](std::span<const Element> head) {
        for (const Element& one : head) {
          add(some.checked, one, tolerance.value_or((turned ? 1 : 2) * one.allowed));
          some.checked.moves =
              some.checked.moves ||
              (one.place.pair && one.norm > 0 && motion.size(row, motion.of(one.place.head, *one.place.pair)) != 0);
          some.off += one.off() <= one.allowed ? 0 : 1;
          some.off_squares += square(one.off());
          wanted += square(one.wanted);
          after += square(one.after);
        }
      });
      some.squares += wanted;
      some.wrong.push_back(some.off == before ? 0 : 1 + (wanted > 0 ? std::sqrt(after / wanted) : 0));
    }
    return some;
  };
  Comparison all;
  for (const Comparison& some : in_parts<Comparison>(*sample.executor, layout.batch * layout.tokens, compare_some)) {
    add(all.checked, some.checked);
    all.off += some.off;
    all.wrong.insert(all.wrong.end(), some.wrong.begin(), some.wrong.end());
    all.off_squares += some.off_squares;
    all.squares += some.squares;
  }
  all.checked.equal = !all.checked.first;
  return all;
}

Compared compare(const Sample& sample, const Reading& reading, const Subject& subject,
                 std::optional<double> tolerance) {
  const std::optional<Block> block = asked_block(subject, sample.head_dim);
  Asked asked = ask(subject, *block, reading.layout);
  Comparison rows = compare_rows(sample, reading.layout, asked.block, asked.motion, tolerance);
  rows.checked.layout = reading.word;
  return {std::move(rows), reading, std::move(asked)};
}

void refuse_not_finite(const Sample& sample, const TensorPair& pair, const Layout& layout) {
  if (sample.finite) return;
  fail(Code::TENSOR, "check",
       who(pair.name) + " must be finite " + fill("{not_finite}", find_not_finite(sample, layout)));
}

// The finding on a tensor whose turns are as asked and whose elements are not: a table of few bits, elements that
// stand alone, which the turns of several heads hide, or no more than that they differ.
Finding finding_on_difference(const NamedCheck& result, const Compared& compared, std::int64_t elements) {
  const Checked& checked = result.checked;
  const std::optional<Precision> of_table = result.diagnosis.facts.precision;
  if (of_table == Precision::f16 || of_table == Precision::bf16)
    return finding(Cause::coarse_table, {{"type", name(*of_table)}});
  const std::int64_t count = compared.off;
  if (count * 1000 > elements || checked.error <= 3 * checked.allowed) {
    const auto are_alike = [&](int digits) {
      return detail::significant(checked.error, digits) == detail::significant(checked.allowed, digits);
    };
    int digits = 2;
    while (digits < 9 && are_alike(digits)) ++digits;
    return finding(Cause::off, {{"error", checked.error, digits}, {"allowed", checked.allowed, digits}});
  }
  const ElementIndex& first = *checked.first;
  Finding single =
      finding(Cause::single_elements,
              {{"element", number(first.element)}, {"head", number(first.head)}, {"token", number(first.token)}});
  if (compared.reading.layout.batch > 1) single.numbers.push_back({"row", number(first.batch)});
  if (count > 1) single.numbers.push_back({"count", number(count)});
  if (count > 1) single.numbers.push_back({count > 2 ? "others" : "other", number(count - 1)});
  return single;
}

NamedCheck judge(const TensorPair& pair, const Subject& subject, std::optional<double> tolerance,
                 const std::vector<const ModelRope*>& others) {
  const Sample given = sample_of(pair.before, pair.after, subject);
  subject.step();
  std::vector<Reading> readings = readings_of(given, subject);
  refuse_not_finite(given, pair, readings.front().layout);
  Around around = without_steps_around(given, subject);
  Sample& sample = around.as_asked;
  std::vector<Compared> all;  // by each reading
  std::size_t best = 0;       // the first without a difference, else the first
  const auto compare_by_all = [&] {
    all.clear();
    for (const Reading& reading : readings) all.push_back(compare(sample, reading, subject, tolerance));
    const auto equal = std::ranges::find_if(all, [](const Compared& one) { return one.checked.equal; });
    best = equal == all.end() ? 0 : static_cast<std::size_t>(equal - all.begin());
  };
  compare_by_all();
  subject.step();
  // Another dimension of heads, as likely, is another answer, and so is a likelier order of batch and tokens.
  const auto other = std::ranges::find_if(readings, [&](const Reading& reading) {
    return all[best].checked.equal &&
           subject.plausibility(reading.layout) >= subject.plausibility(readings[best].layout) &&
           (reading.layout.head_stride != readings[best].layout.head_stride || &reading < &readings[best]);
  });
  const bool ambiguous = other != readings.end();
  const Reading& likeliest =
      ambiguous && other < readings.begin() + static_cast<std::ptrdiff_t>(best) ? *other : readings[best];
  Subject as_likeliest = subject;
  if (all[best].checked.equal) as_likeliest.layout = likeliest.word;
  bring_near_1(sample);
  bring_near_1(around.as_found);
  NamedCheck result{.name = pair.name, .diagnosis = diagnose(around, as_likeliest, all), .checked = all[best].checked};
  if (!result.checked.equal && result.diagnosis.verdict == Verdict::as_configured) {  // by the rounding of its before
    if (sample.before_unit > sample.unit) sample = sample.loosened();
    compare_by_all();
    result.checked = all[best].checked;
    if (!result.checked.equal) {  // by a table of fewer bits, which is not tried with every rope
      result.diagnosis.found = {finding_on_difference(result, all[best], std::ssize(sample.after))};
      result.diagnosis.verdict = result.diagnosis.found[0].verdict;
    }
  }
  result.outcome = outcome_of(result.checked, result.diagnosis, tolerance.has_value());
  if (result.outcome == Outcome::equal) result.remarks = around.remarks;
  if (const std::optional<Cause> nothing = emptiness(sample, all[best])) {
    result.outcome = Outcome::undecided;
    result.remarks = {finding(*nothing)};
  } else if (likeliest.word != readings[best].word && result.outcome == Outcome::differs) {
    result.outcome = Outcome::undecided;
    result.remarks = {finding(Cause::one_of_two_layouts, {{"found", readings[best].word}, {"asked", likeliest.word}})};
    const bool as_shard = likeliest.layout.heads > readings[best].layout.heads;
    if (as_shard) result.remarks[0].numbers.push_back({"shard", true});
  } else if (ambiguous && result.outcome == Outcome::equal) {
    result.remarks.push_back(finding(Cause::other_layout, {{"layout", other->word}}));
  } else if (around.open && result.outcome == Outcome::equal) {
    result.outcome = Outcome::undecided;
    result.remarks = {*around.open};
  }
  if (result.outcome == Outcome::equal) {
    const Asked& asked = all[best].asked;
    const Turns turns = measure(sample, readings[best], asked.block, asked.motion.apart > 0);
    result.power = power_of(turns, asked, result.diagnosis.facts.pairing.has_value(), others);
  }
  return result;
}

NamedCheck judge_still(const TensorPair& pair, const Subject& subject, std::optional<double> tolerance) {
  const Number reason =
      subject.role == Role::v ? Number{"value", true} : Number{"layer", number(subject.layer.value_or(0))};
  const bool fits = tools::fits_width(pair.before, *subject.used);  // the values of MLA are narrower
  const Sample given = sample_as_given(pair.before, pair.after, subject, fits);
  const Reading reading = readings_of(given, subject).front();
  refuse_not_finite(given, pair, reading.layout);
  Around around = fits ? without_steps_around(given, subject) : Around{given, given};
  Sample& sample = around.as_found;
  NamedCheck result{.name = pair.name,
                    .checked = compare_rows(around.as_asked, reading.layout, {}, {}, tolerance).checked};
  result.checked.layout = reading.word;
  Finding found = finding(Cause::not_to_rotate, {reason});
  const bool is_still =
      around.fault ? compare_rows(sample, reading.layout, {}, {}, tolerance).checked.equal : result.checked.equal;
  if (is_still) {
    result.diagnosis.facts.layout = reading.word;
    result.diagnosis.verdict = around.fault ? around.fault->verdict : Verdict::as_configured;
    if (around.fault) found = *around.fault;
  } else {
    bring_near_1(sample);
    if (fits) result.diagnosis = diagnose(sample, subject);
    const Verdict verdict = result.diagnosis.verdict;
    const bool seen = verdict != Verdict::cannot_tell && verdict != Verdict::elements;
    found = finding(seen ? Cause::rotated_nonetheless : Cause::changed_nonetheless, {reason});
    if (verdict == Verdict::as_configured) found.numbers.push_back({"as_others", true});
    result.diagnosis.verdict = found.verdict;
  }
  result.diagnosis.found = {std::move(found)};
  result.outcome = outcome_of(result.checked, result.diagnosis, tolerance.has_value());
  if (result.outcome == Outcome::equal) result.remarks = around.remarks;
  if (all_zero(sample.before) && result.checked.equal) {
    result.outcome = Outcome::undecided;
    result.remarks = {finding(Cause::zeros)};
  }
  return result;
}

}  // namespace rotary::diagnose
