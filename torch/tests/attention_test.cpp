// MultiHeadAttention, all tokens at once, against attention written out in double precision; decoding against the full
// pass.
#include <c10/core/InferenceMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <string>
#include <vector>

#include "torch/tests/tensors.h"
#include "torch/tests/written_out.h"

namespace rotary_torch {
namespace {

// ---- cases -----------------------------------------------------------------------------------------

constexpr std::int64_t batch_size = 2, length = 9, all_heads = 4;

Tensor left_padding() {
  const Tensor padding = at::ones({batch_size, length}, at::kLong);
  padding[1].narrow(0, 0, 3).zero_();
  return padding;
}
Tensor alibi(std::int64_t queries, std::int64_t keys) {  // [1, heads, queries, keys]
  const Tensor slope = at::pow(2, -at::arange(1, all_heads + 1, at::kFloat)).view({1, all_heads, 1, 1});
  const Tensor distance = at::arange(keys, at::kFloat) - at::arange(keys - queries, keys, at::kFloat).unsqueeze(1);
  return slope * distance;
}
struct NamedMask {
  std::string name;
  AttentionMask mask;
};
std::vector<NamedMask> every_mask() {
  at::manual_seed(11);
  std::vector<NamedMask> all;
  for (int bits = 0; bits < 16; ++bits) {
    AttentionMask mask;
    std::string name = "mask";
    if (bits & 1) mask.causal = true, name += " causal";
    if (bits & 2) mask.window = 3, name += " window";
    if (bits & 4) mask.padding = left_padding(), name += " padding";
    if (bits & 8) mask.additive = alibi(length, length), name += " additive";
    all.push_back({name, mask});
  }
  all.push_back({"additive for all", {false, 0, {}, at::randn({length, length})}});
  all.push_back(
      {"additive for each batch", {true, 0, left_padding().to(at::kBool), at::randn({batch_size, 1, 1, length})}});
  return all;
}

AttentionOptions options_of(std::int64_t kv_heads) {
  AttentionOptions o;
  o.width = 24;
  o.heads = all_heads;
  o.kv_heads = kv_heads;
  o.head_dim = 8;
  return o;
}

MultiHeadAttention random_attention(const AttentionOptions& options) {
  MultiHeadAttention m(options);
  const at::NoGradGuard no_grad;
  for (Tensor& p : m->parameters()) p.copy_(at::randn_like(p) * 0.4);
  return m;
}

// Output and every gradient of the module against those of attention written out.
void expect_equal(MultiHeadAttention m, AttentionMask mask, const TableTensors* table, std::int64_t first,
                  at::ScalarType dtype, const std::string& name) {
  const bool wide = dtype == at::kDouble;
  AttentionMask mask2 = mask;
  if (mask.additive.defined()) {
    mask.additive = mask.additive.to(dtype).clone().requires_grad_();
    mask2.additive = mask.additive.detach().to(at::kDouble).requires_grad_();
  }
  const Tensor x = at::randn({batch_size, length, m->options().width}, dtype).requires_grad_();
  const Tensor x2 = x.detach().to(at::kDouble).requires_grad_();
  const Parameters p2 = in_double(parameters_of(m));
  const TableTensors typed = table == nullptr ? TableTensors{} : as(*table, wide ? at::kDouble : at::kFloat);
  const TableTensors* rotation = table == nullptr ? nullptr : &typed;

  const ScoreMask scores = score_mask(mask, batch_size, length, 0, x.options());
  const Tensor y = m->forward(x, rotation, scores, nullptr, first);
  const Tensor expected = written_out(p2, m->options(), x2, rotation, mask2, first);
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
  if (mask.additive.defined()) {
    EXPECT_LT(difference(mask.additive.grad(), mask2.additive.grad()), bound) << name << ", gradient of the mask";
  }
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
    MultiHeadAttention m = random_attention(options_of(kv_heads));
    for (const NamedMask& n : every_mask()) {
      expect_equal(m, n.mask, &table, 0, at::kFloat, n.name + ", kv_heads " + std::to_string(kv_heads));
    }
    MultiHeadAttention wide = random_attention(options_of(kv_heads));
    wide->to(at::kDouble);
    for (const NamedMask& n : every_mask()) {
      expect_equal(wide, n.mask, &table, 0, at::kDouble, n.name + ", f64, kv_heads " + std::to_string(kv_heads));
    }
  }
}

TEST(Attention, EveryWayToTurnEqualsAttentionWrittenOutAndSoDoItsGradients) {
  at::manual_seed(2);
  const AttentionMask mask{.causal = true};
  for (const rotary::Pairing pairing : {rotary::Pairing::half, rotary::Pairing::interleaved}) {
    for (const int rotary_dim : {0, 4, 8}) {
      for (const bool values : {false, true}) {
        for (const std::int64_t first : {0, 3}) {
          if (first + rotary_dim > 8) continue;
          AttentionOptions o = options_of(2);
          o.rotates_values = values, o.qk_norm = !values;
          const TableTensors table = table_of(rotary_dim == 0 ? 2 : rotary_dim, 5, length, pairing);
          for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
            MultiHeadAttention m = random_attention(o);
            m->to(dtype);
            expect_equal(m, mask, rotary_dim == 0 ? nullptr : &table, first, dtype,
                         "rotary_dim " + std::to_string(rotary_dim) + ", values " + std::to_string(values));
          }
        }
      }
    }
  }
  AttentionOptions bare = options_of(2);
  bare.qkv_bias = false, bare.output_bias = false;
  const TableTensors table = table_of(8, 0, length);
  expect_equal(random_attention(bare), {}, &table, 0, at::kFloat, "no biases");
  EXPECT_EQ(random_attention(bare)->parameters().size(), 2U);
}

