#include "turns.h"

#include <algorithm>
#include <cmath>

#include "rotary/reference.h"

namespace rotary::diagnose {

namespace {

using Complex = std::complex<double>;

// A head of zeros says nothing.
bool is_unchanged(const Sample& sample, const Order& order, std::int64_t head) {
  bool zero = true;
  for (std::int64_t b = 0; b < order.batch; ++b) {
    for (std::int64_t t = 0; t < order.tokens; ++t) {
      const std::int64_t vector = order.at(b, t, head);
      if (!std::ranges::equal(sample.x(vector), sample.y(vector))) return false;
      zero = zero && std::ranges::all_of(sample.x(vector), [](double x) { return x == 0; });
    }
  }
  return !zero;
}

Complex pair_of(std::span<const double> vector, const std::array<int, 2>& pair) {
  return {vector[static_cast<std::size_t>(pair[0])], vector[static_cast<std::size_t>(pair[1])]};
}

// |a|^2, |b|^2 and a conj(b) summed over the heads.
struct Sums {
  double xx = 0, yy = 0, xxyy = 0;
  Complex yx = 0;
};

Sums sums(const Sample& sample, const Turns& turns, std::int64_t b, std::int64_t t, int pair) {
  Sums sum;
  for (const std::int64_t head : turns.heads) {
    const std::int64_t vector = turns.order.at(b, t, head);
    const Complex x = pair_of(sample.x(vector), turns.block.input(pair));
    const Complex y = pair_of(sample.y(vector), turns.block.output(pair));
    sum.xx += std::norm(x);
    sum.yy += std::norm(y);
    sum.xxyy += std::norm(x) * std::norm(y);
    sum.yx += y * std::conj(x);
  }
  return sum;
}

}  // namespace

Turns measure(const Sample& sample, const Order& order, const Block& block) {
  Turns turns;
  turns.order = order;
  turns.block = block;
  turns.unit = sample.unit;
  for (std::int64_t head = 0; head < order.heads; ++head) {
    if (!is_unchanged(sample, order, head)) turns.heads.push_back(head);
  }
  const auto count = static_cast<std::size_t>(turns.rows() * block.pairs);
  turns.turn.resize(count);
  turns.sigma.resize(count);
  turns.weight.resize(count);
  const auto pairs = static_cast<std::size_t>(block.pairs);
  std::vector<double> off(pairs), all(pairs);
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    for (int pair = 0; pair < block.pairs; ++pair) {
      const Sums sum = sums(sample, turns, row / order.tokens, row % order.tokens, pair);
      const std::size_t at = turns.at(row, pair);
      turns.weight[at] = sum.xx;
      turns.turn[at] = sum.xx > 0 ? sum.yx / sum.xx : Complex(0);
      turns.sigma[at] = sum.xx > 0 ? sample.unit * std::sqrt(sum.xxyy) / sum.xx : 4;
      const auto i = static_cast<std::size_t>(pair);
      off[i] += sum.xx > 0 ? std::max(0.0, sum.yy - std::norm(sum.yx) / sum.xx) : sum.yy;
      all[i] += sum.yy;
    }
  }
  for (std::size_t i = 0; i < pairs; ++i) {
    if (all[i] > 0) turns.spread = std::max(turns.spread, std::sqrt(off[i] / all[i]));
  }
  return turns;
}

double Motion::angle(std::int64_t row, int pair) const noexcept {
  const std::vector<double>& positions = position[static_cast<std::size_t>(axis_of(pair))];
  return speed[static_cast<std::size_t>(pair)] * positions[static_cast<std::size_t>(row)];
}

Complex Motion::turn(std::int64_t row, int pair) const noexcept {
  const std::vector<double>& positions = position[static_cast<std::size_t>(axis_of(pair))];
  const long double angle = static_cast<long double>(speed[static_cast<std::size_t>(pair)]) *
                            static_cast<long double>(positions[static_cast<std::size_t>(row)]);
  return {factor * static_cast<double>(std::cos(angle)), factor * static_cast<double>(std::sin(angle))};
}

void rotate(std::vector<double>& elements, const Sample& sample, const Order& order, const Block& block,
            const Motion& motion) {
  reference::DoubleTable table;
  table.pairing = pairing_of(block.kind);
  table.pairs = block.pairs;
  table.batch = static_cast<int>(order.batch);
  table.tokens = order.tokens;
  for (std::int64_t row = 0; row < order.batch * order.tokens; ++row) {
    for (int pair = 0; pair < block.pairs; ++pair) {
      const Complex turn = motion.turn(row, pair);
      table.cos.push_back(turn.real());
      table.sin.push_back(turn.imag());
    }
  }
  const std::int64_t width = sample.head_dim;
  Layout layout;
  layout.batch = static_cast<int>(order.batch);
  layout.tokens = order.tokens;
  layout.heads = order.heads;
  layout.head_dim = block.rotary_dim();
  layout.batch_stride = order.row * width;
  layout.token_stride = order.token * width;
  layout.head_stride = order.head * width;
  reference::rotate(std::span(elements).subspan(static_cast<std::size_t>(block.first)), layout, table);
}

Complex tolerance(const Turns& turns, std::size_t at, double angle, Complex turn, double slack) {
  const double size = std::abs(turn);
  const double noise = 6 * turns.sigma[at] + std::max(slack, 0x1p-50) * std::abs(angle) * size + 0x1p-50;
  // Elements of few bits do not move at all where the angle is below their rounding.
  const double unmoved = std::min(std::abs(angle), turns.unit / 2) * size;
  return {noise + turns.unit * std::abs(turn.real()), noise + turns.unit * std::abs(turn.imag()) + unmoved};
}

Fit compare(const Turns& turns, const Motion& motion, double slack) {
  return compare(
      turns, motion, [&motion](std::int64_t row, int pair) { return motion.turn(row, pair); }, slack);
}

Fit compare(const Turns& turns, const Motion& motion, const TurnOf& turn_of, double slack) {
  Fit fit;
  double off = 0, all = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    for (int pair = 0; pair < turns.block.pairs; ++pair) {
      const std::size_t at = turns.at(row, pair);
      if (turns.weight[at] == 0) continue;
      const Complex turn = turn_of(row, pair);
      const Complex difference = turns.turn[at] - turn;
      const Complex allowed = tolerance(turns, at, motion.angle(row, pair), turn, slack_of(pair, slack));
      const double ratio =
          std::max(std::abs(difference.real()) / allowed.real(), std::abs(difference.imag()) / allowed.imag());
      if (ratio > fit.worst) fit = {false, 0, ratio, row, pair};
      off += turns.weight[at] * std::norm(difference);
      all += turns.weight[at] * std::norm(turns.turn[at]);
    }
  }
  fit.holds = fit.worst <= 1;
  fit.residual = all > 0 ? std::sqrt(off / all) : 0;
  return fit;
}

}  // namespace rotary::diagnose
