// Quantised projections: what belongs to a row moves with it.
#include <string>
#include <vector>

#include "folder.h"

namespace rotary::convert_tests {
namespace {

std::string config(const std::string& more) {
  return R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
 "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_theta": 10000.0)" +
         more + "}";
}

// Heads of 16: the row of the half weights that row r of the interleaved ones is.
std::size_t source_row(std::size_t r) { return r / 16 * 16 + r % 16 / 2 + r % 2 * 8; }

struct Part {
  std::string suffix;
  ElementType type;
  std::vector<std::int64_t> per_row;  // the shape behind the rows
};

class Quantized : public Checkpoint {
 protected:
  const std::string at_ = "model.layers.0.self_attn.";

  static std::vector<std::int64_t> shape_of(std::int64_t rows, const std::vector<std::int64_t>& per_row) {
    std::vector<std::int64_t> shape{rows};
    shape.insert(shape.end(), per_row.begin(), per_row.end());
    return shape;
  }

  // Converts q, k and v of these parts, and of these beside that have no rows.
  void expect_rows_move(const std::string& name, const std::vector<Part>& parts, const std::vector<Part>& beside = {}) {
    SCOPED_TRACE(name);
    std::vector<Tensor> tensors;
    for (const auto& [word, rows] : {std::pair("q_proj.", 64), {"k_proj.", 32}, {"v_proj.", 32}}) {
      for (const Part& part : parts)
        tensors.push_back(some_tensor(at_ + word + part.suffix, part.type, shape_of(rows, part.per_row)));
      for (const Part& part : beside) tensors.push_back(some_tensor(at_ + word + part.suffix, part.type, part.per_row));
    }
    const fs::path source = make(name, config(""), tensors);
    convert(source, Pairing::interleaved, path(name + "-2"));
    const Tensors before = tensors_in(source), after = tensors_in(path(name + "-2"));
    for (const auto& [tensor_name, tensor] : before) {
      const std::vector<std::byte>&old = tensor.data, &now = after.at(tensor_name).data;
      const bool projected = tensor_name.find("v_proj") == std::string::npos;
      bool rows = false;
      for (const Part& part : parts) rows = rows || tensor_name.ends_with("_proj." + part.suffix);
      if (!projected || !rows) {
        EXPECT_EQ(old, now) << tensor_name;
        continue;
      }
      const std::size_t count = tensor_name.find("q_proj") != std::string::npos ? 64 : 32, bytes = old.size() / count;
      for (std::size_t r = 0; r < count; ++r)
        EXPECT_EQ(std::memcmp(&now[r * bytes], &old[source_row(r) * bytes], bytes), 0) << tensor_name << ' ' << r;
    }
    convert(path(name + "-2"), Pairing::half, path(name + "-3"));
    expect_same_files(source, path(name + "-3"));
  }

  void expect_refused(const std::vector<Tensor>& tensors, const std::string& more, const std::string& code,
                      const std::string& words) {
    const fs::path source = make("refused", config(more), tensors);
    expect_error(code, words, [&] { convert(source, Pairing::interleaved, path("refused-2")); });
    EXPECT_FALSE(fs::exists(path("refused-2")));
  }
};

TEST_F(Quantized, rows_with_scales_and_zero_points) {
  using enum ElementType;
  expect_rows_move("int8", {{"weight", i8, {64}}, {"weight_scale", bf16, {1}}, {"weight_zero_point", i8, {1}}});
  expect_rows_move("fp8", {{"weight", f8_e4m3, {64}}, {"weight_scale", f32, {1}}}, {{"input_scale", f32, {1}}});
  expect_rows_move("tensor", {{"weight", f8_e4m3, {64}}}, {{"weight_scale", f32, {}}});
  expect_rows_move("groups", {{"weight_packed", i32, {8}}, {"weight_scale", bf16, {2}}}, {{"weight_shape", i64, {2}}});
  expect_rows_move("nvfp4", {{"weight_packed", u8, {32}}, {"weight_scale", f8_e4m3, {4}}},
                   {{"weight_global_scale", f32, {1}}, {"input_global_scale", f32, {1}}});
  expect_rows_move("quanto", {{"weight._data", i8, {64}}, {"weight._scale", f32, {1}}}, {{"input_scale", f32, {}}});
  expect_rows_move("cache scales", {{"weight", bf16, {64}}}, {{"k_scale", f32, {}}, {"input_scale_ub", f32, {1}}});
  expect_rows_move("adalora", {{"weight", bf16, {64}}, {"lora_B", f32, {4}}},
                   {{"lora_A", f32, {4, 64}}, {"lora_E", f32, {4, 1}}});
  expect_rows_move("bnb8", {{"weight", i8, {64}}, {"SCB", f32, {}}}, {{"weight_format", u8, {}}});
  expect_rows_move("mlx", {{"weight", u32, {8}}, {"scales", f16, {1}}, {"biases", f16, {1}}});
}

TEST_F(Quantized, scales_of_each_element_of_cached_keys_are_refused) {
  expect_refused({some_tensor(at_ + "q_proj.weight", ElementType::bf16, {64, 4}),
                  some_tensor(at_ + "k_proj.weight", ElementType::bf16, {32, 4}),
                  some_tensor(at_ + "k_scale", ElementType::f32, {32})},
                 "", "TENSOR", "k_scale");
}

TEST_F(Quantized, one_scale_for_a_block_of_rows_stays) {
  std::vector<Tensor> tensors;
  for (const auto& [word, rows] : {std::pair("q_proj.", 64), {"k_proj.", 32}, {"v_proj.", 32}}) {
    tensors.push_back(some_tensor(at_ + word + "weight", ElementType::f8_e4m3, {rows, 64}));
    tensors.push_back(some_tensor(at_ + word + "weight_scale_inv", ElementType::f32, {rows / 32, 2}));
  }
  const fs::path source = make(
      "blocks", config(R"(, "quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 32]})"), tensors);
  convert(source, Pairing::interleaved, path("blocks-2"));
  const Tensors before = tensors_in(source), after = tensors_in(path("blocks-2"));
  EXPECT_EQ(before.at(at_ + "q_proj.weight_scale_inv").data, after.at(at_ + "q_proj.weight_scale_inv").data);
  EXPECT_NE(before.at(at_ + "q_proj.weight").data, after.at(at_ + "q_proj.weight").data);
  for (Tensor& tensor : tensors) {  // blocks of half a head: a row would need the scale of another
    if (tensor.name.ends_with("inv")) tensor = some_tensor(tensor.name, ElementType::f32, {2 * tensor.shape[0] * 2, 2});
  }
  expect_refused(tensors, R"(, "quantization_config": {"weight_block_size": [8, 32]})", "TENSOR",
                 "has one for each 8 rows, which a head's rows leave");
}

