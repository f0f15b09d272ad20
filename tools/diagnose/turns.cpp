#include <algorithm>
#include <cmath>

#include "turns.h"

namespace rotary::diagnose {

namespace {

// Whether a head is the same before and after; one of zeros says nothing.
bool is_unchanged(const Sample& sample, const Layout& layout, std::int64_t head) {
  bool zero = true;
  Still still{sample};
  for (std::int64_t row = 0; row < layout.batch * layout.tokens; ++row) {
    const std::int64_t first = at(layout, row / layout.tokens, row % layout.tokens, head);
    if (!sample.noisy() && !std::ranges::equal(sample.x(first), sample.y(first))) return false;
    for (std::size_t u = 0; u < sample.x(first).size(); ++u) still.add(sample.x(first)[u], sample.y(first)[u]);
    zero = zero && std::ranges::all_of(sample.x(first), [](double x) { return x == 0; });
  }
  return !zero && still.holds();
}

// |x|^2, |y|^2, their product and y conj(x), summed over the heads of a pair.
struct Sums {
  double xx = 0, yy = 0, xxyy = 0;
  Complex yx = 0;
};

Sums sums(const Sample& sample, const Turns& turns, std::int64_t row, int pair) {
  const std::int64_t tokens = turns.layout().tokens, own = pair / turns.block.pairs;
  pair %= turns.block.pairs;
  Sums sum;
  const auto first_of_own = std::ranges::lower_bound(turns.heads, own);
  for (auto at_head = turns.apart ? first_of_own : turns.heads.begin(); at_head != turns.heads.end(); ++at_head) {
    const std::int64_t head = *at_head;
    if (turns.apart && head != own) break;
    const std::int64_t first = at(turns.layout(), row / tokens, row % tokens, head);
    const Complex x = pair_of(sample.x(first), turns.block.input(pair));
    const Complex y = pair_of(sample.y(first), turns.block.output(pair));
    sum.xx += std::norm(x);
    sum.yy += std::norm(y);
    sum.xxyy += std::norm(x) * std::norm(y);
    sum.yx += y * std::conj(x);
  }
  return sum;
}

// ---- the precision of angles and of the table: each way is tried -------------------------------

using Rounding = double (*)(double);

double exactly(double value) { return value; }
double to_f32(double value) { return static_cast<float>(value); }
template <double (*to_whole)(double)>
double to_tf32(double value) {
  if (value == 0) return 0;
  const double scale = std::ldexp(1.0, 10 - std::ilogb(value));
  return to_whole(value * scale) / scale;
}

// angle = product(position(p) * speed(w)); cos and sin are rounded to the table's type.
struct Hypothesis {
  Precision precision = Precision::exact;
  Cause cause = Cause::coarse_table;
  Rounding position = exactly, speed = exactly, product = exactly, table = exactly;
};

// fine: the angles of a table that alone is rounded. unit: of the tensor; a type with more digits leaves no trace in
// it.
std::vector<Hypothesis> coarse_hypotheses(const Hypothesis& fine, double unit) {
  std::vector<Hypothesis> list;
  for (const Precision type : {Precision::f16, Precision::bf16}) {
    const Storage& storage = storage_of(type == Precision::f16 ? ElementType::f16 : ElementType::bf16);
    const Rounding of = storage.rounded;
    const bool finer = type == Precision::f16 && unit > storage.unit;  // than the tensor: only its angles leave a trace
    if (!finer) list.push_back({type, Cause::coarse_table, fine.position, fine.speed, fine.product, of});
    for (const Rounding table : {Rounding(to_f32), of}) {
      if (finer && table == of) continue;
      list.push_back({type, Cause::coarse_inv_freq, exactly, of, exactly, table});
      list.push_back({type, Cause::coarse_angles, exactly, exactly, of, table});
      list.push_back({type, Cause::coarse_steps, of, of, of, table});
      list.push_back({type, Cause::coarse_steps, exactly, of, of, table});
    }
  }
  for (const Rounding of : {Rounding(to_tf32<std::nearbyint>), Rounding(to_tf32<std::trunc>)})
    list.push_back({Precision::f16, Cause::tf32, of, of, to_f32, to_f32});
  return list;
}

// An entry of a table. In few bits an entry whose float32 angle and cosine may lie on either side of a tie is the one
// nearer to the measured.
double entry(Rounding table, double value, double error, double measured) {
  if (table == Rounding(exactly) || table == Rounding(to_f32)) return table(value);
  const double below = table(value - error), above = table(value + error);
  return std::abs(below - measured) < std::abs(above - measured) ? below : above;
}

// float32_speed: in float32 steps, where the hypothesis takes them; empty: speed as it is.
Fit fit_of(const Turns& turns, const Motion& motion, const Hypothesis& one, const std::vector<float>& float32_speed,
           double slack) {
  return compare(turns, motion, slack, [&](std::int64_t row, int pair) -> Complex {
    double angle = 0;
    for (int term = 0; term < motion.terms; ++term) {
      double speed = motion.speed_of(pair, term);
      if (const auto i = static_cast<std::size_t>(pair); i < float32_speed.size())
        speed = std::copysign(static_cast<double>(float32_speed[i]), speed);
      angle += one.product(one.position(motion.distance(row, pair, term)) * one.speed(speed));
    }
    const Complex measured = turns.turn[turns.at(row, pair)];
    const double error = (std::abs(angle) + 1) * 0x1p-23 * motion.factor;
    return {entry(one.table, motion.factor * std::cos(angle), error, measured.real()),
            entry(one.table, motion.factor * std::sin(angle), error, measured.imag())};
  });
}

// One row of so many is left in thinned turns.
std::int64_t thinning(const Turns& turns) { return std::max<std::int64_t>(1, turns.rows() / 256); }

}  // namespace

Turns thinned(const Turns& turns) {
  Turns some = turns;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    const auto begin = some.weight.begin() + row * turns.pairs();
    if (row % thinning(turns) != 0) std::fill(begin, begin + turns.pairs(), 0);
  }
  return some;
}

