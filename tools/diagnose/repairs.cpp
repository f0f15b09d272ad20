// Befores that are not what the rotation took: each is mended and diagnosed again.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "examination.h"

namespace rotary::diagnose {

namespace {

std::size_t in(std::int64_t number) { return static_cast<std::size_t>(number); }
double norm_of(std::span<const double> head) {
  return std::sqrt(std::inner_product(head.begin(), head.end(), head.begin(), 0.0));
}

using Spot = std::array<std::int64_t, 3>;  // a head's row, token and number
template <class Visit>
void for_each_spot(const Scene& scene, Visit visit) {
  const std::int64_t tokens = scene.layout().tokens;
  for_each_head(scene.layout(), [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    visit(Spot{row / tokens, row % tokens, head}, first);
  });
}

// found: what the before is instead.
std::optional<Answer> repaired(const Scene& scene, std::vector<double> before, Finding found) {
  Sample other = scene.sample;
  other.before = std::move(before);
  Answer answered = answer(other, scene.subject, 0);
  if (!answered.explained) return std::nullopt;
  Diagnosis& one = answered.diagnosis;
  const bool right = one.verdict == Verdict::as_configured || one.verdict == Verdict::noise;
  if (right) one.found = {finding(Cause::as_configured)};
  one.verdict = found.verdict;
  one.found.insert(one.found.begin(), std::move(found));
  return answered;
}

// How far two lists are from a multiple of each other.
double apart(const std::vector<double>& one, const std::vector<double>& other) {
  double xx = 0, xy = 0, yy = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    xx += square(one[i]);
    xy += one[i] * other[i];
    yy += square(other[i]);
  }
  return xx * yy > 0 ? 1 - xy * xy / (xx * yy) : 1;
}

// A rotation keeps the norms of heads.
std::optional<Answer> in_another_order(const Scene& scene, std::size_t dimension, const std::string& unit) {
  std::vector<std::vector<double>> before(scene.all[dimension].size()), after = before;
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    for (const auto& [head, norms] : {std::pair(scene.sample.x(first), &before), {scene.sample.y(first), &after}}) {
      (*norms)[in(place[dimension])].push_back(norm_of(head));
    }
  });
  std::vector<std::int64_t> from;
  for (const std::vector<double>& norms : after) {
    const auto best = std::ranges::min_element(before, {}, [&](const auto& other) { return apart(norms, other); });
    if (norms.size() < 4 || apart(norms, *best) > 1e-4) return std::nullopt;
    from.push_back(best - before.begin());
  }
  const auto moved = std::ranges::mismatch(from, scene.all[dimension]).in1;
  if (moved == from.end()) return std::nullopt;
  std::vector<double> elements = scene.sample.before.copied();
  for_each_spot(scene, [&](Spot place, std::int64_t first) {
    place[dimension] = from[in(place[dimension])];
    std::ranges::copy(scene.sample.x(at(scene.layout(), place[0], place[1], place[2])), elements.begin() + first);
  });
  return repaired(scene, std::move(elements),
                  finding(Cause::another_order,
                          {{"unit", unit}, {"after", number(moved - from.begin())}, {"before", number(*moved)}}));
}

// In front of the rotation, of each head or of all heads of a token, RMS or with a mean.
struct Norm {
  bool of_all_heads, of_each_head, with_mean;  // of_each_head: its weights
  double epsilon = 1e-6;
};

std::vector<double> normed(const Scene& scene, const Norm& norm) {
  std::map<Spot, std::array<double, 3>> sums;  // for each norm: elements, squares and their number
  const auto norm_of = [&](const Spot& place) { return Spot{place[0], place[1], norm.of_all_heads ? 0 : place[2]}; };
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    auto& [all, squares, count] = sums[norm_of(place)];
    for (const double x : scene.sample.x(first)) all += norm.with_mean ? x : 0, squares += square(x), ++count;
  });
  std::vector<double> elements = scene.sample.before.copied();
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    const auto& [all, squares, count] = sums[norm_of(place)];
    const double mean = all / count, size = std::sqrt(squares / count - square(mean) + norm.epsilon);
    for (double& x : std::span(elements).subspan(in(first), in(scene.sample.head_dim))) x = (x - mean) / size;
  });
  return elements;
}

