// Generation and window losses, judged by full forward passes, by plain sums, and by statistics.
#include "rotary_torch/models/generate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <algorithm>

#include <cmath>
#include <string>
#include <vector>

#include "torch/tests/tensors.h"

namespace rotary_torch {
namespace {

using at::Tensor;

constexpr std::int64_t vocabulary = 29;

DecoderConfig small(PositionEncoding position = PositionEncoding::rope) {
  DecoderConfig config = tiny(position, 16);
  if (config.rope) config.rope->rope.rotary_dim = 8;
  return config;
}

// Weights large enough that positions decide what comes next.
Decoder decoder(PositionEncoding position = PositionEncoding::rope) {
  at::manual_seed(5);
  Decoder model(small(position));
  model->initialise(0.4);
  return model;
}

GenerateOptions greedy(std::int64_t tokens) { return {.tokens = tokens, .temperature = 0}; }

// The greedy ids by full passes, without a cache.
Tensor greedy_by_full_passes(Decoder& model, Tensor ids, std::int64_t tokens) {
  const at::NoGradGuard no_grad;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const Tensor next = model->forward(ids).select(1, ids.size(1) - 1).argmax(-1, true);
    ids = at::cat({ids, next}, 1);
  }
  return ids;
}

std::string code_of(const std::function<void()>& work) {
  const std::string sentence = sentence_of(work);
  return sentence == "no error" ? "none" : sentence.substr(0, sentence.find(':'));
}

TEST(Generate, GreedyIdsEqualTheArgmaxOfFullPassesForEveryPositionEncodingAndPastTheTrainedLength) {
  for (const auto position :
       {PositionEncoding::rope, PositionEncoding::sinusoidal, PositionEncoding::none, PositionEncoding::alibi}) {
    Decoder model = decoder(position);
    const Tensor prompt = some_ids(3, 5);
    EXPECT_TRUE(at::equal(generate(model, prompt, greedy(30)), greedy_by_full_passes(model, prompt, 30)))
        << name(position);
  }
}

// Past the end of the table of positions, 16, only the last 16 tokens are read, as in nanoGPT's generate.
TEST(Generate, GreedyIdsOfLearnedPositionsSeeTheLastTokensPastTheEndOfTheirTable) {
  Decoder model = decoder(PositionEncoding::learned);
  ASSERT_EQ(model->config().context, 16);
  const auto by_windows = [&model](Tensor ids, std::int64_t tokens) {
    const at::NoGradGuard no_grad;
    for (std::int64_t i = 0; i < tokens; ++i) {
      const Tensor seen = ids.slice(1, std::max<std::int64_t>(0, ids.size(1) - 16));
      ids = at::cat({ids, model->forward(seen).select(1, seen.size(1) - 1).argmax(-1, true)}, 1);
    }
    return ids;
  };
  for (const std::int64_t prompt_tokens : {5, 16, 17, 40}) {
    const Tensor prompt = some_ids(2, prompt_tokens);
    for (const std::int64_t tokens : {1, 11, 12, 13, 40}) {
      EXPECT_TRUE(at::equal(generate(model, prompt, greedy(tokens)), by_windows(prompt, tokens)))
          << prompt_tokens << " + " << tokens;
    }
  }
}

TEST(Generate, AWindowSeesWhatItHoldsAndALongOneEverything) {
  Decoder model = decoder();
  const Tensor prompt = some_ids(3, 20);
  GenerateOptions options = greedy(300);
  options.window = {10, 2};
  const Tensor ids = generate(model, prompt, options);
  const at::NoGradGuard no_grad;
  DecoderCache cache(model->config(), 0, options.window);
  const Tensor best = model->logits(model->hidden(ids, {}, &cache)).argmax(-1);
  EXPECT_TRUE(at::equal(best.slice(1, 19, -1), ids.slice(1, 20)));
  EXPECT_FALSE(at::equal(ids, generate(model, prompt, greedy(300))));
  options = greedy(30);
  options.window = {50, 2};
  EXPECT_TRUE(at::equal(generate(model, prompt, options), generate(model, prompt, greedy(30))));
}

TEST(Generate, AScalingChangesTheIdsPastTheTrainedLengthAndAgreesWithFullPasses) {
  const Tensor prompt = some_ids(4, 20);
  Decoder plain = decoder();
  const Tensor unscaled = generate(plain, prompt, greedy(20));
  for (const std::string word : {"linear", "ntk", "yarn", "llama3"}) {
    Decoder model = decoder();
    model->set_rope(extended_rope(model->config(), word, 4));
    const Tensor ids = generate(model, prompt, greedy(20));
    EXPECT_TRUE(at::equal(ids, greedy_by_full_passes(model, prompt, 20))) << word;
    EXPECT_FALSE(at::equal(ids, unscaled)) << word;
  }
}

TEST(Generate, ThePromptComesFirstAndTheModelKeepsItsMode) {
  Decoder model = decoder();
  model->train();
  const Tensor prompt = some_ids(2, 7);
  const Tensor ids = generate(model, prompt, {.tokens = 3});
  EXPECT_EQ(ids.sizes(), at::IntArrayRef({2, 10}));
  EXPECT_TRUE(at::equal(ids.narrow(1, 0, 7), prompt));
  EXPECT_TRUE(model->is_training());
  EXPECT_TRUE(at::equal(generate(model, prompt, {.tokens = 0}), prompt));
}

TEST(Generate, TheSameSeedDrawsTheSameIdsAndAnotherSeedOthers) {
  Decoder model = decoder();
  const Tensor prompt = some_ids(2, 4);
  const auto drawn = [&](std::uint64_t seed) { return generate(model, prompt, {.tokens = 25, .seed = seed}); };
  EXPECT_TRUE(at::equal(drawn(7), drawn(7)));
  EXPECT_FALSE(at::equal(drawn(7), drawn(8)));
  EXPECT_FALSE(at::equal(drawn(7), drawn(7 + (std::uint64_t{1} << 32))));  // all 64 bits count
}

TEST(Generate, ARowOfTheBatchDoesNotDependOnTheOthers) {
  Decoder model = decoder();
  const Tensor prompt = some_ids(1, 4).repeat({3, 1});
  const Tensor ids = generate(model, prompt, {.tokens = 25});
  EXPECT_FALSE(at::equal(ids[0], ids[1]));  // the same text goes on differently in each row
  const Tensor others = some_ids(3, 4, 99);
  others[1].copy_(prompt[1]);
  EXPECT_TRUE(at::equal(generate(model, others, {.tokens = 25})[1], ids[1]));
}

TEST(Generate, EachColumnIsSeenAsItIsChosenAndFalseStops) {
  Decoder model = decoder();
  const Tensor prompt = some_ids(2, 4);
  std::vector<Tensor> columns;
  const auto watch = [&columns](const Tensor& ids) {
    columns.push_back(ids.clone());
    return columns.size() < 5;
  };
  const Tensor ids = generate(model, prompt, {.tokens = 20}, watch);
  ASSERT_EQ(columns.size(), 5U);
  EXPECT_TRUE(at::equal(ids, at::cat({prompt, at::stack(columns, 1)}, 1)));
}

TEST(Generate, WrongInputIsRefusedByName) {
  Decoder model = decoder();
  const auto code = [&](const Tensor& prompt, GenerateOptions options = {}) {
    return code_of([&] { generate(model, prompt, options); });
  };
  EXPECT_EQ(code(at::zeros({1, 3}, at::kInt)), "SHAPE");
  EXPECT_EQ(code(at::zeros({3}, at::kLong)), "SHAPE");
  EXPECT_EQ(code(at::zeros({1, 0}, at::kLong)), "SHAPE");
  EXPECT_EQ(code(at::full({1, 3}, vocabulary, at::kLong)), "VALUE");
  EXPECT_EQ(code(at::full({1, 3}, -1, at::kLong)), "VALUE");
  EXPECT_EQ(code(some_ids(1, 3), {.tokens = -1}), "VALUE");
  EXPECT_EQ(code(some_ids(1, 3), {.temperature = -0.5}), "VALUE");
  EXPECT_EQ(code(some_ids(1, 3), {.temperature = std::nan("")}), "VALUE");
  EXPECT_EQ(code(some_ids(1, 3), {.top_k = -2}), "VALUE");
  const at::NoGradGuard no_grad;
  model->embedding->weight.fill_(std::nanf(""));
  EXPECT_EQ(code(some_ids(1, 3)), "VALUE");
}

// ---- the sampler -----------------------------------------------------------------------------------

std::vector<std::int64_t> counts(double temperature, std::int64_t top_k, const std::vector<float>& logits, int draws) {
  std::vector<std::int64_t> seen(logits.size(), 0);
  std::mt19937_64 random(12);
  const GenerateOptions options{.temperature = temperature, .top_k = top_k};
  for (int i = 0; i < draws; ++i) ++seen[static_cast<std::size_t>(sample(logits, options, random))];
  return seen;
}

// Pearson's statistic of the counts against probabilities in proportion to the weights; an id of weight 0 must not
// occur.
double chi_square(const std::vector<std::int64_t>& seen, const std::vector<double>& weights) {
  double total = 0, draws = 0, statistic = 0;
  for (const double weight : weights) total += weight;
  for (const std::int64_t count : seen) draws += static_cast<double>(count);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const double expected = draws * weights[i] / total;
    const double off = static_cast<double>(seen[i]) - expected;
    EXPECT_TRUE(expected > 0 || seen[i] == 0) << i;
    if (expected > 0) statistic += off * off / expected;
  }
  return statistic;
}

