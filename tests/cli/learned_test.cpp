// --inv-freq and --weights of inspect, table and apply, and ropes that turn clockwise.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "run.h"

namespace rotary::cli_tests {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

class CliLearned : public Cli {
 protected:
  static Tensor floats(const std::string& name, const std::vector<float>& values) {
    return make_tensor<float>(name, ElementType::f32, {static_cast<std::int64_t>(values.size())}, values);
  }
  std::string write_speeds(const std::vector<float>& values) const {
    write_npy(path("speeds.npy"), floats("", values));
    return path("speeds.npy");
  }
  // A Mistral Large 4 of one layer with a rope; its rotated block is the last 4 of 8 elements.
  std::string small_large4() const {
    return write_config("large4.json",
                        R"("model_type": "mistral_large4_text", "hidden_size": 16, "num_attention_heads": 2,)"
                        R"("num_key_value_heads": 2, "num_hidden_layers": 2, "qk_nope_head_dim": 4,)"
                        R"("qk_rope_head_dim": 4, "no_rope_layers": [1, 0], "max_position_embeddings": 64,)"
                        R"("rope_parameters": {"rope_type": "default", "rope_theta": 100.0})");
  }
  Json inspected(Strings words) const {
    words.insert(words.begin(), "inspect");
    words.push_back("--json");
    return Json::parse(expect_success(words).out);
  }
  std::vector<float> rotated(const Strings& source) const {
    write_tensors("in.safetensors", {make_tensor<float>("q", ElementType::f32, {1, 1, 4}, {1, 2, 3, 4})});
    Strings words = {"apply"};
    words.insert(words.end(), source.begin(), source.end());
    words.insert(words.end(), {"--input", path("in.safetensors"), "--output", path("out.safetensors")});
    expect_success(words);
    return values_of(read_tensor("out.safetensors", "q"));
  }
};

bool has_note(const Json& answer, const std::string& words) {
  const Json& notes = answer.at("notes");
  return std::any_of(notes.begin(), notes.end(),
                     [&](const Json& note) { return note.get<std::string>().find(words) != std::string::npos; });
}

TEST_F(CliLearned, given_frequencies_replace_those_of_the_config) {
  const std::string speeds = write_speeds({0.5F, -0.25F});
  const Json answer = inspected({small_llama(), "--inv-freq", speeds});
  const Json& rope = answer.at("ropes").at(0);
  EXPECT_EQ(rope.at("inv_freq"), Json({0.5, -0.25}));
  EXPECT_TRUE(rope.at("base").is_null());
  EXPECT_EQ(rope.at("origins").at("inv_freq"), Json({{"origin", "given"}, {"from", speeds}}));
  EXPECT_TRUE(has_note(answer, "turns by the frequencies of " + speeds));

  const std::vector<float> q = rotated({path("config.json"), "--inv-freq", speeds, "--positions", "3"});
  EXPECT_NEAR(q.at(0), std::cos(1.5) - 3 * std::sin(1.5), 1e-6);
  EXPECT_NEAR(q.at(1), 2 * std::cos(0.75) + 4 * std::sin(0.75), 1e-6);
}

TEST_F(CliLearned, given_frequencies_do_without_a_config) {
  const std::string speeds = write_speeds({0.5F, 0});
  const std::vector<float> q = rotated({"--inv-freq", speeds, "--pairing", "interleaved", "--positions", "3"});
  EXPECT_NEAR(q.at(0), std::cos(1.5) - 2 * std::sin(1.5), 1e-6);
  EXPECT_EQ(q.at(2), 3);
  const Json rope = inspected({"--inv-freq", speeds, "--pairing", "half", "--head-dim", "6"}).at("ropes").at(0);
  EXPECT_EQ(rope.at("rotary_dim"), 4);
  EXPECT_EQ(rope.at("inv_freq"), Json({0.5, 0.0}));
  expect_success({"table", "--inv-freq", speeds, "--pairing", "half", "--head-dim", "4", "--positions", "0:3",
                  "--output", path("table.safetensors")});
  EXPECT_EQ(SafetensorsFile(path("table.safetensors")).metadata().at("inv_freq"), speeds);
}

// One turn takes more tokens than a double can say, but for the second.
TEST_F(CliLearned, a_wavelength_that_no_double_holds_is_null) {
  write_npy(path("slow.npy"), make_tensor<double>("", ElementType::f64, {4}, {5e-324, 1e-300, -1e-310, 0}));
  const Strings source = {"--inv-freq", path("slow.npy"), "--pairing", "half", "--head-dim", "8"};
  const Json rope = inspected(source).at("ropes").at(0);
  EXPECT_EQ(rope.at("inv_freq"), Json({5e-324, 1e-300, -1e-310, 0.0}));
  EXPECT_EQ(rope.at("wavelength"), Json({nullptr, 6.283185307179586e300, nullptr, nullptr}));
  EXPECT_EQ(rope.at("stretch"), Json({1.0, 1.0, 1.0, nullptr}));
  const Json huge = inspected({"--base", "1e308", "--pairing", "half", "--head-dim", "128", "--rotary-dim", "128"});
  EXPECT_TRUE(huge.at("ropes").at(0).at("wavelength").at(0).is_number());
  for (const char* kind : {"wavelengths", "stretch", "table", "decay", "accuracy"}) {
    Strings words = {"plot", kind, "--json"};
    words.insert(words.end(), source.begin(), source.end());
    EXPECT_EQ(run(words).exit, 0) << kind << run(words).err;
  }
}

TEST_F(CliLearned, weights_give_the_learned_multiplier) {
  const std::string config = small_large4();
  EXPECT_TRUE(has_note(inspected({config}), "--weights FILE"));
  EXPECT_EQ(inspected({config}).at("ropes").at(0).at("inv_freq"), Json({1.0, 0.1}));
  const std::string weights =
      write_tensors("model.safetensors", {floats("model.rotary_emb.alpha", {0, std::log(2.0F)}), floats("w", {1})});
  const Json answer = inspected({config, "--weights", weights});
  EXPECT_EQ(answer.at("ropes").at(0).at("inv_freq").at(0), 1.0);
  EXPECT_NEAR(answer.at("ropes").at(0).at("inv_freq").at(1).get<double>(), 0.2, 1e-8);
  EXPECT_FALSE(has_note(answer, "--weights FILE"));
  EXPECT_EQ(answer, inspected({config, "--weights", path("")}));
  EXPECT_NE(expect_success({"inspect", config, "--weights", weights}).out.find("multiplier"), std::string::npos);
  const std::vector<float> q =
      rotated({config, "--weights", weights, "--positions", "3"});  // reads 01 23, writes 02 13
  EXPECT_NEAR(q.at(1), 3 * std::cos(0.6) - 4 * std::sin(0.6), 1e-5);
}

// Rows of Intern-S1-Pro's own InternS1ProMoeTextFourierEmbedding, torch 2.15.0, of the same coefficients.
TEST_F(CliLearned, weights_give_the_coefficients_of_fope) {
  const std::string config = write_config(
      "fope.json", R"("model_type": "interns1_pro_text", "hidden_size": 64, "num_attention_heads": 4,)"
                   R"("num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 1, "rope_theta": 10000.0,)"
                   R"("max_position_embeddings": 64, "rope_scaling": {"rope_type": "default",)"
                   R"("fope_init_factor": 0.5, "fope_sep_head": true, "num_inv_freq": null})");
  const auto coefficients = [](const std::string& name, int step) {
    std::vector<float> values;
    for (int i = 0; i < 18; ++i)
      values.push_back(static_cast<float>(i * step % 7 - 3) / 4 + (i % 9 % 4 == 0 ? 1.0F : 0.0F));
    return make_tensor<float>("model.language_model.rotary_emb." + name, ElementType::f32, {2, 3, 3}, values);
  };
  const std::string weights =
      write_tensors("model.safetensors", {coefficients("sin_coef", 5), coefficients("cos_coef", 3)});
  EXPECT_TRUE(has_note(inspected({config}), "FoPE, no rotation"));
  const Strings words = {"table", config, "--positions", "0:8", "--output", path("t.safetensors")};
  expect_error(words, "ROPE");
  EXPECT_NE(run(words).err.find("FoPE must have its coefficients"), std::string::npos);
  expect_success({"table", config, "--positions", "0:8", "--output", path("t.safetensors"), "--weights", weights});
  EXPECT_EQ(read_tensor("t.safetensors", "cos").shape, (std::vector<std::int64_t>{8, 2, 8}));
  const std::vector<float> cos = values_of(read_tensor("t.safetensors", "cos")),
                           sin = values_of(read_tensor("t.safetensors", "sin"));
  const float wanted_cos[] = {0.2928967774F, -0.6737003922F, 1.0955003500F, 1}, row0[] = {0.25F, 0.75F, 1.25F, 1},
              wanted_sin[] = {-0.4692248702F, 1.2294220924F, -1.2294404507F, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(cos.at(i), row0[i], 1e-7);
    EXPECT_NEAR(cos.at(5 * 16 + i), wanted_cos[i], 2e-6);
    EXPECT_NEAR(sin.at(5 * 16 + 8 + i), wanted_sin[i], 2e-6);
  }
  std::vector<float> x(4 * 16, 0);
  x[2 * 16] = 1;  // of head 2, whose key head is 1
  write_tensors("in.safetensors", {make_tensor<float>("q", ElementType::f32, {1, 4, 16}, x)});
  expect_success({"apply", config, "--weights", weights, "--positions", "5", "--input", path("in.safetensors"),
                  "--output", path("out.safetensors")});
  const std::vector<float> q = values_of(read_tensor("out.safetensors", "q"));
  EXPECT_EQ(q.at(32), cos.at(5 * 16 + 8));
  EXPECT_EQ(q.at(40), sin.at(5 * 16 + 8));
  expect_error({"plot", "decay", config}, "ROPE");  // it needs a rotation
  std::vector<float> near_midway(18, 0);  // cos[0] at 0 is 1 + 2^-8 + 2^-30, which f32 takes to the middle of two bf16
  near_midway[0] = 1, near_midway[3] = 0x1p-8F, near_midway[6] = 0x1p-30F;
  const std::string others = write_tensors(
      "others.safetensors", {coefficients("sin_coef", 5),
                             make_tensor<float>("rotary_emb.cos_coef", ElementType::f32, {2, 3, 3}, near_midway)});
  expect_success({"table", config, "--positions", "0:1", "--output", path("t.safetensors"), "--weights", others,
                  "--dtype", "bf16"});
  const Tensor rounded = read_tensor("t.safetensors", "cos");
  EXPECT_EQ(rounded.as<bf16>()[0], to_bf16(1 + 0x1p-7F));
}

