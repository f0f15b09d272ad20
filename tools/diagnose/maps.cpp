// Linear maps of pairs, where no rotation explains the result of a kernel: 2 x 2 matrices, found by least squares.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "examination.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

constexpr std::int64_t most_rows = 256;

// The entries of a map in the order uu, uv, vu, vv: y_u = uu x_u + uv x_v, y_v = vu x_u + vv x_v. An entry
// is the sum of cos, sin and 1 with its three weights.
using Entry = std::array<double, 3>;
using Map = std::array<Entry, 4>;
double value_of(const Entry& entry, Complex turn) { return entry[0] * turn.real() + entry[1] * turn.imag() + entry[2]; }
constexpr Map rotation = {{{1, 0, 0}, {0, -1, 0}, {0, 1, 0}, {1, 0, 0}}};

struct NamedMap {
  Cause cause;
  Map map;
};
constexpr NamedMap named_maps[] = {
    {Cause::mirrored, {{{1, 0, 0}, {0, 1, 0}, {0, 1, 0}, {1, 0, 0}}}},
    {Cause::sin_cos_exchanged, {{{0, 1, 0}, {-1, 0, 0}, {1, 0, 0}, {0, 1, 0}}}},
    {Cause::without_second_sin, {{{1, 0, 0}, {0, -1, 0}, {0, 0, 0}, {1, 0, 0}}}},
};

// Calls visit(x, y, turn, row, pair) for each pair of each head; where there are many rows, for one in so many only.
template <class Visit>
void visit_pairs(const Sample& sample, const Layout& layout, const Block& block, const Motion& motion, Visit visit) {
  const std::int64_t step = std::max<std::int64_t>(1, layout.batch * layout.tokens / most_rows);
  for_each_head(layout, [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    for (int pair = 0; row % step == 0 && pair < block.pairs; ++pair)
      visit(pair_of(sample.x(first), block.input(pair)), pair_of(sample.y(first), block.output(pair)),
            motion.turn(row, motion.of(head, pair)), row, pair);
  });
}

// ---- one map by cos and sin for all pairs ----

using Basis = std::array<double, 6>;  // cos x_u, sin x_u, x_u, and the same of x_v

Basis basis_of(Complex x, Complex turn) {
  return {turn.real() * x.real(), turn.imag() * x.real(), x.real(),
          turn.real() * x.imag(), turn.imag() * x.imag(), x.imag()};
}

// The sums of the normal equations: products of the basis, and of it with y_u and y_v.
struct NormalEquations {
  std::array<Basis, 6> products{};
  std::array<Basis, 2> with{};
  void add(const Basis& basis, Complex y) {
    for (std::size_t i = 0; i < basis.size(); ++i) {
      for (std::size_t j = 0; j < basis.size(); ++j) products[i][j] += basis[i] * basis[j];
      with[0][i] += basis[i] * y.real();
      with[1][i] += basis[i] * y.imag();
    }
  }
  // Solves them by elimination; weights that the data do not determine become small.
  Basis solved(Basis right) const {
    std::array<Basis, 6> left = products;
    for (std::size_t i = 0; i < left.size(); ++i) left[i][i] += 1e-9 * (1 + products[i][i]);
    for (std::size_t i = 0; i < left.size(); ++i) {
      for (std::size_t j = i + 1; j < left.size(); ++j) {
        const double times = left[j][i] / left[i][i];
        for (std::size_t k = i; k < left.size(); ++k) left[j][k] -= times * left[i][k];
        right[j] -= times * right[i];
      }
    }
    for (std::size_t i = left.size(); i-- > 0;) {
      for (std::size_t k = i + 1; k < left.size(); ++k) right[i] -= left[i][k] * right[k];
      right[i] /= left[i][i];
    }
    return right;
  }
};

// Rounds a weight to a multiple of 1/4 if it is within 0.02 of it.
double tidy_weight(double weight) {
  const double quarters = std::round(4 * weight) / 4;
  return std::abs(weight - quarters) < 0.02 ? quarters : weight;
}

double residual_of_map(const Sample& sample, const Layout& layout, const Block& block, const Motion& motion,
                       const Map& map) {
  double off = 0, all = 0;
  visit_pairs(sample, layout, block, motion, [&](Complex x, Complex y, Complex turn, std::int64_t, int) {
    off += square(value_of(map[0], turn) * x.real() + value_of(map[1], turn) * x.imag() - y.real()) +
           square(value_of(map[2], turn) * x.real() + value_of(map[3], turn) * x.imag() - y.imag());
    all += std::norm(y);
  });
  return all > 0 ? std::sqrt(off / all) : 1;
}

