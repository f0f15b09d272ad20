// Positions from turns and speeds; speeds from turns and positions; and the asked speeds at other positions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "examination.h"

namespace rotary::diagnose {

namespace {

constexpr double circle = 6.283185307179586476925;
constexpr double farthest = 0x1p22;  // positions are looked for this far around the expected ones
constexpr double unknown = std::numeric_limits<double>::infinity();

// ---- a value from angles that are known up to whole turns ----------------------------------------

// angle = value * factor + whole turns, with a standard error.
struct Phase {
  double angle = 0;
  double sigma = 0;
  double factor = 0;
  double steps = 1;  // how many times the error of a usual engine's angles in float32
  double far = 0;    // the angle is the difference of two that are value * far large: their float32 steps are its error
};

struct Unwrapped {
  double value = 0;
  double error = 0;   // standard error of value; infinite where no phase says anything
  double misfit = 0;  // the largest remaining angle, in units of 6 standard errors: at most 1 where value explains all
  double score = 0;
};

double wrapped(double angle) noexcept { return std::remainder(angle, circle); }  // in [-pi, pi]

double sigma_of(const Phase& phase, double value) {
  return phase.sigma + phase.steps * float32_slack / 6 * std::abs(value) * std::max(std::abs(phase.factor), phase.far);
}

// Phases in the order of rising factors.
Unwrapped refine(const std::vector<Phase>& phases, double start, double reference) {
  Unwrapped one{start};
  double variance = square(sigma_of(phases[0], reference) / phases[0].factor);
  for (std::size_t j = 1; j < phases.size(); ++j) {
    const Phase& phase = phases[j];
    const double off = wrapped(phase.angle - one.value * phase.factor);
    const double noise = square(sigma_of(phase, reference)), spread = variance * square(phase.factor);
    one.value += off * variance * phase.factor / (spread + noise);
    variance *= noise / (spread + noise);
  }
  for (const Phase& phase : phases) {
    const double off = std::abs(wrapped(phase.angle - one.value * phase.factor));
    one.misfit = std::max(one.misfit, off / (6 * sigma_of(phase, one.value)));
    one.score += (1 - std::cos(off)) / static_cast<double>(phases.size());
  }
  one.error = std::sqrt(variance);
  return one;
}

// The value within `range` of `near` that explains the phases best; among equals the nearest. Begins with the phase of
// the smallest factor, for every number of whole turns in the range, and refines by the next larger ones.
Unwrapped unwrap(std::vector<Phase> phases, double near, double range) {
  std::erase_if(phases, [](const Phase& phase) { return phase.factor == 0 || phase.sigma > 1; });
  if (phases.empty()) return {near, unknown};
  std::ranges::sort(phases, {}, [](const Phase& one) { return std::abs(one.factor); });
  const double period = circle / std::abs(phases[0].factor), base = phases[0].angle / phases[0].factor;
  constexpr double most_turns = 4096;
  const double low = std::ceil(std::max((near - range - base) / period, (near - base) / period - most_turns));
  const double high = std::floor(std::min((near + range - base) / period, (near - base) / period + most_turns));
  std::vector<Unwrapped> candidates = {refine(phases, near + std::remainder(base - near, period), near)};
  for (double k = low; k <= high; ++k) candidates.push_back(refine(phases, base + k * period, base + k * period));
  const Unwrapped best = *std::ranges::min_element(candidates, {}, &Unwrapped::score);
  Unwrapped chosen = best;
  for (const Unwrapped& other : candidates) {
    const bool as_good = other.misfit <= 1 || other.score <= best.score * 1.01;
    if (!as_good || (chosen.misfit <= 1 && other.misfit > 1)) continue;
    if (std::abs(other.value - near) < std::abs(chosen.value - near)) chosen = other;
  }
  return chosen;
}

std::optional<Phase> phase_of(const Turns& turns, std::int64_t row, int pair) {
  const std::size_t at = turns.at(row, pair);
  const double size = std::abs(turns.turn[at]);
  if (turns.weight[at] == 0 || size == 0) return std::nullopt;
  return Phase{std::arg(turns.turn[at]), turns.sigma[at] / size + turns.unit / 6, 0,
               slack_of(turns, pair) / float32_slack};
}

// Not where every element is 0.
bool says_something(const Turns& turns, std::int64_t row) {
  const auto begin = turns.weight.begin() + row * turns.pairs();
  return std::any_of(begin, begin + turns.pairs(), [](double weight) { return weight > 0; });
}

// The positions, one per row, at which these speeds explain the turns of the pairs of one axis.
struct FoundPositions {
  std::vector<double> position;
  std::vector<double> error;  // standard error; infinite where no pair of the row says anything
};

// A position is whole unless the data say otherwise; where most are whole, all are: else a few are nearly whole by
// chance.
void make_whole(FoundPositions& found) {
  std::vector<double> rounded = found.position;
  std::int64_t same = 0;
  for (std::size_t row = 0; row < rounded.size(); ++row) {
    const double nearest = std::round(rounded[row]), error = std::isfinite(found.error[row]) ? found.error[row] : 0;
    const double slack = std::clamp(1e-6 * std::abs(nearest), 0.01, 0.1) + 6 * error;
    const bool is_whole = std::abs(rounded[row] - nearest) <= slack;
    if (is_whole) rounded[row] = nearest, ++same;
  }
  if (2 * same > std::ssize(rounded)) found.position = std::move(rounded);
}

// std::nullopt if some row has no position that explains all of its pairs.
std::optional<FoundPositions> find_positions(const Turns& turns, const Motion& speeds, int axis,
                                             const std::vector<double>& expected) {
  FoundPositions found;
  double shift = 0;  // the row before has it: most faults move all rows alike
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    std::vector<Phase> phases;
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      std::optional<Phase> phase = speeds.axis_of(pair) == axis ? phase_of(turns, row, pair) : std::nullopt;
      if (!phase) continue;
      phase->factor = speeds.speed[static_cast<std::size_t>(pair)];
      phases.push_back(*phase);
    }
    const double from = speeds.from_of(row, axis), near = expected[static_cast<std::size_t>(row)] - from;
    Unwrapped best = unwrap(phases, near, 0);
    for (const auto& [start, range] : {std::pair{near + shift, 0.0}, {near, 1024.0}, {near, farthest}}) {
      if (best.misfit <= 1) break;
      best = unwrap(phases, start, range);
    }
    if (!(best.misfit <= 1)) return std::nullopt;
    shift = best.value - near;
    found.position.push_back(best.value + from);
    found.error.push_back(best.error);
  }
  make_whole(found);
  return found;
}

