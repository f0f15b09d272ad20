#include <algorithm>
#include <cmath>

#include "noise.h"

namespace rotary::diagnose {

namespace {

// Whether a head is the same before and after; one of zeros says nothing.
bool is_unchanged(const Sample& sample, const Layout& layout, std::int64_t head) {
  bool zero = true;
  Still still(sample);
  for (std::int64_t row = 0; row < layout.batch * layout.tokens; ++row) {
    const std::int64_t first = at(layout, row / layout.tokens, row % layout.tokens, head);
    if (!sample.noisy() && !std::ranges::equal(sample.x(first), sample.y(first))) return false;
    for (std::size_t u = 0; u < sample.x(first).size(); ++u) still.add(sample.x(first)[u], sample.y(first)[u]);
    zero = zero && std::ranges::all_of(sample.x(first), [](double x) { return x == 0; });
  }
  return !zero && still.holds();
}

Complex pair_of(std::span<const double> head, const std::array<int, 2>& pair) {
  return {head[static_cast<std::size_t>(pair[0])], head[static_cast<std::size_t>(pair[1])]};
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

}  // namespace

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
    std::vector<std::array<double, 2>> errors(pairs);  // of each pair: the squares that are off, and all
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
  for (int term = 0; term < terms; ++term) sum += speed_of(pair, term) * position_of(row, pair, term);
  return sum;
}

double Motion::size(std::int64_t row, int pair) const noexcept {
  double sum =
      std::abs(log_amplitude(row, pair)) + (phase.empty() ? 0 : std::abs(phase[static_cast<std::size_t>(pair)]));
  for (int term = 0; term < terms; ++term) sum += std::abs(speed_of(pair, term) * position_of(row, pair, term));
  return sum;
}

Complex Motion::turn(std::int64_t row, int pair) const noexcept {
  const double sum = angle(row, pair) + (phase.empty() ? 0 : phase[static_cast<std::size_t>(pair)]);
  const double rest = terms > 1 ? 0 : std::fma(speed_of(pair), position_of(row, pair), -angle(row, pair));
  const double cos = std::cos(sum), sin = std::sin(sum), by = factor * std::exp(log_amplitude(row, pair));
  return {by * (cos - rest * sin), by * (sin + rest * cos)};
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

namespace {

// Noise turns a pair as often as it stretches it, and each token for itself; another speed turns it only, and later
// tokens further.
class Drift {
 public:
  Drift(const Turns& turns, const Motion& motion, double slack)
      : turns_(turns), motion_(motion), slack_(slack), of_pair_(static_cast<std::size_t>(turns.pairs())) {}

  void add(std::int64_t row, int pair, Complex turn) {
    const std::size_t at = turns_.at(row, pair);
    const double size = std::abs(turn), sigma = turns_.sigma[at];
    if (size == 0 || sigma == 0) return;
    const Complex off = (turns_.turn[at] - turn) * std::conj(turn) / size;
    const double allowed = slack_of(turns_, pair, slack_) * motion_.size(row, pair) * size;
    const double position = (is_sum() ? motion_.angle(row, pair) : motion_.position_of(row, pair)) * size / sigma;
    Sums& one = of_pair_[static_cast<std::size_t>(pair)];
    one.stretched += std::pow(off.real() / sigma, 2);
    one.turned += std::pow(off.imag() / std::hypot(sigma, allowed), 2);
    one.rise += off.imag() / sigma * position;
    one.squares += position * position;
    ++one.count;
  }

  void judge(Fit& fit) const {
    Sums all;
    for (const Sums& one : of_pair_) {
      all.stretched += one.stretched;
      all.turned += one.turned;
      all.count += one.count;
    }
    if (all.count < 8) return;
    const double variance = std::max(all.stretched / all.count, 1e-12);
    double sum = 0, worst = 0, pairs = 0;
    for (std::size_t pair = 0; pair < of_pair_.size(); ++pair) {
      const Sums& one = of_pair_[pair];
      if (one.squares == 0) continue;
      const double speed = is_sum() ? 1 : std::abs(motion_.speed[pair]);
      const double allowed = slack_of(turns_, static_cast<int>(pair), slack_) * speed;
      const double rise = std::max(0.0, std::abs(one.rise / one.squares) - allowed);
      const double z = rise * rise * one.squares / std::max(variance, one.stretched / one.count);
      sum += z;
      worst = std::max(worst, z);
      ++pairs;
    }
    fit.chi = all.turned / variance;
    fit.drifts = worst > 36 || sum > pairs + 10 * std::sqrt(2 * pairs) + 10 ||
                 fit.chi > all.count * (1.3 + 16 / std::sqrt(all.count));
  }

 private:
  struct Sums {
    double stretched = 0, turned = 0, rise = 0, squares = 0, count = 0;
  };
  bool is_sum() const noexcept { return motion_.terms > 1; }  // then it rises with the angle
  const Turns& turns_;
  const Motion& motion_;
  double slack_;
  std::vector<Sums> of_pair_;
};

Fit fit_of(const Turns& turns, const Motion& motion, double slack,
           const std::function<Complex(std::int64_t row, int pair)>& turn_of, bool whole) {
  Fit fit;
  Drift drift(turns, motion, slack);
  double off = 0, all = 0;
  for (std::int64_t row = 0; row < turns.rows() && (whole || fit.holds); ++row) {
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      const std::size_t at = turns.at(row, pair);
      if (turns.weight[at] == 0) continue;
      const Complex turn = turn_of ? turn_of(row, pair) : motion.turn(row, pair);
      if (misfit(turns, at, motion.size(row, pair), turn, slack_of(turns, pair, slack)) > 1) fit.holds = false;
      if (turns.noisy()) drift.add(row, pair, turn);
      off += turns.weight[at] * std::norm(turns.turn[at] - turn);
      all += turns.weight[at] * std::norm(turns.turn[at]);
    }
  }
  fit.residual = all > 0 ? std::sqrt(off / all) : 0;
  if (turns.noisy()) drift.judge(fit);
  fit.holds = fit.holds && !fit.drifts;
  return fit;
}

}  // namespace

Fit compare(const Turns& turns, const Motion& motion, double slack,
            const std::function<Complex(std::int64_t row, int pair)>& turn_of) {
  return fit_of(turns, motion, slack, turn_of, true);
}
Fit compare_while_it_holds(const Turns& turns, const Motion& motion) {
  return fit_of(turns, motion, float32_slack, {}, false);
}

}  // namespace rotary::diagnose
