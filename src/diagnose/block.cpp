#include "block.h"

#include <algorithm>
#include <cmath>

namespace rotary::diagnose {

namespace {

constexpr std::int64_t most_vectors = 768;  // more add nothing to a misfit
constexpr double passes = 0.05;             // between the rounding of a bf16 table and any wrong pairing

// The vectors to look at: all, or some spread evenly.
template <class Visit>
void for_some_vectors(const Sample& sample, Visit visit) {
  const std::int64_t all = sample.vectors();
  const std::int64_t count = std::min(all, most_vectors);
  for (std::int64_t i = 0; i < count; ++i) visit(i * all / count);
}

double norm(std::span<const double> vector, const std::array<int, 2>& pair) {
  const double a = vector[static_cast<std::size_t>(pair[0])], b = vector[static_cast<std::size_t>(pair[1])];
  return a * a + b * b;
}

std::vector<int> touched_elements(const Sample& sample) {
  std::vector<int> touched;
  const auto dim = static_cast<std::size_t>(sample.head_dim);
  std::vector<bool> differs(dim, false);
  for (std::size_t i = 0; i < sample.before.size(); ++i) {
    if (sample.before[i] != sample.after[i]) differs[i % dim] = true;
  }
  for (std::size_t u = 0; u < dim; ++u) {
    if (differs[u]) touched.push_back(static_cast<int>(u));
  }
  return touched;
}

bool covers(const Block& block, const std::vector<int>& touched, int head_dim) {
  return block.pairs > 0 && block.first >= 0 && block.first + block.rotary_dim() <= head_dim &&
         block.first <= touched.front() && block.first + block.rotary_dim() > touched.back();
}

// How far the norms of the block's first `count` pairs are from a constant times what they were, relative, for the
// worst pair: some units of rounding where the block is right, near 1 where it is not.
double misfit_of(const Sample& sample, const Block& block, int count) {
  const auto pairs = static_cast<std::size_t>(count);
  const auto for_pairs = [&](auto&& visit) {
    for_some_vectors(sample, [&](std::int64_t vector) {
      for (std::size_t i = 0; i < pairs; ++i) {
        visit(i, norm(sample.x(vector), block.input(static_cast<int>(i))),
              norm(sample.y(vector), block.output(static_cast<int>(i))));
      }
    });
  };
  double xx = 0, xy = 0;
  for_pairs([&](std::size_t, double x, double y) {
    xx += x * x;
    xy += x * y;
  });
  if (xy <= 0) return 1;
  const double factor = xy / xx;  // of squared norms
  std::vector<double> off(pairs), all(pairs);
  for_pairs([&](std::size_t i, double x, double y) {
    off[i] += (y - factor * x) * (y - factor * x);
    all[i] += factor * x * factor * x;
  });
  double worst = 0;
  for (std::size_t i = 0; i < pairs; ++i) {
    if (all[i] > 0) worst = std::max(worst, std::min(1.0, std::sqrt(off[i] / all[i]) / 2));
  }
  return worst;
}

std::vector<Block> half_blocks(const Sample& sample, int first) {
  std::vector<Block> list;
  for (int n = sample.head_dim / 2; n > 0; --n) {
    // The first pair is the fastest as a rule, so its element is the first that is touched.
    if (first + n >= sample.head_dim || misfit_of(sample, {Kind::half, first, n}, 1) > passes) continue;
    for (const int start : {first, 0, sample.head_dim - 2 * n}) list.push_back({Kind::half, start, n});
  }
  return list;
}

std::vector<Block> adjacent_blocks(Kind kind, const std::vector<int>& touched, int head_dim) {
  std::vector<Block> list;
  for (const int start : {touched.front(), touched.front() - 1}) {
    const int pairs = (touched.back() + 2 - start) / 2;
    list.push_back({kind, start, pairs});
    // The last pair of a reordered block is nearly at its place, and slow.
    if (kind != Kind::interleaved) list.push_back({kind, start, pairs + 1});
  }
  list.push_back({kind, 0, head_dim / 2});
  return list;
}

std::optional<FoundBlock> best_block(const Sample& sample, const std::vector<int>& touched, Kind kind,
                                     const std::optional<Block>& expected) {
  std::vector<Block> list;
  if (expected) list.push_back({kind, expected->first, expected->pairs});
  const std::vector<Block> more =
      kind == Kind::half ? half_blocks(sample, touched.front()) : adjacent_blocks(kind, touched, sample.head_dim);
  list.insert(list.end(), more.begin(), more.end());
  std::optional<FoundBlock> found;
  for (const Block& block : list) {
    if (!covers(block, touched, sample.head_dim)) continue;
    const double misfit = misfit_of(sample, block, block.pairs);
    if (!found || misfit < found->misfit * 0.5) found = FoundBlock{block, misfit};
  }
  return found;
}

}  // namespace

const char* name(Kind kind) noexcept {
  constexpr std::array<const char*, 4> names = {"half", "interleaved", "interleaved_to_half", "half_to_interleaved"};
  return names[static_cast<std::size_t>(kind)];
}

Pairing pairing_of(Kind kind) noexcept {
  constexpr std::array<Pairing, 4> pairings = {Pairing::half, Pairing::interleaved, Pairing::interleaved_to_half,
                                               Pairing::unset};
  return pairings[static_cast<std::size_t>(kind)];
}

std::optional<Kind> kind_of(Pairing pairing) noexcept {
  for (const Kind kind : {Kind::half, Kind::interleaved, Kind::interleaved_to_half}) {
    if (pairing_of(kind) == pairing) return kind;
  }
  return std::nullopt;
}

std::array<int, 2> Block::input(int pair) const noexcept {
  const bool apart = kind == Kind::half || kind == Kind::half_to_interleaved;
  return apart ? std::array{first + pair, first + pair + pairs} : std::array{first + 2 * pair, first + 2 * pair + 1};
}
std::array<int, 2> Block::output(int pair) const noexcept {
  const bool apart = kind == Kind::half || kind == Kind::interleaved_to_half;
  return apart ? std::array{first + pair, first + pair + pairs} : std::array{first + 2 * pair, first + 2 * pair + 1};
}

BlockSearch search_blocks(const Sample& sample, const std::optional<Block>& expected) {
  BlockSearch search;
  search.touched = touched_elements(sample);
  search.misfit_of_kind.fill(1);
  if (search.touched.empty()) return search;
  for (const Kind kind : {Kind::half, Kind::interleaved, Kind::interleaved_to_half, Kind::half_to_interleaved}) {
    const std::optional<FoundBlock> found = best_block(sample, search.touched, kind, expected);
    if (!found) continue;
    search.misfit_of_kind[static_cast<std::size_t>(kind)] = found->misfit;
    if (found->misfit < passes) search.found.push_back(*found);
  }
  std::sort(search.found.begin(), search.found.end(),
            [](const FoundBlock& a, const FoundBlock& b) { return a.misfit < b.misfit; });
  for (auto found = search.found.begin(); found != search.found.end(); ++found) {
    if (!expected || found->block.kind != expected->kind) continue;
    if (alike(sample, found->misfit, search.found.front().misfit)) std::rotate(search.found.begin(), found, found + 1);
  }
  return search;
}

bool alike(const Sample& sample, double misfit, double other) {
  return std::max(misfit, other) < std::max(16 * sample.unit, 4 * std::min(misfit, other));
}

}  // namespace rotary::diagnose
