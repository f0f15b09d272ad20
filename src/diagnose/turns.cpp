#include "turns.h"

#include <algorithm>
#include <cmath>

#include "rotary/reference.h"

namespace rotary::diagnose {

namespace {

// Whether a head is the same before and after; one of zeros says nothing.
bool is_unchanged(const Sample& sample, const Layout& layout, std::int64_t head) {
  bool zero = true;
  for (std::int64_t row = 0; row < layout.batch * layout.tokens; ++row) {
    const std::int64_t first = at(layout, row / layout.tokens, row % layout.tokens, head);
    if (!std::ranges::equal(sample.x(first), sample.y(first))) return false;
    zero = zero && std::ranges::all_of(sample.x(first), [](double x) { return x == 0; });
  }
  return !zero;
}

Complex pair_of(std::span<const double> head, const std::array<int, 2>& pair) {
  return {head[static_cast<std::size_t>(pair[0])], head[static_cast<std::size_t>(pair[1])]};
}

// |x|^2, |y|^2, their product and y conj(x), summed over the heads.
struct Sums {
  double xx = 0, yy = 0, xxyy = 0;
  Complex yx = 0;
};

Sums sums(const Sample& sample, const Turns& turns, std::int64_t row, int pair) {
  const std::int64_t tokens = turns.layout().tokens;
  Sums sum;
  for (const std::int64_t head : turns.heads) {
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

Turns measure(const Sample& sample, const Reading& reading, const Block& block) {
  Turns turns;
  turns.reading = reading;
  turns.block = block;
  turns.unit = sample.unit;
  for (std::int64_t head = 0; head < reading.layout.heads; ++head) {
    if (!is_unchanged(sample, reading.layout, head)) turns.heads.push_back(head);
  }
  const auto pairs = static_cast<std::size_t>(block.pairs);
  std::vector<double> off(pairs), all(pairs);
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    for (int pair = 0; pair < block.pairs; ++pair) {
      const Sums sum = sums(sample, turns, row, pair);
      turns.weight.push_back(sum.xx);
      turns.turn.push_back(sum.xx > 0 ? sum.yx / sum.xx : Complex(0));
      turns.sigma.push_back(sum.xx > 0 ? sample.unit * std::sqrt(sum.xxyy) / sum.xx : 4);
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

Complex Motion::turn(std::int64_t row, int pair) const noexcept {
  const long double angle = static_cast<long double>(speed[static_cast<std::size_t>(pair)]) *
                            static_cast<long double>(position_of(row, pair));
  return {factor * static_cast<double>(std::cos(angle)), factor * static_cast<double>(std::sin(angle))};
}

void rotate(std::vector<double>& elements, const Layout& layout, const Block& block, const Motion& motion) {
  constexpr std::array<Pairing, 4> pairings = {Pairing::half, Pairing::interleaved, Pairing::interleaved_to_half,
                                               Pairing::unset};
  reference::DoubleTable table;
  table.pairing = pairings[static_cast<std::size_t>(block.kind)];
  table.pairs = block.pairs;
  table.batch = static_cast<int>(layout.batch);
  table.tokens = layout.tokens;
  for (std::int64_t row = 0; row < layout.batch * layout.tokens; ++row) {
    for (int pair = 0; pair < block.pairs; ++pair) {
      const Complex turn = motion.turn(row, pair);
      table.cos.push_back(turn.real());
      table.sin.push_back(turn.imag());
    }
  }
  Layout rotated = layout;
  rotated.head_dim = block.rotary_dim();
  reference::rotate(std::span(elements).subspan(static_cast<std::size_t>(block.first)), rotated, table);
}

double misfit(const Turns& turns, std::size_t at, double angle, Complex turn, double slack) {
  const double size = std::abs(turn);
  const double noise = 6 * turns.sigma[at] + std::max(slack, 0x1p-50) * std::abs(angle) * size + 0x1p-50;
  // Elements of few bits do not move at all where the angle is below their rounding.
  const double unmoved = std::min(std::abs(angle), turns.unit / 2) * size;
  const Complex off = turns.turn[at] - turn;
  return std::max(std::abs(off.real()) / (noise + turns.unit * std::abs(turn.real())),
                  std::abs(off.imag()) / (noise + turns.unit * std::abs(turn.imag()) + unmoved));
}

Fit compare(const Turns& turns, const Motion& motion, double slack,
            const std::function<Complex(std::int64_t row, int pair)>& turn_of) {
  Fit fit;
  double off = 0, all = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    for (int pair = 0; pair < turns.block.pairs; ++pair) {
      const std::size_t at = turns.at(row, pair);
      if (turns.weight[at] == 0) continue;
      const Complex turn = turn_of ? turn_of(row, pair) : motion.turn(row, pair);
      if (misfit(turns, at, motion.angle(row, pair), turn, slack_of(pair, slack)) > 1) fit.holds = false;
      off += turns.weight[at] * std::norm(turns.turn[at] - turn);
      all += turns.weight[at] * std::norm(turns.turn[at]);
    }
  }
  fit.residual = all > 0 ? std::sqrt(off / all) : 0;
  return fit;
}

}  // namespace rotary::diagnose