TEST_F(Quantized, gptq_has_columns_and_packed_zeros) {
  std::vector<Tensor> tensors;
  for (const auto& [word, rows] : {std::pair("q_proj.", 64), {"k_proj.", 32}, {"v_proj.", 32}}) {
    tensors.push_back(some_tensor(at_ + word + "qweight", ElementType::i32, {8, rows}));
    tensors.push_back(some_tensor(at_ + word + "qzeros", ElementType::i32, {2, rows / 8}));
    tensors.push_back(some_tensor(at_ + word + "scales", ElementType::f16, {2, rows}));
    tensors.push_back(some_tensor(at_ + word + "g_idx", ElementType::i32, {64}));
  }
  const fs::path source =
      make("gptq", config(R"(, "quantization_config": {"quant_method": "gptq", "bits": 4})"), tensors);
  convert(source, Pairing::interleaved, path("gptq-2"));
  const Tensors before = tensors_in(source), after = tensors_in(path("gptq-2"));
  const auto nibble = [this](const Tensors& all, std::size_t group, std::size_t row) {
    const std::byte byte = all.at(at_ + "q_proj.qzeros").data[group * 32 + row / 2];
    return std::to_integer<int>(byte) >> row % 2 * 4 & 15;
  };
  for (std::size_t r = 0; r < 64; ++r) {
    for (std::size_t group = 0; group < 2; ++group) {
      EXPECT_EQ(nibble(after, group, r), nibble(before, group, source_row(r)));
      const auto scale = [&](const Tensors& all, std::size_t row) {
        return &all.at(at_ + "q_proj.scales").data[(group * 64 + row) * 2];
      };
      EXPECT_EQ(std::memcmp(scale(after, r), scale(before, source_row(r)), 2), 0);
    }
  }
  EXPECT_EQ(before.at(at_ + "q_proj.g_idx").data, after.at(at_ + "q_proj.g_idx").data);
  convert(path("gptq-2"), Pairing::half, path("gptq-3"));
  expect_same_files(source, path("gptq-3"));
}

TEST_F(Quantized, what_cannot_be_permuted_is_refused) {
  const auto q = [this](const std::string& suffix, ElementType type, std::vector<std::int64_t> shape) {
    return some_tensor(at_ + "q_proj." + suffix, type, std::move(shape));
  };
  expect_refused({q("weight", ElementType::u8, {2048, 1}), q("weight.absmax", ElementType::u8, {64}),
                  q("weight.nested_absmax", ElementType::f32, {1})},
                 "", "DTYPE", "must be quantised once");
  expect_refused({q("trellis", ElementType::i16, {64, 4})}, "", "TENSOR", "\"trellis\" is none");
  expect_refused({q("qweight", ElementType::i32, {8, 60})}, "", "SHAPE", "numbers of 4 bits");
  for (const char* form : {R"({"quant_method": "awq", "version": "gemv"})",
                           R"({"quant_method": "gptq", "checkpoint_format": "marlin"})"}) {
    expect_refused({q("qweight", ElementType::i32, {8, 64})}, std::string(R"(, "quantization_config": )") + form,
                   "DTYPE", R"(must be packed as "gemm" of AWQ or "gptq" but is packed as ")");
  }
  expect_refused({q("vera_lambda_b", ElementType::f32, {64})}, "", "TENSOR", "vera_lambda_b");
}

}  // namespace
}  // namespace rotary::convert_tests
