// Quantised projections and adapters: what belongs to a row moves with it, and the formats that are refused.
#include <functional>

#include "folder.h"

namespace rotary::convert_tests {
namespace {

using enum ElementType;

// Heads of 16: 4 of q, 2 of k.
std::string heads_of_16(const std::string& more = {}) {
  return R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
 "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_theta": 10000.0)" +
         more + "}";
}
std::string quantized(const std::string& keys) { return heads_of_16(R"(, "quantization_config": {)" + keys + "}"); }

// The row of the half weights that row r of the interleaved ones is.
std::size_t source_row(std::size_t r) { return r / 16 * 16 + r % 16 / 2 + r % 2 * 8; }

const std::string layer_0 = "model.layers.0.self_attn.";

struct RowsPart {
  std::string suffix;
  ElementType type;
  std::vector<std::int64_t> shape;  // the sizes of a part that moves, behind its rows
};

class Formats : public Checkpoint {
 protected:
  static std::vector<Tensor> q_k_and_v(const std::function<std::vector<RowsPart>(std::int64_t rows)>& parts) {
    std::vector<Tensor> tensors;
    for (const auto& [word, rows] : {std::pair("q_proj.", 64), {"k_proj.", 32}, {"v_proj.", 32}}) {
      for (const RowsPart& part : parts(rows))
        tensors.push_back(some_tensor(layer_0 + word + part.suffix, part.type, part.shape));
    }
    return tensors;
  }
  static Tensor q(const std::string& suffix, ElementType type, std::vector<std::int64_t> shape) {
    return some_tensor(layer_0 + "q_proj." + suffix, type, std::move(shape));
  }

  fs::path adapter(const std::string& type, const std::vector<Tensor>& tensors) const {
    const fs::path source = make(type, heads_of_16(), tensors, {{"format", "pt"}}, "adapter_model.safetensors");
    write_text(source / "adapter_config.json", R"({"peft_type": ")" + type + R"("})");
    return source;
  }