std::string entry_text(const Entry& entry) {
  std::string text;
  for (const auto& [weight, name] : {std::pair(entry[0], std::string("c")), {entry[1], "s"}, {entry[2], ""}}) {
    if (std::abs(weight) < 0.005) continue;
    const double size = std::abs(weight), part = 1 / size;
    text += weight < 0 ? (text.empty() ? "-" : " - ") : text.empty() ? "" : " + ";
    if (name.empty()) {
      text += detail::significant(size, 2);
    } else if (size == 1 || (size < 1 && part == std::round(part))) {
      text += name + (size == 1 ? "" : "/" + detail::significant(part, 1));
    } else {
      text += detail::significant(size, 2) + " " + name;
    }
  }
  return text.empty() ? "0" : text;
}

std::string matrix_text(const std::array<std::string, 4>& entries) {
  return "[" + entries[0] + ", " + entries[1] + "; " + entries[2] + ", " + entries[3] + "]";
}

std::optional<Finding> find_one_map(const Sample& sample, const Layout& layout, const Block& block,
                                    const Motion& motion, double& residual) {
  NormalEquations sums;
  visit_pairs(sample, layout, block, motion,
              [&](Complex x, Complex y, Complex turn, std::int64_t, int) { sums.add(basis_of(x, turn), y); });
  Map map;
  for (std::size_t element = 0; element < 2; ++element) {
    const Basis weights = sums.solved(sums.with[element]);
    for (std::size_t i = 0; i < weights.size(); ++i) map[2 * element + i / 3][i % 3] = tidy_weight(weights[i]);
  }
  const double off = residual_of_map(sample, layout, block, motion, map);
  // An element of the pair that is zero everywhere in before determines no column of the map.
  const std::array<bool, 2> determines = {sums.products[2][2] > 0, sums.products[5][5] > 0};
  const auto fits = [&](const Map& other) {
    for (std::size_t i = 0; i < map.size(); ++i) {
      if (determines[i % 2] && map[i] != other[i]) return false;
    }
    return true;
  };
  const auto* known = std::ranges::find_if(named_maps, fits, &NamedMap::map);
  const bool is_named = known != std::end(named_maps), is_whole = determines[0] && determines[1];
  if (fits(rotation) || (!is_named && !is_whole) || !(off < std::min(explains, residual))) return std::nullopt;
  residual = off;
  const Number pairing{"pairing", name(block.kind)};
  if (is_named) return finding(known->cause, {pairing});
  std::array<std::string, 4> entries;
  std::ranges::transform(map, entries.begin(), entry_text);
  return finding(Cause::map, {{"map", matrix_text(entries)}, {"rotation", "[c, -s; s, c]"}, pairing});
}

// ---- a map of each pair at each token, by its heads ----

struct PairMap {
  std::int64_t row;
  int pair;
  std::array<double, 4> found, asked;
};

std::array<double, 4> rotation_by(Complex turn) {
  std::array<double, 4> map;
  std::ranges::transform(rotation, map.begin(), [=](const Entry& entry) { return value_of(entry, turn); });
  return map;
}

// The map of each pair at each token, by least squares over the heads. Empty where the heads do not determine a map, or
// have no map in common.
std::vector<PairMap> maps_of(const Sample& sample, const Layout& layout, const Block& block, const Motion& motion) {
  const auto pairs = static_cast<std::size_t>(block.pairs);
  std::vector<std::array<TwoWeights, 2>> sums(static_cast<std::size_t>(layout.batch * layout.tokens) * pairs);
  visit_pairs(sample, layout, block, motion, [&](Complex x, Complex y, Complex, std::int64_t row, int pair) {
    auto& [of_u, of_v] = sums[static_cast<std::size_t>(row) * pairs + static_cast<std::size_t>(pair)];
    of_u.add(x.real(), x.imag(), y.real());
    of_v.add(x.real(), x.imag(), y.imag());
  });
  std::vector<PairMap> maps;
  double off = 0, all = 0;
  for (std::size_t at = 0; at < sums.size(); ++at) {
    const auto& [u, v] = sums[at];
    if (u.count == 0) continue;
    if (!u.solvable()) return {};
    const auto row = static_cast<std::int64_t>(at / pairs);
    const auto pair = static_cast<int>(at % pairs);
    maps.push_back({row, pair, {u.a(), u.b(), v.a(), v.b()}, rotation_by(motion.turn(row, pair))});
    off += std::max(0.0, u.off()) + std::max(0.0, v.off());
    all += u.nn + v.nn;
  }
  if (!(off < square(explains) * all)) maps.clear();
  return maps;
}

