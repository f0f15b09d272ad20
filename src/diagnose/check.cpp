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
  Comparing(const Sample& sample, const Reading& reading, const Asked& asked, std::optional<double> tolerance)
      : sample_(sample), asked_(asked), tolerance_(tolerance), wanted_(sample.before) {
    result_.layout = reading.word;
    rotate(wanted_, reading.layout, asked.block, asked.motion);
    const std::int64_t tokens = reading.layout.tokens;
    for_each_head(reading.layout, [&](std::int64_t row, std::int64_t head, std::int64_t first) {
      const Place place{row / tokens, row % tokens, head, 0, std::nullopt};
      for (int pair = 0; pair < asked.block.pairs; ++pair) compare_pair(place, row, first, pair);
      compare_still(place, first);
    });
    result_.equal = !result_.first;
  }

  const Checked& result() const noexcept { return result_; }

 private:
  double wanted(std::int64_t first, int element) const { return wanted_[static_cast<std::size_t>(first + element)]; }

  void compare_pair(Place place, std::int64_t row, std::int64_t first, int pair) {
    const auto [u, v] = asked_.block.output(pair);
    const double norm = std::hypot(wanted(first, u), wanted(first, v));
    const double angle = std::abs(asked_.motion.angle(row, pair));
    result_.moves = result_.moves || angle > 0;
    const double allowed = norm * (roundings * sample_.unit + 4 * 0x1p-24 + slack_of(pair) * angle) + 2 * sample_.least;
    place.pair = pair;
    for (const int element : {u, v}) {
      place.element = element;
      compare(place, first, allowed);
    }
  }

  // The elements that no pair writes.
  void compare_still(Place place, std::int64_t first) {
    for (place.element = 0; place.element < sample_.head_dim; ++place.element) {
      const int offset = place.element - asked_.block.first;
      if (offset >= 0 && offset < asked_.block.rotary_dim()) continue;
      compare(place, first, sample_.unit * std::abs(wanted(first, place.element)));
    }
  }

  // An element that is not finite, before or after, is off.
  void compare(const Place& place, std::int64_t first, double allowed) {
    const double after = sample_.after[static_cast<std::size_t>(first + place.element)];
    const double error = std::abs(after - wanted(first, place.element));
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
  const std::vector<Reading> readings = plausible_readings(sample, subject);
  const Layout& likeliest = readings.front().layout;
  std::optional<Checked> first;
  for (const Reading& reading : readings) {
    if (subject.plausibility(reading.layout) < subject.plausibility(likeliest)) break;
    if (reading.layout.tokens == 1 && likeliest.tokens > 1) continue;  // nothing moves at position 0
    const Asked asked = ask(*subject.used, *block, subject, expected_positions(reading.layout, subject));
    const Checked one = Comparing(sample, reading, asked, tolerance).result();
    if (one.equal) return one;
    if (!first) first = one;
  }
  return *first;
}

}  // namespace rotary::diagnose