// Queries turned by falcon_perception/rope.py of tiiuae/Falcon-Perception, torch 2.15.0.
TEST_F(CliLearned, weights_give_the_directions_of_a_falcon) {
  const std::string config = write_config("falcon.json", R"("model_type": "falcon_ocr", "dim": 16, "n_layers": 1,)"
                                                         R"("n_heads": 2, "n_kv_heads": 1, "head_dim": 8)");
  const std::string weights =
      write_tensors("model.safetensors", {make_tensor<float>("freqs_cis_golden", ElementType::f32, {2, 2, 2},
                                                             {0.5F, -0.25F, 1.5F, 2, -1, 0.75F, 0.125F, -3})});
  EXPECT_TRUE(has_note(inspected({config}), "they stand still"));
  const auto origins = inspected({config, "--weights", weights}).at("ropes").at(0).at("origins");
  EXPECT_NE(
      origins.at("inv_freq").at("from").get<std::string>().find("base^(-i / 2) of the first 2 pairs, then freqs_"),
      std::string::npos);
  EXPECT_FALSE(origins.contains("axis"));
  std::vector<float> x;
  for (int i = 0; i < 32; ++i) x.push_back(static_cast<float>(i * 37 % 64 - 32) / 16);
  write_tensors("in.safetensors", {make_tensor<float>("q", ElementType::f32, {2, 2, 8}, x)});
  write_npy(path("p.npy"), make_tensor<double>("", ElementType::f64, {3, 2}, {3, 7, 0, -0.5, 0, 1.25}));
  expect_success({"apply", config, "--weights", weights, "--positions", path("p.npy"), "--input",
                  path("in.safetensors"), "--output", path("out.safetensors")});
  const std::vector<float> q = values_of(read_tensor("out.safetensors", "q"));
  const float text[] = {1.9358849526F, -0.5916126966F, -1.4025020599F, 0.8958343863F, -0.75F, 1.5625F, -0.125F},
              image[] = {1.2540383339F,  0.8441232443F,  -1.9010081291F, 0.3052857518F,
                         -1.2192022801F, -1.0977032185F, -0.5595774651F, -1.7103083134F};
  for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(q.at(i), text[i], 2e-6) << i;
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(q.at(24 + i), image[i], 2e-6) << i;
}

