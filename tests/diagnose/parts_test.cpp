// The parts of a diagnosis, each for itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "diagnose/examination.h"
#include "tests/diagnose/case.h"
#include "tests/diagnose/engine.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {
namespace {

using diagnose_tests::speeds;

TEST(Patterns, Words) {
  const std::vector<double> expected = {0, 1, 2, 3, 4, 5};
  const std::vector<std::pair<std::vector<double>, std::string>> patterns = {
      {{0, 1, 2, 3, 4, 5}, "are those expected"},
      {{9, 10, 11, 12, 13, 14}, "begin at 9 instead of 0, 9 too far"},
      {{0, -1, -2, -3, -4, -5}, "are negated"},
      {{0, 2, 4, 6, 8, 10}, "are doubled"},
      {{0, 0.25, 0.5, 0.75, 1, 1.25}, "are 0.25 times those expected"},
      {{5, 4, 3, 2, 1, 0}, "are in reverse order"},
      {{4, 4, 4, 4, 4, 4}, "are 4 for every token"},
      {{0, 1, 2, 0, 1, 2}, "begin again at 0 with token 3"},
      {{1, 1, 0, 1, 2, 3}, "begin at 0 with token 2, as behind 2 tokens of padding"},
      {{0, 1, 5, 2, 9, 2}, "are not those expected: the first that differs is 5 instead of 2"}};
  for (const auto& [position, words] : patterns) EXPECT_EQ(pattern_of(position, expected, 1).words, words);
  EXPECT_EQ(pattern_of({0, 1, 2, 1, 2, 3}, {0, 1, 2, 0, 1, 2}, 2).kind, Change::other);
  EXPECT_EQ(pattern_of({254, 255, 0, 1}, {254, 255, 256, 257}, 1).words, "are wrapped at uint8");
  EXPECT_EQ(pattern_of({256, 256, 258, 260}, {256, 257, 258, 259}, 1).words, "are rounded to bf16");
}

std::vector<Speed> exactly(const std::vector<double>& values) {
  std::vector<Speed> list;
  for (const double value : values) list.push_back({value, 1e-6 * value});
  return list;
}

Rope rope_of(Scaling scaling, double base = 10000) {
  Rope rope{.head_dim = 64, .rotary_dim = 64, .base = base, .pairing = Pairing::half};
  rope.scaling = std::move(scaling);
  return rope;
}

TEST(Fit, BaseAndLinearFactor) {
  EXPECT_EQ(fit_speeds(exactly(speeds(500000)), 64, true)->rope.base, 500000);
  std::vector<double> slower = speeds(10000);
  for (double& speed : slower) speed /= 8;
  const auto scaled = fit_speeds(exactly(slower), 64, true);
  ASSERT_TRUE(scaled.has_value());
  EXPECT_EQ(scaled->rope.base, 10000);
  EXPECT_EQ(std::get<Linear>(scaled->rope.scaling).factor, 8);
  // Without positions the scale of the speeds is not known, and no factor is claimed.
  EXPECT_TRUE(std::holds_alternative<Unscaled>(fit_speeds(exactly(slower), 64, false)->rope.scaling));
}

TEST(Fit, ScalingsByParts) {
  Yarn yarn;
  yarn.factor = 4;
  yarn.trained_length = 32768;
  Llama3 llama3{.factor = 8, .trained_length = 8192};
  for (const Rope& rope : {rope_of(yarn, 1e6), rope_of(llama3, 500000)}) {
    const auto found = fit_speeds(exactly(frequencies(rope).inv_freq), 64, true);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->rope.base, rope.base);
    EXPECT_EQ(found->rope.scaling, rope.scaling);
  }
}

// A scaling that is never guessed is never found. These three need lists, or a share of the pairs.
TEST(Rivals, EveryScalingIsGuessed) {
  const std::vector<Explanation> list = rivals(rope_of(Linear{4}), 4096, 8192);
  scalings::for_each_scaling([&](const auto& scaling) {
    using S = std::decay_t<decltype(scaling)>;
    const bool guessed = std::any_of(
        list.begin(), list.end(), [](const Explanation& one) { return std::holds_alternative<S>(one.rope.scaling); });
    const bool needs_more = std::is_same_v<S, LongRope> || std::is_same_v<S, Proportional>;
    EXPECT_NE(guessed, needs_more) << scalings::name_of(scaling);
  });
}

TEST(Fit, NtkIsAChangeOfBase) {
  const Rope ntk = rope_of(Ntk{4});
  const auto found = explain_speeds(exactly(frequencies(ntk).inv_freq), rope_of(Unscaled{}), 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->rope.base, 10000 * std::pow(4.0, 64.0 / 62), 1);
}

TEST(Fit, SpeedsOfNoMethod) {
  std::vector<double> values = speeds();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + 0.3 * std::sin(static_cast<double>(7 * i));
  EXPECT_FALSE(fit_speeds(exactly(values), 64, true).has_value());
}

// ---- scores ----

