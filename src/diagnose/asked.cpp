// The block and the motion that a rope asks for.
#include <algorithm>
#include <cmath>

#include "examination.h"

namespace rotary::diagnose {

std::optional<Block> asked_block(const Subject& subject, int head_dim) {
  if (subject.used == nullptr) return std::nullopt;
  const Rope& rope = subject.used->rope;
  const std::optional<Kind> kind = kind_of(rope.pairing);
  if (!kind) return std::nullopt;
  return Block{*kind, subject.is_bare(head_dim) ? 0 : subject.used->first, rope.rotary_dim / 2};
}

Rope rope_for_block(Rope rope, const Block& block) {
  if (rope.rotary_dim == block.rotary_dim()) return rope;
  const auto own = static_cast<std::size_t>(rope.rotary_dim / 2), pairs = static_cast<std::size_t>(block.pairs);
  rope.rotary_dim = block.rotary_dim();
  rope.head_dim = std::max(rope.head_dim, rope.rotary_dim);
  for (std::vector<double>* list : {&rope.inv_freq, &rope.multiplier, &rope.phase}) {  // rows of pairs
    std::vector<double> rows;
    for (std::size_t row = 0; row < list->size(); row += own) {
      for (std::size_t i = 0; i < pairs; ++i) rows.push_back(i < own ? (*list)[row + i] : 0);
    }
    *list = std::move(rows);
  }
  rope.axis.clear();
  rope.index.clear();
  rope.exponent_dim = 0;
  if (std::holds_alternative<LongRope>(rope.scaling)) rope.scaling = Unscaled{};
  return rope;
}

Numbers rows_of_heads(const Subject& subject, std::int64_t heads) {
  if (!subject.head_rows.empty()) return subject.head_rows;
  Numbers rows;
  for (std::int64_t head = 0; head < heads; ++head) rows.push_back(head * subject.used->rope.heads / heads);
  return rows;
}

Motion motion_of(const Frequencies& f, const Motion& at, const Numbers& rows) {
  Motion motion = at;
  const auto pairs = static_cast<std::size_t>(f.pairs());
  const double sign = f.clockwise ? -1 : 1;
  const Numbers heads = f.heads > 1 ? rows : Numbers{0};
  motion.terms = std::max(1, f.summed_axes);
  motion.apart = f.heads > 1 ? f.pairs() : 0;
  for (auto* list : {&motion.speed, &motion.phase, &motion.growth}) list->clear();
  motion.axis.clear();
  for (std::size_t term = 0; term < static_cast<std::size_t>(motion.terms); ++term) {
    for (const std::int64_t row : heads) {
      const std::size_t first = static_cast<std::size_t>(row * motion.terms) * pairs + term * pairs;
      for (std::size_t i = 0; i < pairs; ++i) {
        motion.speed.push_back(sign * f.inv_freq[first + i]);
        if (motion.terms > 1 || !f.axis.empty())
          motion.axis.push_back(motion.terms > 1 ? static_cast<std::uint8_t>(term) : f.axis[i]);
      }
    }
  }
  const double n = f.pairs();
  for (const std::int64_t row : heads) {
    for (std::size_t i = 0; i < pairs; ++i) {
      if (!f.phase.empty())
        motion.phase.push_back(sign * f.phase[(static_cast<std::size_t>(row) * pairs + i) % f.phase.size()]);
      const double growth = std::log((static_cast<double>(i) + 0.4 * n) / (1.4 * n)) / f.xpos.scale;
      if (f.xpos.scale != 0) motion.growth.push_back(f.xpos.reciprocal ? -growth : growth);
    }
  }
  motion.center = f.xpos.center;
  return motion;
}

Motion motion_of(const Explanation& one, const Asked& asked) {
  Frequencies f = frequencies(one.rope, one.length);
  f.xpos.reciprocal = asked.frequencies.xpos.reciprocal;
  Motion motion = motion_of(f, asked.motion, asked.rows);
  if (motion.terms == 1) motion.axis = asked.motion.axis;  // another block's rope has axes without positions here
  return motion;
}

Asked ask(const Subject& subject, const Block& block, const Layout& layout,
          const std::vector<std::vector<double>>& expected) {
  double last = 0;
  for (const std::vector<double>& positions : expected) last = std::max(last, std::ranges::max(positions));
  const auto length = subject.length.value_or(static_cast<std::int64_t>(std::floor(last)) + 1);
  Asked asked{*subject.used, block, length, rows_of_heads(subject, layout.heads), {}, {}};
  asked.frequencies = frequencies(rope_for_block(subject.used->rope, block), asked.length);
  asked.frequencies.xpos.reciprocal = asked.frequencies.xpos.scale != 0 && subject.role == Role::key;
  asked.motion.position = expected;
  asked.motion.factor = asked.frequencies.attention_factor;
  asked.motion = motion_of(asked.frequencies, asked.motion, asked.rows);
  return asked;
}

Asked ask(const Subject& subject, const Block& block, const Layout& layout) {
  return ask(subject, block, layout, expected_positions(layout, subject));
}

}  // namespace rotary::diagnose
