// MultiHeadAttention, all tokens at once, against attention written out in double precision.
#include <c10/core/InferenceMode.h>

#include "rotary_torch/tests/attention_cases.h"

namespace rotary_torch {
namespace {

using namespace attention_cases;

// Output and every gradient of the module against those of attention written out.
void expect_equal(MultiHeadAttention m, const AttentionMask& mask, const TableTensors* table, std::int64_t first,
                  at::ScalarType dtype, const std::string& name) {
  const bool wide = dtype == at::kDouble;
  const Tensor x = at::randn({batch_size, length, m->options().width}, dtype).requires_grad_();
  const Tensor x2 = x.detach().to(at::kDouble).requires_grad_();
  const Parameters p2 = in_double(parameters_of(m));
  const TableTensors typed = table == nullptr ? TableTensors{} : as(*table, wide ? at::kDouble : at::kFloat);
  const TableTensors* rotation = table == nullptr ? nullptr : &typed;

  const ScoreMask scores = score_mask(mask, batch_size, length, 0, x.options());
  const Tensor y = m->forward(x, rotation, scores, nullptr, first);
  const Tensor expected = written_out(p2, m->options(), x2, rotation, mask, first);
  EXPECT_LT(difference(y, expected), wide ? 1e-13 : 2e-6) << name;
  {
    const c10::InferenceMode inference;
    EXPECT_LT(difference(m->forward(x.detach(), rotation, scores, nullptr, first), expected), wide ? 1e-13 : 2e-6)
        << name << ", inference";
  }

  for (Tensor& p : m->parameters()) p.mutable_grad().reset();
  const Tensor g = at::randn_like(y);
  y.backward(g);
  expected.backward(g.to(at::kDouble));
  const double bound = wide ? 1e-12 : 1e-5;
  EXPECT_LT(difference(x.grad(), x2.grad()), bound) << name << ", gradient of x";
  const std::vector<Tensor> ours = parameters_of(m).all(), theirs = p2.all();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LT(difference(ours[i].grad(), theirs[i].grad()), bound) << name << ", gradient of parameter " << i;
  }
}

// ---- the full pass ---------------------------------------------------------------------------------

TEST(Attention, EveryMaskWithEveryGroupEqualsAttentionWrittenOutAndSoDoItsGradients) {
  at::manual_seed(1);
  const TableTensors table = table_of(8, 0, length);
  for (const std::int64_t kv_heads : {4, 2, 1}) {
    MultiHeadAttention m = made(options_of(kv_heads));
    for (const NamedMask& n : every_mask()) {
      expect_equal(m, n.mask, &table, 0, at::kFloat, n.name + ", kv_heads " + std::to_string(kv_heads));
    }
    MultiHeadAttention wide = made(options_of(kv_heads));
    wide->to(at::kDouble);
    for (const NamedMask& n : every_mask()) {
      expect_equal(wide, n.mask, &table, 0, at::kDouble, n.name + ", f64, kv_heads " + std::to_string(kv_heads));
    }
  }
}

TEST(Attention, EveryWayToTurnEqualsAttentionWrittenOutAndSoDoItsGradients) {
  at::manual_seed(2);
  AttentionMask mask;
  mask.causal = true;
  for (const rotary::Pairing pairing : {rotary::Pairing::half, rotary::Pairing::interleaved}) {
    for (const int rotary_dim : {0, 4, 8}) {
      for (const ValueRotation values : {ValueRotation::none, ValueRotation::rotated, ValueRotation::rotated_back}) {
        for (const bool qk_norm : {false, true}) {
          for (const std::int64_t first : {0, 3}) {
            if (first + rotary_dim > 8) continue;
            AttentionOptions o = options_of(2);
            o.value_rotation = values, o.qk_norm = qk_norm;
            const TableTensors table = table_of(rotary_dim == 0 ? 2 : rotary_dim, 5, length, pairing);
            for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
              MultiHeadAttention m = made(o);
              m->to(dtype);
              expect_equal(m, mask, rotary_dim == 0 ? nullptr : &table, first, dtype,
                           "rotary_dim " + std::to_string(rotary_dim) + ", values " +
                               std::to_string(static_cast<int>(values)) + ", norm " + std::to_string(qk_norm));
            }
          }
        }
      }
    }
  }
}