TEST(Attention, DropoutFallsOnTheProbabilitiesInTrainingOnly) {
  at::manual_seed(7);
  AttentionOptions o = options_of(2);
  o.dropout = 0.25;
  MultiHeadAttention m = random_attention(o);
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

// ---- step by step ----------------------------------------------------------------------------------

TEST(Decoding, TheCacheGrowsForgetsAndLivesThroughModes) {
  at::manual_seed(10);
  const Tensor k = at::randn({2, 3, 40, 8}), v = at::randn({2, 3, 40, 8});
  KVCache cache(4);
  for (std::int64_t t = 0; t < 40; ++t) {
    const c10::InferenceMode mode(t % 3 == 0);
    const auto [keys, values] = cache.append(k.narrow(2, t, 1), v.narrow(2, t, 1));
    EXPECT_TRUE(at::equal(keys, k.narrow(2, 0, t + 1)));
    EXPECT_TRUE(at::equal(values, v.narrow(2, 0, t + 1)));
  }
  EXPECT_EQ(sentence_of([&] { cache.append(k.narrow(1, 0, 2), v.narrow(1, 0, 2)); }),
            "SHAPE: [kv_cache] k and v must have the cache's batch, kv_heads and head_dim [2, 3, 8] but got "
            "[2, 2, 40, 8]");
  EXPECT_EQ(sentence_of([&] { cache.append(k.to(at::kHalf), v.to(at::kHalf)); }),
            "DTYPE: [kv_cache] k and v must have the cache's type Float but got Half");
  EXPECT_EQ(sentence_of([&] { cache.append(k, v.narrow(2, 0, 3)); }),
            "SHAPE: [kv_cache] k and v must be [batch, kv_heads, tokens, head_dim] but got [2, 3, 40, 8] and "
            "[2, 3, 3, 8]");
  EXPECT_EQ(sentence_of([&] { cache.append(k.clone().requires_grad_(), v); }),
            "VALUE: [kv_cache] append must run under no_grad or inference mode but got tensors with a gradient");
}

// Watches torch's requests for memory and keeps the size of the largest.
struct LargestBlock : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    largest = std::max(largest, size);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t largest = 0;
};

TEST(Decoding, GroupedQueriesCopyNoKeys) {
  at::manual_seed(12);
  constexpr std::int64_t past = 32768;
  AttentionOptions o = options_of(1);
  MultiHeadAttention m = random_attention(o);
  const c10::InferenceMode inference;
  KVCache cache(past + 64);
  cache.append(at::randn({1, 1, past, 8}), at::randn({1, 1, past, 8}));
  for (const std::int64_t tokens : {1, 4}) {
    const TableTensors table = as(table_of(8, past, tokens), at::kFloat);
    const Tensor x = at::randn({1, tokens, 24});
    AttentionMask causal;
    causal.causal = true;
    const ScoreMask mask = score_mask(causal, 1, tokens, cache.tokens(), x.options());
    const auto watch = std::make_shared<LargestBlock>();
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, watch);
      m->forward(x, &table, mask, &cache);
    }
    EXPECT_GT(watch->largest, 0);
    EXPECT_LT(watch->largest, past * 8 * 4) << tokens;  // smaller than the keys of one head: no copy, least of all four
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
  EXPECT_EQ(build([](AttentionOptions& o) { o.head_dim = 0, o.kv_heads = 0, o.heads = 5; }),
            "SHAPE: [attention] heads must divide width 24 but got 5");
  EXPECT_EQ(build([](AttentionOptions& o) { o.heads = 0; }), "SHAPE: [attention] heads must be positive but got 0");

  MultiHeadAttention m = random_attention(options_of(2));
  const Tensor x = at::randn({2, 5, 24});
  const TableTensors table = as(table_of(8, 0, 6), at::kFloat);
  EXPECT_EQ(sentence_of([&] {
              m->forward(at::randn({2, 5, 25}), nullptr, {});
            }),
            "SHAPE: [attention] x must be [batch, tokens, width 24] but got [2, 5, 25]");
  EXPECT_EQ(sentence_of([&] { m->forward(x, &table, {}); }),
            "[rotate] the table must have a row for each token of x, 5, but has 6");
  const auto mask = [](const AttentionMask& parts) {
    return sentence_of([&] { score_mask(parts, 2, 3, 1, at::kFloat); });
  };
  EXPECT_EQ(mask({false, -1, {}, {}}), "SHAPE: [score_mask] window must not be negative but got -1");
  EXPECT_EQ(mask({false, 0, at::ones({2, 3}), {}}),
            "SHAPE: [score_mask] padding must be [batch, keys] [2, 4] but is not");
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

}  // namespace
}  // namespace rotary_torch
