// Faults after which no pairing keeps the norms: two rotations in one, tables of the wrong layout, a lost sign. Each is
// applied to the tensor before, as the config asks it, and compared.
#include <algorithm>
#include <cmath>
#include <functional>

#include "examination.h"

namespace rotary::diagnose {

namespace {

constexpr double explains = 0.02;  // the relative residual; that of a wrong trial is near 1

// What is done to the elements of a sample, by the motion that the config asks.
using Step = std::function<void(std::vector<double>& elements, const Sample&, const Order&, const Motion&)>;

struct Trial {
  Verdict verdict;
  const char* text;
  Step step;
};

// x * cos + rotated(x) * sin, with cos and sin of each element from where another pairing has them.
void rotate_with_table_of(const Block& table, const Block& block, double minus, std::span<double> vector,
                          const Motion& motion, std::int64_t row) {
  const std::vector<double> x(vector.begin(), vector.end());
  std::vector<std::complex<double>> turns(x.size());
  for (int pair = 0; pair < block.pairs; ++pair) {
    for (const int element : table.input(pair)) turns[static_cast<std::size_t>(element)] = motion.turn(row, pair);
  }
  for (int pair = 0; pair < block.pairs; ++pair) {
    const auto [first, second] = block.input(pair);
    const auto u = static_cast<std::size_t>(first), v = static_cast<std::size_t>(second);
    vector[u] = x[u] * turns[u].real() + minus * x[v] * turns[u].imag();
    vector[v] = x[v] * turns[v].real() + x[u] * turns[v].imag();
  }
}

std::vector<Trial> trials(const Block& asked) {
  Block half = asked, interleaved = asked;
  half.kind = Kind::half;
  interleaved.kind = Kind::interleaved;
  const auto both = [](const Block& first, const Block& second) -> Step {
    return [first, second](auto& elements, const Sample& sample, const Order& order, const Motion& motion) {
      rotate(elements, sample, order, first, motion);
      rotate(elements, sample, order, second, motion);
    };
  };
  const auto table = [](const Block& table_block, const Block& block, double minus) -> Step {
    return [=](auto& elements, const Sample& sample, const Order& order, const Motion& motion) {
      const auto width = static_cast<std::size_t>(sample.head_dim);
      order.for_each_vector([&](std::int64_t row, std::int64_t, std::int64_t vector) {
        const std::span<double> x = std::span(elements).subspan(static_cast<std::size_t>(vector) * width, width);
        rotate_with_table_of(table_block, block, minus, x, motion, row);
      });
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
  std::vector<double> elements = sample.before;
  step(elements, sample, order, motion);
  double off = 0, all = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    off += (elements[i] - sample.after[i]) * (elements[i] - sample.after[i]);
    all += sample.after[i] * sample.after[i];
  }
  return all > 0 ? std::sqrt(off / all) : 1;
}

}  // namespace

bool examine_composites(Examination& exam) {
  const std::optional<Block> asked = asked_block(exam.subject, exam.sample.head_dim);
  if (!asked) return false;
  for (const Order& order : plausible_orders(exam.sample, exam.subject)) {
    const std::vector<std::vector<double>> expected = expected_positions(order, exam.subject);
    const Asked rope = ask(*exam.subject.used, *asked, exam.subject, expected);
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