TEST(Attention, ScaleAndMissingBiasesAreObeyed) {
  at::manual_seed(3);
  AttentionOptions o = options_of(2);
  o.scale = 0.2, o.qkv_bias = false, o.output_bias = false;
  const TableTensors table = table_of(8, 0, length);
  expect_equal(made(o), {}, &table, 0, at::kFloat, "scale");
  EXPECT_EQ(made(o)->parameters().size(), 2U);
}

TEST(Attention, AQueryThatSeesNoKeyGetsZeroAndNoNan) {
  at::manual_seed(4);
  for (const auto& [keys, head_dim] : {std::pair{6, 8}, std::pair{6, 12}, std::pair{700, 8}, std::pair{700, 12}}) {
    AttentionMask mask;
    mask.causal = true, mask.window = 520;
    mask.padding = at::ones({2, keys}, at::kBool);
    mask.padding[0].narrow(0, 0, 4).fill_(false);
    mask.padding[1].fill_(false);
    for (const std::int64_t kv_heads : {4, 1}) {
      AttentionOptions o = options_of(kv_heads);
      o.head_dim = head_dim;
      MultiHeadAttention m = made(o);
      const TableTensors table = table_of(8, 0, keys);
      const Tensor x = at::randn({2, keys, 24}).requires_grad_();
      const Tensor y = m->forward(x, &table, score_mask(mask, 2, keys, 0, x.options()));
      y.sum().backward();
      EXPECT_TRUE(at::equal(y[0].narrow(0, 0, 4), m->output->bias.expand({4, 24})));
      EXPECT_TRUE(at::equal(y[1], m->output->bias.expand({keys, 24})));
      EXPECT_FALSE(y.isnan().any().item<bool>());
      EXPECT_FALSE(x.grad().isnan().any().item<bool>());
      EXPECT_EQ(x.grad()[1].abs().max().item<double>(), 0);
      EXPECT_GT(y[0][4].sub(m->output->bias).abs().max().item<double>(), 0);
    }
  }
}

TEST(Attention, ManyBlocksOfKeysEqualAttentionWrittenOut) {  // the fused kernel takes 512 keys at a time
  at::manual_seed(5);
  constexpr std::int64_t tokens = 1100;
  const TableTensors table = table_of(8, 0, tokens);
  AttentionMask mask;
  mask.causal = true, mask.window = 40;
  MultiHeadAttention m = made(options_of(2));
  const Tensor x = at::randn({1, tokens, 24});
  const Tensor y = m->forward(x, &table, score_mask(mask, 1, tokens, 0, x.options()));
  const Tensor key = at::arange(tokens), distance = key.unsqueeze(1) - key;
  const Tensor unseen = (distance < 0).logical_or(distance >= 40);
  const Parameters p = in_double(parameters_of(m));
  // Its own words: written_out would loop over each element of the mask.
  const Tensor all = linear(x.to(at::kDouble), p.qkv, p.qkv_bias).view({1, tokens, -1, 8});
  const Tensor q = rotated(all.slice(2, 0, 4), table, 0).transpose(1, 2);
  const Tensor k = rotated(all.slice(2, 4, 6), table, 0).transpose(1, 2).repeat_interleave(2, 1);
  const Tensor v = all.slice(2, 6).transpose(1, 2).repeat_interleave(2, 1);
  const Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(8.0);
  const Tensor probability = at::softmax(scores.masked_fill(unseen, minus_infinity), -1);
  const Tensor expected =
      linear(at::matmul(probability, v).transpose(1, 2).reshape({1, tokens, 32}), p.output, p.output_bias);
  EXPECT_LT(difference(y, expected), 2e-6);
}