TEST(Sample, DrawsInTheProportionsOfTheSoftmaxAtATemperature) {
  // Weights 1, 2, ..., 6 to the power 1 / temperature; 5 degrees of freedom: above 30.9 once in 100,000.
  std::vector<float> logits;
  for (int i = 1; i <= 6; ++i) logits.push_back(std::log(static_cast<float>(i)) - 40);
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<double> weights;
    for (int i = 1; i <= 6; ++i) weights.push_back(std::pow(i, 1 / temperature));
    EXPECT_LT(chi_square(counts(temperature, 0, logits, 60000), weights), 30.9) << temperature;
  }
}

TEST(Sample, DrawsFromTheLikeliestOnlyAndAmongEqualsFromTheLowerIds) {
  const std::vector<float> logits = {0, 1, 2, 1, -3, 1};
  const double e = std::exp(1.0);
  EXPECT_LT(chi_square(counts(1, 3, logits, 30000), {0, e, e * e, e, 0, 0}), 23.1);
  EXPECT_LT(chi_square(counts(1, 100, logits, 30000), {1, e, e * e, e, std::exp(-3.0), e}), 30.9);
}

TEST(Sample, TemperatureZeroTakesTheLowestIdAmongTheLargest) {
  EXPECT_EQ(counts(0, 0, {1, 4, 2, 4}, 1)[1], 1);
  EXPECT_EQ(counts(0, 0, {-HUGE_VALF, -2, -1}, 1)[2], 1);
}

