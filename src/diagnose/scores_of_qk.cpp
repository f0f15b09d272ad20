// Scores after a rotation against q and k before it, as FlashAttention's users have them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "examination.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::significant;

constexpr double masked = -9999;     // and below: a mask was added
constexpr double noise_most = 0.03;  // of scores that are still called the config's

// What is asked, or that with one thing changed.
struct QkCandidate {
  Verdict verdict = Verdict::as_configured;
  std::string words;
  Block block;
  Motion of_q, of_k;
};

// The scores are factor * q.k, but for an rms error. Errors are relative to the scores.
struct Fitted {
  double factor = 0, error = 1, allowed = 0;
};

struct QkScores {
  Sample q, k, after;
  Layout of_q, of_k;
};

QkScores read(const TensorPair& q, const TensorPair& k, const Subject& subject) {
  const auto sample = [](const Tensor& one, int head_dim) { return sample_as_given(one, one, head_dim); };
  const Tensor* tensors[] = {&q.before, &k.before};
  const tools::Readings read = tools::read_heads("check", tensors, subject.layout, *subject.used);
  const Layout &of_q = read.tensors[0].layout, &of_k = read.tensors[1].layout;
  QkScores scores{sample(q.before, of_q.head_dim), sample(k.before, of_k.head_dim), sample(q.after, 0), of_q, of_k};
  const std::vector<std::int64_t> ends(q.after.shape.end() - 2, q.after.shape.end());
  const bool fits = ends == std::vector{of_q.tokens, of_k.tokens} && of_q.batch == of_k.batch &&
                    std::ssize(scores.after.after) == of_q.batch * of_q.heads * of_q.tokens * of_k.tokens;
  if (!fits || of_q.heads % of_k.heads != 0 || of_q.head_dim != of_k.head_dim || of_q.tokens > of_k.tokens) {
    fail(Code::SHAPE, "check",
         "scores must be [batch, heads of q, tokens of q, tokens of k], the heads those of k or a multiple, but got " +
             std::to_string(ends[0]) + " x " + std::to_string(ends[1]) + " for " + std::to_string(of_q.tokens) +
             " tokens of q and " + std::to_string(of_k.tokens) + " of k");
  }
  return scores;
}

// step: of q's tokens, of which some decide between candidates.
Fitted fit(const QkScores& scores, const QkCandidate& by, std::int64_t step) {
  const Layout &of_q = scores.of_q, &of_k = scores.of_k;
  std::vector<double> q = scores.q.before.copied(), k = scores.k.before.copied();
  rotate(q, of_q, by.block, by.of_q);
  rotate(k, of_k, by.block, by.of_k);
  const auto dot = [&](const double* a, const double* b) { return std::inner_product(a, a + of_q.head_dim, b, 0.0); };
  const double roundings = 2 * std::max(scores.q.unit, scores.k.unit) + (4 + std::sqrt(of_q.head_dim)) * 0x1p-24;
  double xx = 0, xy = 0, yy = 0, usual = 0;
  for_each_head(of_q, [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    const std::int64_t batch = row / of_q.tokens, token = row % of_q.tokens;
    const double* mine = q.data() + first;
    for (std::int64_t j = 0; j < of_k.tokens && token % step == 0; ++j) {
      const std::int64_t plane = batch * of_q.heads + head;
      const double y = scores.after.after[static_cast<std::size_t>((plane * of_q.tokens + token) * of_k.tokens + j)];
      if (!std::isfinite(y) || y <= masked) continue;
      const double* other = k.data() + at(of_k, batch, j, head * of_k.heads / of_q.heads);
      const double x = dot(mine, other), size = dot(mine, mine) * dot(other, other) / of_q.head_dim;
      xx += x * x;
      xy += x * y;
      yy += y * y;
      usual +=
          size * std::pow(roundings + float32_slack * std::abs(by.of_k.position_of(batch * of_k.tokens + j, 0)), 2);
    }
  });
  if (xx == 0 || xy <= 0) return {};
  const double factor = xy / xx;
  return {factor, std::sqrt(std::max(0.0, yy - xy * factor) / yy),
          std::sqrt(factor * factor * usual / yy + scores.after.unit * scores.after.unit)};
}

QkCandidate asked_of(const QkScores& scores, const Asked& asked) {
  QkCandidate one{Verdict::as_configured, "", asked.block, asked.motion, asked.motion};
  for (std::vector<double>& position : one.of_q.position) {  // q's tokens are the last of k's
    const std::int64_t ahead = scores.of_k.tokens - scores.of_q.tokens;
    for (std::int64_t batch = scores.of_k.batch; batch-- > 0;) {
      const auto begin = position.begin() + batch * scores.of_k.tokens;
      position.erase(begin, begin + ahead);
    }
  }
  return one;
}