TEST_F(CliLearned, weights_of_an_older_checkpoint_are_compared) {
  const std::string weights =
      write_tensors("model.safetensors", {floats("model.layers.0.self_attn.rotary_emb.inv_freq", {1, 0.1F})});
  EXPECT_TRUE(has_note(inspected({small_llama(), "--weights", weights}), "inv_freq: the frequencies of rope 0."));
}

TEST_F(CliLearned, a_clockwise_model_says_so_and_turns_so) {
  const std::string config = write_config(
      "nano.json", R"("model_type": "nanochat", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,)"
                   R"("rope_theta": 100.0)");
  const Json rope = inspected({config}).at("ropes").at(0);
  EXPECT_EQ(rope.at("direction"), "clockwise");
  EXPECT_EQ(rope.at("inv_freq"), Json({1.0, 0.1}));
  EXPECT_EQ(inspected({small_llama()}).at("ropes").at(0).at("direction"), "counterclockwise");
  const std::vector<float> q = rotated({config, "--positions", "3"});
  EXPECT_NEAR(q.at(0), std::cos(3.0) + 3 * std::sin(3.0), 1e-6);
  EXPECT_NEAR(q.at(2), 3 * std::cos(3.0) - std::sin(3.0), 1e-6);
  EXPECT_EQ(q, rotated({small_llama(), "--positions", "3", "--backward"}));
}

}  // namespace
}  // namespace rotary::cli_tests
