// Files beside checkpoints: keys of a KV cache, and tables of cos and sin.
#include <string>
#include <vector>

#include "convert/cache.h"
#include "convert/forms.h"
#include "folder.h"

namespace rotary::convert_tests {
namespace {

using convert::Form;
using convert::TableForm;

// cos of pair j at row t is t + j / 10, sin is minus that less 1.
std::vector<float> values(const std::vector<std::vector<int>>& order, int rows) {
  std::vector<float> all;
  for (int t = 0; t < rows; ++t) {
    for (const std::vector<int>& at : order) {  // {0 cos or 1 sin, pair}
      const float cos = static_cast<float>(t) + static_cast<float>(at[1]) / 10;
      all.push_back(at[0] == 0 ? cos : -cos - 1);
    }
  }
  return all;
}

Tensor tensor(const std::string& name, std::vector<std::int64_t> shape, const std::vector<std::vector<int>>& order) {
  return make_tensor<float>(name, ElementType::f32, std::move(shape), values(order, 3));
}

std::vector<Tensor> table_in(Form form, Pairing pairing) {
  switch (form) {
    case Form::pairs:
      return {tensor("cos", {3, 2}, {{0, 0}, {0, 1}}), tensor("sin", {3, 2}, {{1, 0}, {1, 1}})};
    case Form::doubled:
      if (pairing == Pairing::half)
        return {tensor("cos", {3, 4}, {{0, 0}, {0, 1}, {0, 0}, {0, 1}}),
                tensor("sin", {3, 4}, {{1, 0}, {1, 1}, {1, 0}, {1, 1}})};
      return {tensor("cos", {3, 4}, {{0, 0}, {0, 0}, {0, 1}, {0, 1}}),
              tensor("sin", {3, 4}, {{1, 0}, {1, 0}, {1, 1}, {1, 1}})};
    case Form::joined:
      return {tensor("cos_sin", {3, 4}, {{0, 0}, {0, 1}, {1, 0}, {1, 1}})};
    case Form::complex:
      return {tensor("freqs_cis", {3, 2, 2}, {{0, 0}, {1, 0}, {0, 1}, {1, 1}})};
  }
  return {};
}

TEST(Forms, each_from_each) {
  const std::vector<TableForm> all = {{Form::pairs, Pairing::unset},
                                      {Form::doubled, Pairing::half},
                                      {Form::doubled, Pairing::interleaved},
                                      {Form::joined, Pairing::unset},
                                      {Form::complex, Pairing::unset}};
  for (const TableForm& from : all) {
    for (const TableForm& to : all) {
      SCOPED_TRACE(std::string(name(from.form)) + " to " + name(to.form));
      const convert::TableTensors table = convert::table_of(table_in(from.form, from.pairing));
      EXPECT_EQ(table.form.form, from.form);
      EXPECT_EQ(table.form.pairing, from.pairing);
      const std::vector<Tensor> result = convert::in_form(table, to), wanted = table_in(to.form, to.pairing);
      ASSERT_EQ(result.size(), wanted.size());
      for (std::size_t i = 0; i < result.size(); ++i) {
        EXPECT_EQ(result[i].name, wanted[i].name);
        EXPECT_EQ(result[i].shape, wanted[i].shape);
        EXPECT_EQ(result[i].data, wanted[i].data);
      }
    }
  }
}

TEST(Forms, one_value_in_each_row_does_not_tell_the_form) {
  const std::vector<Tensor> row = {make_tensor<float>("cos", ElementType::f32, {1, 4}, {1, 1, 1, 1}),
                                   make_tensor<float>("sin", ElementType::f32, {1, 4}, {0, 0, 0, 0})};
  expect_error("TENSOR", "must differ from pair to pair", [&] { convert::table_of(row); });
  EXPECT_EQ(convert::table_of(row, "pairs").form.form, Form::pairs);
  EXPECT_EQ(convert::table_of(row, "doubled").form.form, Form::doubled);
}

TEST(Forms, what_is_no_table_is_refused) {
  expect_error("TENSOR", "must be cos and sin", [] {
    convert::table_of({tensor("q", {3, 2}, {{0, 0}, {0, 1}}), tensor("k", {3, 2}, {{0, 0}, {0, 1}})});
  });
  expect_error("SHAPE", "one shape", [] {
    convert::table_of({tensor("cos", {3, 2}, {{0, 0}, {0, 1}}), tensor("sin", {3, 1}, {{1, 0}})});
  });
  expect_error("SHAPE", "must be [..., 2 pairs]", [] { convert::table_of({tensor("cos_sin", {3, 1}, {{0, 0}})}); });
}

// ---- KV caches -----------------------------------------------------------------------------------

const char* const config = R"({"model_type": "smollm3", "no_rope_layers": [1, 0], "hidden_size": 32,
 "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 64,
 "rope_theta": 10000.0})";

