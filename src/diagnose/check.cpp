// Whether a tensor is rotated as a rope asks: element by element.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

std::string who(const std::string& name) { return name.empty() ? "the tensor" : name; }

// The differences of some rows of elements that may be off by what is allowed.
class Comparing {
 public:
  Comparing(const Sample& sample, const Layout& layout, const Asked& asked, std::optional<double> tolerance)
      : sample_(sample),
        layout_(layout),
        asked_(asked),
        tolerance_(tolerance),
        turn_(pairs()),
        wanted_(sample.x(0).size()) {}

  void add_row(std::int64_t row) {
    for (int pair = 0; pair < asked_.block.pairs; ++pair)
      turn_[static_cast<std::size_t>(pair)] = asked_.motion.turn(row, pair);
    for (std::int64_t head = 0; head < layout_.heads; ++head) {
      const Place place{row / layout_.tokens, row % layout_.tokens, head, 0, std::nullopt};
      const std::int64_t first = at(layout_, place.batch, place.token, head);
      rotate_head(sample_.x(first));
      for (int pair = 0; pair < asked_.block.pairs; ++pair) compare_pair(place, row, first, pair);
      compare_still(place, first);
    }
  }

  Checked result;

 private:
  std::size_t pairs() const { return static_cast<std::size_t>(asked_.block.pairs); }
  double& wanted(int element) { return wanted_[static_cast<std::size_t>(element)]; }

  void rotate_head(std::span<const double> x) {
    std::ranges::copy(x, wanted_.begin());
    for (int pair = 0; pair < asked_.block.pairs; ++pair) {
      const auto [u, v] = asked_.block.input(pair);
      const auto [to_u, to_v] = asked_.block.output(pair);
      const Complex turn = turn_[static_cast<std::size_t>(pair)];
      const double a = x[static_cast<std::size_t>(u)], b = x[static_cast<std::size_t>(v)];
      wanted(to_u) = a * turn.real() - b * turn.imag();
      wanted(to_v) = b * turn.real() + a * turn.imag();
    }
  }

  void compare_pair(Place place, std::int64_t row, std::int64_t first, int pair) {
    const auto [u, v] = asked_.block.output(pair);
    const double norm = std::hypot(wanted(u), wanted(v));
    const double angle = std::abs(asked_.motion.angle(row, pair));
    result.moves = result.moves || (angle > 0 && norm > 0);
    const double allowed = most_off(norm, sample_.unit, sample_.least, steps_of(pair, angle));
    place.pair = pair;
    for (const int element : {u, v}) {
      place.element = element;
      compare(place, first, allowed);
    }
  }

  // The elements that no pair writes.
  void compare_still(Place place, std::int64_t first) {
    for (place.element = 0; place.element < sample_.head_dim; ++place.element) {
      const int offset = place.element - asked_.block.first;
      if (offset >= 0 && offset < asked_.block.rotary_dim()) continue;
      compare(place, first, sample_.unit * std::abs(wanted(place.element)) + sample_.least);
    }
  }

  void compare(const Place& place, std::int64_t first, double allowed) {
    const double after = sample_.after[static_cast<std::size_t>(first + place.element)];
    const double error = std::abs(after - wanted(place.element));
    if (tolerance_) allowed = *tolerance_;
    if (!std::isfinite(allowed)) allowed = 0;
    result.max_error = std::max(result.max_error, error);
    result.tolerance = std::max(result.tolerance, allowed);
    const bool off = !(error <= allowed), only_now = off && !result.first;  // one that is not finite is off
    if (only_now || (off == result.first.has_value() && error >= result.error)) {
      result.error = error;
      result.allowed = allowed;
    }
    if (only_now) result.first = place;
  }

  const Sample& sample_;
  const Layout& layout_;
  const Asked& asked_;
  std::optional<double> tolerance_;
  std::vector<Complex> turn_;
  std::vector<double> wanted_;
};

// next: of the elements behind those of `all`.
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

Checked compare_elements(const Sample& sample, const Reading& reading, const Asked& asked,
                         std::optional<double> tolerance) {
  Checked all;
  const std::int64_t rows = reading.layout.batch * reading.layout.tokens;
  const auto parts = in_parts<Checked>(*sample.executor, rows, [&](std::int64_t begin, std::int64_t end) {
    Comparing some(sample, reading.layout, asked, tolerance);
    for (std::int64_t row = begin; row < end; ++row) some.add_row(row);
    return some.result;
  });
  for (const Checked& part : parts) add(all, part);
  all.layout = reading.word;
  all.equal = !all.first;
  return all;
}