TEST(Sample, AHairOfTemperatureIsGreedyAndMinusInfinityIsNeverDrawn) {
  EXPECT_EQ(counts(1e-300, 0, {1, 4, 3.999F}, 100)[1], 100);
  EXPECT_EQ(counts(1e6, 0, {0, -HUGE_VALF, 0}, 1000)[1], 0);
}

// ---- past the trained length -----------------------------------------------------------------------

TEST(Extend, GivesTheModelsRopeThePublishedScalingOfItsTrainedLength) {
  const DecoderConfig config = small();
  EXPECT_TRUE(std::holds_alternative<rotary::Unscaled>(extended_rope(config, "none", 1).scaling));
  EXPECT_EQ(std::get<rotary::Linear>(extended_rope(config, "linear", 4).scaling).factor, 4);
  EXPECT_EQ(std::get<rotary::Ntk>(extended_rope(config, "ntk", 2.5).scaling).factor, 2.5);
  EXPECT_EQ(std::get<rotary::NtkFixed>(extended_rope(config, "ntk_fixed", 2.5).scaling).factor, 2.5);
  EXPECT_EQ(std::get<rotary::Dynamic>(extended_rope(config, "dynamic", 4).scaling).trained_length, 16);
  EXPECT_EQ(std::get<rotary::Yarn>(extended_rope(config, "yarn", 4).scaling).trained_length, 16);
  EXPECT_EQ(std::get<rotary::Llama3>(extended_rope(config, "llama3", 8).scaling).trained_length, 16);
  for (const std::string& word : extensions()) {
    if (word == "none") continue;
    EXPECT_EQ(rotary::name(extended_rope(config, word, 4).scaling), word);
  }
}

