// The weights of two checkpoints. Rows are put in order here, by the formula of docs/convert.md.
#include <cmath>
#include <limits>
#include <type_traits>

#include "tools/tests/convert/folder.h"

namespace rotary::convert_tests {
namespace {

const std::string config = R"({"model_type": "qwen2", "hidden_size": 8, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 2, "intermediate_size": 8, "vocab_size": 4})";

std::vector<Tensor> weights() {
  std::vector<Tensor> all = {some_tensor("model.embed_tokens.weight", ElementType::f32, {4, 8})};
  for (const std::string layer : {"0", "1"}) {
    const std::string attention = "model.layers." + layer + ".self_attn.";
    for (const auto& [word, rows] : {std::pair("q_proj", 32), {"k_proj", 16}, {"v_proj", 16}}) {
      all.push_back(some_tensor(attention + word + ".weight", ElementType::f32, {rows, 8}));
      all.push_back(some_tensor(attention + word + ".bias", ElementType::f32, {rows}));
    }
    all.push_back(some_tensor(attention + "o_proj.weight", ElementType::f32, {8, 32}));
  }
  return all;
}

// Heads of 8 rows: interleaved[2 j] = half[j], interleaved[2 j + 1] = half[4 + j]; back: the other way.
void reorder(Tensor& tensor, bool back = false) {
  const std::vector<std::byte> before = tensor.data;
  const auto rows = static_cast<std::size_t>(tensor.shape[0]), size = before.size() / rows;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t head = row / 8 * 8, j = row % 8, half = head + j / 2 + j % 2 * 4;
    std::memcpy(tensor.data.data() + (back ? half : row) * size, before.data() + (back ? row : half) * size, size);
  }
}

using Compare = Checkpoint;

TEST_F(Compare, finds_rows_in_the_same_order_in_the_other_and_in_neither) {
  make("first", config, weights());
  const auto compared = [&](const auto& change) {
    std::vector<Tensor> changed = weights();
    for (Tensor& tensor : changed) change(tensor);
    make("second", config, changed);
    return compare_checkpoints(path("first"), path("second"), {});
  };
  const auto is_of = [](const Tensor& tensor, const std::string& word) {
    return tensor.name.find(word) != std::string::npos;
  };
  const auto of_q_or_k = [&](const Tensor& tensor) { return is_of(tensor, "q_proj") || is_of(tensor, "k_proj"); };
  EXPECT_EQ(compared([](Tensor&) {}).order, RowOrder::same);
  const auto all = compared([&](Tensor& one) { if (of_q_or_k(one)) reorder(one); });
  EXPECT_EQ(all.order, RowOrder::reordered);
  EXPECT_EQ(all.to, Pairing::interleaved);
  EXPECT_EQ(all.tensors.size(), 8U);
  EXPECT_EQ(all.same_others, 7U);
  const auto orders = [](const ComparedCheckpoints& of) {
    std::map<RowOrder, int> counts;
    for (const ComparedTensor& one : of.tensors) ++counts[one.order];
    return counts;
  };
  using Counts = std::map<RowOrder, int>;
  const auto no_bias = compared([&](Tensor& one) { if (of_q_or_k(one) && !is_of(one, "bias")) reorder(one); });
  EXPECT_FALSE(no_bias.equal());
  EXPECT_EQ(orders(no_bias), (Counts{{RowOrder::same, 4}, {RowOrder::reordered, 4}}));
  const auto no_k = compared([&](Tensor& one) { if (is_of(one, "q_proj")) reorder(one); });
  EXPECT_EQ(orders(no_k), (Counts{{RowOrder::same, 4}, {RowOrder::reordered, 4}}));
  const auto back = compared([&](Tensor& one) { if (of_q_or_k(one)) reorder(one, true); });
  EXPECT_FALSE(back.equal());
  EXPECT_EQ(orders(back), (Counts{{RowOrder::reordered_back, 8}}));
  const auto other = compared([&](Tensor& one) {
    if (of_q_or_k(one)) reorder(one);
    if (is_of(one, "1.self_attn.k_proj.weight")) one.data[5] ^= std::byte{1};
  });
  EXPECT_EQ(orders(other), (Counts{{RowOrder::reordered, 7}, {RowOrder::other, 1}}));
  const auto value = compared([&](Tensor& one) { if (is_of(one, "0.self_attn.v_proj.weight")) reorder(one); });
  EXPECT_FALSE(value.equal());
  EXPECT_EQ(value.tensors.size(), 9U);
}

TEST_F(Compare, takes_a_conversion_of_ours_another_type_and_a_lost_tensor) {
  const fs::path first = make("first", config, weights());
  convert(first, Pairing::interleaved, path("converted"));
  EXPECT_EQ(compare_checkpoints(first, path("converted"), {}).order, RowOrder::reordered);
  EXPECT_EQ(compare_checkpoints(path("converted"), first, {}).to, Pairing::half);
  std::vector<Tensor> rounded = weights();
  for (Tensor& tensor : rounded) {
    std::vector<std::uint16_t> bits;
    for (const float value : tensor.as<float>()) bits.push_back(to_bf16(value).bits);
    tensor = make_tensor(tensor.name, ElementType::bf16, tensor.shape, bits);
  }
  make("rounded", config, rounded);
  EXPECT_EQ(compare_checkpoints(first, path("rounded"), {}).order, RowOrder::same);
  // Only what rounding makes of a number is that number: not 0 of 1e-8, and never the largest of Infinity.
  constexpr float inf = std::numeric_limits<float>::infinity();
  const auto compared = [&](float value, auto rounded) {
    const auto one = [](const auto& of, ElementType type) {
      std::vector<Tensor> all = weights();
      all.push_back(make_tensor("extra", type, {1}, std::vector{of}));
      return all;
    };
    constexpr bool is_half = std::is_same_v<decltype(rounded), f16>;
    make("of f32", config, one(value, ElementType::f32));
    make("of 16 bits", config, one(rounded, is_half ? ElementType::f16 : ElementType::bf16));
    return compare_checkpoints(path("of f32"), path("of 16 bits"), {}).equal();
  };
  for (const float same : {1e-8F, -0.1F, 0x1.23456p-130F, inf, -inf, std::nanf("")})
    EXPECT_TRUE(compared(same, to_bf16(same))) << same;
  for (const float same : {1e-8F, 0x1.8p-20F, 0x1.234p-15F, inf, std::nanf("")})
    EXPECT_TRUE(compared(same, to_f16(same))) << same;
  EXPECT_FALSE(compared(1e-8F, to_bf16(0)));
  EXPECT_FALSE(compared(1e-7F, to_f16(0)));
  EXPECT_FALSE(compared(inf, to_bf16(5)));
  EXPECT_FALSE(compared(std::nanf(""), to_bf16(5)));
  std::vector<Tensor> fewer = weights();
  fewer.pop_back();
  make("fewer", config, fewer);
  const auto lost = compare_checkpoints(first, path("fewer"), {});
  EXPECT_FALSE(lost.equal());
  EXPECT_NE(lost.sentence().find("1 in one of the two only: model.layers.1.self_attn.o_proj.weight"), std::string::npos)
      << lost.sentence();
}

}  // namespace
}  // namespace rotary::convert_tests
