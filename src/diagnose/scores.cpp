// q.k before and after a rotation. Both tensors are [..., tokens of q, tokens of k].
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

constexpr double kept = 0.02;  // the relative residual of scores that are kept; that of others is near 1

struct Scores {
  explicit Scores(const Sample& s)
      : sample(s),
        rows(s.shape[s.shape.size() - 2]),
        columns(s.head_dim),
        planes(static_cast<std::int64_t>(s.before.size()) / (rows * columns)) {}

  const Sample& sample;
  std::int64_t rows;     // tokens of q
  std::int64_t columns;  // tokens of k
  std::int64_t planes;

  // visit(before, after) on the diagonal j = i + shift of a plane.
  template <class Visit>
  void for_diagonal(std::int64_t plane, std::int64_t shift, Visit visit) const {
    for (std::int64_t i = std::max<std::int64_t>(0, -shift); i < rows && i + shift < columns; ++i) {
      const auto at = static_cast<std::size_t>((plane * rows + i) * columns + i + shift);
      const double before = sample.before[at], after = sample.after[at];
      if (std::isfinite(before) && std::isfinite(after)) visit(before, after);  // a mask is infinite
    }
  }
};

// How the scores of one diagonal of all planes changed: after = factor * before.
struct Diagonal {
  double factor = 0;
  double residual = 1;
  std::int64_t count = 0;
};

Diagonal diagonal(const Scores& scores, std::int64_t shift) {
  double xx = 0, xy = 0, yy = 0;
  Diagonal found;
  for (std::int64_t plane = 0; plane < scores.planes; ++plane) {
    scores.for_diagonal(plane, shift, [&](double before, double after) {
      xx += before * before;
      xy += before * after;
      yy += after * after;
      ++found.count;
    });
  }
  if (xx == 0 || yy == 0) return found;
  found.factor = xy / xx;
  found.residual = std::sqrt(std::max(0.0, yy - xy * xy / xx) / yy);
  return found;
}

// Where every diagonal before is constant, as with one q and one k at all tokens: whether it is so after.
std::optional<double> toeplitz_residual(const Scores& scores) {
  double spread_before = 0, spread_after = 0, all_before = 0, all_after = 0;
  const auto add = [&](std::int64_t plane, std::int64_t shift) {
    double mean_before = 0, mean_after = 0, count = 0;
    scores.for_diagonal(plane, shift, [&](double before, double after) {
      mean_before += before;
      mean_after += after;
      ++count;
    });
    if (count < 2) return;
    mean_before /= count;
    mean_after /= count;
    scores.for_diagonal(plane, shift, [&](double before, double after) {
      spread_before += (before - mean_before) * (before - mean_before);
      spread_after += (after - mean_after) * (after - mean_after);
      all_before += before * before;
      all_after += after * after;
    });
  };
  for (std::int64_t plane = 0; plane < scores.planes; ++plane) {
    for (std::int64_t shift = 1 - scores.rows; shift < scores.columns; ++shift) add(plane, shift);
  }
  if (all_before == 0 || all_after == 0 || spread_before > kept * kept * all_before) return std::nullopt;
  return std::sqrt(spread_after / all_after);
}

Finding examine(const Scores& scores, const Subject& subject) {
  if (std::ranges::equal(scores.sample.before, scores.sample.after)) {
    return {Verdict::not_rotated, "are the same before and after: nothing is rotated"};
  }
  if (const auto residual = toeplitz_residual(scores)) {
    if (*residual <= kept) {
      return {Verdict::as_configured, "depend on the distance alone" + residual_said(*residual)};
    }
    return {Verdict::positions,
            "do not depend on the distance alone: they are constant along the diagonals before, and not after" +
                residual_said(*residual)};
  }
  std::optional<std::int64_t> best;
  Diagonal found;
  for (std::int64_t shift = 1 - scores.rows; shift < scores.columns; ++shift) {
    const Diagonal one = diagonal(scores, shift);
    if (one.count < 3 * scores.planes || one.residual > kept || one.factor <= 0) continue;
    if (best && (*best == 0 || (shift != 0 && one.residual >= found.residual))) continue;
    best = shift;
    found = one;
  }
  if (!best) {
    return {Verdict::cannot_tell, "cannot tell, because no distance keeps its scores, as distance 0 does" +
                                      residual_said(diagonal(scores, 0).residual, " there") +
                                      ": the positions do not rise by one, or q and k are not rotated alike"};
  }
  if (*best != 0) {
    return {Verdict::offset, "are kept where k is " + std::to_string(*best) +
                                 " tokens after q, not at the same token: the positions of q and k differ by " +
                                 std::to_string(std::abs(*best))};
  }
  double wanted = 1;
  if (subject.used != nullptr) {
    const std::int64_t length = subject.length.value_or(std::max(scores.rows, scores.columns));
    wanted = frequencies(subject.used->rope, length).attention_factor;
  }
  if (std::abs(std::sqrt(found.factor) - wanted) > std::max(scores.sample.unit, 1e-4) * wanted) {
    return {Verdict::attention_factor, "are multiplied by " + significant(found.factor, 6) + " at distance 0; " +
                                           (subject.used != nullptr ? "the model asks " : "a rotation alone gives ") +
                                           significant(wanted * wanted, 6) + ", the square of the attention factor"};
  }
  return {Verdict::as_configured, "keep the law: at distance 0 they are those before" + residual_said(found.residual)};
}

// ---- scores against q and k before them, as FlashAttention's users have them -------------------

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

Diagnosis diagnose_scores(const Tensor& before, const Tensor& after, const Subject& subject) {
  const Sample sample = make_sample(before, after, 0);
  const Finding finding = examine(Scores(sample), subject);
  Diagnosis result;
  result.verdict = finding.verdict;
  const std::string who = before.name.empty() ? "the scores" : before.name;
  result.sentence = who + (finding.verdict == Verdict::cannot_tell ? ": " : " ") + finding.said;
  result.findings = {finding.said};
  return result;
}

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
  const bool holds = one.verdict == Verdict::as_configured;
  if (holds || one.verdict == Verdict::cannot_tell) result.outcome = Outcome::undecided;
  if (holds) one.sentence += "; any rope keeps that: --input with q and k before the rotation tells which it is";
  result.sentence = one.sentence;
  return result;
}

}  // namespace rotary::diagnose