// The readings among which the heads do not choose, the likeliest first; one where the layout is given or settled.
std::vector<Reading> readings_of(const Sample& sample, const Subject& subject) {
  std::vector<Reading> readings = plausible_readings(sample, subject);
  const int most = subject.plausibility(readings.front().layout);
  std::erase_if(readings, [&](const Reading& reading) { return subject.plausibility(reading.layout) < most; });
  // Nothing moves at position 0: such a reading is no rival of a likelier one, and comes behind the others.
  const auto moves = [&](const Reading& one) { return one.layout.tokens > 1 || subject.positions.has_value(); };
  if (moves(readings.front())) std::erase_if(readings, [&](const Reading& one) { return !moves(one); });
  std::stable_partition(readings.begin(), readings.end(), moves);
  const auto settled = std::ranges::find(readings, subject.layout_of_heads, &Reading::word);
  return settled == readings.end() ? readings : std::vector{*settled};
}

struct Compared {
  Asked asked;
  Checked checked;
};

Compared compare_by(const Sample& sample, const Reading& reading, const Subject& subject,
                    std::optional<double> tolerance) {
  const std::optional<Block> block = asked_block(subject, sample.head_dim);
  Asked asked = ask(*subject.used, *block, subject, expected_positions(reading.layout, subject));
  Checked checked = compare_elements(sample, reading, asked, tolerance);
  return {std::move(asked), std::move(checked)};
}

std::vector<Compared> compare_by_all(const Sample& sample, const std::vector<Reading>& readings, const Subject& subject,
                                     std::optional<double> tolerance) {
  std::vector<Compared> all;
  for (const Reading& reading : readings) all.push_back(compare_by(sample, reading, subject, tolerance));
  return all;
}

// The first reading without a difference, else the first.
std::size_t best_of(const std::vector<Compared>& all) {
  const auto equal = std::ranges::find_if(all, [](const Compared& one) { return one.checked.equal; });
  return equal == all.end() ? 0 : static_cast<std::size_t>(equal - all.begin());
}

bool all_zero(const std::vector<double>& values) {
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

// Why the data show nothing of the rope, where the diagnosis does not say it; "": they do.
std::string emptiness(const Sample& sample, const Layout& layout, const Compared& one) {
  if (all_zero(sample.before) && all_zero(sample.after)) return "";
  if (one.checked.equal && !one.checked.moves)
    return " is as it should be, but no rope moves anything at position 0, or zeros: --positions says where the tokens "
           "are";
  if (one_token_for_all(sample, layout, one.asked.motion))
    return " is the same at every token, before and after: one token for all shows no rotation";
  return "";
}

// Equal where no element is off and the diagnosis finds nothing, or within a tolerance nothing but noise and coarse
// angles.
Outcome outcome_of(const Checked& checked, const Diagnosis& diagnosis, bool tolerant) {
  const Verdict verdict = diagnosis.verdict;
  if (!checked.equal) return Outcome::differs;
  if (verdict == Verdict::as_configured) return Outcome::equal;
  if (verdict == Verdict::cannot_tell) return Outcome::undecided;
  return tolerant && (verdict == Verdict::noise || verdict == Verdict::precision) ? Outcome::equal : Outcome::differs;
}

}  // namespace

void refuse_not_finite(const Sample& sample, const TensorPair& pair, const Layout& layout) {
  if (sample.finite) return;
  fail(Code::TENSOR, "check", who(pair.name) + " must be finite " + not_finite_said(sample, layout));
}

Checked check(const Tensor& input, const Tensor& against, const Subject& subject, std::optional<double> tolerance) {
  const Sample sample = sample_as_given(input, against, subject.head_dim_of(input));
  const std::vector<Compared> all = compare_by_all(sample, readings_of(sample, subject), subject, tolerance);
  return all[best_of(all)].checked;
}

