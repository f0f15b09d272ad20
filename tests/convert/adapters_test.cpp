// Adapters of PEFT: the parts that have rows for the elements of q and k, and those that have none.
#include <string>
#include <vector>

#include "folder.h"

namespace rotary::convert_tests {
namespace {

const std::string config =
    R"({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
 "num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 10000.0})";
const std::string file = "adapter_model.safetensors";
const std::string at = "base_model.model.model.layers.1.self_attn.";

struct Part {
  std::string name;
  std::vector<std::int64_t> shape;
  bool moves = false;  // its rows are those of heads of 8
};

class Adapters : public Checkpoint {
 protected:
  fs::path adapter(const std::string& type, const std::vector<Part>& parts) const {
    std::vector<Tensor> tensors;
    for (const Part& part : parts) tensors.push_back(some_tensor(at + part.name, ElementType::bf16, part.shape));
    const fs::path source = make(type, config, tensors, {{"format", "pt"}}, file);
    write_text(source / "adapter_config.json", R"({"peft_type": ")" + type + R"("})");
    return source;
  }

  void expect_rows_move(const std::string& type, const std::vector<Part>& parts) const {
    SCOPED_TRACE(type);
    const fs::path source = adapter(type, parts);
    const convert::Plan plan = convert::make_plan(source, Pairing::interleaved, std::nullopt);
    convert::write_folder(
        plan, path(type + "-2"), [](std::uint64_t) {},
        [&](const fs::path& written) {
          for (const convert::LayerCheck& check : convert::verify(plan, written, nullptr))
            EXPECT_EQ(check.largest_difference, 0) << check.layer;
        });
    const Tensors before = tensors_in(source, file), after = tensors_in(path(type + "-2"), file);
    for (const Part& part : parts) {
      const std::vector<std::byte>&half = before.at(at + part.name).data, &interleaved = after.at(at + part.name).data;
      const auto rows = static_cast<std::size_t>(part.shape[0]);
      const std::size_t bytes = half.size() / rows;
      for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t d = row % 8, moved = row / 8 * 8 + d / 2 + d % 2 * 4;
        EXPECT_EQ(std::memcmp(&interleaved[row * bytes], &half[(part.moves ? moved : row) * bytes], bytes), 0)
            << part.name << ' ' << row;
      }
    }
    convert(path(type + "-2"), Pairing::half, path(type + "-3"));
    expect_same_files(source, path(type + "-3"));
  }

  void expect_refused(const fs::path& source, const std::string& code, const std::string& words) const {
    expect_error(code, words, [&] { convert(source, Pairing::interleaved, path("refused")); });
    EXPECT_FALSE(fs::exists(path("refused")));
  }
};

TEST_F(Adapters, lora_and_dora) {
  expect_rows_move("LORA", {{"q_proj.lora_A.weight", {4, 32}},
                            {"q_proj.lora_B.weight", {32, 4}, true},
                            {"q_proj.lora_magnitude_vector", {32}, true},
                            {"v_proj.lora_B.weight", {16, 4}}});
}

TEST_F(Adapters, factors_of_outputs_move_and_those_of_inputs_stay) {
  expect_rows_move("IA3", {{"q_proj.ia3_l", {1, 32}}, {"k_proj.ia3_l", {16, 1}, true}, {"v_proj.ia3_l", {16, 1}}});
}

TEST_F(Adapters, an_adapter_carries_its_base_config) {
  fs::create_directories(path("alone"));
  write_text(path("alone") / "adapter_config.json", "{}");
  expect_refused(path("alone"), "FILE", "must hold config.json, that of the adapter's base model");
}

TEST_F(Adapters, products_of_elements_have_rows_in_both_factors) {
  expect_rows_move("LOHA", {{"k_proj.hada_w1_a", {16, 4}, true},
                            {"k_proj.hada_w1_b", {4, 32}},
                            {"k_proj.hada_w2_a", {16, 4}, true},
                            {"k_proj.hada_w2_b", {4, 32}}});
}

TEST_F(Adapters, a_kronecker_product_has_them_in_the_second_factor_where_this_has_whole_heads) {
  expect_rows_move("LOKR", {{"q_proj.lokr_w1", {2, 4}},
                            {"q_proj.lokr_w2", {16, 8}, true},
                            {"k_proj.lokr_w1", {2, 4}},
                            {"k_proj.lokr_w2_a", {8, 2}, true},
                            {"k_proj.lokr_w2_b", {2, 8}}});
  expect_refused(adapter("LOKR", {{"q_proj.lokr_w1", {8, 4}}, {"q_proj.lokr_w2", {4, 8}}}), "TENSOR",
                 "the second factor of LoKr must have whole heads of 8 rows");
  expect_refused(adapter("LOKR", {{"q_proj.lokr_w1", {3, 4}}, {"q_proj.lokr_w2", {12, 8}}}), "TENSOR",
                 "the second factor of LoKr must have whole heads of 8 rows");
}

TEST_F(Adapters, what_turns_the_input_stays) {
  expect_rows_move("OFT", {{"q_proj.oft_R.weight", {4, 28}}});
  expect_rows_move("HRA", {{"q_proj.hra_u", {32, 8}}});
  expect_rows_move("BOFT", {{"q_proj.boft_R", {1, 4, 8, 8}}, {"q_proj.boft_s", {32, 1}, true}});
}

TEST_F(Adapters, other_types_are_refused) {
  expect_refused(adapter("VERA", {{"q_proj.vera_lambda_b", {32}}}), "MODEL_TYPE",
                 "but is of \"VERA\", where q and k share their rows with other projections");
  expect_refused(adapter("FOURIERFT", {{"q_proj.fourierft_spectrum", {32}}}), "MODEL_TYPE", "but is of \"FOURIERFT\"");
  expect_refused(adapter("OFT", {{"q_proj.oft_r", {4, 8, 8}}}), "TENSOR", "\"oft_r\" is none");
}

}  // namespace
}  // namespace rotary::convert_tests