// ---- how a list of positions differs from the expected one ---------------------------------------

using Positions = std::vector<double>;

bool same(double a, double b) { return std::abs(a - b) <= 1e-6 + 1e-9 * std::abs(b); }

Pattern offset_by(double shift, double first, double expected) {
  return {find_offset(first + shift, expected), shift, [=](double one) { return one + shift; }};
}
Pattern times(double step, Cause cause, std::vector<Number> numbers = {}) {
  return {finding(cause, std::move(numbers)), step, [=](double one) { return step * one; }};
}

double to_bits(double value, int bits) {
  if (value == 0) return 0;
  const double scale = std::ldexp(1.0, bits - 1 - std::ilogb(value));
  return std::nearbyint(value * scale) / scale;
}

// The patterns of positions whose first known one is p, where e is expected.
std::vector<Pattern> known_patterns(double p, double e) {
  std::vector<Pattern> list = {times(1, Cause::as_asked),
                               times(-1, Cause::direction),
                               offset_by(p - e, e, e),
                               times(2, Cause::doubled),
                               {finding(Cause::constant_position, {{"found", p}}), p, [=](double) { return p; }}};
  for (const int bits : {8, 16}) {
    for (const bool is_signed : {true, false}) {
      list.push_back(
          {finding(Cause::wrapped_positions, {{"type", (is_signed ? "int" : "uint") + std::to_string(bits)}}), 0,
           [modulus = std::ldexp(1.0, bits), least = is_signed ? 0.5 : 0](double one) {
             return one - modulus * std::floor(one / modulus + least);
           }});
    }
  }
  for (const auto& [digits, type] : {std::pair{8, "bf16"}, {11, "f16"}})
    list.push_back({finding(Cause::rounded_positions, {{"type", type}}), 0,
                    [bits = digits](double one) { return to_bits(one, bits); }});
  return list;
}