TEST(Extend, RefusesWhatCannotBeExtended) {
  const auto code = [](const DecoderConfig& config, const char* word, double factor) {
    return code_of([&] { extended_rope(config, word, factor); });
  };
  DecoderConfig config = small();
  EXPECT_EQ(code(config, "yarn", 1), "SCALING");
  EXPECT_EQ(code(config, "yarn", std::nan("")), "SCALING");
  EXPECT_EQ(code(config, "stretch", 2), "SCALING");
  EXPECT_EQ(code(small(PositionEncoding::alibi), "yarn", 2), "ROPE");
  config.rope->rope.scaling = rotary::Linear{2};
  EXPECT_EQ(code(config, "yarn", 2), "SCALING");
  EXPECT_EQ(code(config, "none", 1), "none");
}

TEST(Perplexity, TheMeasuredPartIsTheEndOfTheTextInWholeWindows) {
  const Tensor ids = at::arange(100, at::kLong).unsqueeze(0);
  const auto ends = [&](std::int64_t longest, std::int64_t most) {
    const Tensor part = measured_part(ids, longest, most);
    return std::vector<std::int64_t>{part[0][0].item<std::int64_t>(), part[0][-1].item<std::int64_t>()};
  };
  EXPECT_EQ(ends(16, 0), (std::vector<std::int64_t>{3, 99}));    // 6 windows of 16, and one target
  EXPECT_EQ(ends(16, 50), (std::vector<std::int64_t>{51, 99}));  // 3 windows
  EXPECT_EQ(ends(16, 5), (std::vector<std::int64_t>{83, 99}));   // at least one
  EXPECT_EQ(code_of([&] { measured_part(ids, 100, 0); }), "SHAPE");
}

TEST(Perplexity, IsTheMeanOfThePlainCrossEntropyOfEveryToken) {
  Decoder model = decoder();
  const Tensor ids = some_ids(2, 3 * 8 + 1);
  const at::NoGradGuard no_grad;
  double sum = 0, last = 0;
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t window = 0; window < 3; ++window) {
      const Tensor logits = model->forward(ids.narrow(0, row, 1).narrow(1, window * 8, 8)).to(at::kDouble)[0];
      for (std::int64_t t = 0; t < 8; ++t) {
        const std::int64_t target = ids[row][window * 8 + t + 1].item<std::int64_t>();
        const double loss = -(logits[t][target] - logits[t].exp().sum().log()).item<double>();
        sum += loss;
        if (t >= 6) last += loss;
      }
    }
  }
  const WindowLoss measured = window_loss(model, ids, 8);
  EXPECT_EQ(measured.tokens, 48);
  EXPECT_NEAR(measured.loss, sum / 48, 1e-5);
  EXPECT_NEAR(measured.last_quarter, last / 12, 1e-5);
}

TEST(Perplexity, OfAWindowIsTheLossOfWhatItHolds) {
  Decoder model = decoder();
  const at::NoGradGuard no_grad;
  const Tensor ids = some_ids(2, 2 * 24 + 1);
  const rotary::SlidingWindow window{8, 3};
  double sum = 0;
  for (std::int64_t begin : {0, 24}) {
    DecoderCache cache(model->config(), 0, window);
    const Tensor logits = model->logits(model->hidden(ids.narrow(1, begin, 24), {}, &cache)).to(at::kDouble);
    sum += at::cross_entropy_loss(logits.flatten(0, 1), ids.narrow(1, begin + 1, 24).flatten()).item<double>() / 2;
  }
  EXPECT_NEAR(window_loss(model, ids, 24, window).loss, sum, 1e-5);
  EXPECT_NE(window_loss(model, ids, 24, window).loss, window_loss(model, ids, 24).loss);
  EXPECT_EQ(window_loss(model, ids, 8, window).loss, window_loss(model, ids, 8).loss);
}

TEST(Perplexity, LearnedPositionsEndWithTheirTable) {
  Decoder model = decoder(PositionEncoding::learned);
  EXPECT_NO_THROW(window_loss(model, some_ids(1, 33), 16));
  EXPECT_EQ(code_of([&] { window_loss(model, some_ids(1, 33), 17); }), "POSITION");
}

}  // namespace
}  // namespace rotary_torch