// A before in front of a norm with a weight and a bias of each element, found by turning after back as the asked rope
// would have turned it in that pairing.
std::optional<Answer> in_front_of_a_norm(const Scene& scene, const Norm& norm, Kind kind) {
  constexpr std::array<Kind, 4> backwards = {Kind::half, Kind::interleaved, Kind::half_to_interleaved,
                                             Kind::interleaved_to_half};
  const std::size_t dim = in(scene.sample.head_dim), sets = norm.of_each_head ? scene.all[2].size() : 1;
  const std::vector<double> x = normed(scene, norm);
  std::vector<double> before = x, y = scene.sample.after.copied();
  Motion back = scene.asked.motion;
  back.factor = 1 / back.factor;
  for (double& speed : back.speed) speed = -speed;
  rotate(y, scene.layout(),
         {backwards[static_cast<std::size_t>(kind)], scene.asked.block.first, scene.asked.block.pairs}, back);
  const auto set_of = [&](const Spot& place) { return norm.of_each_head ? in(place[2]) : 0; };
  // Elements that hardly differ are told apart by what they differ.
  const auto origin = [&](const Spot& place, std::size_t u) {
    return x[in(at(scene.layout(), 0, 0, static_cast<std::int64_t>(set_of(place)))) + u];
  };
  std::vector<TwoWeights> of(sets * dim);
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    for (std::size_t u = 0; u < dim; ++u)
      of[set_of(place) * dim + u].add(x[in(first) + u] - origin(place, u), 1, y[in(first) + u]);
  });
  double off = 0, all = 0;
  for (const TwoWeights& one : of) {
    if (!one.solvable() && one.nn > 0) return std::nullopt;
    off += one.off();
    all += one.nn;
  }
  if (off > 1e-3 * all) return std::nullopt;
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    for (std::size_t u = 0; u < dim; ++u) {
      const TwoWeights& one = of[set_of(place) * dim + u];
      before[in(first) + u] = one.a() * (x[in(first) + u] - origin(place, u)) + one.b();
    }
  });
  Finding taken = finding(Cause::before_norm, {{"unit", norm.of_all_heads ? "token" : "head"}});
  if (norm.with_mean) taken.numbers.push_back({"mean", true});
  return repaired(scene, std::move(before), std::move(taken));
}

// A factor of most heads, of each its own.
std::optional<Answer> by_factors(const Scene& scene) {
  std::vector<double> before = scene.sample.before.copied();
  std::int64_t heads = 0, other = 0;
  for_each_spot(scene, [&](const Spot&, std::int64_t first) {
    const double x = norm_of(scene.sample.x(first)), factor = x > 0 ? norm_of(scene.sample.y(first)) / x : 0;
    for (double& element : std::span(before).subspan(in(first), scene.sample.x(first).size())) element *= factor;
    ++heads;
    other += factor > 0 && std::abs(factor / scene.asked.motion.factor - 1) > 0.02 ? 1 : 0;
  });
  if (4 * other < 3 * heads) return std::nullopt;
  return repaired(scene, std::move(before), finding(Cause::factors));
}

// Elements that the model does not rotate, and that change.
std::optional<Answer> but_for_still_elements(const Scene& scene) {
  const Block& block = scene.asked.block;
  std::vector<double> before = scene.sample.before.copied();
  std::set<std::int64_t> changed;
  TwoWeights factor;
  for_each_spot(scene, [&](const Spot&, std::int64_t first) {
    const auto x = scene.sample.x(first), y = scene.sample.y(first);
    for (int u = 0; u < scene.sample.head_dim; ++u) {
      if (u >= block.first && u < block.first + block.rotary_dim()) continue;
      factor.add(x[in(u)], 0, y[in(u)]);
      if (x[in(u)] != y[in(u)]) changed.insert(u);
      before[in(first + u)] = y[in(u)];
    }
  });
  if (changed.empty()) return std::nullopt;
  const bool all_alike = factor.off() < 1e-4 * factor.nn;
  const Cause cause = factor.nn == 0 ? Cause::still_elements_zero
                      : all_alike    ? Cause::still_elements_multiplied
                                     : Cause::still_elements_differ;
  Finding found = finding(cause, {}, {.elements = {changed.begin(), changed.end()}});
  if (cause == Cause::still_elements_multiplied) found.numbers = {{"factor", factor.a(), 4}};
  return repaired(scene, std::move(before), std::move(found));
}

}  // namespace

std::optional<Answer> answer_by_repair(const Scene& scene) {
  if (auto found = but_for_still_elements(scene)) return found;
  if (auto found = in_another_order(scene, 2, "head")) return found;
  if (auto found = in_another_order(scene, 0, "batch row")) return found;
  for (const Kind kind : {Kind::half, Kind::interleaved, Kind::interleaved_to_half}) {
    for (const auto& [all, each] : {std::pair(false, false), {false, true}, {true, true}}) {
      for (const auto& [mean, epsilon] : {std::pair(false, 1e-6), {false, 1e-5}, {true, 1e-6}, {true, 1e-5}}) {
        if (auto found = in_front_of_a_norm(scene, {all, each, mean, epsilon}, kind)) return found;
      }
    }
  }
  return by_factors(scene);
}

}  // namespace rotary::diagnose