// A list of positions beside the expected one. Rows of which nothing is known have the position that follows from the
// row before.
struct Lists {
  Positions p, error;
  const Positions& e;
  std::size_t tokens;
  bool is_known(std::size_t i) const { return std::isfinite(error[i]); }
  template <class PositionOf>
  bool hold(PositionOf position_of) const {
    bool all = true;
    for (std::size_t i = 0; all && i < p.size(); ++i) all = !is_known(i) || same(p[i], position_of(i));
    return all;
  }
};

// One position for the first tokens; after them the positions begin as they should have at the first token.
std::optional<Pattern> padded(const Lists& of) {
  const auto& [p, error, e, tokens] = of;
  std::size_t last = p.size();
  while (last-- > 1 && same(p[last] - p[last - 1], e[last] - e[last - 1])) {
    if (!same(p[last - 1], e[0])) continue;
    const bool constant = std::all_of(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(last) - 1,
                                      [first = p[0]](double one) { return same(one, first); });
    if (!constant || last < 2) return std::nullopt;
    return Pattern{finding(Cause::padded_positions,
                           {{"found", e[0]}, {"token", number(last - 1)}, {last > 2 ? "several" : "one", true}})};
  }
  return std::nullopt;
}

// Segments that each begin again where the first began.
std::optional<Pattern> restarts(const Lists& of) {
  const auto& [p, error, e, tokens] = of;
  std::size_t boundary = 1;
  while (boundary < tokens && same(p[boundary], p[boundary - 1] + (e[boundary] - e[boundary - 1]))) ++boundary;
  if (boundary + 1 >= tokens) return std::nullopt;  // the last token alone has another position, and begins nothing
  std::size_t begin = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const std::size_t t = i % tokens;
    if (t == 0) begin = 0;
    if (t > 0 && same(p[i], p[i - t]) && !same(p[i], p[i - 1])) begin = t;
    if (!same(p[i], p[i - t] + (e[i - t + (t - begin)] - e[i - t]))) return std::nullopt;
  }
  return Pattern{finding(Cause::restarted_positions, {{"found", p[0]}, {"token", number(boundary)}})};
}

// A constant times the expected positions, within their errors, by weighted least squares.
std::optional<Pattern> step_pattern(const Lists& of) {
  double pe = 0, ee = 0;
  const auto sigma = [&](std::size_t i) { return std::max(of.error[i], 1e-7 * std::abs(of.p[i]) + 1e-9); };
  for (std::size_t i = 0; i < of.p.size(); ++i) {
    pe += of.p[i] * of.e[i] / square(sigma(i));
    ee += square(of.e[i] / sigma(i));
  }
  if (ee == 0) return std::nullopt;
  const double step = pe / ee;
  for (std::size_t i = 0; i < of.p.size(); ++i) {
    if (std::abs(of.p[i] - step * of.e[i]) > 6 * sigma(i) + 1e-6 * std::abs(of.p[i])) return std::nullopt;
  }
  const auto near = [&](double value) { return std::abs(step - value) <= 6 / std::sqrt(ee); };
  if (near(1)) return times(1, Cause::as_asked);
  if (near(-1)) return times(-1, Cause::direction);
  if (near(2)) return times(2, Cause::doubled);
  double shown = step;
  for (const double tidy : {std::round(step * 100) / 100, 1 / std::round(1 / step), std::round(step)}) {
    if (std::isfinite(tidy) && tidy != 0 && near(tidy)) shown = tidy;
  }
  return times(shown, Cause::position_step, {{"found", shown}});
}

