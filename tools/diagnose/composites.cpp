// Faults of a kernel that are no one rotation by angles: two rotations in one, tables of the wrong layout, a rotation
// in place. Each is applied to the tensor before, as the config asks it, and compared.
#include <cmath>
#include <functional>

#include "examination.h"

namespace rotary::diagnose {

namespace {

// A change of the elements, by the motion that the config asks.
using Step = std::function<void(std::vector<double>& elements, const Layout&, const Motion&)>;

struct Trial {
  Finding found;
  Step step;
};

Step twice(const Block& first, const Block& second) {
  return [=](std::vector<double>& elements, const Layout& layout, const Motion& motion) {
    rotate(elements, layout, first, motion);
    rotate(elements, layout, second, motion);
  };
}

// x * cos + rotated(x) * sin, with cos and sin of each element from where the pairing of `table` has them. in_place:
// the second element is computed from the new first one.
Step with_table_of(const Block& table, const Block& block, bool in_place = false) {
  return [=](std::vector<double>& elements, const Layout& layout, const Motion& motion) {
    std::vector<double> x;
    std::vector<Complex> turns(static_cast<std::size_t>(layout.head_dim));
    for_each_head(layout, [&](std::int64_t row, std::int64_t number, std::int64_t first) {
      const auto head = std::span(elements).subspan(static_cast<std::size_t>(first), turns.size());
      x.assign(head.begin(), head.end());
      for (int pair = 0; (number == 0 || motion.apart > 0) && pair < block.pairs; ++pair) {
        for (const int element : table.output(pair))
          turns[static_cast<std::size_t>(element)] = motion.turn(row, motion.of(number, pair));
      }
      for (int pair = 0; pair < block.pairs; ++pair) {
        const auto element = [](int one) { return static_cast<std::size_t>(one); };
        const auto [u, v] = block.input(pair);
        const std::size_t to_u = element(block.output(pair)[0]), to_v = element(block.output(pair)[1]);
        const double a = x[element(u)], b = x[element(v)];
        head[to_u] = a * turns[to_u].real() - b * turns[to_u].imag();
        head[to_v] = b * turns[to_v].real() + (in_place ? head[to_u] : a) * turns[to_v].imag();
      }
    });
  };
}

std::vector<Trial> trials(const Block& asked) {
  Block half = asked, interleaved = asked;
  half.kind = Kind::half;
  interleaved.kind = Kind::interleaved;
  const Step reshaped = [=](std::vector<double>& elements, const Layout& layout, const Motion& motion) {
    Layout other = layout;  // the same memory
    const bool heads_inside = layout.head_stride < layout.token_stride;
    (heads_inside ? other.token_stride : other.head_stride) = layout.head_dim;
    (heads_inside ? other.head_stride : other.token_stride) =
        layout.head_dim * (heads_inside ? layout.tokens : layout.heads);
    rotate(elements, other, asked, motion);
  };
  std::vector<Trial> list = {{finding(Cause::reshaped), reshaped},
                             {finding(Cause::twice_as_asked), twice(asked, asked)}};
  for (const auto& [one, other] : {std::pair(half, interleaved), {interleaved, half}}) {
    list.push_back(
        {finding(Cause::twice_mixed, {{"first", name(one.kind)}, {"second", name(other.kind)}}), twice(one, other)});
  }
  for (const auto& [table, block] : {std::pair(half, interleaved), {interleaved, half}}) {
    list.push_back({finding(Cause::table_of_other_pairing, {{"found", name(block.kind)}, {"table", name(table.kind)}}),
                    with_table_of(table, block)});
  }
  for (const Block& block : {half, interleaved})
    list.push_back({finding(Cause::in_place, {{"pairing", name(block.kind)}}), with_table_of(block, block, true)});
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

void rotate(std::vector<double>& elements, const Layout& layout, const Block& block, const Motion& motion) {
  with_table_of(block, block)(elements, layout, motion);
}

void examine_composites(Examination& exam) {
  const std::optional<Block> asked = asked_block(exam.subject, exam.sample.head_dim);
  if (!asked) return;
  for (const Reading& reading : plausible_readings(exam.sample, exam.subject)) {
    const Asked rope = ask(exam.subject, *asked, reading.layout);
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
      exam.findings = {trial.found};
      return;
    }
    if (examine_maps(exam, rope, reading, 0.2 * of_asked)) return;
  }
}

}  // namespace rotary::diagnose
