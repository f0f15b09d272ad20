// The rotated block, from the norms of pairs.
#include <algorithm>
#include <cmath>

#include "turns.h"

namespace rotary::diagnose {

namespace {

// Between the rounding of a bf16 table, or the noise, and any wrong pairing.
double passes(const Sample& sample) { return std::max(0.05, 3 * sample.noise.relative); }

bool is_apart(Kind kind, Kind reordered) { return kind == Kind::half || kind == reordered; }

std::array<int, 2> elements_of(const Block& block, int pair, bool apart) {
  if (apart) return {block.first + pair, block.first + pair + block.pairs};
  return {block.first + 2 * pair, block.first + 2 * pair + 1};
}

std::vector<int> touched_elements(const Sample& sample) {
  const auto dim = static_cast<std::size_t>(sample.head_dim);
  std::vector<Still> still(dim, Still{sample});
  for (std::size_t i = 0; i < sample.before.size(); ++i) still[i % dim].add(sample.before[i], sample.after[i]);
  std::vector<int> touched;
  for (int u = 0; u < sample.head_dim; ++u) {
    if (!still[static_cast<std::size_t>(u)].holds()) touched.push_back(u);
  }
  return touched;
}

// How far the norms of the block's first `count` pairs are from a constant times what they were, relative, for the
// worst pair: some units of rounding where the block is right, near 1 where it is not.
double misfit_of(const Sample& sample, const Block& block, int count) {
  std::vector<TwoWeights> of(static_cast<std::size_t>(count));  // each pair's squared norms, after by before
  for_some_heads(sample, [&](std::span<const double> x, std::span<const double> y) {
    for (int pair = 0; pair < count; ++pair) {
      of[static_cast<std::size_t>(pair)].add(std::norm(pair_of(x, block.input(pair))), 0,
                                             std::norm(pair_of(y, block.output(pair))));
    }
  });
  double xx = 0, xy = 0, worst = 0;
  for (const TwoWeights& one : of) xx += one.pp, xy += one.pn;
  if (xy <= 0) return 1;
  const double factor = xy / xx;  // squared norms have it
  for (const TwoWeights& one : of) {
    const double all = factor * factor * one.pp, off = one.nn - 2 * factor * one.pn + all;
    if (all > 0) worst = std::max(worst, std::min(1.0, std::sqrt(std::max(0.0, off) / all) / 2));
  }
  return worst;
}

std::vector<Block> blocks_of(const Sample& sample, const std::vector<int>& touched, Kind kind) {
  std::vector<Block> list;
  const int first = touched.front(), head_dim = sample.head_dim;
  if (kind == Kind::half) {
    for (int n = head_dim / 2; n > 0; --n) {
      // The first pair is the fastest as a rule, so its element is the first that is touched.
      if (first + n >= head_dim || misfit_of(sample, {kind, first, n}, 1) > passes(sample)) continue;
      for (const int start : {first, 0, head_dim - 2 * n}) list.push_back({kind, start, n});
    }
    return list;
  }
  for (const int start : {first, first - 1}) {
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
  std::vector<Block> list = blocks_of(sample, touched, kind);
  if (expected) list.insert(list.begin(), {kind, expected->first, expected->pairs});
  std::optional<FoundBlock> found;
  for (const Block& block : list) {
    const int end = block.first + block.rotary_dim();
    const bool inside = block.pairs > 0 && block.first >= 0 && end <= sample.head_dim;
    if (!inside || block.first > touched.front() || end <= touched.back()) continue;
    const double misfit = misfit_of(sample, block, block.pairs);
    if (!found || misfit < found->misfit * 0.5) found = FoundBlock{block, misfit};
  }
  return found;
}

// ---- how much the elements are off beside their rounding, whatever the angles are --------------

constexpr double most_noise = 0.2;     // relative to an element: more leaves no pairing to be seen
constexpr double to_rms = 1 / 0.6745;  // the rms of normal errors whose median is 1

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Errors of single elements, each with the size that they are relative to.
struct Errors {
  std::vector<double> error, size;
  bool together = false;  // the errors of one head have one sign

  void add(double one, double of) {
    error.push_back(one);
    size.push_back(of);
  }
  Noise noise() const {
    std::vector<double> absolute, relative;
    for (std::size_t i = 0; i < error.size(); ++i) {
      absolute.push_back(std::abs(error[i]));
      if (size[i] > 0) relative.push_back(std::abs(error[i]) / size[i]);
    }
    return {to_rms * median(absolute), to_rms * median(relative)};
  }
};

// The errors of the lengths of pairs, along the pair: one component of its noise.
Errors errors_of_pairs(const Sample& sample, const Block& block) {
  std::vector<double> ratios;
  for_some_heads(sample, [&](std::span<const double> x, std::span<const double> y) {
    for (int pair = 0; pair < block.pairs; ++pair) {
      const double before = std::abs(pair_of(x, block.input(pair)));
      if (before > 0) ratios.push_back(std::abs(pair_of(y, block.output(pair))) / before);
    }
  });
  const double factor = median(ratios);
  Errors errors;
  double gain = 0, alone = 0;  // sums over heads: squares of the common error, and of independent errors
  for_some_heads(sample, [&](std::span<const double> x, std::span<const double> y) {
    double sum = 0, squares = 0, all = 0;
    for (int pair = 0; pair < block.pairs; ++pair) {
      const Complex before = pair_of(x, block.input(pair)), after = pair_of(y, block.output(pair));
      if (factor == 1 && block.input(pair) == block.output(pair) && before == after) continue;
      const double size = factor * std::abs(before), off = std::abs(after) - size;
      errors.add(off, size);
      sum += off * size;
      squares += square(off * size);
      all += square(size);
    }
    if (all == 0) return;
    gain += square(sum / all);
    alone += squares / square(all);
  });
  errors.together = gain > alone * std::max(4.0, 0.2 * block.pairs);
  return errors;
}

// The errors of the elements that change least, relative to their size.
Errors errors_of_still_elements(const Sample& sample) {
  std::vector<Errors> of(static_cast<std::size_t>(sample.head_dim));
  for_some_heads(sample, [&](std::span<const double> x, std::span<const double> y) {
    for (std::size_t u = 0; u < of.size(); ++u) {
      if (x[u] != y[u]) of[u].add(y[u] - x[u], std::abs(x[u]));
    }
  });
  std::erase_if(of, [](const Errors& one) { return one.error.size() < 8; });
  if (of.empty()) return {};
  const auto relative = [](const Errors& one) { return one.noise().relative; };
  const double least = relative(*std::ranges::min_element(of, {}, relative));
  // The least of many errors that few heads measure is too small; all that are near it are not.
  Errors all;
  for (const Errors& one : of) {
    if (relative(one) > 2 * least) continue;
    for (std::size_t i = 0; i < one.error.size(); ++i) all.add(one.error[i], one.size[i]);
  }
  return all;
}

// Whether an element changes that is not asked to rotate.
bool others_change(const Sample& sample, const Block& asked) {
  bool change = false;
  for_some_heads(sample, [&](std::span<const double> x, std::span<const double> y) {
    for (int u = 0; !change && u < sample.head_dim; ++u) {
      const bool inside = u >= asked.first && u < asked.first + asked.rotary_dim();
      change = !inside && x[static_cast<std::size_t>(u)] != y[static_cast<std::size_t>(u)];
    }
  });
  return change;
}

}  // namespace

const char* name(Kind kind) noexcept {
  constexpr std::array<const char*, 4> names = {"half", "interleaved", "interleaved_to_half", "half_to_interleaved"};
  return names[static_cast<std::size_t>(kind)];
}

std::optional<Kind> kind_of(Pairing pairing) noexcept {
  if (pairing == Pairing::half) return Kind::half;
  if (pairing == Pairing::interleaved) return Kind::interleaved;
  if (pairing == Pairing::interleaved_to_half) return Kind::interleaved_to_half;
  return std::nullopt;
}

Block Block::reversed() const noexcept {
  constexpr Kind other[] = {Kind::half, Kind::interleaved, Kind::half_to_interleaved, Kind::interleaved_to_half};
  return {other[static_cast<std::size_t>(kind)], first, pairs};
}
std::array<int, 2> Block::input(int pair) const noexcept {
  return elements_of(*this, pair, is_apart(kind, Kind::half_to_interleaved));
}
std::array<int, 2> Block::output(int pair) const noexcept {
  return elements_of(*this, pair, is_apart(kind, Kind::interleaved_to_half));
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
    if (found->misfit < passes(sample)) search.found.push_back(*found);
  }
  std::ranges::sort(search.found, {}, &FoundBlock::misfit);
  for (auto found = search.found.begin(); found != search.found.end(); ++found) {
    if (!expected || found->block.kind != expected->kind) continue;
    if (alike(sample, found->misfit, search.found.front().misfit)) std::rotate(search.found.begin(), found, found + 1);
  }
  return search;
}

bool alike(const Sample& sample, double misfit, double other) {
  return std::max(misfit, other) < std::max(16 * sample.unit, 4 * std::min(misfit, other));
}

Noise measure_noise(const Sample& sample, const std::optional<Block>& asked) {
  std::vector<Errors> list = {errors_of_still_elements(sample)};
  for (const Kind kind : {Kind::half, Kind::interleaved, Kind::interleaved_to_half, Kind::half_to_interleaved}) {
    if (asked) list.push_back(errors_of_pairs(sample, {kind, asked->first, asked->pairs}));
    if (!asked || asked->rotary_dim() != sample.head_dim)
      list.push_back(errors_of_pairs(sample, {kind, 0, sample.head_dim / 2}));
  }
  const auto relative = [](const Errors& one) { return one.error.size() < 8 ? 1 : one.noise().relative; };
  const auto least = std::ranges::min_element(list, {}, relative);
  const bool beside = asked && others_change(sample, *asked);  // which no rounding of a rotation does
  const double rounding = least == list.begin() || beside ? sample.unit / 8 : sample.unit;
  const bool together = std::ranges::any_of(
      list, [&](const Errors& one) { return one.together && relative(one) <= 2 * relative(*least); });
  if (together || relative(*least) <= rounding || relative(*least) > most_noise) return {};
  const Noise robust = least->noise();
  double sum = 0, count = 0;  // without values that are entirely wrong
  for (std::size_t i = 0; i < least->error.size(); ++i) {
    const double error = std::abs(least->error[i]);
    if (error > 5 * robust.rms && error > 5 * robust.relative * least->size[i]) continue;
    sum += square(error);
    ++count;
  }
  return {std::sqrt(sum / count), robust.relative};
}

void Still::add(double before, double after) noexcept {
  const double off = std::abs(after - before), size = std::max(std::abs(before), std::abs(after));
  ++count;
  if (off == 0) return;
  const double rounding = sample.loose ? sample.unit * size : 0;
  moved = moved || off > 1.01 * rounding + (sample.loose ? sample.least : 0);
  const double variance = square(sample.noise.rms) + square(sample.noise.relative * before) + square(rounding);
  if (variance > 0) sum += square(off) / variance;
}

bool Still::holds() const noexcept {
  if (sample.noise.rms == 0) return !moved;
  return sum <= count * (2 + 12 / std::sqrt(count));
}

}  // namespace rotary::diagnose
