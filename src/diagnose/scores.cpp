// q.k before and after a rotation. Both tensors are [..., tokens of q, tokens of k].
#include <algorithm>
#include <cmath>
#include <optional>

#include "examination.h"
#include "question.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::significant;

constexpr double kept = 0.02;  // the relative residual of scores that are kept; that of others is near 1

struct Scores {
  const Sample& sample;
  std::int64_t rows;     // tokens of q
  std::int64_t columns;  // tokens of k
  std::int64_t planes;

  double before(std::int64_t plane, std::int64_t i, std::int64_t j) const { return sample.before[at(plane, i, j)]; }
  double after(std::int64_t plane, std::int64_t i, std::int64_t j) const { return sample.after[at(plane, i, j)]; }
  std::size_t at(std::int64_t plane, std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>((plane * rows + i) * columns + j);
  }
};

// How the scores of one diagonal, j = i + shift, changed: after = factor * before.
struct Diagonal {
  double factor = 0;
  double residual = 1;
  std::int64_t count = 0;
};

template <class Visit>
void for_diagonal(const Scores& scores, std::int64_t first, std::int64_t count, std::int64_t shift, Visit visit) {
  for (std::int64_t plane = first; plane < first + count; ++plane) {
    for (std::int64_t i = std::max<std::int64_t>(0, -shift); i < scores.rows && i + shift < scores.columns; ++i) {
      const double before = scores.before(plane, i, i + shift), after = scores.after(plane, i, i + shift);
      if (std::isfinite(before) && std::isfinite(after)) visit(before, after);  // a mask is infinite
    }
  }
}

Diagonal diagonal(const Scores& scores, std::int64_t shift) {
  double xx = 0, xy = 0, yy = 0;
  Diagonal found;
  for_diagonal(scores, 0, scores.planes, shift, [&](double before, double after) {
    xx += before * before;
    xy += before * after;
    yy += after * after;
    ++found.count;
  });
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
    for_diagonal(scores, plane, 1, shift, [&](double before, double after) {
      mean_before += before;
      mean_after += after;
      ++count;
    });
    if (count < 2) return;
    mean_before /= count;
    mean_after /= count;
    for_diagonal(scores, plane, 1, shift, [&](double before, double after) {
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
  if (scores.sample.before == scores.sample.after) {
    return {Verdict::not_rotated, "are the same before and after: nothing is rotated"};
  }
  if (const auto residual = toeplitz_residual(scores)) {
    if (*residual > kept) {
      return {Verdict::positions,
              "do not depend on the distance alone: they are constant along the diagonals before, and not "
              "after (residual " +
                  significant(*residual, 2) + ")"};
    }
    return {Verdict::as_configured, "depend on the distance alone (residual " + significant(*residual, 2) + ")"};
  }
  std::optional<std::int64_t> best;
  Diagonal found;
  for (std::int64_t shift = 1 - scores.rows; shift < scores.columns; ++shift) {
    const Diagonal one = diagonal(scores, shift);
    if (one.count < 3 * scores.planes || one.residual > kept || one.factor <= 0) continue;
    const bool nearer = best && *best != 0 && (shift == 0 || one.residual < found.residual);
    if (!best || nearer) {
      best = shift;
      found = one;
    }
  }
  if (!best) {
    return {Verdict::cannot_tell, "cannot tell, because no distance keeps its scores, as distance 0 does (residual " +
                                      significant(diagonal(scores, 0).residual, 2) +
                                      " there): the positions do not rise by one, or q and k are not "
                                      "rotated alike"};
  }
  if (*best != 0) {
    return {Verdict::offset, "are kept where k is " + std::to_string(*best) +
                                 " tokens after q, not at the same token: the "
                                 "positions of q and k differ by " +
                                 std::to_string(std::abs(*best))};
  }
  double wanted = 1;
  if (subject.used != nullptr) {
    wanted = frequencies(subject.used->rope, subject.length.value_or(std::max(scores.rows, scores.columns)))
                 .attention_factor;
  }
  const double factor = std::sqrt(std::max(found.factor, 0.0));
  const std::string law =
      "keep the law: at distance 0 they are those before (residual " + significant(found.residual, 2) + ")";
  if (std::abs(factor - wanted) > std::max(scores.sample.unit, 1e-4) * wanted) {
    return {Verdict::attention_factor, "are multiplied by " + significant(found.factor, 6) + " at distance 0; " +
                                           (subject.used != nullptr ? "the model asks " : "a rotation alone gives ") +
                                           significant(wanted * wanted, 6) + ", the square of the attention factor"};
  }
  return {Verdict::as_configured, law};
}

}  // namespace

Diagnosis diagnose_scores(const Tensor& before, const Tensor& after, const Subject& subject) {
  const Sample sample = make_sample(before, after, 0);
  const std::int64_t columns = sample.head_dim, rows = sample.size.back();
  const Scores scores{sample, rows, columns, sample.vectors() / rows};
  const Finding finding = examine(scores, subject);
  Diagnosis result;
  result.verdict = finding.verdict;
  const std::string who = before.name.empty() ? "the scores" : before.name;
  result.sentence = who + (finding.verdict == Verdict::cannot_tell ? ": " : " ") + finding.text;
  result.findings = {finding.text};
  return result;
}

}  // namespace rotary::diagnose
