// The other paths of MultiHeadAttention: its fast path against its plain one, and decoding against the full pass.
#include <c10/core/InferenceMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <limits>
#include <memory>

#include "rotary_torch/tests/attention_cases.h"

namespace rotary_torch {
namespace {

using namespace attention_cases;

TEST(Attention, NanInAQueryStaysNan) {
  at::manual_seed(16);
  MultiHeadAttention m = made(options_of(4));
  const TableTensors table = table_of(8, 0, length);
  Tensor x = at::randn({batch_size, length, 24});
  x[1][3][0] = std::numeric_limits<float>::quiet_NaN();
  const at::NoGradGuard no_grad;
  const Tensor y = m->forward(x, &table, {true, {}});
  EXPECT_TRUE(y[1].narrow(0, 3, length - 3).isnan().all().item<bool>());
  EXPECT_FALSE(y[0].isnan().any().item<bool>());
}

// ---- step by step ----------------------------------------------------------------------------------

TEST(Decoding, InStepsOfAnySizeEqualsTheFullPass) {
  at::manual_seed(9);
  const TableTensors table = table_of(8, 0, length);
  for (const std::int64_t kv_heads : {4, 2, 1}) {
    for (const bool qk_norm : {false, true}) {
      for (const ValueRotation values : {ValueRotation::none, ValueRotation::rotated_back}) {
        AttentionOptions o = options_of(kv_heads);
        o.qk_norm = qk_norm, o.value_rotation = values;
        MultiHeadAttention m = made(o);
        for (NamedMask& n : every_mask()) {
          if (n.mask.additive.defined() && n.mask.additive.dim() == 2) continue;
          n.mask.causal = true;
          const c10::InferenceMode inference;
          const Tensor x = at::randn({batch_size, length, 24});
          const Tensor full = m->forward(x, &table, score_mask(n.mask, batch_size, length, 0, x.options()));
          for (const std::vector<std::int64_t>& steps :
               std::vector<std::vector<std::int64_t>>{{1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 3, 1}, {9}}) {
            KVCache cache;
            std::vector<Tensor> parts;
            for (const std::int64_t step : steps) {
              const std::int64_t past = cache.tokens(), keys = past + step;
              AttentionMask mask = n.mask;
              if (mask.padding.defined()) mask.padding = mask.padding.narrow(1, 0, keys);
              if (mask.additive.defined()) {
                mask.additive = mask.additive.narrow(3, 0, keys);
                if (mask.additive.size(2) > 1) mask.additive = mask.additive.narrow(2, past, step);
              }
              const TableTensors here = rows(table, past, step);
              parts.push_back(m->forward(x.narrow(1, past, step), &here,
                                         score_mask(mask, batch_size, step, past, x.options()), &cache));
            }
            EXPECT_LT(difference(at::cat(parts, 1), full), 2e-6) << n.name << ", kv_heads " << kv_heads;
            EXPECT_EQ(cache.tokens(), length);
          }
        }
      }
    }
  }
}

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
  cache.truncate(17);
  const auto [keys, values] = cache.append(k.narrow(2, 17, 5), v.narrow(2, 17, 5));
  EXPECT_TRUE(at::equal(keys, k.narrow(2, 0, 22)));
  EXPECT_TRUE(at::equal(values, v.narrow(2, 0, 22)));
  EXPECT_EQ(sentence_of([&] { cache.truncate(23); }), "SHAPE: [kv_cache] tokens must be from 0 to 22 but got 23");
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

// The largest block of memory that torch asked for while it lived.
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
  MultiHeadAttention m = made(o);
  const c10::InferenceMode inference;
  KVCache cache(past + 64);
  cache.append(at::randn({1, 1, past, 8}), at::randn({1, 1, past, 8}));
  for (const std::int64_t tokens : {1, 4}) {
    const TableTensors table = table_of(8, past, tokens);
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

}  // namespace
}  // namespace rotary_torch