NamedCheck judge(const TensorPair& pair, const Subject& subject, std::optional<double> tolerance,
                 const std::vector<const ModelRope*>& others) {
  Sample sample = sample_as_given(pair.before, pair.after, subject.head_dim_of(pair.before));
  sample.executor = subject.executor;
  subject.step();
  const std::vector<Reading> readings = readings_of(sample, subject);
  refuse_not_finite(sample, pair, readings.front().layout);
  std::vector<Compared> all = compare_by_all(sample, readings, subject, tolerance);
  subject.step();
  std::size_t best = best_of(all);
  // Another dimension of heads is another answer; the order of batch and tokens the rotation tells.
  const auto other = std::ranges::find_if(readings, [&](const Reading& reading) {
    return all[best].checked.equal && reading.layout.head_stride != readings[best].layout.head_stride;
  });
  const bool ambiguous = other != readings.end();
  const Reading& likeliest =
      ambiguous && other < readings.begin() + static_cast<std::ptrdiff_t>(best) ? *other : readings[best];
  Subject as_likeliest = subject;
  if (all[best].checked.equal) as_likeliest.layout = likeliest.word;
  bring_near_1(sample);
  NamedCheck result{{pair.name, diagnose(sample, as_likeliest)}, all[best].checked};
  if (!result.checked.equal && result.diagnosis.verdict == Verdict::as_configured) {  // by the rounding of its before
    if (sample.before_unit > sample.unit) sample.loosen();
    all = compare_by_all(sample, readings, subject, tolerance);
    best = best_of(all);
    result.checked = all[best].checked;
  }
  result.outcome = outcome_of(result.checked, result.diagnosis, tolerance.has_value());
  result.sentence = result.diagnosis.sentence;
  if (const std::string nothing = emptiness(sample, readings[best].layout, all[best]); !nothing.empty()) {
    result.outcome = Outcome::undecided;
    result.sentence = who(pair.name) + nothing;
  } else if (likeliest.word != readings[best].word && result.outcome == Outcome::differs) {
    result.outcome = Outcome::undecided;
    result.sentence += ", if its layout is " + likeliest.word + "; as " + readings[best].word +
                       ", which has the same shape, it is equal: --layout says which";
  } else if (ambiguous && result.outcome == Outcome::equal) {
    result.note = other->word + " has the same shape";
  }
  if (result.outcome == Outcome::equal) {
    const Asked& asked = all[best].asked;
    const Turns turns = measure(sample, readings[best], asked.block);
    result.power = power_of(turns, asked, result.diagnosis.facts.pairing.has_value(), others);
  }
  return result;
}

NamedCheck judge_still(const TensorPair& pair, const Subject& subject, const std::string& as,
                       std::optional<double> tolerance) {
  Sample sample = sample_as_given(pair.before, pair.after, subject.head_dim_of(pair.before));
  const Reading reading = readings_of(sample, subject).front();
  refuse_not_finite(sample, pair, reading.layout);
  NamedCheck result{{pair.name, {}}, compare_elements(sample, reading, {*subject.used, {}, 0, {}, {}}, tolerance)};
  std::string said = " is not rotated, as " + as;
  if (result.checked.equal) {
    result.diagnosis.facts.layout = reading.word;
    result.diagnosis.verdict = Verdict::as_configured;
  } else {
    bring_near_1(sample);
    result.diagnosis = diagnose(sample, subject);
    const Verdict verdict = result.diagnosis.verdict;
    const bool seen = verdict != Verdict::cannot_tell;
    said = seen ? " is rotated" : " is changed";
    if (verdict == Verdict::as_configured) said += " as queries and keys of the model are";
    said += "; " + as;
    result.diagnosis.verdict = seen ? Verdict::layer : Verdict::cannot_tell;
    result.diagnosis.findings = {said.substr(1)};
  }
  result.outcome = outcome_of(result.checked, result.diagnosis, tolerance.has_value());
  result.diagnosis.fault = said;
  result.diagnosis.sentence = result.sentence = who(pair.name) + said;
  if (all_zero(sample.before) && result.checked.equal) {
    result.outcome = Outcome::undecided;
    result.sentence = who(pair.name) + ": " + zeros_said;
  }
  return result;
}

std::vector<double> wrongness_of_rows(const Sample& sample, const Reading& reading, const Asked& asked) {
  const auto wrongness = [&](std::int64_t row) {
    Comparing one(sample, reading.layout, asked, std::nullopt);
    one.add_row(row);
    if (!one.result.first) return 0.0;
    double before = 0, after = 0;
    for (std::int64_t head = 0; head < reading.layout.heads; ++head) {
      const std::int64_t first = at(reading.layout, row / reading.layout.tokens, row % reading.layout.tokens, head);
      for (const double x : sample.x(first)) before += x * x;
      for (const double y : sample.y(first)) after += y * y;
    }
    return 1 + (before > 0 ? std::sqrt(after / before) : 0);
  };
  std::vector<double> all;
  const std::int64_t rows = reading.layout.batch * reading.layout.tokens;
  for (const auto& part :
       in_parts<std::vector<double>>(*sample.executor, rows, [&](std::int64_t begin, std::int64_t end) {
         std::vector<double> some;
         for (std::int64_t row = begin; row < end; ++row) some.push_back(wrongness(row));
         return some;
       })) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace rotary::diagnose
