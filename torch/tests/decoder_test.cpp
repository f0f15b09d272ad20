// The decoder: against its formulas written out in double precision, and its ways of running against each other.
#include "rotary_torch/models/decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "torch/tests/tensors.h"
#include "torch/tests/written_out.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::test::expect_error;

// Parameters far from their initial values, so that every one of them matters.
Decoder random_decoder(const DecoderConfig& config) {
  torch::manual_seed(11);
  Decoder model(config);
  const at::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    Tensor parameter = item.value();
    if (parameter.dim() > 1) {
      parameter.normal_(0, 1.2 / std::sqrt(static_cast<double>(parameter.size(1))));
    } else {
      parameter.normal_(item.key().find("norm.weight") != std::string::npos ? 1 : 0, 0.2);
    }
  }
  model->eval();
  return model;
}

// ---- the same in double precision --------------------------------------------------

class Plain {
 public:
  explicit Plain(const Decoder& decoder, const rotary::SlidingWindow& slides = {})
      : c(decoder->config()), model(decoder), window(slides) {
    for (const auto& item : model->named_parameters()) w[item.key()] = item.value().detach().to(at::kDouble);
  }

  Tensor hidden(const Tensor& ids, const Tensor& padding = {}) const {
    Tensor x = w.at("embedding.weight").index_select(0, ids.flatten()).view({ids.size(0), ids.size(1), c.width});
    if (c.position == PositionEncoding::learned) x = x + w.at("learned_positions.weight").narrow(0, 0, ids.size(1));
    if (c.position == PositionEncoding::sinusoidal) x = x + sinusoid(ids.size(1));
    for (std::int64_t i = 0; i < c.layers; ++i) x = layer(x, i, padding);
    return w.contains("final_norm.weight") ? norm(x, "final_norm") : x;
  }

  Tensor logits(const Tensor& hidden) const { return linear(hidden, "head"); }

 private:
  Tensor sinusoid(std::int64_t tokens) const {
    Tensor rows = at::empty({tokens, c.width}, at::kDouble);
    for (std::int64_t p = 0; p < tokens; ++p) {
      for (std::int64_t i = 0; i < c.width; ++i) {
        const double angle = static_cast<double>(p) / std::pow(1e4, double(i / 2 * 2) / double(c.width));
        rows[p][i] = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
      }
    }
    return rows;
  }

  Tensor linear(const Tensor& x, const std::string& name) const {
    return at::matmul(x, w.at(name + ".weight").t()) + w.at(name + ".bias");
  }

  Tensor norm(const Tensor& x, const std::string& name) const {
    const Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + c.norm_eps).sqrt() * w.at(name + ".weight") +
           w.at(name + ".bias");
  }

  // Token by token: the tokens that the window holds are gathered and have the positions 0, 1, 2, ...
  Tensor attention(const Tensor& x, std::int64_t layer, const Tensor& padding) const {
    if (x.size(1) <= window.tokens) return whole_attention(x, layer, padding);
    std::vector<Tensor> last;
    for (std::int64_t t = 0; t < x.size(1); ++t) {
      const std::int64_t newest = std::max(window.sinks, t + 1 - (window.tokens - window.sinks));
      Tensor seen = at::arange(t + 1, at::kLong);
      if (t >= window.tokens) seen = at::cat({seen.slice(0, 0, window.sinks), seen.slice(0, newest)});
      last.push_back(whole_attention(x.index_select(1, seen), layer, {}).slice(1, -1));
    }
    return at::cat(last, 1);
  }

  Tensor whole_attention(const Tensor& x, std::int64_t layer, const Tensor& padding) const {
    const auto i = static_cast<std::size_t>(layer);
    const MultiHeadAttention& module = model->layers->at<DecoderLayerImpl>(i).attention;
    AttentionMask mask{.causal = c.causal, .window = c.windows.empty() ? 0 : c.windows[i], .padding = padding};
    if (c.position == PositionEncoding::alibi) {
      const Tensor place = at::arange(x.size(1), at::kDouble), slopes = at::tensor(alibi_slopes(c.heads), at::kDouble);
      mask.additive = slopes.view({1, c.heads, 1, 1}) * (place.unsqueeze(0) - place.unsqueeze(1));
    }
    TableTensors table;
    if (c.rope) {
      table = table_of(c.rope->rope.rotary_dim, 0, x.size(1), c.rope->rope.pairing, c.rope->rope.base);
    }
    return written_out(in_double(parameters_of(module)), module->options(), x, c.rope ? &table : nullptr, mask,
                       c.rope ? c.rope->first : 0);
  }

  Tensor feed(const Tensor& x, const std::string& name) const {
    const Tensor inner = linear(x, name + "up");
    const Tensor bent =
        c.activation == Activation::relu ? inner.clamp_min(0) : inner * 0.5 * (1 + (inner / std::sqrt(2.0)).erf());
    return linear(bent, name + "down");
  }

  Tensor layer(const Tensor& x, std::int64_t i, const Tensor& padding) const {
    const std::string name = "layers." + std::to_string(i) + ".";
    const Tensor between = x + attention(norm(x, name + "attention_norm"), i, padding);
    if (c.residual == Residual::sequential) return between + feed(norm(between, name + "feed_norm"), name + "feed.");
    const Tensor inner = norm(between, name + "norm");
    return between + norm(inner + feed(inner, name + "feed."), name + "feed_norm");
  }

  DecoderConfig c;
  Decoder model;
  rotary::SlidingWindow window;
  std::map<std::string, Tensor> w;
};