Turns measure(const Sample& sample, const Reading& reading, const Block& block, bool apart) {
  Turns turns{sample, reading, block, apart};
  for (std::int64_t head = 0; head < reading.layout.heads; ++head) {
    if (!is_unchanged(sample, reading.layout, head)) turns.heads.push_back(head);
  }
  const auto pairs = static_cast<std::size_t>(turns.pairs()), count = static_cast<std::size_t>(turns.rows()) * pairs;
  std::vector<double> off(pairs), all(pairs);
  turns.weight.resize(count);
  turns.turn.resize(count);
  turns.sigma.resize(count);
  const auto measure_rows = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::array<double, 2>> errors(pairs);  // for each pair: the squares that are off, and all
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const Sums sum = sums(sample, turns, row, static_cast<int>(i));
        const std::size_t at = turns.at(row, static_cast<int>(i));
        turns.weight[at] = sum.xx;
        turns.turn[at] = sum.xx > 0 ? sum.yx / sum.xx : Complex(0);
        const double rounding = std::hypot(sample.unit, sample.noise.relative) * std::sqrt(sum.xxyy);
        turns.sigma[at] =
            sum.xx > 0 ? std::hypot(rounding, (sample.noise.rms + sample.least) * std::sqrt(sum.xx)) / sum.xx : 4;
        errors[i][0] += sum.xx > 0 ? std::max(0.0, sum.yy - std::norm(sum.yx) / sum.xx) : sum.yy;
        errors[i][1] += sum.yy;
      }
    }
    return errors;
  };
  for (const auto& part : in_parts<std::vector<std::array<double, 2>>>(*sample.executor, turns.rows(), measure_rows)) {
    for (std::size_t i = 0; i < pairs; ++i) {
      off[i] += part[i][0];
      all[i] += part[i][1];
    }
  }
  for (std::size_t i = 0; i < pairs; ++i) {
    if (all[i] > 0) turns.spread = std::max(turns.spread, std::sqrt(off[i] / all[i]));
  }
  return turns;
}

double Motion::angle(std::int64_t row, int pair) const noexcept {
  double sum = 0;
  for (int term = 0; term < terms; ++term) sum += speed_of(pair, term) * distance(row, pair, term);
  return sum;
}

double Motion::size(std::int64_t row, int pair) const noexcept {
  double sum =
      std::abs(log_amplitude(row, pair)) + (phase.empty() ? 0 : std::abs(phase[static_cast<std::size_t>(pair)]));
  for (int term = 0; term < terms; ++term) sum += std::abs(speed_of(pair, term) * distance(row, pair, term));
  return sum;
}

double Motion::computed(std::int64_t row, int pair) const noexcept {
  double sum = size(row, pair);
  for (int term = 0; !from.empty() && term < terms; ++term)
    sum += 2 * std::abs(speed_of(pair, term) * from_of(row, axis_of(pair, term)));
  return sum;
}

Complex Motion::turn(std::int64_t row, int pair) const noexcept {
  const double sum = angle(row, pair) + (phase.empty() ? 0 : phase[static_cast<std::size_t>(pair)]);
  const double rest = terms > 1 ? 0 : std::fma(speed_of(pair), distance(row, pair), -angle(row, pair));
  const double cos = std::cos(sum), sin = std::sin(sum), by = factor * std::exp(log_amplitude(row, pair));
  return {by * (cos - rest * sin), by * (sin + rest * cos)};
}

Motion Motion::reversed() const {
  Motion back = *this;
  for (std::vector<double>* values : {&back.speed, &back.phase, &back.growth}) {
    for (double& value : *values) value = -value;
  }
  back.factor = 1 / factor;
  return back;
}

void Motion::shift(double by) {
  for (std::vector<double>& of_axis : position) {
    for (double& one : of_axis) one += by;
  }
}

