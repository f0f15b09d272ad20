// Two tensors, before and after somebody's rotation, as heads of doubles.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rotary/diagnose.h"
#include "rotary/tensors.h"
#include "rotary/threads.h"
#include "subject/subject.h"

namespace rotary::diagnose {

using tools::Reading;
using tools::Role;

// The subject of one tensor, with the steps of its model next to the rotation and the state of its dump.
struct Subject : tools::Subject {
  std::optional<PositionSet> from = {};  // before is rotated already, at these positions, as a key in a cache
  bool backward = false;                 // the rotation is transposed: gradients, attention outputs of DeepSeek-V4
  bool turns_back = false;               // the model rotates attention outputs back
  bool norm_behind = false;              // the model norms queries and keys after the rotation
  bool last_resort = false;              // the rope of another part with this layer; tried if no other rope fits
  bool multiplied = false;               // queries must have the factor of their position; else they may have it
};

// The errors of the elements after, beside their rounding: independent errors of one size, or of one relative to the
// element. Each is measured as if it were alone, so that both together are a bound for either.
struct Noise {
  double rms = 0;
  double relative = 0;
};

// The largest difference of the elements after from an exact rotation.
struct Bounds {
  double unit = 0;     // the largest relative error of rounding to the coarsest type that holds `after`: 2^-24, f32
  double least = 0;    // the smallest step of that type, of its subnormal numbers
  bool loose = false;  // elements that are not rotated may change too, by `unit`
  Noise noise = {};    // zero where rounding explains all
  bool noisy() const noexcept { return loose || noise.rms > 0; }
};

// Elements that all copies of a sample share.
class Elements : public std::span<const double> {
 public:
  Elements(std::vector<double> values = {})
      : Elements(std::make_shared<const std::vector<double>>(std::move(values))) {}
  std::vector<double> copied() const { return {begin(), end()}; }

 private:
  explicit Elements(std::shared_ptr<const std::vector<double>> all) : span(*all), all_(std::move(all)) {}
  std::shared_ptr<const std::vector<double>> all_;
};

using Numbers = std::vector<std::int64_t>;  // rising

struct Sample : Bounds {
  std::string name;                 // the tensor's, in sentences: "q", "the tensor"
  std::vector<std::int64_t> shape;  // [..., head_dim]: flat heads are a dimension of their own
  int head_dim = 0;
  Elements before, after;  // row-major
  // The rounding of the coarsest type that holds `before`, plus the rounding of `after` if both are rounded.
  double before_unit = 0, before_least = 0;
  const char* before_type = "";
  bool finite = true;
  // The rows, tokens and heads of the whole that a part consists of; an empty list stands for all.
  std::array<Numbers, 3> numbers = {};
  bool sampled = false;  // between its tokens there are others, which are like them
  std::int64_t off = 0;  // elements that are off by more than rounding, also between its tokens
  const Executor* executor = &serial();

  Sample within(const Bounds& bounds) const;
  Sample loosened() const;  // with the rounding of before, which has fewer digits than after
  // The rows, tokens or heads (dimension 0, 1 or 2) with these numbers.
  Sample part(const Reading&, std::size_t dimension, const Numbers&) const;
  // Numbers of a dimension as they are in the whole.
  Numbers in_whole(std::size_t dimension, Numbers) const;
  // The head whose first element is number `at`.
  std::span<const double> x(std::int64_t at) const noexcept { return head(before, at); }
  std::span<const double> y(std::int64_t at) const noexcept { return head(after, at); }

 private:
  std::span<const double> head(std::span<const double> values, std::int64_t at) const noexcept {
    return values.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(head_dim));
  }
};

