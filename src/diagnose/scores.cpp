// q.k before and after a rotation. Both tensors are [..., tokens of q, tokens of k].
#include <algorithm>
#include <cmath>

#include "examination.h"
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

}  // namespace rotary::diagnose