// The expected positions and a constant, within their errors.
std::optional<Pattern> shift_pattern(const Lists& of) {
  double sum = 0, weights = 0;
  const auto sigma = [&](std::size_t i) { return std::max(of.error[i], 1e-7 * std::abs(of.p[i]) + 1e-9); };
  for (std::size_t i = 0; i < of.p.size(); ++i) {
    sum += (of.p[i] - of.e[i]) / square(sigma(i));
    weights += 1 / square(sigma(i));
  }
  if (!(weights > 0)) return std::nullopt;
  double shift = sum / weights;
  for (std::size_t i = 0; i < of.p.size(); ++i) {
    if (std::abs(of.p[i] - of.e[i] - shift) > 6 * sigma(i) + 1e-6 * std::abs(of.p[i])) return std::nullopt;
  }
  const double error = 6 / std::sqrt(weights), tidy = std::round(shift * 100) / 100;
  if (std::abs(shift) <= error) return times(1, Cause::as_asked);
  if (std::abs(shift - tidy) <= error) shift = tidy;
  return offset_by(shift, of.e[0], of.e[0]);
}

// ---- the asked speeds at other positions ----------------------------------------------------------

Finding finding_of(const Pattern& pattern, const Asked& asked) {
  const bool clockwise = asked.frequencies.clockwise;
  if (pattern.found.cause == Cause::direction) return direction_found(!clockwise, clockwise);
  if (pattern.found.cause != Cause::position_step) return pattern.found;
  const double step = pattern.value;
  if (step > 0 && step < 1) return finding(Cause::linear, {{"factor", 1 / step, 6}, {"step", step, 6}});
  return pattern.found;
}

bool has_no_name(const Pattern& pattern) { return pattern.found.cause == Cause::other_positions; }

// Sets the facts beside the positions that follow from a pattern.
void set_facts(Examination& exam, const Asked& asked, Verdict verdict, double step) {
  if (verdict == Verdict::direction) exam.facts.clockwise = !asked.frequencies.clockwise;
  if (verdict == Verdict::direction || verdict == Verdict::scaling || verdict == Verdict::twice)
    exam.set_positions(exam.expected[0]);
  if (verdict != Verdict::scaling) return;
  const bool unscaled = std::holds_alternative<Unscaled>(asked.used.rope.scaling);
  exam.facts.scaling = unscaled ? std::optional<Scaling>(Linear{1 / step}) : std::nullopt;
  for (double& speed : exam.facts.inv_freq) speed *= step;
}

// Few tokens tell little of the slow axes. Where several axes are off, the first one's positions, or else its offset,
// become those of all axes if that holds. Returns the numbers that say so.
std::vector<Number> one_for_all(const Examination& exam, const Asked& asked, Motion& motion,
                                std::vector<Pattern>& patterns) {
  const auto is_wrong = [](const Pattern& one) { return one.found.cause != Cause::as_asked; };
  const auto first = std::ranges::find_if(patterns, is_wrong);
  if (std::ranges::count_if(patterns, is_wrong) < 2) return {};
  const auto number = first - patterns.begin();
  for (const bool shifted : {false, true}) {
    if (shifted && first->found.cause != Cause::offset) break;
    Motion one = motion;
    one.position.assign(patterns.size(), motion.position[static_cast<std::size_t>(number)]);
    for (std::size_t axis = 0; shifted && axis < patterns.size(); ++axis)
      std::ranges::transform(exam.expected[axis], one.position[axis].begin(), first->position);
    if (!compare(exam.turns, one).holds) continue;
    motion = std::move(one);
    patterns.assign(patterns.size(), Pattern(*first));
    if (!shifted) return {{"every_axis", true}};
    return {{"axis", axis_name(asked.used, static_cast<int>(number))}, {"others", true}};
  }
  return {};
}

// The positions of every axis that explain the pairs on it, with their patterns. False: none do.
bool find_each_axis(const Examination& exam, Motion& motion, std::vector<Pattern>& patterns) {
  const std::int64_t batch = exam.turns.layout().batch;
  for (std::size_t axis = 0; axis < exam.expected.size(); ++axis) {
    const std::vector<double>& expected = exam.expected[axis];
    const std::optional<FoundPositions> found = find_positions(exam.turns, motion, static_cast<int>(axis), expected);
    if (!found) return false;
    patterns.push_back(pattern_of(found->position, expected, batch, found->error));
    std::vector<double>& position = motion.position[axis] = found->position;
    for (std::size_t row = 0; row < position.size(); ++row) {
      if (!std::isfinite(found->error[row]) && patterns.back().position)
        position[row] = patterns.back().position(expected[row]);
    }
  }
  return true;
}

