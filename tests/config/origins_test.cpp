// Where every value of a rope comes from. (Of real configs: tests/golden/readings.txt. Laws over all:
// origins_laws_test.cpp)
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "origins_helpers.h"
#include "rotary/config.h"
#include "tests/support/file_helpers.h"
#include "tests/support/gguf_helpers.h"

namespace rotary {
namespace {

using origins_test::text_of;
namespace fs = std::filesystem;

const fs::path golden = fs::path(ROTARY_SOURCE_DIR) / "tests/golden";

std::string listed(const std::vector<ValueOrigin>& origins) {
  std::string text;
  for (const ValueOrigin& known : origins) text += known.value + " | " + name(known.origin) + " | " + known.from + "\n";
  return text;
}

TEST(Origins, have_the_names_of_the_contract) {
  EXPECT_STREQ(name(Origin::given), "given");
  EXPECT_STREQ(name(Origin::model_default), "default");
  EXPECT_STREQ(name(Origin::derived), "derived");
}

constexpr const char* small = R"("hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4)";

ModelRope parsed(const std::string& type, const std::string& more, const ConfigOptions& options = {}) {
  const Model model =
      parse_config(R"({"model_type": ")" + type + "\", " + small + (more.empty() ? "" : ", " + more) + "}", options);
  EXPECT_FALSE(model.ropes.empty());
  return model.ropes.empty() ? ModelRope{} : model.ropes.back();
}

TEST(Origins, tell_the_pairing_of_the_caller) {
  const ConfigOptions options{.pairing = Pairing::interleaved};
  EXPECT_EQ(text_of(parsed("llama", "", options), "pairing"), "given | ConfigOptions::pairing");
  EXPECT_EQ(text_of(parsed("made_up", "", options), "pairing"), "given | ConfigOptions::pairing");
  EXPECT_EQ(text_of(parsed("llama", ""), "pairing"), "default | llama");
}

TEST(Origins, tell_a_switch_of_the_pairing) {
  const std::string mla = R"("qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "rope_interleave": )";
  EXPECT_EQ(text_of(parsed("deepseek_v3", mla + "false"), "pairing"), "given | rope_interleave");
  EXPECT_EQ(text_of(parsed("deepseek_v3", mla + "null"), "pairing"), "default | deepseek_v3");
}

TEST(Origins, tell_the_inner_base_from_the_outer_one) {
  const std::string both = R"("rope_theta": 5000, "rope_parameters": {"rope_type": "default", "rope_theta": 7000})";
  EXPECT_EQ(text_of(parsed("llama", both), "base"), "given | rope_parameters.rope_theta");
  EXPECT_EQ(text_of(parsed("llama", R"("rope_theta": 5000)"), "base"), "given | rope_theta");
  EXPECT_EQ(text_of(parsed("llama", ""), "base"), "default | llama");
}

TEST(Origins, tell_a_class_default_of_the_scaling_from_a_given_one) {
  const ModelRope default_value = parsed("gpt_oss", R"("head_dim": 64, "layer_types": null)");
  EXPECT_EQ(text_of(default_value, "scaling"), "default | gpt_oss");
  EXPECT_EQ(text_of(default_value, "scaling.factor"), "default | gpt_oss");
  EXPECT_EQ(text_of(default_value, "scaling.truncate"), "default | gpt_oss");
}

TEST(Origins, tell_what_yarn_takes_from_elsewhere) {
  const std::string yarn = R"("max_position_embeddings": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 4)";
  const ModelRope plain = parsed("llama", yarn + "}");
  EXPECT_EQ(text_of(plain, "scaling.trained_length"), "derived | max_position_embeddings");
  EXPECT_EQ(text_of(plain, "scaling.beta_fast"), "default | yarn");
  EXPECT_EQ(text_of(plain, "attention_factor"), "derived | 0.1 * ln(factor) + 1");
  const ModelRope own = parsed("llama", yarn + R"(, "attention_factor": 1.5, "beta_fast": 16})");
  EXPECT_EQ(text_of(own, "scaling.beta_fast"), "given | rope_scaling.beta_fast");
  EXPECT_EQ(text_of(own, "attention_factor"), "given | rope_scaling.attention_factor");
}

TEST(Origins, tell_where_the_width_comes_from) {
  EXPECT_EQ(text_of(parsed("glm", R"("head_dim": 16)"), "rotary_dim"), "default | glm");
  const std::string inside = R"("rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5})";
  EXPECT_EQ(text_of(parsed("glm", inside), "rotary_dim"), "derived | head_dim * partial_rotary_factor");
}

TEST(Origins, of_merged_ropes_are_those_of_the_first_layer_type) {
  const Model model = parse_config(std::string(R"({"model_type": "gemma3_text", "head_dim": 16, )") + small +
                                   R"(, "layer_types": ["full_attention", "sliding_attention", "full_attention",
      "sliding_attention"], "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0},
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}})");
  ASSERT_EQ(model.ropes.size(), 1u);
  EXPECT_EQ(text_of(model.ropes[0], "base"), "given | rope_parameters.full_attention.rope_theta");
}

// ---- a GGUF file ----

TEST(Origins, of_a_gguf_name_its_keys) {
  using namespace test;
  const auto f32 = [](const char* key, float value) { return gguf_key(key, 6, gguf_value(value)); };
  const std::string more = f32("qwen3.rope.freq_base", 1e6F) + gguf_number("qwen3.attention.key_length", 16) +
                           gguf_key("qwen3.rope.scaling.type", 8, gguf_text("yarn")) +
                           f32("qwen3.rope.scaling.factor", 4) + gguf_number("qwen3.context_length", 1024);
  const ScratchFolder folder;
  write_text(folder / "model.gguf", gguf_file("qwen3", 5, more));
  const Model model = read_config(folder / "model.gguf");
  ASSERT_EQ(model.ropes.size(), 1u);
  EXPECT_EQ("\n" + listed(model.ropes[0].origins), R"(
layers | given | qwen3.block_count
heads | given | qwen3.attention.head_count
kv_heads | given | qwen3.attention.head_count_kv
head_dim | given | qwen3.attention.key_length
rotary_dim | derived | head_dim
pairing | default | qwen3
base | given | qwen3.rope.freq_base
scaling | given | qwen3.rope.scaling.type
scaling.factor | given | qwen3.rope.scaling.factor
scaling.trained_length | given | qwen3.context_length
scaling.beta_fast | default | qwen3
scaling.beta_slow | default | qwen3
scaling.truncate | default | qwen3
attention_factor | derived | 0.1 * ln(factor) + 1
context | given | qwen3.context_length
)");
}

TEST(Origins, AreReadBackFromTheirNames) {
  for (const Origin origin : {Origin::given, Origin::model_default, Origin::derived}) {
    EXPECT_EQ(parse_origin(name(origin)), origin);
  }
  test::expect_error("VALUE", "must be given, default or derived but got \"model_default\"",
                     [] { parse_origin("model_default"); });
}

}  // namespace
}  // namespace rotary