void expect_plain(const DecoderConfig& config, const std::string& what) {
  const at::NoGradGuard no_grad;
  Decoder model = random_decoder(config);
  const Plain plain(model);
  const Tensor ids = some_ids(2, 13);
  Tensor padding = at::ones({2, 13}, at::kLong);
  padding[0].slice(0, 0, 4) = 0;
  padding[1][12] = 0;
  const Tensor expected = plain.hidden(ids);
  EXPECT_LT(difference(model->hidden(ids), expected), 1e-5) << what;
  EXPECT_LT(difference(model->forward(ids), plain.logits(expected)), 1e-5) << what;
  EXPECT_LT(difference(model->hidden(ids, padding), plain.hidden(ids, padding)), 1e-5) << what << " with padding";
}

TEST(Decoder, EqualsTheSameInDoublePrecisionForEveryPositionEncoding) {
  for (const auto position : {PositionEncoding::rope, PositionEncoding::learned, PositionEncoding::sinusoidal,
                              PositionEncoding::none, PositionEncoding::alibi}) {
    expect_plain(tiny(position), name(position));
  }
}

// The other parts are judged by transformers' answers (checkpoint_test.cpp, roformer_test.cpp).
TEST(Decoder, EqualsTheSameInDoublePrecisionForThePartsOfOurOwnModels) {
  DecoderConfig notebook = tiny(), relu = tiny();
  notebook.residual = Residual::notebook, notebook.causal = false;
  relu.activation = Activation::relu;
  expect_plain(notebook, "notebook");
  expect_plain(relu, "relu");
}

// ---- initial values --------------------------------------------------------------------------------------

TEST(Decoder, InitialisesAsGpt2Does) {
  DecoderConfig c = tiny();
  c.width = 256, c.rope = tiny_rope(64, 64), c.feed_forward = 1024;
  torch::manual_seed(3);
  Decoder model(c);
  model->initialise(0.02);
  for (const auto& item : model->named_parameters()) {
    const std::string& key = item.key();
    const Tensor value = item.value().detach();
    const bool stream = key.ends_with("attention.output.weight") || key.ends_with("feed.down.weight");
    if (key.ends_with("bias")) {
      EXPECT_EQ(value.abs().max().item<float>(), 0) << key;
    } else if (key.find("norm") != std::string::npos) {
      EXPECT_TRUE(at::equal(value, at::ones_like(value))) << key;
    } else {
      const double expected = stream ? 0.02 / 2 : 0.02;  // sqrt(2 * 2 layers) = 2
      EXPECT_NEAR(value.std().item<double>() / expected, 1, 0.03) << key;
    }
  }
}

// ---- step by step --------------------------------------------------------------------------------

TEST(Decoder, DecodingTokenByTokenAndInPiecesEqualsTheFullPassAtPaddingToo) {
  for (const auto position : {PositionEncoding::rope, PositionEncoding::learned, PositionEncoding::sinusoidal,
                              PositionEncoding::none, PositionEncoding::alibi}) {
    const at::NoGradGuard no_grad;
    DecoderConfig config = tiny(position);
    config.kv_heads = 2, config.windows = {0, 5};
    Decoder model = random_decoder(config);
    const Tensor ids = some_ids(3, 17), padding = at::ones({3, 17}, at::kLong);
    padding[1].slice(0, 0, 6) = 0;
    const Tensor whole = model->hidden(ids, padding);
    for (const std::vector<std::int64_t>& pieces : {std::vector<std::int64_t>(17, 1), {5, 1, 1, 7, 3}, {17}}) {
      DecoderCache cache(model->config());
      std::vector<Tensor> parts;
      for (std::int64_t begin = 0; const std::int64_t count : pieces) {
        parts.push_back(model->hidden(ids.narrow(1, begin, count), padding.slice(1, 0, begin + count), &cache));
        begin += count;
        EXPECT_EQ(cache.tokens(), begin);
      }
      EXPECT_LT(difference(at::cat(parts, 1), whole), 1e-5) << name(position);
    }
  }
}

