// Which dimension of a tensor is tokens, and which heads.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/fail.h"

namespace rotary::diagnose {

namespace {

constexpr double one_turn = 0.05;  // the spread among heads that rotate alike is that of rounding, else near 1

bool fits_positions(const Order& order, const Subject& subject) {
  if (!subject.positions) return true;
  const PositionSet& given = *subject.positions;
  if (given.open_from) return given.tokens <= order.tokens;
  return given.tokens == order.tokens && (given.batch == 1 || given.batch == order.batch);
}

std::vector<Order> orders_to_try(const Sample& sample, const Subject& subject) {
  std::vector<Order> orders = orders_of(sample);
  std::string names;
  for (const Order& order : orders) names += (names.empty() ? "" : ", ") + order.name;
  if (!subject.layout.empty()) {
    const std::string wanted = subject.layout == "flat" ? orders.front().name : subject.layout;
    std::erase_if(orders, [word = wanted](const Order& order) { return order.name != word; });
    if (orders.empty()) {
      fail(Code::SHAPE, "diagnose",
           "the layout must be one of a tensor of so many dimensions, " + names + ", but got " + subject.layout);
    }
  }
  std::erase_if(orders, [&](const Order& order) { return !fits_positions(order, subject); });
  if (orders.empty()) {
    fail(Code::SHAPE, "diagnose",
         "positions must name one position per token but got " + std::to_string(subject.positions->tokens) +
             " for a tensor whose dimensions are none of that many tokens");
  }
  return orders;
}

// Pairs that do not visibly move say nothing about the factor.
double measured_factor(const Turns& turns) {
  double norm = 0, weight = 0;
  for (std::size_t at = 0; at < turns.turn.size(); ++at) {
    norm += turns.weight[at] * std::norm(turns.turn[at]);
    weight += turns.weight[at];
  }
  return weight > 0 ? std::sqrt(norm / weight) : 1;
}

// Whether every batch row turns as the first does.
bool rows_are_alike(const Turns& turns) {
  double off = 0, all = 0;
  for (std::int64_t row = turns.order.tokens; row < turns.rows(); ++row) {
    for (int pair = 0; pair < turns.block.pairs; ++pair) {
      const std::size_t at = turns.at(row, pair), first = turns.at(row % turns.order.tokens, pair);
      off += turns.weight[at] * std::norm(turns.turn[at] - turns.turn[first]);
      all += turns.weight[at] * std::norm(turns.turn[at]);
    }
  }
  return off <= one_turn * one_turn * all;
}

// Among layouts in which the heads are alike: the heads of the rope, then rows of the same positions, then heads that
// there are several of.
int rank_of(const Turns& turns, const Subject& subject) {
  const bool alike = turns.spread < one_turn && !turns.heads.empty();
  return (alike ? 100 : 0) + 10 * subject.plausibility(turns.order.heads) + (rows_are_alike(turns) ? 2 : 0) +
         (turns.order.heads > 1 ? 1 : 0);
}

}  // namespace

std::vector<std::vector<double>> expected_positions(const Order& order, const Subject& subject) {
  const auto rows = static_cast<std::size_t>(order.batch * order.tokens);
  const int rope_axes = subject.used == nullptr ? 1 : Frequencies{.axis = subject.used->rope.axis}.axes();
  const int axes = std::max(rope_axes, subject.positions ? subject.positions->axes : 1);
  std::vector<std::vector<double>> expected(static_cast<std::size_t>(axes), std::vector<double>(rows));
  for (std::size_t axis = 0; axis < expected.size(); ++axis) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto tokens = static_cast<std::size_t>(order.tokens);
      const std::size_t b = row / tokens, t = row % tokens;
      expected[axis][row] = subject.positions ? subject.positions->value(axis, b, t) : static_cast<double>(t);
    }
  }
  return expected;
}

namespace {

void explain_layout(Examination& exam, const std::vector<Order>& orders, const Order& chosen) {
  const Subject& subject = exam.subject;
  if (subject.used == nullptr || !subject.layout.empty()) return;
  const bool settled = !subject.layout_of_heads.empty();
  if (settled ? chosen.name == subject.layout_of_heads : subject.plausibility(chosen.heads) == 2) return;
  for (const Order& other : orders) {
    if (settled ? other.name != subject.layout_of_heads
                : other.heads == chosen.heads || subject.plausibility(other.heads) != 2) {
      continue;
    }
    exam.find(Verdict::layout, "is rotated with the head index as position: by its " + std::to_string(other.heads) +
                                   " heads its layout is " + other.name + " with " + std::to_string(other.tokens) +
                                   " tokens, but it is rotated as " + chosen.name);
    return;
  }
}

}  // namespace

std::string settled_layout(const std::vector<FoundLayout>& found, const ModelRope& used) {
  std::string best;
  int most = 0;
  bool alone = true, tied = false;
  for (const FoundLayout& candidate : found) {
    if (candidate.layout.empty() || candidate.layout == best) continue;
    alone = alone && candidate.layout == found.front().layout;
    int fits = 0;
    for (const FoundLayout& one : found) {
      Sample shaped;
      shaped.size.assign(one.shape.begin(), one.shape.end() - 1);
      Subject subject;
      subject.used = &used;
      subject.role = one.role;
      for (const Order& order : orders_of(shaped)) {
        if (order.name == candidate.layout && subject.plausibility(order.heads) == 2) ++fits;
      }
    }
    tied = fits == most;
    if (fits <= most) continue;
    most = fits;
    best = candidate.layout;
  }
  return alone || tied ? "" : best;
}

std::vector<Order> plausible_orders(const Sample& sample, const Subject& subject) {
  std::vector<Order> orders = orders_to_try(sample, subject);
  std::stable_sort(orders.begin(), orders.end(), [&](const Order& a, const Order& b) {
    return subject.plausibility(a.heads) > subject.plausibility(b.heads);
  });
  return orders;
}

namespace {

struct Ranked {
  int rank = -1;
  Turns turns;
};

Ranked best_of(const Examination& exam, const std::vector<Order>& orders) {
  Ranked best;
  for (const Order& order : orders) {
    Turns turns = measure(exam.sample, order, exam.search.found.front().block);
    const int rank = rank_of(turns, exam.subject);
    if (rank > best.rank) best = {rank, std::move(turns)};
  }
  return best;
}

}  // namespace

bool find_order(Examination& exam) {
  const std::vector<Order> orders = orders_to_try(exam.sample, exam.subject);
  constexpr int alike = 100;
  Ranked best = best_of(exam, orders);
  Subject counted = exam.subject;  // where the heads are taken for tokens, the positions are those of heads
  if (best.rank < alike && exam.subject.layout.empty() && exam.subject.positions) {
    counted.positions.reset();
    Ranked other = best_of(exam, orders_of(exam.sample));
    if (other.rank >= alike) {
      best = std::move(other);
    } else {
      counted.positions = exam.subject.positions;
    }
  }
  exam.turns = std::move(best.turns);
  exam.expected = expected_positions(exam.turns.order, counted);
  exam.factor = measured_factor(exam.turns);
  exam.facts.layout = exam.turns.order.name;
  exam.facts.heads = exam.turns.heads;
  if (best.rank < alike) return false;
  explain_layout(exam, orders, exam.turns.order);
  return true;
}

}  // namespace rotary::diagnose