// Positions of angles that are sums over axes are not measured but tried: each axis up to four positions away.
bool find_sums(const Examination& exam, Motion& motion, std::vector<Pattern>& patterns) {
  const std::size_t axes = exam.expected.size();
  if (axes > 3) return false;  // there would be too many trials
  patterns.resize(axes);
  constexpr int most = 4, steps = 2, choices = 2 * most * steps + 1;  // steps: in one position
  const int all = static_cast<int>(std::pow(choices, axes));
  for (int choice = 0; choice < all; ++choice) {
    int rest = choice;
    for (std::size_t axis = 0; axis < axes; ++axis, rest /= choices) {
      const double shift = static_cast<double>(rest % choices) / steps - most, first = exam.expected[axis][0];
      patterns[axis] = {shift == 0 ? finding(Cause::as_asked) : find_offset(first + shift, first),
                        shift,
                        [=](double one) { return one + shift; },
                        {}};
      std::ranges::transform(exam.expected[axis], motion.position[axis].begin(), patterns[axis].position);
    }
    if (compare(exam.turns, motion, float32_slack, {}, false).holds) return true;
  }
  return false;
}

// Whether the asked positions of an axis explain all pairs on it.
bool axis_holds(const Turns& turns, const Motion& asked, int axis) {
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      const bool is_on_it = asked.axis_of(pair) == axis && turns.weight[turns.at(row, pair)] > 0;
      if (is_on_it && misfit(turns, asked, row, pair) > 1) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<FoundSpeed> find_speed(const Turns& turns, int pair, const std::vector<double>& position) {
  std::int64_t reference = 0;  // the usable row that is nearest to position 0
  double least = unknown, gap = unknown;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    const double away = std::abs(position[static_cast<std::size_t>(row)]);
    if (away >= least || !says_something(turns, row)) continue;
    least = away;
    reference = row;
  }
  const double origin = position[static_cast<std::size_t>(reference)];
  const std::optional<Phase> start = phase_of(turns, reference, pair);
  std::vector<Phase> phases;
  for (std::int64_t row = 0; start && row < turns.rows(); ++row) {
    const double own = position[static_cast<std::size_t>(row)];
    if (own != origin) gap = std::min(gap, std::abs(own - origin));
    std::optional<Phase> phase = phase_of(turns, row, pair);
    if (!phase) continue;
    phase->angle -= start->angle;
    phase->sigma = std::hypot(phase->sigma, start->sigma);
    phase->factor = own - origin;
    phase->far = std::abs(own);
    phases.push_back(*phase);
  }
  const Unwrapped speed = unwrap(phases, 0, std::isfinite(gap) ? 3.2 / gap : 0);
  if (speed.misfit > 1) return std::nullopt;
  return FoundSpeed{speed.value, speed.error, start ? wrapped(start->angle - speed.value * origin) : 0,
                    start ? start->sigma + speed.error * std::abs(origin) : unknown};
}

double sign_of(const std::vector<FoundSpeed>& found) {
  double sign = 0;
  for (const FoundSpeed& one : found) {
    if (std::abs(one.speed) > 3 * one.error) sign += std::copysign(1.0, one.speed);
  }
  return sign < 0 ? -1 : 1;
}

std::optional<double> shift_of(const std::vector<FoundSpeed>& found) {
  std::vector<Phase> phases;
  bool zero = true;
  for (int pair = 0; const FoundSpeed& one : found) {
    if (std::abs(one.phase) > 6 * one.phase_error) zero = false;
    const double steps = slack_of(pair++) / float32_slack;
    if (std::isfinite(one.phase_error)) phases.push_back({one.phase, one.phase_error, one.speed, steps});
  }
  if (zero) return 0;
  const Unwrapped shift = unwrap(phases, 0, 0x1p20);
  if (shift.misfit > 1 || !std::isfinite(shift.error)) return std::nullopt;
  return std::abs(shift.value - std::round(shift.value)) < 0.02 ? std::round(shift.value) : shift.value;
}

Finding find_offset(double found, double asked) {
  return finding(Cause::offset,
                 {{"found", found}, {"asked", asked}, {found > asked ? "late" : "early", std::abs(found - asked)}});
}