// The equality holds however the text is cut into calls, and with keys of 16 bits within their rounding.
TEST(Decoder, ASlidingWindowEqualsWhatIsWrittenOutForEveryToken) {
  const at::NoGradGuard no_grad;
  DecoderConfig config = tiny();
  config.kv_heads = 2, config.windows = {0, 12}, config.angles = rotary::Angles::float32;
  config.rope = tiny_rope(8, 4, rotary::Pairing::interleaved);
  config.rope->first = 2;
  Decoder model = random_decoder(config);
  const Tensor ids = some_ids(2, 45);
  for (const rotary::SlidingWindow window : {rotary::SlidingWindow{12, 0}, {12, 3}, {12, 11}, {7, 1}, {1, 0}}) {
    const Plain plain(model, window);
    const Tensor expected = plain.hidden(ids);
    for (const std::vector<std::int64_t>& pieces : {std::vector<std::int64_t>(45, 1), {5, 1, 1, 7, 31}, {45}}) {
      DecoderCache cache(config, 4, window);
      std::vector<Tensor> parts;
      for (std::int64_t begin = 0; const std::int64_t count : pieces) {
        parts.push_back(model->hidden(ids.narrow(1, begin, count), {}, &cache));
        begin += count;
      }
      EXPECT_LT(difference(at::cat(parts, 1), expected), 1e-5) << window.tokens << ", " << window.sinks;
    }
  }
}

TEST(Decoder, AWindowGivesAScalingItsOwnLength) {
  const at::NoGradGuard no_grad;
  DecoderConfig config = tiny(), unscaled = config;
  config.rope->rope.scaling = rotary::Dynamic{.factor = 4, .trained_length = 8};
  Decoder model = random_decoder(config), plain = random_decoder(unscaled);
  const auto hidden = [ids = some_ids(1, 40)](Decoder& m, std::int64_t tokens) {
    DecoderCache cache(m->config(), 0, {tokens, 2});
    return m->hidden(ids, {}, &cache);
  };
  EXPECT_TRUE(at::equal(hidden(model, 8), hidden(plain, 8)));
  EXPECT_FALSE(at::allclose(hidden(model, 16), hidden(plain, 16), 1e-3, 1e-3));
}

TEST(Decoder, RefusesWindowsThatCannotBe) {
  const auto cache = [](const DecoderConfig& config, rotary::SlidingWindow window) {
    return [=] { DecoderCache(config, 0, window); };
  };
  DecoderConfig narrow = tiny();
  narrow.windows = {0, 6};
  expect_error("VALUE", "sinks must be from 0 to below the window's 4 tokens but got 4", cache(tiny(), {4, 4}));
  expect_error("VALUE", "sinks must be", cache(tiny(), {4, -1}));
  expect_error("VALUE", "sinks must be", cache(tiny(), {0, 0}));
  expect_error("ROPE", "but they are alibi", cache(tiny(PositionEncoding::alibi), {4, 1}));
  expect_error("CONFIG_VALUE", "sliding window of 6 but got 7", cache(narrow, {7, 1}));
  Decoder model = random_decoder(tiny());
  DecoderCache windowed(model->config(), 0, {4, 1});
  expect_error("VALUE", "padding", [&] { model->hidden(some_ids(1, 3), at::ones({1, 3}), &windowed); });
}

TEST(Decoder, TrainsAfterDecodingUnderInferenceMode) {
  DecoderConfig config = tiny();
  config.dropout = 0.1;
  Decoder model = random_decoder(config);
  DecoderCache cache(model->config());
  model->next_logits(some_ids(1, 8), cache);  // makes the rows that training then uses
  model->train();
  const Tensor loss = model->forward(some_ids(2, 8)).square().mean();
  loss.backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<float>(), 0) << item.key();
  }
}

