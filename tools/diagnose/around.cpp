// Steps of the model next to the rotation, which a dump may include: the factor of queries, and a norm after the
// rotation. Each is found in the data and undone before the rotation is examined.
#include <algorithm>
#include <array>
#include <cmath>

#include "examination.h"

namespace rotary::diagnose {

namespace {

// The sample without a step: undo(row, x, y) is called for each head, to change its elements y.
template <class Undo>
Sample without_step(const Sample& sample, const Layout& layout, Undo undo) {
  Sample other = sample;
  std::vector<double> after = sample.after.copied();
  for_each_head(layout, [&](std::int64_t row, std::int64_t, std::int64_t first) {
    const auto x = sample.x(first);
    undo(row, x, std::span(after).subspan(static_cast<std::size_t>(first), x.size()));
  });
  other.after = std::move(after);
  other.unit = 2 * sample.unit;  // the step rounds too
  return other;
}

// ---- the factor of queries ----

// The query factor of each row; empty where all factors are 1, where the model has none, where the tensor holds
// no queries, and for keys of a cache and gradients.
std::vector<double> query_factors(const Layout& layout, const Subject& subject) {
  const bool is_query = subject.role == Role::q || subject.role == Role::other;
  if (subject.scale.form == QueryForm::none || !is_query || subject.from || subject.backward) return {};
  std::vector<std::int64_t> positions;
  const std::vector<double> expected = expected_positions(layout, subject)[0];
  for (const double position : expected) positions.push_back(whole(position));
  const std::vector<float> factors = query_scale(subject.scale, positions);
  if (std::ranges::all_of(factors, [](float one) { return one == 1; })) return {};
  return {factors.begin(), factors.end()};
}

// How often most rows were multiplied by their factors: 0, 1 or 2 times; empty where the norms do not show it.
std::optional<int> times_multiplied(const Sample& sample, const Layout& layout, const Subject& subject,
                                    const std::vector<double>& factors) {
  Block block;
  Motion motion;
  if (subject.turns) {
    const Asked asked = ask(subject, *asked_block(subject, sample.head_dim), layout);
    block = asked.block;
    motion = asked.motion;
  }
  const Comparison compared = compare_rows(sample, layout, block, motion, std::nullopt);
  std::array<int, 3> rows{};
  int all = 0;
  for (std::size_t row = 0; row < factors.size(); ++row) {
    const double size = std::log(factors[row]), ratio = compared.wrong[row] - 1;
    if (std::abs(size) < std::max(4 * sample.unit, 1e-5) || ratio == 0) continue;
    ++all;
    const double times = compared.wrong[row] == 0 ? 0 : std::log(ratio) / size, nearest = std::round(times);
    if (nearest >= 0 && nearest <= 2 && std::abs(times - nearest) < 0.3) ++rows[static_cast<std::size_t>(nearest)];
  }
  const auto most = std::ranges::max_element(rows);
  if (2 * *most <= all) return std::nullopt;
  return static_cast<int>(most - rows.begin());
}

void undo_query_factor(Around& around, const Layout& layout, const Subject& subject) {
  const std::vector<double> factors = query_factors(layout, subject);
  if (factors.empty()) return;
  const std::optional<int> times = times_multiplied(around.as_found, layout, subject, factors);
  if (!times) return;
  const double most = *std::ranges::max_element(factors, {}, [](double one) { return std::abs(std::log(one)); });
  const Number factor{"factor", most, 6};
  const auto divided = [&](const Sample& sample, int exponent) {
    return without_step(sample, layout, [&](std::int64_t row, std::span<const double>, std::span<double> y) {
      const double by = std::pow(factors[static_cast<std::size_t>(row)], -exponent);
      for (double& element : y) element *= by;
    });
  };
  if (*times > 0 || subject.multiplied) around.as_asked = divided(around.as_asked, 1);
  if (*times > 0) around.as_found = divided(around.as_found, *times);
  if (*times == 1) around.remarks.push_back(finding(Cause::query_factor, {factor}));
  if (*times == 2) around.fault = finding(Cause::query_factor_twice, {{"found", most * most, 6}, factor});
  if (*times == 0 && subject.multiplied) around.fault = finding(Cause::query_factor_left_out, {factor});
  if (*times == 0 && !subject.multiplied && subject.role == Role::q)
    around.open = finding(Cause::query_factor_open, {factor});
}

// ---- a norm after the rotation ----

// The squared norm of each pair after the asked rotation, and the mean square of the head's elements plus epsilon.
// Neither depends on the angles. An element that does not rotate is a pair with itself.
struct Sizes {
  std::vector<std::array<int, 2>> from, to;  // the elements of each pair, before and after
  double factor;                             // the squared attention factor
  Sizes(const Asked& asked, int head_dim) : factor(square(asked.motion.factor)) {
    for (int pair = 0; pair < asked.block.pairs; ++pair) {
      from.push_back(asked.block.input(pair));
      to.push_back(asked.block.output(pair));
    }
    for (int element = 0; element < head_dim; ++element) {
      if (element >= asked.block.first && element < asked.block.first + asked.block.rotary_dim()) continue;
      from.push_back({element, element});
      to.push_back({element, element});
    }
  }
  bool is_alone(std::size_t pair) const { return from[pair][0] == from[pair][1]; }
  double of_pair(std::span<const double> head, std::size_t pair) const {
    return (is_alone(pair) ? 0.5 : factor) * std::norm(pair_of(head, from[pair]));  // 0.5: it is there twice
  }
  double of_head(std::span<const double> head, double epsilon) const {
    double sum = 0;
    for (std::size_t pair = 0; pair < from.size(); ++pair) sum += of_pair(head, pair);
    return sum / static_cast<double>(head.size()) + epsilon;
  }
};

}  // namespace

// The norm maps the rotated z to y_u = w_u z_u / size, where size^2 is the mean square of the head. So
// (y_u / w_u)^2 + (y_v / w_v)^2 is the squared norm of the pair, divided by size^2, at any angles. Least squares over
// all heads give 1 / w_u^2 and 1 / w_v^2 of each pair.
std::optional<Sample> without_norm_behind(const Sample& sample, const Reading& reading, const Subject& subject) {
  const Asked asked = ask(subject, *asked_block(subject, sample.head_dim), reading.layout);
  const Sizes sizes(asked, sample.head_dim);
  std::int64_t heads = 0, changed = 0;
  for_each_head(reading.layout, [&](std::int64_t, std::int64_t, std::int64_t first) {
    double after = 0;
    for (const double y : sample.y(first)) after += square(y) / static_cast<double>(sample.head_dim);
    ++heads;
    changed += std::abs(after / sizes.of_head(sample.x(first), 0) - 1) > 0.02 ? 1 : 0;
  });
  if (2 * changed < heads) return std::nullopt;
  std::vector<TwoWeights> best;
  double least = 6 * sample.unit + 1e-6, best_epsilon = 0;
  for (const double epsilon : {1e-6, 1e-5}) {
    std::vector<TwoWeights> weights(sizes.from.size());
    for_each_head(reading.layout, [&](std::int64_t, std::int64_t, std::int64_t first) {
      const auto x = sample.x(first), y = sample.y(first);
      const double size = sizes.of_head(x, epsilon);
      for (std::size_t pair = 0; pair < weights.size(); ++pair) {
        const Complex after = pair_of(y, sizes.to[pair]);
        const double second = sizes.is_alone(pair) ? 0 : square(after.imag());
        weights[pair].add(square(after.real()), second, sizes.of_pair(x, pair) / size);
      }
    });
    double off = 0, all = 0;
    for (const TwoWeights& one : weights) off += std::max(0.0, one.off()), all += one.nn;
    if (!(std::sqrt(off) < least * std::sqrt(all))) continue;
    least = std::sqrt(off / all);
    best_epsilon = epsilon;
    best = std::move(weights);
  }
  const auto has_none = [](const TwoWeights& one) { return !(one.a() > 0) || (one.qq > 0 && !(one.b() > 0)); };
  if (best.empty() || std::ranges::any_of(best, has_none)) return std::nullopt;
  const auto undo = [&](std::int64_t, std::span<const double> x, std::span<double> y) {
    const double size = std::sqrt(sizes.of_head(x, best_epsilon));
    for (std::size_t pair = 0; pair < best.size(); ++pair) {
      const auto [u, v] = sizes.to[pair];
      y[static_cast<std::size_t>(u)] *= size * std::sqrt(best[pair].a());
      if (u != v) y[static_cast<std::size_t>(v)] *= size * std::sqrt(best[pair].b());
    }
  };
  return without_step(sample, reading.layout, undo);
}

Around without_steps_around(const Sample& sample, const Subject& subject) {
  Around around{sample, sample};
  if (!sample.finite || subject.used == nullptr || !asked_block(subject, sample.head_dim)) return around;
  const Reading reading = plausible_readings(sample, subject).front();
  undo_query_factor(around, reading.layout, subject);
  if (!subject.norm_behind || !subject.turns) return around;
  if (const auto plain = without_norm_behind(around.as_found, reading, subject)) {
    around.as_asked = around.as_found = *plain;
    around.remarks.push_back(finding(Cause::norm_behind_asked));
  }
  return around;
}

}  // namespace rotary::diagnose