// fits: the subject says head_dim; without it, or if it does not fit, that is the size of the last dimension. The last
// dimension is heads * head_dim if it is another multiple of head_dim, or if the subject's layout is flat. Throws SHAPE
// (shapes differ, other than two to four dimensions, no element, head_dim does not fit), DTYPE (not F64, F32, F16 or
// BF16).
Sample sample_as_given(const Tensor& before, const Tensor& after, const Subject&, bool fits = true);
// Squares of squares must neither overflow nor vanish: elements of doubles far from 1 are multiplied by a power of two,
// which changes no angle.
void bring_near_1(Sample&);
// A sample of the heads of a subject, as given. Elements that other ropes turned are left as they were before.
Sample sample_of(const Tensor& before, const Tensor& after, const Subject&);

// A float type in which elements are stored. unit: its unit roundoff. least: the smallest step of its subnormal
// numbers.
struct Storage {
  ElementType type;
  const char* name;
  double (*rounded)(double);
  double unit, least;
};
const Storage& storage_of(ElementType) noexcept;
// The coarsest type that holds all finite values exactly: a bf16 tensor is often saved as f32.
const Storage& coarsest(std::span<const double>) noexcept;

Finding find_not_finite(const Sample&, const Layout&);  // the first element that is not
// The coarsest type of that unit: "bf16".
const char* type_of(double unit) noexcept;

inline double square(double x) noexcept { return x * x; }
// The whole number at or below a position; of one that int64 does not hold, 2^62 with its sign.
inline std::int64_t whole(double position) noexcept {
  return static_cast<std::int64_t>(std::floor(std::clamp(position, -0x1p62, 0x1p62)));
}
// n = a p + b q by least squares.
struct TwoWeights {
  double pp = 0, pq = 0, qq = 0, pn = 0, qn = 0, nn = 0, count = 0;
  void add(double p, double q, double n) {
    pp += p * p, pq += p * q, qq += q * q, pn += p * n, qn += q * n, nn += n * n, ++count;
  }
  bool solvable(double least = 1e-12) const { return count > 5 && pp * qq - pq * pq > least * pp * qq; }
  double a() const { return solvable() ? (pn * qq - qn * pq) / (pp * qq - pq * pq) : pp > 0 ? pn / pp : 0; }
  double b() const { return solvable() ? (qn * pp - pn * pq) / (pp * qq - pq * pq) : 0; }
  double off() const { return nn - a() * pn - b() * qn; }
};
// The first element of a head.
inline std::int64_t at(const Layout& layout, std::int64_t b, std::int64_t t, std::int64_t h) noexcept {
  return b * layout.batch_stride + t * layout.token_stride + h * layout.head_stride;
}
// visit(row, h, first element), row = b * tokens + t, in this order.
template <class Visit>
void for_each_head(const Layout& layout, Visit visit) {
  for (std::int64_t row = 0; row < layout.batch * layout.tokens; ++row) {
    for (std::int64_t h = 0; h < layout.heads; ++h)
      visit(row, h, at(layout, row / layout.tokens, row % layout.tokens, h));
  }
}

// Some heads, spread evenly: visit(x, y). More tell no more of norms.
template <class Visit>
void for_some_heads(const Sample& sample, Visit visit) {
  constexpr std::int64_t most = 768;
  const std::int64_t heads = std::ssize(sample.before) / sample.head_dim, some = std::min(heads, most);
  for (std::int64_t i = 0; i < some; ++i) {
    const std::int64_t first = i * heads / some * sample.head_dim;
    visit(sample.x(first), sample.y(first));
  }
}

// work(begin, end) of parts of [0, count), in threads: the results in the order of the parts.
template <class Result, class Work>
std::vector<Result> in_parts(const Executor& executor, std::int64_t count, Work work) {
  constexpr std::int64_t most = 64;
  const std::int64_t parts = std::min(count, most);
  std::vector<Result> results(static_cast<std::size_t>(parts));
  const auto part = [&](std::int64_t i) {
    results[static_cast<std::size_t>(i)] = work(i * count / parts, (i + 1) * count / parts);
  };
  executor.run(
      parts, 1,
      [](void* context, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) (*static_cast<decltype(part)*>(context))(i);
      },
      const_cast<void*>(static_cast<const void*>(&part)));
  return results;
}

}  // namespace rotary::diagnose
