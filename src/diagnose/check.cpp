#include "check.h"

#include <algorithm>
#include <cmath>

#include "examination.h"

namespace rotary::diagnose {

namespace {

// cos and sin, two products and their sum, each rounded to the element type: at most 3 units of the pair's norm (2.6
// were seen in Hugging Face's 16-bit models).
constexpr double roundings = 3;

class Comparing {
 public:
  Comparing(const Sample& sample, const Order& order, const Asked& asked, std::optional<double> tolerance)
      : sample_(sample), order_(order), asked_(asked), tolerance_(tolerance) {
    result_.layout = order.name;
  }

  Checked run() {
    std::vector<int> still;  // elements that no pair writes
    for (int element = 0; element < sample_.head_dim; ++element) {
      const int offset = element - asked_.block.first;
      if (offset < 0 || offset >= asked_.block.rotary_dim()) still.push_back(element);
    }
    for (std::int64_t row = 0; row < order_.batch * order_.tokens; ++row) {
      for (std::int64_t head = 0; head < order_.heads; ++head) {
        for (int pair = 0; pair < asked_.block.pairs; ++pair) compare_pair(row, head, pair);
        const std::int64_t vector = order_.at(row / order_.tokens, row % order_.tokens, head);
        for (const int element : still) {
          const double x = sample_.x(vector)[static_cast<std::size_t>(element)];
          compare(row, head, element, std::nullopt, x, sample_.unit * std::abs(x));
        }
      }
    }
    result_.equal = !result_.first;
    return result_;
  }

 private:
  void compare_pair(std::int64_t row, std::int64_t head, int pair) {
    const std::int64_t vector = order_.at(row / order_.tokens, row % order_.tokens, head);
    const auto [u, v] = asked_.block.input(pair);
    const std::complex<double> x(sample_.x(vector)[static_cast<std::size_t>(u)],
                                 sample_.x(vector)[static_cast<std::size_t>(v)]);
    const std::complex<double> y = x * asked_.motion.turn(row, pair);
    const double angle = std::abs(asked_.motion.angle(row, pair));
    result_.moves = result_.moves || angle > 0;
    const double allowed =
        std::abs(y) * (roundings * sample_.unit + 4 * 0x1p-24 + slack_of(pair) * angle) + 2 * sample_.least;
    const auto [out_u, out_v] = asked_.block.output(pair);
    compare(row, head, out_u, pair, y.real(), allowed);
    compare(row, head, out_v, pair, y.imag(), allowed);
  }

  void compare(std::int64_t row, std::int64_t head, int element, std::optional<int> pair, double wanted,
               double allowed) {
    const std::int64_t b = row / order_.tokens, t = row % order_.tokens;
    const double error = std::abs(sample_.y(order_.at(b, t, head))[static_cast<std::size_t>(element)] - wanted);
    if (tolerance_) allowed = *tolerance_;
    result_.max_error = std::max(result_.max_error, error);
    result_.tolerance = std::max(result_.tolerance, allowed);
    if (!(error <= allowed) && !result_.first) result_.first = Place{b, t, head, element, pair};
  }

  const Sample& sample_;
  const Order& order_;
  const Asked& asked_;
  std::optional<double> tolerance_;
  Checked result_;
};

}  // namespace

Checked check(const Tensor& input, const Tensor& against, const Question& question, std::optional<double> tolerance) {
  const Sample sample = make_sample(input, against, head_dim_of(question, input));
  const std::optional<Block> block = asked_block(question, sample.head_dim);
  const std::vector<Order> orders = plausible_orders(sample, question);
  std::optional<Checked> first;
  for (const Order& order : orders) {
    if (plausibility(order, question) < plausibility(orders.front(), question)) break;
    if (order.tokens == 1 && orders.front().tokens > 1) continue;  // nothing moves at position 0
    const Asked asked = ask(*question.rope, *block, question, expected_positions(order, question));
    const Checked one = Comparing(sample, order, asked, tolerance).run();
    if (one.equal) return one;
    if (!first) first = one;
  }
  return *first;
}

}  // namespace rotary::diagnose
