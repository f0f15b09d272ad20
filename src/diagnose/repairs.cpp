// Befores that are not what the rotation took: each is mended and diagnosed again.
#include <algorithm>
#include <cmath>
#include <map>

#include "parts.h"

namespace rotary::diagnose {

namespace {

std::size_t in(std::int64_t number) { return static_cast<std::size_t>(number); }
double square(double value) { return value * value; }

using Spot = std::array<std::int64_t, 3>;  // of one head: row, token, head
template <class Visit>
void for_each_head(const Scene& scene, Visit visit) {
  const std::int64_t tokens = scene.layout().tokens;
  diagnose::for_each_head(scene.layout(), [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    visit(Spot{row / tokens, row % tokens, head}, first);
  });
}

// words: of the tensor, behind its name; then: "then", "behind the norm".
std::optional<Answer> repaired(const Scene& scene, std::vector<double> before, Verdict verdict,
                               const std::string& words, const std::string& then) {
  Sample other = scene.sample;
  other.before = std::move(before);
  Answer found = answer(other, scene.subject, 0);
  if (!found.explained) return std::nullopt;
  Diagnosis& one = found.diagnosis;
  const bool right = one.verdict == Verdict::as_configured || one.verdict == Verdict::noise;
  const std::string more = words + "; " + then + " it";
  one.findings = {words.substr(words.find_first_not_of(": "))};
  one.sentence = scene.sample.name + more +
                 (right ? " is rotated as the config asks" : one.sentence.substr(scene.sample.name.size()));
  one.fault = more + (right ? "" : one.fault);
  one.verdict = verdict;
  return found;
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
  for_each_head(scene, [&](const Spot& place, std::int64_t first) {
    for (const auto& [head, norms] : {std::pair(scene.sample.x(first), &before), {scene.sample.y(first), &after}}) {
      double sum = 0;
      for (const double element : head) sum += square(element);
      (*norms)[in(place[dimension])].push_back(std::sqrt(sum));
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
  for_each_head(scene, [&](Spot place, std::int64_t first) {
    place[dimension] = from[in(place[dimension])];
    std::ranges::copy(scene.sample.x(at(scene.layout(), place[0], place[1], place[2])), elements.begin() + first);
  });
  return repaired(scene, std::move(elements), Verdict::layout,
                  " is written with its " + unit + "s in another order: " + unit + " " +
                      std::to_string(moved - from.begin()) + " after is " + unit + " " + std::to_string(*moved) +
                      " before",
                  "so taken");
}

// n = a p + b q by least squares.
struct TwoWeights {
  double pp = 0, pq = 0, qq = 0, pn = 0, qn = 0, nn = 0, count = 0;
  void add(double p, double q, double n) {
    pp += p * p, pq += p * q, qq += q * q, pn += p * n, qn += q * n, nn += n * n, ++count;
  }
  double a() const { return (pn * qq - qn * pq) / (pp * qq - pq * pq); }
  double b() const { return (qn * pp - pn * pq) / (pp * qq - pq * pq); }
  double off() const { return nn - a() * pn - b() * qn; }
  bool holds() const { return count > 5 && pp * qq > pq * pq && a() >= 0 && b() >= 0 && off() < 1e-3 * nn; }
};

// A before in front of an RMS norm of each head, or of all heads of a token, with a weight of each element: the squared
// norm of a pair after is two squared weights times the squared elements of the normed head.
std::optional<Answer> in_front_of_a_norm(const Scene& scene, Kind kind, bool of_all_heads, double epsilon) {
  const Block block{kind, scene.asked.block.first, scene.asked.block.pairs};
  const std::size_t dim = in(scene.layout().head_dim), pairs = in(block.pairs),
                    sets = of_all_heads ? scene.all[2].size() : 1;
  std::map<Spot, std::array<double, 2>> sums;  // of each norm: squares and their number
  const auto norm_of = [&](const Spot& place) { return Spot{place[0], place[1], of_all_heads ? 0 : place[2]}; };
  for_each_head(scene, [&](const Spot& place, std::int64_t first) {
    auto& [squares, count] = sums[norm_of(place)];
    for (const double x : scene.sample.x(first)) squares += square(x);
    count += static_cast<double>(dim);
  });
  std::vector<double> normed = scene.sample.before.copied();
  std::vector<TwoWeights> of_pair(sets * pairs), still(sets * dim);
  for_each_head(scene, [&](const Spot& place, std::int64_t first) {
    const auto& [squares, count] = sums[norm_of(place)];
    const auto x = std::span(normed).subspan(in(first), dim);
    for (double& element : x) element /= std::sqrt(squares / count + epsilon);
    const auto y = scene.sample.y(first);
    const std::size_t set = of_all_heads ? in(place[2]) : 0;
    for (int i = 0; i < block.pairs; ++i) {
      const auto [u, v] = block.input(i);
      const auto [to_u, to_v] = block.output(i);
      of_pair[set * pairs + in(i)].add(square(x[in(u)]), square(x[in(v)]), square(y[in(to_u)]) + square(y[in(to_v)]));
    }
    for (std::size_t u = 0; u < dim; ++u) still[set * dim + u].add(x[u], 0, y[u]);
  });
  if (!std::ranges::all_of(of_pair, &TwoWeights::holds)) return std::nullopt;
  std::vector<double> weight;
  for (const TwoWeights& one : still) weight.push_back(one.pp > 0 ? one.pn / one.pp : 0);
  for (std::size_t i = 0; i < of_pair.size(); ++i) {
    const auto [u, v] = block.input(static_cast<int>(i % pairs));
    weight[i / pairs * dim + in(u)] = std::sqrt(of_pair[i].a());
    weight[i / pairs * dim + in(v)] = std::sqrt(of_pair[i].b());
  }
  for_each_head(scene, [&](const Spot& place, std::int64_t first) {
    for (std::size_t u = 0; u < dim; ++u) normed[in(first) + u] *= weight[(of_all_heads ? in(place[2]) : 0) * dim + u];
  });
  return repaired(scene, std::move(normed), Verdict::cannot_tell,
                  std::string(": before was taken in front of the norm of queries and keys (q_norm, k_norm) and after "
                              "behind it: each ") +
                      (of_all_heads ? "token" : "head") +
                      " differs by a factor of its own, and each element by a weight; dump both behind it",
                  "behind the norm");
}

}  // namespace

std::optional<Answer> answer_by_repair(const Scene& scene) {
  if (auto found = in_another_order(scene, 2, "head")) return found;
  if (auto found = in_another_order(scene, 0, "batch row")) return found;
  for (const Kind kind : {Kind::half, Kind::interleaved, Kind::interleaved_to_half}) {
    for (const bool of_all_heads : {false, true}) {
      for (const double epsilon : {1e-6, 1e-5}) {
        if (auto found = in_front_of_a_norm(scene, kind, of_all_heads, epsilon)) return found;
      }
    }
  }
  return std::nullopt;
}

}  // namespace rotary::diagnose