TEST(Decoder, TakesAnotherRope) {
  const at::NoGradGuard no_grad;
  Decoder model = random_decoder(tiny());
  const Tensor ids = some_ids(1, 20), before = model->forward(ids);
  rotary::Rope longer = model->config().rope->rope;
  longer.scaling = rotary::Linear{2};
  model->set_rope(longer);
  const Tensor bent = model->forward(ids);
  EXPECT_FALSE(at::allclose(bent, before, 1e-3, 1e-3));
  DecoderConfig again = model->config();
  EXPECT_TRUE(at::equal(random_decoder(again)->forward(ids), bent));
  longer.head_dim = 10;
  expect_error("SHAPE", "must fit the heads of 8", [&] { model->set_rope(longer); });
  expect_error("ROPE", "but this one has alibi",
               [&] { random_decoder(tiny(PositionEncoding::alibi))->set_rope(longer); });
}

TEST(Decoder, DynamicScalingLooksAtTheLengthOfEachPass) {
  const at::NoGradGuard no_grad;
  DecoderConfig config = tiny();
  config.rope->rope.scaling = rotary::Dynamic{.factor = 4, .trained_length = 8};
  Decoder model = random_decoder(config), unscaled = random_decoder(tiny());
  EXPECT_TRUE(at::equal(model->forward(some_ids(1, 8)), unscaled->forward(some_ids(1, 8))));
  EXPECT_FALSE(at::equal(model->forward(some_ids(1, 20)), unscaled->forward(some_ids(1, 20))));
  EXPECT_TRUE(at::equal(model->forward(some_ids(1, 8)), unscaled->forward(some_ids(1, 8))));
}

// ---- position terms ------------------------------------------------------------------------------

TEST(PositionTerms, AlibiSlopesAreThePublishedOnes) {
  EXPECT_EQ(alibi_slopes(8),
            (std::vector<double>{1 / 2., 1 / 4., 1 / 8., 1 / 16., 1 / 32., 1 / 64., 1 / 128., 1 / 256.}));
  // 12 heads have the slopes of 8, then the first, third, fifth and seventh slope of 16.
  const std::vector<double> twelve = alibi_slopes(12);
  ASSERT_EQ(twelve.size(), 12U);
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(twelve[static_cast<std::size_t>(8 + i)], std::exp2(-0.5 - i));
  EXPECT_EQ(alibi_slopes(1), std::vector<double>{1 / 256.});
}

// ---- errors --------------------------------------------------------------------------------------

TEST(Decoder, RefusesWhatCannotBe) {
  const auto refused = [](const char* code, const char* words, auto change) {
    DecoderConfig config = tiny();
    change(config);
    expect_error(code, words, [&] { Decoder model(config); });
  };
  refused("SHAPE", "kv_heads must divide the 4 heads but got 3", [](DecoderConfig& c) { c.kv_heads = 3; });
  refused("SHAPE", "heads must divide width 32", [](DecoderConfig& c) { c.heads = 5; });
  refused("SHAPE", "layers must be at least 1", [](DecoderConfig& c) { c.layers = 0; });
  refused("SHAPE", "layers must be at most 10000 but got 10001", [](DecoderConfig& c) { c.layers = 10001; });
  refused("SHAPE", "the rope must be for heads of 8", [](DecoderConfig& c) { c.rope = tiny_rope(6, 6); });
  refused("ROPE", "a rope must be given", [](DecoderConfig& c) { c.rope.reset(); });
  refused("ROPE", "a stored table must be", [](DecoderConfig& c) { c.stored_table = true, c.rope = tiny_rope(8, 6); });
  refused("SHAPE", "windows must be none or one for each of the 2", [](DecoderConfig& c) { c.windows = {1}; });
  refused("CONFIG_VALUE", "a window must be at least 0", [](DecoderConfig& c) { c.windows = {1, -1}; });
  refused("CONFIG_VALUE", "dropout must be", [](DecoderConfig& c) { c.dropout = 1; });
  refused("CONFIG_VALUE", "norm_eps must be", [](DecoderConfig& c) { c.norm_eps = -1; });
  Decoder learned = random_decoder(tiny(PositionEncoding::learned));
  expect_error("POSITION", "learned positions end at 64 but token 65", [&] { learned->forward(some_ids(1, 65)); });
  expect_error("SHAPE", "ids must be [batch, tokens]", [&] { learned->forward(some_ids(1, 5).flatten()); });
  DecoderConfig base = tiny();
  base.head = false;
  expect_error("SHAPE", "this one has none", [&] { random_decoder(base)->forward(some_ids(1, 5)); });
}

}  // namespace
}  // namespace rotary_torch