Tensor scores_of(const diagnose_tests::Data& q, const diagnose_tests::Data& k) {
  diagnose_tests::Data scores{.batch = 1, .tokens = q.heads, .heads = q.tokens, .head_dim = k.tokens, .values = {}};
  for (int h = 0; h < q.heads; ++h) {
    for (int i = 0; i < q.tokens; ++i) {
      for (int j = 0; j < k.tokens; ++j) {
        double sum = 0;
        for (int d = 0; d < q.head_dim; ++d) sum += q.values[q.at(0, i, h, d)] * k.values[k.at(0, j, h, d)];
        scores.values.push_back(sum);
      }
    }
  }
  return diagnose_tests::tensor_of(scores, ElementType::f32, "bthd", "scores");
}

TEST(Scores, KeepAtDistanceZero) {
  using diagnose_tests::Engine;
  const auto q = diagnose_tests::random_data({}, ElementType::f32, 1),
             k = diagnose_tests::random_data({}, ElementType::f32, 2);
  const Tensor before = scores_of(q, k);
  const auto verdict = [&](const Engine& of_q, const Engine& of_k) {
    return diagnose_scores(before, scores_of(of_q(q), of_k(k)), {}).verdict;
  };
  EXPECT_EQ(verdict({}, {}), Verdict::as_configured);
  EXPECT_EQ(diagnose_scores(before, before, {}).verdict, Verdict::not_rotated);
  EXPECT_EQ(verdict({}, {.position = [](int, int t, int) { return t + 2.0; }}), Verdict::offset);
  EXPECT_EQ(verdict({.factor = 1.2}, {.factor = 1.2}), Verdict::attention_factor);
  EXPECT_EQ(verdict({}, {.clockwise = true}), Verdict::cannot_tell);
}

// Of q and k that are known all is told but a factor and what they share.
TEST(Scores, OfKnownQAndK) {
  using namespace diagnose_tests;
  using enum Outcome;
  ModelRope used = model_rope(Linear{4});
  used.kv_heads = 8;
  std::vector<double> stretched = speeds(), of_base = speeds(500000);
  for (double& speed : stretched) speed /= 4;
  for (double& speed : of_base) speed /= 4;
  struct Case {
    std::string name;
    Engine of_q, of_k;
    Outcome outcome;
    Verdict verdict;
    ElementType type = ElementType::f32;
    int tokens = 24;
  };
  const auto at = [&](double first, double step) {
    return Engine{.speed = stretched, .position = [=](int, int t, int) { return first + step * t; }};
  };
  const Engine right = at(0, 1), still = at(0, 0), back = at(0, -1), later = at(1, 1);
  const Engine pairs{.speed = stretched, .pairs = Pairs::interleaved}, base{.speed = of_base}, plain{};
  for (const Case& one :
       std::vector<Case>{{"right", right, right, equal, Verdict::as_configured},
                         {"right in bf16", right, right, equal, Verdict::as_configured, ElementType::bf16},
                         {"an offset that both share", later, later, equal, Verdict::as_configured},
                         {"pairing", pairs, pairs, differs, Verdict::pairing},
                         {"direction", back, back, differs, Verdict::direction},
                         {"k later", right, later, differs, Verdict::offset},
                         {"base", base, base, differs, Verdict::base},
                         {"no scaling", plain, plain, differs, Verdict::scaling, ElementType::bf16},
                         {"k forgotten", right, still, differs, Verdict::some_heads},
                         {"nothing", still, still, differs, Verdict::not_rotated},
                         {"one token", right, right, undecided, Verdict::as_configured, ElementType::f32, 1}}) {
    const Data q = random_data({.tokens = one.tokens}, one.type, 1),
               k = random_data({.tokens = one.tokens}, one.type, 2);
    const auto rounded = [&](Data data, double factor) {
      for (double& value : data.values) value = factor * to_type(value, one.type);
      return data;
    };
    const Tensor after = scores_of(rounded(one.of_q(q), 0.125), rounded(one.of_k(k), 1));
    Request request;
    request.model.emplace().ropes = {used};
    request.scores = true;
    const CheckResult result = check(request, {{"q", tensor_of(q, one.type, "bthd", "q"), after},
                                               {"k", tensor_of(k, one.type, "bthd", "k"), after}});
    const NamedCheck& found = result.tensors.front();
    EXPECT_EQ(result.outcome(), one.outcome) << one.name << ": " << found.sentence;
    EXPECT_EQ(found.diagnosis.verdict, one.verdict) << one.name << ": " << found.sentence;
    EXPECT_EQ(one.outcome == equal, found.sentence.find("1 / sqrt(64)") != std::string::npos && one.tokens > 1);
  }
}

TEST(Scores, OfOneVectorDependOnTheDistanceAlone) {
  using diagnose_tests::Engine;
  auto q = diagnose_tests::random_data({}, ElementType::f32, 1);
  for (int t = 1; t < q.tokens; ++t) {
    for (int i = 0; i < q.heads * q.head_dim; ++i) q.values[q.at(0, t, 0, i)] = q.values[q.at(0, 0, 0, i)];
  }
  const Tensor before = scores_of(q, q);
  EXPECT_EQ(diagnose_scores(before, scores_of(Engine{}(q), Engine{}(q)), {}).verdict, Verdict::as_configured);
  const Engine squares{.position = [](int, int t, int) { return static_cast<double>(t * t); }};
  EXPECT_EQ(diagnose_scores(before, scores_of(squares(q), squares(q)), {}).verdict, Verdict::positions);
}

}  // namespace
}  // namespace rotary::diagnose