// The n for which every pair has this entry of the asked map of the pair n places later (the first pair follows the
// last); 0 where there is none.
int places_further(const std::vector<PairMap>& maps, std::size_t entry, int pairs, const Motion& motion) {
  for (int further = 1; further < pairs; ++further) {
    const auto has_it = [&](const PairMap& one) {
      const Complex turn = motion.turn(one.row, (one.pair + further) % pairs);
      return std::abs(one.found[entry] - value_of(rotation[entry], turn)) < 0.05;
    };
    if (std::ranges::all_of(maps, has_it)) return further;
  }
  return 0;
}

std::optional<Finding> find_map_of_pairs(const Sample& sample, const Layout& layout, const Block& block,
                                         const Motion& motion) {
  if (motion.apart > 0) return std::nullopt;
  const std::vector<PairMap> maps = maps_of(sample, layout, block, motion);
  std::array<bool, 4> is_wrong{};
  std::set<std::int64_t> pairs, rows;
  const PairMap* first = nullptr;
  std::size_t right = 0;
  for (const PairMap& one : maps) {
    const auto [uu, uv, vu, vv] = one.found;
    const bool is_rotation = std::abs(uu - vv) < 0.05 && std::abs(uv + vu) < 0.05;  // a rotation by another angle
    bool all = true;
    for (std::size_t entry = 0; entry < 4; ++entry) {
      if (is_rotation || std::abs(one.found[entry] - one.asked[entry]) <= 0.05) continue;
      all = false;
      is_wrong[entry] = true;
      pairs.insert(one.pair);
      rows.insert(one.row);
      if (first == nullptr) first = &one;
    }
    right += all ? 1 : 0;
  }
  const bool is_table = 2 * std::ssize(rows) >= layout.batch * layout.tokens;  // else only some tokens are wrong
  if (first == nullptr || !is_table || (std::ranges::count(is_wrong, true) > 3 && right == 0)) return std::nullopt;
  const auto text = [](const std::array<double, 4>& map) {
    std::array<std::string, 4> entries;
    std::ranges::transform(map, entries.begin(), [](double one) { return detail::significant(one, 2); });
    return matrix_text(entries);
  };
  std::vector<Number> numbers = {{"pair", number(first->pair)},
                                 {"token", number(sample.in_whole(1, {first->row % layout.tokens})[0])},
                                 {"found", text(first->found)},
                                 {"asked", text(first->asked)},
                                 {"pairing", name(block.kind)}};
  constexpr const char* words[] = {"the first cos", "the first sin", "the second sin", "the second cos"};
  for (std::size_t entry = 0; entry < 4; ++entry) {
    const int further = is_wrong[entry] ? places_further(maps, entry, block.pairs, motion) : 0;
    if (further == 0) continue;
    numbers.push_back({"entry", words[entry]});
    numbers.push_back({"further", number(further)});
    break;
  }
  return finding(Cause::map_of_pairs, std::move(numbers), {.pairs = {pairs.begin(), pairs.end()}});
}

}  // namespace

bool examine_maps(Examination& exam, const Asked& asked, const Reading& reading, double residual) {
  if (exam.findings.front().cause == Cause::one_pair) return false;  // one pair does not show the map of all
  std::optional<Finding> found;
  Block block = asked.block;
  for (const Kind kind : {asked.block.kind, Kind::half, Kind::interleaved}) {
    block.kind = kind;
    if (auto one = find_one_map(exam.sample, reading.layout, block, asked.motion, residual)) found = std::move(one);
  }
  block.kind = asked.block.kind;
  const bool is_one_map = found.has_value();
  if (!found) found = find_map_of_pairs(exam.sample, reading.layout, block, asked.motion);
  if (!found) return false;
  exam.facts.layout = reading.word;
  exam.residual = residual;
  exam.explained = exam.named = is_one_map;  // else an examination of the parts may find a better cause
  exam.findings = {std::move(*found)};
  return true;
}

}  // namespace rotary::diagnose