TEST(Attention, ALearnedAdditiveMaskGetsItsGradient) {
  at::manual_seed(6);
  MultiHeadAttention m = made(options_of(2));
  AttentionMask mask;
  mask.causal = true;
  mask.additive = at::randn({1, all_heads, length, length}).requires_grad_();
  const Tensor x = at::randn({batch_size, length, 24}), g = at::randn({batch_size, length, 24});
  (m->forward(x, nullptr, score_mask(mask, batch_size, length, 0, x.options())) * g).sum().backward();
  AttentionMask wide = mask;
  const auto loss = [&](double step) {  // of the element [0, 2, 5, 1]
    wide.additive = mask.additive.detach().to(at::kDouble).clone();
    wide.additive[0][2][5][1].add_(step);
    return (written_out(in_double(parameters_of(m)), m->options(), x.to(at::kDouble), nullptr, wide) * g)
        .sum()
        .item<double>();
  };
  EXPECT_NEAR(mask.additive.grad()[0][2][5][1].item<double>(), (loss(1e-4) - loss(-1e-4)) / 2e-4, 1e-5);
  EXPECT_EQ(mask.additive.grad()[0][2][1][5].item<double>(), 0);  // hidden by the causal mask
}

TEST(Attention, DropoutFallsOnTheProbabilitiesInTrainingOnly) {
  at::manual_seed(7);
  AttentionOptions o = options_of(2);
  o.dropout = 0.25;
  MultiHeadAttention m = made(o);
  const at::NoGradGuard no_grad;
  m->qkv->weight.narrow(0, 48, 16).zero_();  // every value is 1: a head gives the sum of its probabilities
  m->qkv->bias.narrow(0, 48, 16).fill_(1);
  m->output->weight.zero_();
  m->output->weight.select(0, 0).select(0, 0).fill_(1);
  m->output->bias.zero_();
  const Tensor x = at::randn({1, 400, 24});
  const Tensor trained = m->forward(x, nullptr, {}).select(2, 0);
  EXPECT_NEAR(trained.mean().item<double>(), 1, 0.02);
  EXPECT_GT(trained.std().item<double>(), 0.005);
  m->eval();
  EXPECT_LT(difference(m->forward(x, nullptr, {}).select(2, 0), at::ones({1, 400})), 1e-5);
}

TEST(Attention, Bf16IsNearF32) {
  at::manual_seed(8);
  MultiHeadAttention m = made(options_of(2));
  const TableTensors table = table_of(8, 0, length);
  for (const NamedMask& n : every_mask()) {
    const Tensor x = at::randn({batch_size, length, 24});
    const at::NoGradGuard no_grad;
    m->to(at::kFloat);
    const Tensor y = m->forward(x, &table, score_mask(n.mask, batch_size, length, 0, x.options()));
    m->to(at::kBFloat16);
    const Tensor low = x.to(at::kBFloat16);
    const Tensor z = m->forward(low, &table, score_mask(n.mask, batch_size, length, 0, low.options()));
    EXPECT_EQ(z.scalar_type(), at::kBFloat16);
    EXPECT_LT(difference(z, y), 0.05) << n.name;
  }
}

// ---- refusals --------------------------------------------------------------------------------------

