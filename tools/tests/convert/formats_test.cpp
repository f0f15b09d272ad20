// Packed projections and adapters: what belongs to a row moves with it. (Rows of other formats: families.json)
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
  std::vector<std::int64_t> shape;
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
};

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

std::vector<RowsPart> gptq(std::int64_t rows) {
  return {
      {"qweight", i32, {8, rows}}, {"qzeros", i32, {2, rows / 8}}, {"scales", f16, {2, rows}}, {"g_idx", i32, {64}}};
}

TEST_F(Formats, gptq_has_columns_and_packed_zeros) {
  const fs::path source =
      make("gptq", quantized(R"("quant_method": "gptq", "bits": null)"), q_k_and_v(gptq));  // 4, as absent
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

TEST_F(Formats, adapters_of_lora_and_dora) {
  adapter("LORA",
          {q("lora_A.weight", bf16, {4, 64}), q("lora_B.weight", bf16, {64, 4}), q("lora_B.bias", bf16, {64}),
           q("lora_magnitude_vector", bf16, {64}), some_tensor(layer_0 + "v_proj.lora_B.weight", bf16, {32, 4})});
  EXPECT_EQ(there_and_back("LORA").tensors.size(), 3U);
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