  // The rows of these tensors move, and no others.
  static void expect_rows(const Tensors& before, const Tensors& after, const std::vector<std::string>& moving) {
    for (const auto& [name, tensor] : before) {
      bool moves = false;
      for (const std::string& end : moving)
        moves = moves || (name.ends_with("_proj." + end) && !name.ends_with("v_proj." + end));
      const std::size_t count = name.find("q_proj") != std::string::npos ? 64 : 32, bytes = tensor.data.size() / count;
      if (!moves) {
        EXPECT_EQ(after.at(name).data, tensor.data) << name;
      }
      for (std::size_t r = 0; moves && r < count; ++r) {
        EXPECT_EQ(std::memcmp(&after.at(name).data[r * bytes], &tensor.data[source_row(r) * bytes], bytes), 0)
            << name << ' ' << r;
      }
    }
  }
};

TEST_F(Formats, rows_with_scales_and_zero_points) {
  struct Case {
    std::string name;
    std::vector<RowsPart> moving, staying;
  };
  for (const Case& row : std::vector<Case>{
           {"int8", {{"weight", i8, {64}}, {"weight_scale", bf16, {1}}, {"weight_zero_point", i8, {1}}}, {}},
           {"fp8", {{"weight", f8_e4m3, {64}}, {"weight_scale", f32, {1}}}, {{"input_scale", f32, {1}}}},
           {"one scale", {{"weight", f8_e4m3, {64}}}, {{"weight_scale", f32, {}}}},
           {"groups", {{"weight_packed", i32, {8}}, {"weight_scale", bf16, {2}}}, {{"weight_shape", i64, {2}}}},
           {"nvfp4",
            {{"weight_packed", u8, {32}}, {"weight_scale", f8_e4m3, {4}}},
            {{"weight_global_scale", f32, {1}}, {"input_global_scale", f32, {1}}}},
           {"cache scales", {{"weight", bf16, {64}}}, {{"k_scale", f32, {}}, {"input_scale_ub", f32, {1}}}},
           {"whole bytes of 4 and 6 bits", {{"weight", f4, {64}}, {"weight_scale", f6_e2m3, {4}}}, {}},
           {"lora",
            {{"weight", bf16, {64}}, {"lora_B.default.weight", f32, {4}}},
            {{"lora_A.default.weight", f32, {4, 64}}}}}) {
    SCOPED_TRACE(row.name);
    std::vector<std::string> moving;
    for (const RowsPart& part : row.moving) moving.push_back(part.suffix);
    const fs::path source = make(row.name, heads_of_16(), q_k_and_v([&row](std::int64_t rows) {
                                   std::vector<RowsPart> parts = row.staying;
                                   for (RowsPart part : row.moving) {
                                     part.shape.insert(part.shape.begin(), rows);
                                     parts.push_back(part);
                                   }
                                   return parts;
                                 }));
    there_and_back(row.name);
    expect_rows(tensors_in(source), tensors_in(path(row.name + "-2")), moving);
  }
}

TEST_F(Formats, packed_zero_points_of_rows) {
  for (const int bits : {4, 8}) {
    const std::string name = "zeros" + std::to_string(bits);
    const fs::path source = make(name, heads_of_16(), q_k_and_v([bits](std::int64_t rows) {
                                   return std::vector<RowsPart>{{"weight_packed", i32, {rows, 8}},
                                                                {"weight_zero_point", i32, {rows * bits / 32, 2}}};
                                 }));
    there_and_back(name);
    EXPECT_NE(tensors_in(source).at(layer_0 + "q_proj.weight_zero_point").data,
              tensors_in(path(name + "-2")).at(layer_0 + "q_proj.weight_zero_point").data);
  }
}

TEST_F(Formats, one_scale_for_a_block_of_rows_stays) {
  const auto blocks = [](std::int64_t rows) {
    return std::vector<RowsPart>{{"weight", f8_e4m3, {rows, 64}}, {"weight_scale_inv", f32, {rows / 32, 2}}};
  };
  const fs::path source =
      make("blocks", quantized(R"("quant_method": "fp8", "weight_block_size": [32, 32])"), q_k_and_v(blocks));
  there_and_back("blocks");
  expect_rows(tensors_in(source), tensors_in(path("blocks-2")), {"weight"});
  const auto halves = [](std::int64_t rows) {  // halves of a head: a row would need the scale of another
    return std::vector<RowsPart>{{"weight", f8_e4m3, {rows, 64}}, {"weight_scale_inv", f32, {rows / 8, 2}}};
  };
  expect_refused(make("halves", quantized(R"("weight_block_size": [8, 32])"), q_k_and_v(halves)), "TENSOR",
                 "has one for each 8 rows, and rows move to another block");
  for (const char* size : {"[-4, 4]", "[0, 4]", "[32]", "32", "[\"32\", 32]", "[32.0, 32]"}) {
    expect_refused(make("size", quantized(R"("weight_block_size": )" + std::string(size)), q_k_and_v(blocks)),
                   "CONFIG_VALUE", "quantization_config.weight_block_size must be two numbers from 1 but got");
  }
}

std::vector<RowsPart> gptq(std::int64_t rows) {
  return {
      {"qweight", i32, {8, rows}}, {"qzeros", i32, {2, rows / 8}}, {"scales", f16, {2, rows}}, {"g_idx", i32, {64}}};
}

TEST_F(Formats, gptq_has_columns_and_packed_zeros) {
  const fs::path source = make("gptq", quantized(R"("quant_method": "gptq", "bits": 4)"), q_k_and_v(gptq));
  there_and_back("gptq");
  const Tensors before = tensors_in(source), after = tensors_in(path("gptq-2"));
  const auto nibble = [](const Tensors& all, std::size_t group, std::size_t row) {
    return std::to_integer<int>(all.at(layer_0 + "q_proj.qzeros").data[group * 32 + row / 2]) >> row % 2 * 4 & 15;
  };
  const auto scale = [](const Tensors& all, std::size_t group, std::size_t row) {
    return &all.at(layer_0 + "q_proj.scales").data[(group * 64 + row) * 2];
  };
  for (std::size_t r = 0; r < 64; ++r) {
    for (std::size_t group = 0; group < 2; ++group) {
      EXPECT_EQ(nibble(after, group, r), nibble(before, group, source_row(r)));
      EXPECT_EQ(std::memcmp(scale(after, group, r), scale(before, group, source_row(r)), 2), 0);
    }
  }
  EXPECT_EQ(before.at(layer_0 + "q_proj.g_idx").data, after.at(layer_0 + "q_proj.g_idx").data);
}

TEST_F(Formats, awq_packs_along_the_rows) {
  make("awq", quantized(R"("quant_method": "awq", "bits": 4, "version": "gemm")"), q_k_and_v([](std::int64_t rows) {
         return std::vector<RowsPart>{
             {"qweight", i32, {64, rows / 8}}, {"qzeros", i32, {2, rows / 8}}, {"scales", f16, {2, rows}}};
       }));
  EXPECT_EQ(there_and_back("awq").tensors.size(), 6U);
}

TEST_F(Formats, bits_that_no_packing_has_are_refused) {
  for (const char* bits : {"0", "-1", "9223372036854775807", "\"4\"", "true", "4.0", "5", "16"}) {
    expect_refused(make("bits", quantized(R"("quant_method": "gptq", "bits": )" + std::string(bits)), q_k_and_v(gptq)),
                   "CONFIG_VALUE", "quantization_config.bits must be 2, 3, 4 or 8 but got");
  }
  make("null", quantized(R"("quant_method": "gptq", "bits": null)"), q_k_and_v(gptq));  // as absent: 4
  there_and_back("null");
}

// Each was written with damage, or ended the program, before there was one rule for all paths.
TEST_F(Formats, what_is_no_whole_bytes_is_refused) {
  for (const Tensor& tensor :
       {q("bias", f4, {64}), q("weight", f4, {64, 3}), q("weight", f6_e2m3, {64, 6}), q("weight_packed", f4, {64, 3}),
        q("weight_scale", f6_e3m2, {64, 2}), q("lora_B.weight", f4, {64, 3}), q("qweight", f4, {1, 64}),
        some_tensor(layer_0 + "q_norm.weight", f4, {16})})
    expect_refused(make("bytes", heads_of_16(), {tensor}), "DTYPE", "must have elements of whole bytes but tensor");
  expect_refused(make("scales", heads_of_16(), {q("scales", f6_e2m3, {2, 64}), q("qweight", i32, {8, 64})}), "DTYPE",
                 "must have elements of whole bytes but tensor");
  for (const std::int64_t front : {3, 12, 96, 128, 512})
    expect_refused(make("zeros", heads_of_16(), {q("weight_zero_point", i32, {front, 1})}), "SHAPE",
                   "must have the 64 rows");
}

TEST_F(Formats, formats_that_are_not_read_are_refused_by_name) {
  struct Case {
    const char* format;
    std::vector<Tensor> tensors;
  };
  for (const Case& row : std::vector<Case>{
           {"bitsandbytes", {q("weight", i8, {64, 64}), q("SCB", f32, {64})}},
           {"bitsandbytes", {q("weight", u8, {2048, 1}), q("weight.absmax", f32, {64})}},
           {"quanto", {q("weight._data", i8, {64, 64}), q("weight._scale", f32, {64, 1})}},
           {"MLX", {q("weight", u32, {64, 8}), q("scales", f16, {64, 1}), q("biases", f16, {64, 1})}},
           {"MLX", {q("weight", u32, {64, 8}), q("scales", u8, {64, 2})}},
           {"ModelOpt",
            {q("weight", u8, {64, 32}), q("weight_scale", f8_e4m3, {64, 4}), q("weight_scale_2", f32, {})}}}) {
    expect_refused(make("unread", heads_of_16(), row.tensors), "DTYPE",
                   "but is part of " + std::string(row.format) + "'s");
  }
  for (const char* form : {R"("quant_method": "awq", "version": "gemv")", R"("checkpoint_format": "marlin")"}) {
    expect_refused(make("packed", quantized(form), {q("qweight", i32, {8, 64})}), "DTYPE",
                   R"(must be packed as "gemm" of AWQ or "gptq" but is packed as ")");
  }
  expect_refused(make("trellis", heads_of_16(), {q("trellis", i16, {64, 4})}), "TENSOR", "\"trellis\" is not known");
  expect_refused(make("60", heads_of_16(), {q("qweight", i32, {8, 60})}), "SHAPE", "numbers of 4 bits");
  expect_refused(make("k_scale", heads_of_16(),
                      {q("weight", bf16, {64, 4}), some_tensor(layer_0 + "k_proj.weight", bf16, {32, 4}),
                       some_tensor(layer_0 + "k_scale", f32, {32})}),
                 "TENSOR", "k_scale");
}

TEST_F(Formats, adapters_of_lora_and_dora) {
  const fs::path source = adapter(
      "LORA", {q("lora_A.weight", bf16, {4, 64}), q("lora_B.weight", bf16, {64, 4}), q("lora_B.bias", bf16, {64}),
               q("lora_magnitude_vector", bf16, {64}), some_tensor(layer_0 + "v_proj.lora_B.weight", bf16, {32, 4})});
  there_and_back("LORA");
  const std::string file = "adapter_model.safetensors";
  expect_rows(tensors_in(source, file), tensors_in(path("LORA-2"), file),
              {"lora_B.weight", "lora_B.bias", "lora_magnitude_vector"});
  for (const char* type : {"ADALORA", "IA3", "LOHA", "LOKR", "OFT", "BOFT", "HRA", "VERA", "FOURIERFT"}) {
    expect_refused(adapter(type, {q("lora_B.weight", bf16, {64, 4})}), "MODEL_TYPE",
                   "but is of \"" + std::string(type) + "\"");
  }
  fs::create_directories(path("alone"));
  write_text(path("alone") / "adapter_config.json", "{}");
  expect_refused(path("alone"), "FILE", "must hold config.json, the config of the adapter's base model");
}

}  // namespace
}  // namespace rotary::convert_tests
