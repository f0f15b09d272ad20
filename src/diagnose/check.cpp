// Whether a tensor is rotated as a rope asks: element by element.
#include <algorithm>
#include <cmath>

#include "examination.h"

namespace rotary::diagnose {

namespace {

// cos and sin, two products and their sum, each rounded to the element type: at most 3 units of the pair's norm (2.6
// were seen in Hugging Face's 16-bit models).
constexpr double roundings = 3;

// The difference of an element that may be off by `allowed`.
class Comparing {
 public:
  Comparing(const Sample& sample, const Order& order, const Asked& asked, std::optional<double> tolerance)
      : sample_(sample), asked_(asked), tolerance_(tolerance), wanted_(sample.before) {
    result_.layout = order.name;
    rotate(wanted_, sample, order, asked.block, asked.motion);
    order.for_each_vector([&](std::int64_t row, std::int64_t head, std::int64_t vector) {
      const Place place{row / order.tokens, row % order.tokens, head, 0, std::nullopt};
      for (int pair = 0; pair < asked.block.pairs; ++pair) compare_pair(place, row, vector, pair);
      compare_still(place, vector);
    });
    result_.equal = !result_.first;
  }

  const Checked& result() const noexcept { return result_; }

 private:
  std::size_t at(std::int64_t vector, int element) const {
    return static_cast<std::size_t>(vector * sample_.head_dim + element);
  }

  void compare_pair(Place place, std::int64_t row, std::int64_t vector, int pair) {
    const auto [u, v] = asked_.block.output(pair);
    const double norm = std::hypot(wanted_[at(vector, u)], wanted_[at(vector, v)]);
    const double angle = std::abs(asked_.motion.angle(row, pair));
    result_.moves = result_.moves || angle > 0;
    const double allowed = norm * (roundings * sample_.unit + 4 * 0x1p-24 + slack_of(pair) * angle) + 2 * sample_.least;
    place.pair = pair;
    for (const int element : {u, v}) {
      place.element = element;
      compare(place, vector, allowed);
    }
  }

  // The elements that no pair writes.
  void compare_still(Place place, std::int64_t vector) {
    for (place.element = 0; place.element < sample_.head_dim; ++place.element) {
      const int offset = place.element - asked_.block.first;
      if (offset >= 0 && offset < asked_.block.rotary_dim()) continue;
      compare(place, vector, sample_.unit * std::abs(wanted_[at(vector, place.element)]));
    }
  }

  // An element that is not finite, before or after, is off.
  void compare(const Place& place, std::int64_t vector, double allowed) {
    const std::size_t index = at(vector, place.element);
    const double error = std::abs(sample_.after[index] - wanted_[index]);
    if (tolerance_) allowed = *tolerance_;
    if (!std::isfinite(allowed)) allowed = 0;
    result_.max_error = std::max(result_.max_error, error);
    result_.tolerance = std::max(result_.tolerance, allowed);
    if (!(error <= allowed) && !result_.first) result_.first = place;
  }

  const Sample& sample_;
  const Asked& asked_;
  std::optional<double> tolerance_;
  std::vector<double> wanted_;
  Checked result_;
};

}  // namespace

Checked check(const Tensor& input, const Tensor& against, const Subject& subject, std::optional<double> tolerance) {
  const Sample sample = make_sample(input, against, subject.head_dim_of(input), Scale::as_given);
  const std::optional<Block> block = asked_block(subject, sample.head_dim);
  const std::vector<Order> orders = plausible_orders(sample, subject);
  std::optional<Checked> first;
  for (const Order& order : orders) {
    if (subject.plausibility(order.heads) < subject.plausibility(orders.front().heads)) break;
    if (order.tokens == 1 && orders.front().tokens > 1) continue;  // nothing moves at position 0
    const Asked asked = ask(*subject.used, *block, subject, expected_positions(order, subject));
    const Checked one = Comparing(sample, order, asked, tolerance).result();
    if (one.equal) return one;
    if (!first) first = one;
  }
  return *first;
}

}  // namespace rotary::diagnose