std::vector<std::string> names(const convert::CachePlan& plan) {
  std::vector<std::string> list;
  for (const convert::CacheTensor& tensor : plan.tensors) list.push_back(tensor.info.name);
  return list;
}

TEST(Cache, keys_are_found_by_name_and_layers_without_rope_stay) {
  const Model model = parse_config(config);
  convert::CacheRequest request{.to = Pairing::interleaved, .from = {}, .model = &model, .keys = {}, .tensors = {}};
  std::vector<TensorInfo> tensors;
  for (const char* name :
       {"key_cache.0", "value_cache.0", "key_cache.1", "layers.0.k", "past.0.keys", "cache_k_l0", "block.0.v"})
    tensors.push_back({name, ElementType::bf16, {1, 2, 5, 8}, 160});
  EXPECT_EQ(names(convert::plan_cache(tensors, {}, request)),
            (std::vector<std::string>{"key_cache.0", "layers.0.k", "past.0.keys", "cache_k_l0"}));
  request.tensors = {"value_cache.0"};
  EXPECT_EQ(names(convert::plan_cache(tensors, {}, request)), (std::vector<std::string>{"value_cache.0"}));
  request.tensors = {"other"};
  expect_error("TENSOR", "--tensor must name", [&] { convert::plan_cache(tensors, {}, request); });
  request.tensors = {};
  request.to = Pairing::half;
  expect_error("PAIRING", "are half already", [&] { convert::plan_cache(tensors, {}, request); });
  EXPECT_EQ(convert::plan_cache(tensors, {{"rotary.pairing", "interleaved"}}, request).from, Pairing::interleaved);
  tensors.resize(1);
  tensors[0].shape = {1, 2, 5, 9};
  request.to = Pairing::interleaved;
  expect_error("SHAPE", "heads of 8 elements", [&] { convert::plan_cache(tensors, {}, request); });
}

TEST(Cache, heads_side_by_side_and_a_part_of_the_head) {
  convert::CacheRequest request{.to = Pairing::half,
                                .from = Pairing::interleaved,
                                .model = nullptr,
                                .keys = {.head_dim = 6, .rotary_dim = 4, .first = 1},
                                .tensors = {}};
  const convert::CachePlan plan = convert::plan_cache({{"k", ElementType::f32, {7, 12}, 336}}, {}, request);
  EXPECT_EQ(*plan.tensors.at(0).change.sources, (convert::Sources{0, 1, 3, 2, 4, 5, 6, 7, 9, 8, 10, 11}));
}

TEST(Cache, latent_keys_end_in_the_rotated_part) {
  const Model model = parse_config(R"({"model_type": "deepseek_v2", "hidden_size": 32, "num_attention_heads": 4,
 "num_hidden_layers": 1, "kv_lora_rank": 6, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
 "max_position_embeddings": 64})");
  const convert::CacheRequest request{.to = Pairing::half, .from = {}, .model = &model, .keys = {}, .tensors = {}};
  const convert::CachePlan plan = convert::plan_cache({{"layers.0.k", ElementType::f32, {7, 10}, 280}}, {}, request);
  EXPECT_EQ(*plan.tensors.at(0).change.sources, (convert::Sources{0, 1, 2, 3, 4, 5, 6, 8, 7, 9}));
}

}  // namespace
}  // namespace rotary::convert_tests
