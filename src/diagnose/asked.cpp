// The block and the frequencies that a rope asks for.
#include <algorithm>
#include <cmath>

#include "examination.h"

namespace rotary::diagnose {

std::optional<Block> asked_block(const Question& question, int head_dim) {
  if (question.rope == nullptr) return std::nullopt;
  const Rope& rope = question.rope->rope;
  const std::optional<Kind> kind = kind_of(rope.pairing);
  if (!kind) return std::nullopt;
  const bool bare = question.rope->first > 0 && head_dim == rope.rotary_dim;
  return Block{*kind, bare ? 0 : question.rope->first, rope.rotary_dim / 2};
}

Rope rope_for_block(Rope rope, const Block& block) {
  if (rope.rotary_dim == block.rotary_dim()) return rope;
  rope.rotary_dim = block.rotary_dim();
  rope.head_dim = std::max(rope.head_dim, rope.rotary_dim);
  for (std::vector<double>* list : {&rope.inv_freq, &rope.multiplier}) {
    if (!list->empty()) list->resize(static_cast<std::size_t>(block.pairs), 0);
  }
  rope.axis.clear();
  rope.index.clear();
  rope.exponent_dim = 0;
  if (std::holds_alternative<LongRope>(rope.scaling)) rope.scaling = Unscaled{};
  return rope;
}

Asked ask(const ModelRope& used, const Block& block, const Question& question,
          const std::vector<std::vector<double>>& expected) {
  Asked asked{used, block, 0, {}, {}};
  double last = 0;
  for (const std::vector<double>& positions : expected) {
    for (const double position : positions) last = std::max(last, position);
  }
  asked.length = question.length.value_or(static_cast<std::int64_t>(std::floor(last)) + 1);
  const Rope rope = rope_for_block(used.rope, block);
  asked.frequencies = frequencies(rope, asked.length);
  asked.motion.speed = asked.frequencies.inv_freq;
  if (rope.clockwise) {
    for (double& speed : asked.motion.speed) speed = -speed;
  }
  asked.motion.axis = asked.frequencies.axis;
  asked.motion.position = expected;
  asked.motion.factor = asked.frequencies.attention_factor;
  return asked;
}

}  // namespace rotary::diagnose
