// The norm options of docs/gpu.md, model by model, beside what transformers' own classes made on a CPU. They add the
// squares in another order, so a last bit may differ here and there; with another option a quarter of all elements do,
// or more.
#include "device_heads.h"

namespace rotary::tests {
namespace {

struct ModelNorm {
  std::string model;
  std::vector<std::uint16_t> weight, out;
};
#include "tests/golden/model_norms.inc"

struct Option {
  bool one_plus, round_before, across_heads;
};
Option option_of(const std::string& model) {
  for (const char* each : {"gemma3", "qwen3_next", "qwen3_5", "t5gemma2"}) {
    if (model == each) return {true, false, false};
  }
  for (const char* each : {"gemma3n", "gemma4", "afmoe"}) {
    if (model == each) return {false, false, false};
  }
  for (const char* each : {"olmo2", "olmo3", "flex_olmo"}) {
    if (model == each) return {false, false, true};
  }
  for (const char* each : {"olmoe", "minimax_m2"}) {
    if (model == each) return {false, true, true};
  }
  return {false, true, false};
}

struct Differences {
  int elements = 0, largest = 0;  // in steps of bf16
};
Differences differences(const ModelNorm& golden, const Option& option) {
  const Device x(norm_x), weight(golden.weight), out(norm_x.size() * 2);
  const Layout layout = thd(norm_tokens, norm_heads, norm_head_dim);
  gpu::Norm norm;
  norm.weight = weight.data();
  norm.dtype = DType::bf16;
  norm.one_plus = option.one_plus;
  norm.round_before = option.round_before;
  norm.across_heads = option.across_heads;
  gpu::rms_norm(ConstHeads(x.data(), DType::bf16, layout), {out.data(), DType::bf16, layout}, norm);
  gpu::synchronize();
  const Bytes got = out.get();
  Differences found;
  for (std::size_t i = 0; i < golden.out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, got.data() + 2 * i, 2);
    found.elements += bits != golden.out[i];
    found.largest = std::max(found.largest, std::abs(int{bits} - int{golden.out[i]}));
  }
  return found;
}

class GpuNorms : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::devices() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(GpuNorms, AreThoseOfTheModels) {
  EXPECT_EQ(model_norms.size(), 20U);
  for (const ModelNorm& golden : model_norms) {
    const Differences found = differences(golden, option_of(golden.model));
    EXPECT_LE(found.elements, 2) << golden.model;
    EXPECT_LE(found.largest, 2) << golden.model;
  }
}

TEST_F(GpuNorms, AreNotThoseOfOthers) {
  for (const ModelNorm& golden : model_norms) {
    const Option option = option_of(golden.model);
    EXPECT_GE(differences(golden, {option.one_plus, !option.round_before, option.across_heads}).elements, 20)
        << golden.model;
    EXPECT_GE(differences(golden, {!option.one_plus, option.round_before, option.across_heads}).elements, 100)
        << golden.model;
    if (!option.across_heads) continue;  // else the weight would not reach
    EXPECT_GE(differences(golden, {option.one_plus, option.round_before, false}).elements, 100) << golden.model;
  }
}

}  // namespace
}  // namespace rotary::tests