double misfit(const Turns& turns, std::size_t at, double angle, Complex turn, double slack) {
  const double size = std::abs(turn);
  const double noise = 6 * turns.sigma[at] + std::max(slack, 0x1p-50) * std::abs(angle) * size + 0x1p-48;
  // Elements of few bits do not move at all where the angle is below their rounding.
  const double unmoved = std::min(std::abs(angle), turns.unit / 2) * size;
  const Complex off = turns.turn[at] - turn;
  return std::max(std::abs(off.real()) / (noise + turns.unit * std::abs(turn.real())),
                  std::abs(off.imag()) / (noise + turns.unit * std::abs(turn.imag()) + unmoved));
}

double misfit(const Turns& turns, const Motion& motion, std::int64_t row, int pair) {
  return misfit(turns, turns.at(row, pair), motion.computed(row, pair), motion.turn(row, pair), slack_of(turns, pair));
}

Fit compare(const Turns& turns, const Motion& motion, double slack,
            const std::function<Complex(std::int64_t row, int pair)>& turn_of, bool whole) {
  Fit fit;
  double off = 0, all = 0, stretched = 0, turned = 0, count = 0;
  for (std::int64_t row = 0; row < turns.rows() && (whole || fit.holds); ++row) {
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      const std::size_t at = turns.at(row, pair);
      if (turns.weight[at] == 0) continue;
      const Complex turn = turn_of ? turn_of(row, pair) : motion.turn(row, pair), away = turns.turn[at] - turn;
      const double angle = motion.computed(row, pair), steps = slack_of(turns, pair, slack);
      if (misfit(turns, at, angle, turn, steps) > 1) fit.holds = false;
      off += turns.weight[at] * std::norm(away);
      all += turns.weight[at] * std::norm(turns.turn[at]);
      const double size = std::abs(turn), sigma = turns.sigma[at];
      if (!turns.noisy() || size == 0 || sigma == 0) continue;
      const Complex along = away * std::conj(turn) / size;
      stretched += square(along.real() / sigma);
      turned += square(along.imag() / std::hypot(sigma, steps * angle * size));
      ++count;
    }
  }
  fit.residual = all > 0 ? std::sqrt(off / all) : 0;
  if (!turns.noisy() || count < 8) return fit;
  // Noise turns pairs as much as it stretches them; other speeds only turn them.
  fit.chi = turned / std::max(stretched / count, 1e-12);
  fit.holds = fit.holds && fit.chi <= count * (1.3 + 16 / std::sqrt(count));
  return fit;
}

const char* name(Precision precision) noexcept {
  constexpr std::array<const char*, 4> names = {"exact", "f32", "f16", "bf16"};
  return names[static_cast<std::size_t>(precision)];
}

FoundPrecision find_precision(const Turns& all, const Motion& motion, const std::vector<float>& inv_freq_float32) {
  const std::int64_t step = thinning(all);
  const Turns turns = thinned(all);
  // The angles of an engine that takes care.
  const Hypothesis exact_angles{};
  const Hypothesis float32_angles{.precision = Precision::f32, .position = to_f32, .speed = to_f32, .product = to_f32};
  const Fit exact = fit_of(turns, motion, exact_angles, {}, 0);
  const Fit rounded = fit_of(turns, motion, float32_angles, {}, 0);
  const Fit in_steps = fit_of(turns, motion, float32_angles, inv_freq_float32, 0);
  const Fit in_float32 = rounded.residual < in_steps.residual ? rounded : in_steps;
  const bool is_exact = exact.residual <= in_float32.residual;
  FoundPrecision found;
  found.fit = is_exact ? exact : in_float32;
  std::optional<Hypothesis> coarse;
  Fit best;
  for (const Hypothesis& one : coarse_hypotheses(is_exact ? exact_angles : float32_angles, turns.unit)) {
    const Fit fit = fit_of(turns, motion, one, {}, float32_slack);
    if (coarse && !(fit.residual < 0.95 * best.residual))
      continue;  // among equals the first, the more usual; inf is no fit
    coarse = one;
    best = fit;
  }
  // The mean square of so many differences of rounding is known to sqrt(2 / count).
  const auto count = static_cast<double>(turns.turn.size()) / static_cast<double>(step);
  const bool finer = coarse->precision == Precision::f16 && turns.unit > 0x1p-11;
  const double certain = finer ? 0.25 : std::max(0.3, 1 - 8 / std::sqrt(count));
  const double fine = found.fit.residual;
  if (best.residual * best.residual < certain * fine * fine && (best.holds || best.residual < 0.3 * fine)) {
    found = {coarse->precision, coarse->cause, step > 1 ? fit_of(all, motion, *coarse, {}, float32_slack) : best};
  } else if (in_float32.residual < 0.8 * exact.residual || (!exact.holds && compare(all, motion).holds)) {
    found.precision = Precision::f32;
  } else if (exact.residual < 0.8 * in_float32.residual) {
    found.precision = Precision::exact;
  }
  return found;
}

}  // namespace rotary::diagnose