TEST(Attention, WrongInputGetsOneSentence) {
  const auto build = [](auto change) {
    return sentence_of([&] {
      AttentionOptions o = options_of(2);
      change(o);
      MultiHeadAttention m(o);
    });
  };
  EXPECT_EQ(build([](AttentionOptions& o) { o.kv_heads = 3; }),
            "SHAPE: [attention] kv_heads must divide the 4 heads but got 3");
  EXPECT_EQ(build([](AttentionOptions& o) { o.head_dim = 0, o.heads = 5; }),
            "SHAPE: [attention] kv_heads must divide the 5 heads but got 2");
  EXPECT_EQ(build([](AttentionOptions& o) { o.head_dim = 0, o.kv_heads = 0, o.heads = 5; }),
            "SHAPE: [attention] heads must divide width 24 but got 5");
  EXPECT_EQ(build([](AttentionOptions& o) { o.heads = 0; }), "SHAPE: [attention] heads must be positive but got 0");
  EXPECT_EQ(build([](AttentionOptions& o) { o.width = 0; }), "SHAPE: [attention] width must be positive but got 0");
  EXPECT_EQ(build([](AttentionOptions& o) { o.dropout = 1; }),
            "SHAPE: [attention] dropout must be from 0 to below 1 but got 1");

  MultiHeadAttention m = made(options_of(2));
  const Tensor x = at::randn({2, 5, 24});
  const auto run = [&](const Tensor& input, const ScoreMask& mask, const TableTensors* table = nullptr) {
    return sentence_of([&] { m->forward(input, table, mask); });
  };
  EXPECT_EQ(run(at::randn({2, 5, 25}), {}),
            "SHAPE: [attention] x must be [batch, tokens, width 24] but got [2, 5, 25]");
  EXPECT_EQ(run(at::randn({5, 24}), {}), "SHAPE: [attention] x must be [batch, tokens, width 24] but got [5, 24]");
  EXPECT_EQ(run(x, {false, at::zeros({2, 4, 5, 6})}),
            "SHAPE: [attention] mask must be [batch or 1, heads or 1, queries, keys] of [2, 4, 5, 5] but got "
            "[2, 4, 5, 6]");
  EXPECT_EQ(sentence_of([&] {
              KVCache cache;
              const at::NoGradGuard no_grad;
              m->forward(x, nullptr, {}, &cache);
              m->forward(x, nullptr, {true, {}}, &cache);
            }),
            "SHAPE: [attention] a mask that is causal and nothing else takes as many queries as keys but got 5 and 10");
  const TableTensors table = table_of(8, 0, 6);
  EXPECT_EQ(run(x, {}, &table), "[rotate] table has 6 rows but x has 5 tokens");

  const auto mask = [](const AttentionMask& parts) {
    return sentence_of([&] { score_mask(parts, 2, 3, 1, at::kFloat); });
  };
  EXPECT_EQ(mask({false, -1, {}, {}}), "SHAPE: [score_mask] window must not be negative but got -1");
  EXPECT_EQ(mask({false, 0, at::ones({2, 3}), {}}),
            "SHAPE: [score_mask] padding must be [batch, keys] [2, 4] but got [2, 3]");
  EXPECT_EQ(mask({false, 0, at::ones({2, 4}), {}}),
            "DTYPE: [score_mask] padding must be bool or integers but got Float");
  EXPECT_EQ(mask({false, 0, {}, at::ones({2, 4})}),
            "SHAPE: [score_mask] additive must be broadcast to [batch, heads, queries, keys] [2, heads, 3, 4] but got "
            "[2, 4]");
  EXPECT_EQ(mask({false, 0, {}, at::ones({3, 4}, at::kLong)}),
            "DTYPE: [score_mask] additive must be floating but got Long");
}

TEST(ScoreMask, IsNothingWhereNothingIsHidden) {
  AttentionMask mask;
  mask.causal = true, mask.window = 7, mask.padding = at::ones({2, 7}, at::kLong);
  const ScoreMask full = score_mask(mask, 2, 7, 0, at::kFloat);
  EXPECT_TRUE(full.causal);
  EXPECT_FALSE(full.bias.defined());
  const ScoreMask one = score_mask(mask, 2, 1, 6, at::kFloat);
  EXPECT_FALSE(one.causal);
  EXPECT_FALSE(one.bias.defined());
  const ScoreMask later = score_mask(mask, 2, 3, 4, at::kFloat);
  EXPECT_FALSE(later.causal);
  EXPECT_EQ(later.bias.sizes(), at::IntArrayRef({1, 1, 3, 7}));
}

TEST(Norms, RmsNormEqualsItsFormula) {
  at::manual_seed(13);
  RMSNorm norm(16, 1e-3);
  {
    const at::NoGradGuard no_grad;
    norm->weight.copy_(at::randn({16}));
  }
  const Tensor x = at::randn({3, 5, 16});
  EXPECT_LT(difference(norm->forward(x), normed(x.to(at::kDouble), norm->weight.to(at::kDouble), 1e-3)), 1e-6);
}

}  // namespace
}  // namespace rotary_torch
