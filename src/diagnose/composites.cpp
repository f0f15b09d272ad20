// Faults of a kernel that are no one rotation by angles: two rotations in one, tables of the wrong layout, a lost sign,
// cos for sin. Each is applied to the tensor before, as the config asks it, and compared.
#include <cmath>
#include <functional>

#include "examination.h"

namespace rotary::diagnose {

namespace {

constexpr double explains = 0.02;  // the relative residual; that of a wrong trial is near 1

// What is done to the elements, by the motion that the config asks.
using Step = std::function<void(std::vector<double>& elements, const Layout&, const Motion&)>;

struct Trial {
  Verdict verdict;
  std::string text;
  Step step;
};

Step twice(const Block& first, const Block& second) {
  return [=](std::vector<double>& elements, const Layout& layout, const Motion& motion) {
    rotate(elements, layout, first, motion);
    rotate(elements, layout, second, motion);
  };
}

// x * cos + rotated(x) * sin, with cos and sin of each element from where another pairing has them.
enum class Slip : std::uint8_t { none, no_minus, exchanged, in_place, no_second };
Step with_table_of(const Block& table, const Block& block, Slip slip) {
  return [=](std::vector<double>& elements, const Layout& layout, const Motion& motion) {
    for_each_head(layout, [&](std::int64_t row, std::int64_t, std::int64_t first) {
      const auto head =
          std::span(elements).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(layout.head_dim));
      const std::vector<double> x(head.begin(), head.end());
      std::vector<Complex> turns(x.size());
      for (int pair = 0; pair < block.pairs; ++pair) {
        const Complex turn = motion.turn(row, pair);
        for (const int element : table.input(pair)) {
          turns[static_cast<std::size_t>(element)] = slip == Slip::exchanged ? Complex(turn.imag(), turn.real()) : turn;
        }
      }
      for (int pair = 0; pair < block.pairs; ++pair) {
        const auto u = static_cast<std::size_t>(block.input(pair)[0]),
                   v = static_cast<std::size_t>(block.input(pair)[1]);
        head[u] = x[u] * turns[u].real() + (slip == Slip::no_minus ? 1 : -1) * x[v] * turns[u].imag();
        head[v] = x[v] * turns[v].real() + (slip == Slip::in_place    ? head[u]
                                            : slip == Slip::no_second ? 0
                                                                      : x[u]) *
                                               turns[v].imag();
      }
    });
  };
}

std::vector<Trial> trials(const Block& asked) {
  Block half = asked, interleaved = asked;
  half.kind = Kind::half;
  interleaved.kind = Kind::interleaved;
  const std::string is_twice = "is rotated twice, ", mix = " pairing (a mix of both)";
  const Step reshaped = [=](std::vector<double>& elements, const Layout& layout, const Motion& motion) {
    Layout other = layout;  // of the same memory
    const bool heads_inside = layout.head_stride < layout.token_stride;
    (heads_inside ? other.token_stride : other.head_stride) = layout.head_dim;
    (heads_inside ? other.head_stride : other.token_stride) =
        layout.head_dim * (heads_inside ? layout.tokens : layout.heads);
    rotate(elements, other, asked, motion);
  };
  std::vector<Trial> list = {
      {Verdict::layout,
       "is rotated as if its memory were in the other order of tokens and heads: a reshape where a transpose belongs",
       reshaped},
      {Verdict::twice, is_twice + "both times as the config asks", twice(asked, asked)},
      {Verdict::twice, is_twice + "first in the half pairing and then in the interleaved pairing",
       twice(half, interleaved)},
      {Verdict::twice, is_twice + "first in the interleaved pairing and then in the half pairing",
       twice(interleaved, half)},
      {Verdict::pairing, "is rotated in the interleaved pairing with cos and sin that are laid out for the half" + mix,
       with_table_of(half, interleaved, Slip::none)},
      {Verdict::pairing, "is rotated in the half pairing with cos and sin that are laid out for the interleaved" + mix,
       with_table_of(interleaved, half, Slip::none)}};
  for (const Block& block : {half, interleaved}) {
    const std::string in = std::string(" (") + name(block.kind) + " pairing)";
    list.push_back({Verdict::direction,
                    "is not rotated but mirrored: the minus sign is missing in the first element of each pair" + in,
                    with_table_of(block, block, Slip::no_minus)});
    list.push_back({Verdict::direction, "is rotated with sin and cos exchanged" + in,
                    with_table_of(block, block, Slip::exchanged)});
    list.push_back({Verdict::pairing,
                    "is not rotated: the second element of each pair is computed from the new first one, written in "
                    "place, instead of the old" +
                        in,
                    with_table_of(block, block, Slip::in_place)});
    list.push_back(
        {Verdict::pairing,
         "is not rotated: the second element of each pair is multiplied by cos and lacks the first times sin" + in,
         with_table_of(block, block, Slip::no_second)});
  }
  return list;
}

double residual_of(const Sample& sample, const std::vector<double>& elements) {
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
  for (const Reading& reading : plausible_readings(exam.sample, exam.subject)) {
    const Asked rope = ask(*exam.subject.used, *asked, exam.subject, expected_positions(reading.layout, exam.subject));
    const auto residual_by = [&](const Step& step) {
      std::vector<double> elements = exam.sample.before.copied();
      step(elements, reading.layout, rope.motion);
      return residual_of(exam.sample, elements);
    };
    const double of_asked = residual_by(
        [&](auto& elements, const Layout& layout, const Motion& motion) { rotate(elements, layout, *asked, motion); });
    for (const Trial& trial : trials(*asked)) {
      const double residual = residual_by(trial.step);
      if (!(residual < std::min(explains, 0.2 * of_asked))) continue;
      exam.facts.layout = reading.word;
      exam.residual = residual;
      exam.explained = true;
      exam.findings.clear();
      exam.find(trial.verdict, trial.text);
      return true;
    }
  }
  return false;
}

}  // namespace rotary::diagnose