std::vector<QkCandidate> rivals_of(const QkCandidate& asked, const Asked& rope) {
  std::vector<QkCandidate> list;
  const auto add = [&](Verdict verdict, const std::string& words, const auto& change) {
    list.push_back(asked);
    list.back().verdict = verdict;
    list.back().words = words;
    change(list.back());
  };
  const auto move = [](Motion& motion, double times, double shift) {
    for (std::vector<double>& positions : motion.position)
      for (double& position : positions) position = times * position + shift;
  };
  add(Verdict::not_rotated, "that are not rotated", [&](auto& one) { move(one.of_q, 0, 0), move(one.of_k, 0, 0); });
  add(Verdict::some_heads, "of which q alone is rotated", [&](auto& one) { move(one.of_k, 0, 0); });
  add(Verdict::some_heads, "of which k alone is rotated", [&](auto& one) { move(one.of_q, 0, 0); });
  add(Verdict::direction, "rotated in the other direction",
      [&](auto& one) { move(one.of_q, -1, 0), move(one.of_k, -1, 0); });
  const Kind other = asked.block.kind == Kind::half ? Kind::interleaved : Kind::half;
  add(Verdict::pairing, std::string("rotated in the ") + name(other) + " pairing",
      [&](auto& one) { one.block.kind = other; });
  for (int shift = -8; shift <= 8; ++shift) {
    const std::string by = "rotated with k " + std::to_string(std::abs(shift)) + " off against q, too ";
    if (shift != 0)
      add(Verdict::offset, by + (shift > 0 ? "late" : "early"), [&](auto& one) { move(one.of_k, 1, shift); });
  }
  const Rope own = rope_for_block(rope.used.rope, rope.block);
  for (const Explanation& known : rivals(own, rope.length, rope.used.context)) {
    add(known.rope.base != own.base ? Verdict::base : Verdict::scaling, "rotated " + known.words,
        [&](auto& one) { one.of_q.speed = one.of_k.speed = motion_of(known, rope).speed; });
  }
  return list;
}

// ", times 0.0883883 = 1 / sqrt(128)".
std::string factor_said(double factor, int head_dim) {
  if (std::abs(factor - 1) < 1e-3) return "";
  const bool root = std::abs(factor * std::sqrt(head_dim) - 1) < 1e-3;
  return ", times " + significant(factor, 6) + (root ? " = 1 / sqrt(" + std::to_string(head_dim) + ")" : "");
}

}  // namespace

NamedCheck judge_scores(const TensorPair& q, const TensorPair& k, const Subject& subject) {
  const QkScores scores = read(q, k, subject);
  const Asked rope = ask(subject, *asked_block(subject, scores.of_k.head_dim), scores.of_k);
  const QkCandidate by = asked_of(scores, rope);
  const Fitted plain = fit(scores, by, 1);
  NamedCheck result{{"the scores", {}}, {}};
  result.checked.max_error = result.checked.tolerance = std::numeric_limits<double>::quiet_NaN();  // said as null
  Diagnosis& one = result.diagnosis;
  one.residual = plain.error;
  std::string said;
  const std::string of = " are those of q and k ";
  const std::string asked = of + "rotated as the config asks" + factor_said(plain.factor, scores.of_q.head_dim);
  const bool holds = plain.factor > 0 && plain.error <= plain.allowed;
  std::vector<std::string>& hidden = result.power.would_not_show;
  double least = std::max(plain.error / 4, 2 * plain.allowed);
  for (const QkCandidate& rival : rivals_of(by, rope)) {
    const Fitted fitted = fit(scores, rival, 1 + scores.of_q.tokens / 32);
    const bool alike = holds && fitted.factor > 0 && fitted.error <= 2 * fitted.allowed;
    const std::string what = rival.verdict == Verdict::scaling ? "other values of the scaling" : name(rival.verdict);
    if (alike && std::ranges::find(hidden, what) == hidden.end()) hidden.push_back(what);
    if (holds || fitted.factor <= 0 || fitted.error >= least) continue;
    least = fitted.error;
    one.verdict = rival.verdict;
    said = of + rival.words + evidence(least, plain.error);
  }
  if (holds) {
    result.outcome = std::ranges::find(hidden, "not_rotated") == hidden.end() ? Outcome::equal : Outcome::undecided;
    one.verdict = Verdict::as_configured;
    said = asked + "; they do not tell an order of elements or an offset that q and k share, nor a factor of all";
    for (const std::string& what : hidden) said += (&what == &hidden[0] ? "; and these not: " : ", ") + what;
  } else if (said.empty() && plain.factor > 0 && plain.error < noise_most) {
    one.verdict = Verdict::noise;
    said = asked + ", with noise of " + significant(plain.error, 2) + " rms";
  } else if (said.empty()) {
    said = " are not q.k by the config's rope, nor by it with one thing changed" + residual_said(plain.error);
  }
  result.sentence = one.sentence = result.name + said;
  one.findings.push_back(said.substr(1));
  return result;
}

// Any rope keeps the law of distances.
NamedCheck judge_scores(const TensorPair& pair, const Subject& subject) {
  NamedCheck result{{pair.name, diagnose_scores(pair.before, pair.after, subject)}, {}};
  Diagnosis& one = result.diagnosis;
  const bool kept = one.verdict == Verdict::as_configured;
  if (kept || one.verdict == Verdict::cannot_tell) result.outcome = Outcome::undecided;
  if (kept) one.sentence += "; any rope keeps that: --input with q and k before the rotation tells which it is";
  result.sentence = one.sentence;
  return result;
}

}  // namespace rotary::diagnose