Pattern pattern_of(Positions position, const Positions& expected, std::int64_t batch, Positions error, bool mirrored) {
  error.resize(position.size());
  Lists of{position, error, expected, position.size() / static_cast<std::size_t>(batch)};
  const Positions &p = of.p, &e = of.e;
  const std::size_t tokens = of.tokens;
  std::size_t first = 0;
  while (first + 1 < p.size() && !of.is_known(first)) ++first;
  for (std::size_t i = first + 1; i < p.size(); ++i) {
    if (!of.is_known(i)) of.p[i] = p[i - 1] + e[i] - e[i - 1];
  }
  for (std::size_t i = first; i-- > 0;) of.p[i] = p[i + 1] + e[i] - e[i + 1];
  for (Pattern& one : known_patterns(p[first], e[first])) {
    if (!of.hold([&](std::size_t i) { return one.position(e[i]); })) continue;
    if (one.found.cause == Cause::offset) one.found = find_offset(p[0], e[0]);
    return one;
  }
  if (const auto found = step_pattern(of)) return *found;
  if (const auto found = shift_pattern(of)) return *found;
  if (of.hold([&](std::size_t i) { return e[i / tokens * tokens + tokens - 1 - i % tokens]; }))
    return {finding(Cause::reversed_positions)};
  if (const auto found = batch == 1 ? padded(of) : std::nullopt) return *found;
  if (const auto found = restarts(of)) return *found;
  if (batch == 1 && of.hold([&](std::size_t i) { return p[0] + static_cast<double>(i); }))
    return {finding(Cause::counted_positions, {{"found", p[0]}})};
  if (!mirrored) {
    for (double& one : position) one = -one;
    Pattern negative = pattern_of(std::move(position), expected, batch, std::move(error), true);
    if (negative.found.cause != Cause::other_positions)
      return {finding(Cause::direction), 0, {}, std::move(negative.found)};
  }
  std::size_t i = 0;
  while (same(p[i], e[i])) ++i;  // the first pattern does not hold: one differs
  return {finding(Cause::other_positions, {{"found", p[i]}, {"asked", e[i]}})};
}

bool explain_by_positions(Examination& exam, const Asked& asked) {
  Motion motion = asked.motion;
  std::vector<Pattern> patterns;
  const bool sums = motion.terms > 1;
  if (!(sums ? find_sums(exam, motion, patterns) : find_each_axis(exam, motion, patterns))) return false;
  const std::vector<Number> together = sums ? std::vector<Number>{} : one_for_all(exam, asked, motion, patterns);
  for (std::size_t axis = 0; together.empty() && !sums && axis < patterns.size(); ++axis) {
    if (!axis_holds(exam.turns, asked.motion, static_cast<int>(axis))) continue;
    patterns[axis] = {finding(Cause::as_asked)};  // other positions may hold too, but nothing says so
    motion.position[axis] = exam.expected[axis];
  }
  const Fit fit = compare(exam.turns, motion);
  if (!says_more(fit, asked.fit.residual)) return false;
  exam.take(fit);
  exam.set_positions(motion.position[0]);
  if (exam.subject.places_unknown) {
    exam.find(Cause::no_positions);
    return true;
  }
  exam.named = std::ranges::none_of(patterns, has_no_name);
  for (std::size_t axis = 0; axis < patterns.size(); ++axis) {
    const Pattern& pattern = patterns[axis];
    if (pattern.found.cause == Cause::as_asked) continue;
    Finding found = finding_of(pattern, asked);
    set_facts(exam, asked, found.verdict, pattern.value);
    const bool one_kind = std::ranges::all_of(patterns, [&](const Pattern& other) {
      return other.found.cause == pattern.found.cause && std::abs(other.value - pattern.value) < 1e-6;
    });
    if (one_kind) found.numbers.insert(found.numbers.end(), together.begin(), together.end());
    if (!one_kind) found.numbers.push_back({"axis", axis_name(asked.used, static_cast<int>(axis))});
    exam.claim(std::move(found), fit, asked.fit);
    if (pattern.more) exam.find(*pattern.more);
    if (one_kind) return true;
  }
  return !exam.findings.empty() || fit.holds;
}

}  // namespace rotary::diagnose
