// Faults after which no pairing keeps the norms: two rotations in one, tables of the wrong layout, a lost sign. Each is
// applied to the tensor before, as the config asks it, and compared.
#include <algorithm>
#include <cmath>
#include <functional>

#include "examination.h"

namespace rotary::diagnose {

namespace {

constexpr double explains = 0.02;  // the relative residual; that of a wrong trial is near 1

// What is done to one vector at a row of the motion.
using Step = std::function<void(std::vector<double>& vector, const Motion&, std::int64_t row)>;

struct Trial {
  Verdict verdict;
  const char* text;
  Step step;
};

double value(const std::vector<double>& vector, int element) { return vector[static_cast<std::size_t>(element)]; }

void rotate_in(const Block& block, std::vector<double>& vector, const Motion& motion, std::int64_t row) {
  const std::vector<double> x = vector;
  for (int pair = 0; pair < block.pairs; ++pair) {
    const auto [u, v] = block.input(pair);
    const auto [out_u, out_v] = block.output(pair);
    const std::complex<double> y = std::complex<double>(value(x, u), value(x, v)) * motion.turn(row, pair);
    vector[static_cast<std::size_t>(out_u)] = y.real();
    vector[static_cast<std::size_t>(out_v)] = y.imag();
  }
}

// x * cos + rotated(x) * sin, with cos and sin of each element from where another pairing has them.
void rotate_with_table_of(const Block& table, const Block& block, double minus, std::vector<double>& vector,
                          const Motion& motion, std::int64_t row) {
  const std::vector<double> x = vector;
  std::vector<std::complex<double>> turns(x.size());
  for (int pair = 0; pair < block.pairs; ++pair) {
    for (const int element : table.input(pair)) turns[static_cast<std::size_t>(element)] = motion.turn(row, pair);
  }
  for (int pair = 0; pair < block.pairs; ++pair) {
    const auto [u, v] = block.input(pair);
    const std::complex<double> at_u = turns[static_cast<std::size_t>(u)], at_v = turns[static_cast<std::size_t>(v)];
    vector[static_cast<std::size_t>(u)] = value(x, u) * at_u.real() + minus * value(x, v) * at_u.imag();
    vector[static_cast<std::size_t>(v)] = value(x, v) * at_v.real() + value(x, u) * at_v.imag();
  }
}

std::vector<Trial> trials(const Block& asked) {
  Block half = asked, interleaved = asked;
  half.kind = Kind::half;
  interleaved.kind = Kind::interleaved;
  const auto both = [](const Block& first, const Block& second) -> Step {
    return [first, second](auto& vector, const Motion& motion, std::int64_t row) {
      rotate_in(first, vector, motion, row);
      rotate_in(second, vector, motion, row);
    };
  };
  const auto table = [](const Block& table_block, const Block& block, double minus) -> Step {
    return [=](auto& vector, const Motion& motion, std::int64_t row) {
      rotate_with_table_of(table_block, block, minus, vector, motion, row);
    };
  };
  return {
      {Verdict::twice, "is rotated twice, both times as the config asks", both(asked, asked)},
      {Verdict::twice, "is rotated twice, first in the half pairing and then in the interleaved pairing",
       both(half, interleaved)},
      {Verdict::twice, "is rotated twice, first in the interleaved pairing and then in the half pairing",
       both(interleaved, half)},
      {Verdict::pairing,
       "is rotated in the interleaved pairing with cos and sin that are laid out for the half pairing (a mix of both)",
       table(half, interleaved, -1)},
      {Verdict::pairing,
       "is rotated in the half pairing with cos and sin that are laid out for the interleaved pairing (a mix of both)",
       table(interleaved, half, -1)},
      {Verdict::cannot_tell,
       "cannot tell, because it is not rotated: the minus sign is missing in the first element of each pair (half "
       "pairing)",
       table(half, half, 1)},
      {Verdict::cannot_tell,
       "cannot tell, because it is not rotated: the minus sign is missing in the first element of each pair "
       "(interleaved "
       "pairing)",
       table(interleaved, interleaved, 1)},
  };
}

double residual_of(const Sample& sample, const Order& order, const Motion& motion, const Step& step) {
  double off = 0, all = 0;
  for (std::int64_t row = 0; row < order.batch * order.tokens; ++row) {
    for (std::int64_t head = 0; head < order.heads; ++head) {
      const std::int64_t at = order.at(row / order.tokens, row % order.tokens, head);
      std::vector<double> vector(sample.x(at).begin(), sample.x(at).end());
      step(vector, motion, row);
      const std::span<const double> y = sample.y(at);
      for (std::size_t i = 0; i < y.size(); ++i) {
        off += (vector[i] - y[i]) * (vector[i] - y[i]);
        all += y[i] * y[i];
      }
    }
  }
  return all > 0 ? std::sqrt(off / all) : 1;
}

}  // namespace

bool examine_composites(Examination& exam) {
  const std::optional<Block> asked = asked_block(exam.question, exam.sample.head_dim);
  if (!asked) return false;
  for (const Order& order : plausible_orders(exam.sample, exam.question)) {
    const std::vector<std::vector<double>> expected = expected_positions(order, exam.question);
    const Asked rope = ask(*exam.question.rope, *asked, exam.question, expected);
    for (const Trial& trial : trials(*asked)) {
      const double residual = residual_of(exam.sample, order, rope.motion, trial.step);
      if (residual > explains) continue;
      exam.facts.layout = order.name;
      exam.residual = residual;
      exam.find(trial.verdict, trial.text);
      return true;
    }
  }
  return false;
}

}  // namespace rotary::diagnose
