#include "noise.h"

#include <algorithm>
#include <cmath>

namespace rotary::diagnose {

namespace {

constexpr double most = 0.2;           // of an element's size: more leaves no pairing to be seen
constexpr double to_rms = 1 / 0.6745;  // of a median of absolute errors

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Errors of single elements, each with the size that they are relative to.
struct Errors {
  std::vector<double> error, size;
  bool together = false;  // those of one head have one sign

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

double size_of(std::span<const double> head, const std::array<int, 2>& pair) {
  return std::hypot(head[static_cast<std::size_t>(pair[0])], head[static_cast<std::size_t>(pair[1])]);
}
bool is_same(std::span<const double> x, std::span<const double> y, const std::array<int, 2>& pair) {
  return std::ranges::all_of(pair,
                             [&](int u) { return x[static_cast<std::size_t>(u)] == y[static_cast<std::size_t>(u)]; });
}

// What the lengths of pairs are off, along the pair: one component of its noise.
Errors errors_of_pairs(const Sample& sample, const Block& block) {
  std::vector<double> ratios;
  for_some_heads(sample, [&](std::span<const double> x, std::span<const double> y) {
    for (int pair = 0; pair < block.pairs; ++pair) {
      const double before = size_of(x, block.input(pair));
      if (before > 0) ratios.push_back(size_of(y, block.output(pair)) / before);
    }
  });
  const double factor = median(ratios);
  Errors errors;
  double gain = 0, alone = 0;  // of heads: the square of their common error, and what independent errors make of it
  for_some_heads(sample, [&](std::span<const double> x, std::span<const double> y) {
    double sum = 0, squares = 0, all = 0;
    for (int pair = 0; pair < block.pairs; ++pair) {
      if (factor == 1 && block.input(pair) == block.output(pair) && is_same(x, y, block.input(pair))) continue;
      const double size = factor * size_of(x, block.input(pair)), off = size_of(y, block.output(pair)) - size;
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

// Of the elements that change least, relative to their size.
Errors errors_of_still_elements(const Sample& sample) {
  std::vector<Errors> of(static_cast<std::size_t>(sample.head_dim));
  for_some_heads(sample, [&](std::span<const double> x, std::span<const double> y) {
    for (std::size_t u = 0; u < of.size(); ++u) {
      if (x[u] != y[u]) of[u].add(y[u] - x[u], std::abs(x[u]));
    }
  });
  std::erase_if(of, [](const Errors& one) { return one.error.size() < 8; });
  if (of.empty()) return {};
  return *std::ranges::min_element(of, {}, [](const Errors& one) { return one.noise().relative; });
}

}  // namespace

Noise measure_noise(const Sample& sample, const std::optional<Block>& asked) {
  std::vector<Errors> list = {errors_of_still_elements(sample)};
  for (const Kind kind : {Kind::half, Kind::interleaved, Kind::interleaved_to_half, Kind::half_to_interleaved}) {
    if (asked) list.push_back(errors_of_pairs(sample, {kind, asked->first, asked->pairs}));
    if (!asked || asked->rotary_dim() != sample.head_dim)
      list.push_back(errors_of_pairs(sample, {kind, 0, sample.head_dim / 2}));
  }
  const auto relative = [](const Errors& one) { return one.error.size() < 8 ? 1 : one.noise().relative; };
  auto least = std::ranges::min_element(list, {}, relative);
  if (relative(*least) <= sample.unit) least = list.begin();  // an element that is not rotated is not rounded again
  const double rounding = least == list.begin() ? sample.unit / 8 : sample.unit;
  const bool together = std::ranges::any_of(
      list, [&](const Errors& one) { return one.together && relative(one) <= 2 * relative(*least); });
  if (together || relative(*least) <= rounding || relative(*least) > most) return {};
  const Noise robust = least->noise();
  double sum = 0, count = 0;  // without those that are wrong altogether
  for (std::size_t i = 0; i < least->error.size(); ++i) {
    const double error = std::abs(least->error[i]);
    if (error > 5 * robust.rms && error > 5 * robust.relative * least->size[i]) continue;
    sum += square(error);
    ++count;
  }
  return {std::sqrt(sum / count), robust.relative};
}

bool norms_are_within_before(const Sample& sample, const Block& block) {
  const Errors errors = errors_of_pairs(sample, block);
  for (std::size_t i = 0; i < errors.error.size(); ++i) {
    if (std::abs(errors.error[i]) > 1.05 * sample.before_unit * errors.size[i] + 2 * sample.before_least) return false;
  }
  return true;
}

void Still::add(double before, double after) noexcept {
  const double off = std::abs(after - before), size = std::max(std::abs(before), std::abs(after));
  if (off == 0) {
    ++count_;
    return;
  }
  const double rounding = sample_.loose ? sample_.unit * size : 0;
  moved_ = moved_ || off > 1.01 * rounding + (sample_.loose ? sample_.least : 0);
  const double variance = square(sample_.noise.rms) + square(sample_.noise.relative * before) + square(rounding);
  if (variance > 0) sum_ += square(off) / variance;
  ++count_;
}

bool Still::holds() const noexcept {
  if (sample_.noise.rms == 0) return !moved_;
  return sum_ <= count_ * (2 + 12 / std::sqrt(count_));
}

}  // namespace rotary::diagnose
