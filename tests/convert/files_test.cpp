// Files beside checkpoints: keys of a KV cache, and tables of cos and sin.
#include <algorithm>

#include "folder.h"

namespace rotary::convert_tests {
namespace {

using Form = TableForm;

// cos of pair j at row t is t + j / 10, sin is minus that less 1.
std::vector<float> rows_of(const std::vector<std::vector<int>>& order, int rows) {
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
  return make_tensor<float>(name, ElementType::f32, std::move(shape), rows_of(order, 3));
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

class Files : public Checkpoint {
 protected:
  fs::path file(const std::vector<Tensor>& tensors, const std::map<std::string, std::string>& metadata = {}) const {
    write_tensors(path("in.safetensors"), tensors, metadata);
    return path("in.safetensors");
  }
  ConvertResult convert_file(ConvertRequest request) const {
    request.input = path("in.safetensors");
    request.output = path("out.safetensors");
    return rotary::convert(request);
  }
};

TEST_F(Files, tables_of_each_form_from_each) {
  const std::vector<TableOrder> all = {{Form::pairs, Pairing::unset},
                                       {Form::doubled, Pairing::half},
                                       {Form::doubled, Pairing::interleaved},
                                       {Form::joined, Pairing::unset},
                                       {Form::complex, Pairing::unset}};
  for (const TableOrder& from : all) {
    for (const TableOrder& to : all) {
      SCOPED_TRACE(std::string(name(from.form)) + " to " + name(to.form));
      const TableOrder order = table_order(file(table_in(from.form, from.pairing)));
      EXPECT_EQ(order.form, from.form);
      EXPECT_EQ(order.pairing, from.pairing);
      const ConvertRequest request{.to = to.form == Form::doubled ? std::optional(to.pairing) : std::nullopt,
                                   .form = to.form};
      if (from.form == to.form && from.pairing == to.pairing) {
        expect_error("PAIRING", "must be in another form", [&] { convert_file(request); });
        continue;
      }
      convert_file(request);
      const std::vector<Tensor> result = read_tensors(path("out.safetensors")), wanted = table_in(to.form, to.pairing);
      ASSERT_EQ(result.size(), wanted.size());
      for (std::size_t i = 0; i < result.size(); ++i) {
        EXPECT_EQ(result[i].name, wanted[i].name);
        EXPECT_EQ(result[i].shape, wanted[i].shape);
        EXPECT_EQ(result[i].data, wanted[i].data);
      }
    }
  }
}

TEST_F(Files, one_value_in_each_row_does_not_tell_the_form_but_the_metadata_do) {
  const std::vector<Tensor> row = {make_tensor<float>("cos", ElementType::f32, {1, 4}, {1, 1, 1, 1}),
                                   make_tensor<float>("sin", ElementType::f32, {1, 4}, {0, 0, 0, 0})};
  expect_error("TENSOR", "must differ from pair to pair", [&] { table_order(file(row)); });
  EXPECT_EQ(table_order(file(row, {{"form", "pairs"}})).form, Form::pairs);
  EXPECT_EQ(table_order(file(row, {{"form", "doubled"}})).form, Form::doubled);
  expect_error("PAIRING", "the pairing must be given", [&] { convert_file({.form = Form::doubled}); });
}

TEST_F(Files, what_is_no_table_is_refused) {
  const auto order = [this](const std::vector<Tensor>& tensors) { return table_order(file(tensors)); };
  expect_error("TENSOR", "must be cos and sin", [&] {
    order({tensor("q", {3, 2}, {{0, 0}, {0, 1}}), tensor("k", {3, 1}, {{0, 0}})});
  });
  expect_error("SHAPE", "one shape", [&] {
    order({tensor("cos", {3, 2}, {{0, 0}, {0, 1}}), tensor("sin", {3, 1}, {{1, 0}})});
  });
  expect_error("SHAPE", "must be [..., 2 pairs]", [&] { order({tensor("cos_sin", {3, 1}, {{0, 0}})}); });
  file({some_tensor("cos_sin", ElementType::f6_e2m3, {4, 4})});
  expect_error("DTYPE", "a table must have elements of whole bytes", [&] { convert_file({.form = Form::pairs}); });
}

// ---- KV caches -----------------------------------------------------------------------------------

const char* const config = R"({"model_type": "smollm3", "no_rope_layers": [1, 0], "hidden_size": 32,
 "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 64,
 "rope_theta": 10000.0})";

std::vector<std::string> names_of(const ConvertResult& result) {
  std::vector<std::string> list;
  for (const ConvertedTensor& tensor : result.tensors) list.push_back(tensor.info.name);
  return list;
}

TEST_F(Files, keys_are_found_by_name_and_layers_without_rope_stay) {
  std::vector<Tensor> tensors;
  for (const char* name :
       {"key_cache.0", "value_cache.0", "key_cache.1", "layers.0.k", "past.0.keys", "cache_k_l0", "block.0.v"})
    tensors.push_back(some_tensor(name, ElementType::bf16, {1, 2, 5, 8}));
  file(tensors);
  ConvertRequest request{.to = Pairing::interleaved, .model = parse_config(config)};
  EXPECT_EQ(names_of(convert_file(request)),
            (std::vector<std::string>{"key_cache.0", "layers.0.k", "past.0.keys", "cache_k_l0"}));
  EXPECT_EQ(read_tensor(path("out.safetensors"), "key_cache.1").data, tensors[2].data);
  fs::rename(path("out.safetensors"), path("in.safetensors"));
  request.to = Pairing::half;
  EXPECT_EQ(convert_file(request).from, Pairing::interleaved);  // as its metadata say
  for (const Tensor& tensor : tensors) EXPECT_EQ(read_tensor(path("out.safetensors"), tensor.name).data, tensor.data);

  file(tensors);
  expect_error("PAIRING", "are half already", [&] { convert_file(request); });
  request.to = Pairing::interleaved;
  request.tensors = {"value_cache.0"};
  EXPECT_EQ(names_of(convert_file(request)), (std::vector<std::string>{"value_cache.0"}));
  request.tensors = {"other"};
  expect_error("TENSOR", "--tensor must name", [&] { convert_file(request); });
  request.tensors = {};
  file({some_tensor("key_cache.0", ElementType::bf16, {1, 2, 5, 9})});
  expect_error("SHAPE", "heads of 8 elements", [&] { convert_file(request); });
  file({some_tensor("key_cache.0", ElementType::f4, {1, 2, 5, 8})});
  expect_error("DTYPE", "keys must have elements of whole bytes", [&] { convert_file(request); });
}

// Each row of a file of keys, as the places that its elements come from.
std::vector<int> sources_of(const Tensor& before, const Tensor& after) {
  const std::vector<float> a = test::values_of(before), b = test::values_of(after);
  std::vector<int> sources;
  for (std::size_t i = 0; i < static_cast<std::size_t>(before.shape.back()); ++i)
    sources.push_back(static_cast<int>(std::find(a.begin(), a.end(), b[i]) - a.begin()));
  return sources;
}

TEST_F(Files, heads_side_by_side_and_a_part_of_the_head) {
  const Tensor k = test::make_tensor<float>("k", ElementType::f32, {1, 12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  file({k});
  ConvertRequest request{.to = Pairing::half, .from = Pairing::interleaved, .head_dim = 6, .rotary_dim = 4, .first = 1};
  convert_file(request);
  EXPECT_EQ(sources_of(k, read_tensor(path("out.safetensors"), "k")),
            (std::vector<int>{0, 1, 3, 2, 4, 5, 6, 7, 9, 8, 10, 11}));
  for (const auto& [rotary_dim, first] : {std::pair(3, 0), {0, 1}, {4, 3}, {8, 0}}) {  // odd, or not within the head
    request.rotary_dim = rotary_dim;
    request.first = first;
    expect_error("SHAPE", "an even number of elements within a head of 6", [&] { convert_file(request); });
  }
}

TEST_F(Files, latent_keys_end_in_the_rotated_part) {
  const Tensor k = test::make_tensor<float>("layers.0.k", ElementType::f32, {1, 10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  file({k});
  convert_file({.to = Pairing::half,
                .model = parse_config(R"({"model_type": "deepseek_v2", "hidden_size": 32, "num_attention_heads": 4,
 "num_hidden_layers": 1, "kv_lora_rank": 6, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
 "max_position_embeddings": 64})")});
  EXPECT_EQ(sources_of(k, read_tensor(path("out.safetensors"), "layers.0.k")),
            (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 8, 7, 9}));
}

}  // namespace
}  // namespace rotary::convert_tests
