// The norm options of docs/gpu.md, model by model, beside what transformers' own classes made on a CPU. They add the
// squares in another order, so a last bit may differ here and there; with another option a quarter of all elements do,
// or more.
#include <fstream>
#include <nlohmann/json.hpp>

#include "device_heads.h"

namespace rotary::tests {
namespace {

// gpu/tests/golden/model_norms.json: x [tokens, heads, head_dim] of bf16, and of each model its weight and its result.
const nlohmann::json& golden() {
  static const auto all = nlohmann::json::parse(std::ifstream(ROTARY_SOURCE_DIR "/gpu/tests/golden/model_norms.json"));
  return all;
}

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
Differences differences(const nlohmann::json& model, const Option& option) {
  using Words = std::vector<std::uint16_t>;
  const Words wanted = model.at("out");
  const Device x(golden().at("x").get<Words>()), weight(model.at("weight").get<Words>()), out(wanted.size() * 2);
  const Layout layout = thd(golden().at("tokens"), golden().at("heads"), golden().at("head_dim"));
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
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, got.data() + 2 * i, 2);
    found.elements += bits != wanted[i];
    found.largest = std::max(found.largest, std::abs(int{bits} - int{wanted[i]}));
  }
  return found;
}

class GpuNorms : public Gpu {};

TEST_F(GpuNorms, AreThoseOfTheModels) {
  EXPECT_EQ(golden().at("models").size(), 20U);
  for (const nlohmann::json& model : golden().at("models")) {
    const Differences found = differences(model, option_of(model.at("model")));
    EXPECT_LE(found.elements, 2) << model.at("model");
    EXPECT_LE(found.largest, 2) << model.at("model");
  }
}

}  // namespace
}  // namespace rotary::tests
