// Which dimension of a tensor is tokens, and which heads.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/fail.h"

namespace rotary::diagnose {

namespace {

constexpr double one_turn = 0.05;  // the spread among heads that rotate alike is that of rounding, else near 1

bool fits_positions(const Order& order, const Question& question) {
  if (!question.positions) return true;
  const GivenPositions& given = *question.positions;
  if (given.open_from) return given.tokens <= order.tokens;
  return given.tokens == order.tokens && (given.batch == 1 || given.batch == order.batch);
}

std::vector<Order> orders_to_try(const Sample& sample, const Question& question) {
  std::vector<Order> orders = orders_of(sample);
  std::string names;
  for (const Order& order : orders) names += (names.empty() ? "" : ", ") + order.name;
  if (!question.layout.empty()) {
    const std::string wanted = question.layout == "flat" ? orders.front().name : question.layout;
    std::erase_if(orders, [word = wanted](const Order& order) { return order.name != word; });
    if (orders.empty()) {
      fail(Code::SHAPE, "diagnose",
           "the layout must be one of a tensor of so many dimensions, " + names + ", but got " + question.layout);
    }
  }
  std::erase_if(orders, [&](const Order& order) { return !fits_positions(order, question); });
  if (orders.empty()) {
    fail(Code::SHAPE, "diagnose",
         "positions must name one position per token but got " + std::to_string(question.positions->tokens) +
             " for a tensor whose dimensions are none of that many tokens");
  }
  return orders;
}

}  // namespace

int plausibility(const Order& order, const Question& question) {
  if (question.rope == nullptr || question.rope->heads == 0) return 1;
  const bool query = question.role != Role::key, key = question.role != Role::query;
  if ((query && order.heads == question.rope->heads) || (key && order.heads == question.rope->kv_heads)) return 2;
  return question.rope->heads % order.heads == 0 ? 1 : 0;
}

namespace {

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
int rank_of(const Turns& turns, const Question& question) {
  const bool alike = turns.spread < one_turn && !turns.heads.empty();
  return (alike ? 100 : 0) + 10 * plausibility(turns.order, question) + (rows_are_alike(turns) ? 2 : 0) +
         (turns.order.heads > 1 ? 1 : 0);
}

}  // namespace

std::vector<std::vector<double>> expected_positions(const Order& order, const Question& question) {
  const auto rows = static_cast<std::size_t>(order.batch * order.tokens);
  const int rope_axes = question.rope == nullptr ? 1 : Frequencies{.axis = question.rope->rope.axis}.axes();
  const int axes = std::max(rope_axes, question.positions ? question.positions->axes : 1);
  std::vector<std::vector<double>> expected(static_cast<std::size_t>(axes), std::vector<double>(rows));
  for (std::size_t axis = 0; axis < expected.size(); ++axis) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto tokens = static_cast<std::size_t>(order.tokens);
      const std::size_t b = row / tokens, t = row % tokens;
      if (!question.positions) {
        expected[axis][row] = static_cast<double>(t);
        continue;
      }
      const GivenPositions& given = *question.positions;
      if (t >= static_cast<std::size_t>(given.tokens)) {
        expected[axis][row] = *given.open_from + static_cast<double>(t) - static_cast<double>(given.tokens);
        continue;
      }
      const std::size_t given_axis = given.axes == 1 ? 0 : axis, given_row = given.batch == 1 ? 0 : b;
      expected[axis][row] = given.values[(given_axis * static_cast<std::size_t>(given.batch) + given_row) * tokens + t];
    }
  }
  return expected;
}

namespace {

void explain_layout(Examination& exam, const std::vector<Order>& orders, const Order& chosen) {
  const Question& question = exam.question;
  if (question.rope == nullptr || !question.layout.empty() || plausibility(chosen, question) == 2) return;
  for (const Order& other : orders) {
    if (plausibility(other, question) != 2 || other.heads == chosen.heads) continue;
    exam.find(Verdict::layout, "is rotated with the head index as position: by its " + std::to_string(other.heads) +
                                   " heads its layout is " + other.name + " with " + std::to_string(other.tokens) +
                                   " tokens, but it is rotated as " + chosen.name);
    return;
  }
}

}  // namespace

std::vector<Order> plausible_orders(const Sample& sample, const Question& question) {
  std::vector<Order> orders = orders_to_try(sample, question);
  std::stable_sort(orders.begin(), orders.end(), [&](const Order& a, const Order& b) {
    return plausibility(a, question) > plausibility(b, question);
  });
  return orders;
}

bool find_order(Examination& exam) {
  const std::vector<Order> orders = orders_to_try(exam.sample, exam.question);
  const Block block = exam.search.found.front().block;
  int best = -1;
  for (const Order& order : orders) {
    Turns turns = measure(exam.sample, order, block);
    const int rank = rank_of(turns, exam.question);
    if (rank <= best) continue;
    best = rank;
    exam.turns = std::move(turns);
  }
  exam.expected = expected_positions(exam.turns.order, exam.question);
  exam.factor = measured_factor(exam.turns);
  exam.facts.layout = exam.turns.order.name;
  exam.facts.heads = exam.turns.heads;
  if (best < 100) return false;
  explain_layout(exam, orders, exam.turns.order);
  return true;
}

}  // namespace rotary::diagnose
