// The ropes of GGUF files. Files and numbers: files/golden/make_gguf.py (PyPI's gguf; the formulas in mpmath).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files/tests/config_helpers.h"
#include "files/tests/file_helpers.h"
#include "rotary/config.h"

namespace rotary {
namespace {

using config_test::noted;
using test::expect_error;
using test::gguf_file;
using test::gguf_key;
using test::gguf_number;
using test::gguf_text;
using test::gguf_value;
using test::golden;
using test::write_text;

constexpr std::uint32_t f32 = 6, text = 8, boolean = 7;

Model read_bytes(const std::string& bytes, const ConfigOptions& options = {}) {
  const test::ScratchFolder folder;
  write_text(folder / "model.gguf", bytes);
  return read_config(folder / "model.gguf", options);
}

std::string key_f32(const std::string& key, float value) { return gguf_key(key, f32, gguf_value(value)); }

void expect_rope(const Model& model, const ModelRope& got, const nlohmann::json& wanted) {
  const nlohmann::json facts = config_test::facts_of(model, got);
  for (const char* key : {"layers", "layers_without_rope", "heads", "kv_heads", "first", "context", "head_dim",
                          "rotary_dim", "base", "pairing", "scaling"})
    EXPECT_EQ(facts.at(key), wanted.at(key)) << key;

  const Frequencies frequencies = rotary::frequencies(got.rope, wanted.at("length"));
  config_test::expect_near_relative(frequencies.attention_factor, wanted.at("attention_factor"), 1e-7);
  const auto inv_freq = wanted.at("inv_freq").get<std::vector<double>>();
  const auto axis = wanted.at("axis").get<std::vector<int>>();
  ASSERT_EQ(frequencies.inv_freq.size(), inv_freq.size());
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    config_test::expect_near_relative(frequencies.inv_freq[i], inv_freq[i], 1e-15);
    EXPECT_EQ(frequencies.axis.empty() ? 0 : frequencies.axis[i], axis[i]) << "pair " << i;
  }
}

TEST(Gguf, EveryGoldenFileHasTheRopesThatItsFormulaGives) {
  const nlohmann::json expected = config_test::json_in(golden("gguf/expected.json"));
  ASSERT_EQ(expected.size(), 27u);
  for (const auto& item : expected.items()) {
    SCOPED_TRACE(item.key());
    const std::string file = item.value().value("file", item.key());
    const Model model = read_config(golden("gguf/" + file + ".gguf"));
    EXPECT_EQ(model.model_type, item.value().at("model_type").get<std::string>());
    const auto& ropes = item.value().at("ropes");
    ASSERT_EQ(model.ropes.size(), ropes.size());
    for (std::size_t i = 0; i < ropes.size(); ++i) {
      SCOPED_TRACE(i);
      expect_rope(model, model.ropes[i], ropes[i]);
    }
  }
}

TEST(Gguf, TheFirstBytesDecideNotTheName) {
  const test::ScratchFolder folder;
  write_text(folder / "config.json", gguf_file("llama"));
  EXPECT_EQ(read_config(folder / "config.json").model_type, "llama");
}

TEST(Gguf, DefaultsAndTheOrderOfLlamasRowsAreNotes) {
  for (const char* note : {"rope.freq_base is not given: 10000", "rope.dimension_count is not given",
                           "attention.key_length is not given: embedding_length / head_count = 16",
                           "conversion to GGUF reorders the rows of q and k"})
    EXPECT_TRUE(noted(read_bytes(gguf_file("llama")), note)) << note;
  EXPECT_FALSE(noted(read_bytes(gguf_file("qwen2")), "reorders"));
}

TEST(Gguf, AnUnknownArchitectureAsksForAPairingUnlessNothingTurns) {
  expect_error("MODEL_TYPE", "no pairing is given", [] { read_bytes(gguf_file("made-up")); });
  const ConfigOptions pairing = {Pairing::interleaved};
  expect_error("MODEL_TYPE", "must have a rope key but", [&] { read_bytes(gguf_file("made-up"), pairing); });
  const Model model = read_bytes(gguf_file("made-up", 1, key_f32("made-up.rope.freq_base", 5e5F)), pairing);
  EXPECT_EQ(config_test::only(model).rope.pairing, Pairing::interleaved);
  const Model still = read_bytes(gguf_file("made-up", 1, gguf_number("made-up.rope.dimension_count", 0)));
  EXPECT_TRUE(still.ropes.empty());
  EXPECT_TRUE(noted(still, "made-up.rope.dimension_count is 0: nothing turns"));
  const std::string image = test::gguf_front(0, 1) + gguf_key("general.architecture", text, gguf_text("flux"));
  expect_error("MODEL_TYPE", "has no flux.block_count: give the model's config.json", [&] { read_bytes(image); });
}

TEST(Gguf, DeepSeekV4NamesTheLayersThatCompress) {
  expect_error("CONFIG_MISSING", "attention.compress_ratios", [] { read_bytes(gguf_file("deepseek4")); });
  const std::string ratios =
      gguf_key("deepseek4.attention.compress_ratios", 9,
               gguf_value(std::uint32_t{4}) + gguf_value(std::uint64_t{2}) + gguf_value(0U) + gguf_value(128U));
  expect_error("CONFIG_MISSING", "compress_rope_freq_base", [&] { read_bytes(gguf_file("deepseek4", 1, ratios)); });
  EXPECT_TRUE(read_config(golden("gguf/deepseek4.gguf")).parts.at(0).turns_back);
}

TEST(Gguf, AnUnknownArchitectureTellsItsRopeKeys) {
  const std::string keys = gguf_number("made-up.rope.dimension_count", 16) + key_f32("made-up.rope.freq_base", 5e5F);
  const std::string bytes = gguf_file("made-up", 2, keys);
  expect_error("MODEL_TYPE", "of a rope the file says dimension_count 16, freq_base 500000.0",
               [&] { read_bytes(bytes); });
  ConfigOptions options;
  options.model_type = "qwen2";
  const Model model = read_bytes(bytes, options);
  EXPECT_EQ(config_test::only(model).rope.pairing, Pairing::half);
  EXPECT_EQ(config_test::only(model).rope.base, 5e5);
  EXPECT_TRUE(noted(model, "the architecture given, qwen2, overrides \"made-up\""));
  options.model_type = "qwen22";
  expect_error("MODEL_TYPE", "got \"qwen22\"", [&] { read_bytes(bytes, options); });
}

TEST(Gguf, Llama31WithoutItsFactorsIsAWarning) {
  const auto file = [](float base, std::uint32_t context, const std::string& more = {}) {
    const std::string keys = key_f32("llama.rope.freq_base", base) + gguf_number("llama.context_length", context);
    return gguf_file("llama", more.empty() ? 2 : 3, keys + more);
  };
  EXPECT_TRUE(noted(read_bytes(file(5e5F, 131072)), "this file has not: beyond 8192 tokens"));
  EXPECT_FALSE(noted(read_bytes(file(5e5F, 8192)), "rope_freqs.weight"));
  EXPECT_FALSE(noted(read_bytes(file(1e6F, 131072)), "rope_freqs.weight"));
  EXPECT_FALSE(noted(read_config(golden("gguf/llama31.gguf")), "this file has not"));
  EXPECT_FALSE(noted(read_bytes(file(5e5F, 131072)), "unless another part"));
  const auto parts = [](std::uint16_t count) { return gguf_key("split.count", 2, gguf_value(count)); };
  EXPECT_TRUE(noted(read_bytes(file(5e5F, 131072, parts(2))), "unless another part of the file has it: llama-gguf-"));
  EXPECT_FALSE(noted(read_bytes(file(5e5F, 131072, parts(1))), "unless another part"));
}

TEST(Gguf, ListsSayWhichLayersHaveARope) {
  const auto list = [](const std::string& key, bool first, bool second) {
    return gguf_key(key, 9,
                    gguf_value(boolean) + gguf_value(std::uint64_t{2}) + gguf_value(first) + gguf_value(second));
  };
  const Model swa = read_bytes(gguf_file("granite_swa", 1, list("granite_swa.attention.rope_pattern", false, true)));
  EXPECT_EQ(config_test::only(swa).layers, std::vector<int>{1});
  const Model hybrid =
      read_bytes(gguf_file("minimax-01", 1, list("minimax-01.attention.recurrent_layers", true, false)));
  EXPECT_EQ(config_test::only(hybrid).layers, std::vector<int>{1});
}

TEST(Gguf, AnArchitectureMayHaveNoRopeAndAnotherPairingMayBeGiven) {
  const Model half = read_bytes(gguf_file("llama"), {Pairing::half});
  EXPECT_EQ(config_test::only(half).rope.pairing, Pairing::half);
  EXPECT_TRUE(noted(half, "architecture llama has interleaved"));
  const Model mpt = read_bytes(gguf_file("mpt"));
  EXPECT_TRUE(mpt.ropes.empty());
  EXPECT_TRUE(noted(mpt, "no rotary positions"));
  const auto granite = [](char on) {
    return read_bytes(gguf_file("granite", 1, gguf_key("granite.rope.scaling.finetuned", boolean, std::string(1, on))));
  };
  EXPECT_TRUE(granite(0).ropes.empty());
  EXPECT_EQ(granite(1).ropes.size(), 1u);
}

TEST(Gguf, ARopeKeyThatNothingReadsIsRefused) {
  const auto refuse = [](const std::string& key) {
    expect_error("CONFIG_KEY", key, [&] { read_bytes(gguf_file("llama", 1, key_f32(key, 1))); });
  };
  refuse("llama.rope.foo");
  refuse("llama.rope_foo");
  refuse("qwen2.rope.freq_base");
  refuse("llama.rope.scaling.yarn_beta_fast");  // without yarn
  refuse("rope.freq_base");
}

TEST(Gguf, AFactorIsLinearUnlessTheTypeIsNone) {
  const std::string factor = key_f32("llama.rope.scaling.factor", 4);
  const Model model = read_bytes(gguf_file("llama", 1, factor));
  EXPECT_EQ(std::get<Linear>(config_test::only(model).rope.scaling).factor, 4);
  EXPECT_TRUE(noted(model, "linear, as llama.cpp reads it"));
  const Model old = read_bytes(gguf_file("llama", 1, key_f32("llama.rope.scale_linear", 2)));
  EXPECT_EQ(std::get<Linear>(config_test::only(old).rope.scaling).factor, 2);
  const std::string none = gguf_key("llama.rope.scaling.type", text, gguf_text("none"));
  const Model off = read_bytes(gguf_file("llama", 2, factor + none));
  EXPECT_TRUE(std::holds_alternative<Unscaled>(config_test::only(off).rope.scaling));
}

TEST(Gguf, AnAttentionFactorAloneIsKept) {
  const Model model = read_bytes(gguf_file("llama", 1, key_f32("llama.rope.scaling.attn_factor", 1.25F)));
  const Frequencies plain = frequencies({.head_dim = 16, .pairing = Pairing::interleaved});
  const Frequencies got = frequencies(config_test::only(model).rope, 1000000);
  EXPECT_EQ(got.attention_factor, 1.25);
  EXPECT_EQ(got.inv_freq, plain.inv_freq);
}

// As build_inp_attn_scale of llama.cpp: log(floor((p + offset) / length) + 1) * scale + 1, computed in double and
// rounded once to f32.
TEST(Gguf, QueriesAreMultipliedAsTheArchitectureOrTheFileSays) {
  const auto key = [](const std::string& of, float scale) {
    return key_f32(of + ".attention.temperature_scale", scale);
  };
  const std::int64_t places[] = {8190, 8191, 100000};
  std::string four = gguf_file("llama4");
  const std::string two = gguf_number("llama4.block_count", 2);
  const Model scout = read_bytes(four.replace(four.find(two), two.size(), gguf_number("llama4.block_count", 4)));
  EXPECT_EQ(query_scale(scout, places, 0), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(query_scale(scout, places, 3), (std::vector<float>{1, 1.0693147F, 1.2564949F}));
  const Model ministral = read_bytes(gguf_file(
      "mistral3", 2, key("mistral3", 0.5F) + gguf_number("mistral3.rope.scaling.original_context_length", 8190)));
  EXPECT_EQ(query_scale(ministral, places), (std::vector<float>{1.3465736F, 1.3465736F, 2.2824748F}));
  const Model large = read_bytes(
      gguf_file("deepseek2", 2, key("deepseek2", 0.5F) + gguf_number("deepseek2.attention.temperature_length", 8191)));
  EXPECT_EQ(query_scale(large, places), (std::vector<float>{1, 1.3465736F, 2.2824748F}));
  expect_error("CONFIG_VALUE", "must stand beside deepseek2.attention.temperature_length",
               [&] { read_bytes(gguf_file("deepseek2", 1, key("deepseek2", 0.5F))); });
  EXPECT_TRUE(read_bytes(gguf_file("deepseek2")).query_scales.empty());
  const Model grok = read_bytes(gguf_file("grok", 1, gguf_number("grok.attention.temperature_length", 1024)));
  EXPECT_EQ(query_scale(grok, places), (std::vector<float>{1.2999648F, 1.2999824F, 1.660964F}));
}

// The base with which each of eight layers turns, or that it does not turn, worked out by hand from the graphs of
// llama.cpp.
TEST(Gguf, LayersTurnAsTheirArchitectureSays) {
  const auto read = [](const std::string& name, std::uint64_t count, const std::string& more) {
    std::string bytes = gguf_file(name, count, more);
    const std::string two = gguf_number(name + ".block_count", 2), eight = gguf_number(name + ".block_count", 8);
    return read_bytes(bytes.replace(bytes.find(two), two.size(), eight));
  };
  const auto window = [](const std::string& name, std::uint32_t size) {
    return gguf_number(name + ".attention.sliding_window", size);
  };
  using List = std::vector<int>;
  const List all = {0, 1, 2, 3, 4, 5, 6, 7}, three_of_four = {0, 1, 2, 4, 5, 6}, last_three = {1, 2, 3, 5, 6, 7};
  EXPECT_EQ(config_test::only(read("llama4", 0, "")).layers, three_of_four);
  EXPECT_EQ(config_test::only(read("llama4", 1, window("llama4", 0))).layers, all);
  EXPECT_EQ(config_test::only(read("smallthinker", 0, "")).layers, all);
  EXPECT_EQ(config_test::only(read("smallthinker", 1, window("smallthinker", 64))).layers, last_three);
  EXPECT_EQ(config_test::only(read("cohere2", 1, window("cohere2", 64))).layers, three_of_four);
  EXPECT_EQ(config_test::only(read("exaone4", 0, "")).layers, all);
  EXPECT_EQ(config_test::only(read("qwen3next", 0, "")).layers, (List{3, 7}));

  const Model bert = read("modern-bert", 2, window("modern-bert", 64) + key_f32("modern-bert.rope.freq_base", 160000));
  ASSERT_EQ(bert.ropes.size(), 2u);
  EXPECT_EQ(bert.ropes[0].layers, (List{0, 3, 6}));
  EXPECT_EQ(bert.ropes[0].rope.base, 160000);
  EXPECT_EQ(bert.ropes[1].rope.base, 10000);

  const Model olmo = read("olmo2", 2, window("olmo2", 64) + key_f32("olmo2.rope.scaling.factor", 8));
  ASSERT_EQ(olmo.ropes.size(), 2u);
  EXPECT_EQ(olmo.ropes[0].layers, three_of_four);
  EXPECT_TRUE(std::holds_alternative<Unscaled>(olmo.ropes[0].rope.scaling));
  EXPECT_TRUE(std::holds_alternative<Linear>(olmo.ropes[1].rope.scaling));
  EXPECT_TRUE(noted(olmo, "the layers with a sliding window have no scaling"));
  EXPECT_FALSE(noted(bert, "have no scaling"));
  EXPECT_EQ(read("olmo2", 0, "").ropes.size(), 1u);
}

TEST(Gguf, ValuesThatMakeNoSenseAreRefused) {
  const auto refuse = [](const std::string& code, const std::string& words, const std::string& key,
                         const std::string& name = "llama") {
    expect_error(code, words, [&] { read_bytes(gguf_file(name, 1, key)); });
  };
  refuse("CONFIG_VALUE", "above 1", key_f32("llama.rope.freq_base", 1));
  refuse("CONFIG_VALUE", "finite", key_f32("llama.rope.freq_base", std::nanf("")));
  refuse("CONFIG_VALUE", "must be even", gguf_number("llama.rope.dimension_count", 7));
  refuse("CONFIG_VALUE", "at most the head's 16", gguf_number("llama.rope.dimension_count", 18));
  refuse("CONFIG_VALUE", "none, linear, yarn or longrope", gguf_key("llama.rope.scaling.type", text, gguf_text("su")));
  refuse("CONFIG_VALUE", "at least 1", key_f32("llama.rope.scaling.factor", 0.5F));
  refuse("CONFIG_VALUE", "integer", gguf_key("llama.rope.dimension_count", text, gguf_text("8")));
  refuse("TENSOR", "rope_factors_long.weight", gguf_key("llama.rope.scaling.type", text, gguf_text("longrope")));
  refuse("CONFIG_MISSING", "original_context_length", gguf_key("llama.rope.scaling.type", text, gguf_text("yarn")));
  refuse("CONFIG_MISSING", "dimension_sections", gguf_number("qwen2vl.context_length", 8), "qwen2vl");
  refuse("CONFIG_VALUE", "at least 1", key_f32("hunyuan-dense.rope.scaling.alpha", 0.5F), "hunyuan-dense");
  const auto list = [](const std::string& key, std::initializer_list<std::int32_t> numbers) {
    std::string bytes = gguf_value(std::uint32_t{5}) + gguf_value(std::uint64_t{numbers.size()});
    for (const std::int32_t number : numbers) bytes += gguf_value(number);
    return gguf_key(key, 9, bytes);
  };
  refuse("CONFIG_VALUE", "must be absent", list("llama.rope.dimension_sections", {4, 4}));
  refuse("CONFIG_VALUE", "3 counts", list("qwen3vl.rope.dimension_sections", {2, 2, 2, 2}), "qwen3vl");
  refuse("CONFIG_VALUE", "above 0", key_f32("llama.rope.scaling.attn_factor", 0));
  refuse("ROPE", "sliding_window_pattern", gguf_number("gemma4.attention.sliding_window", 8), "gemma4");
}

// A llama with `count` more keys and a tensor of `size` factors: `first` for four pairs, `last` for the others.
Model with_factors(std::uint64_t count, const std::string& keys, float first, float last, std::uint64_t size = 8) {
  std::string data;
  for (std::uint64_t i = 0; i < size; ++i) data += gguf_value(i < 4 ? first : last);
  const std::string front = test::gguf_front(1, test::gguf_model_keys + count) + test::gguf_model("llama") + keys +
                            test::gguf_tensor("rope_freqs.weight", {size}, 0, 0);
  return read_bytes(test::gguf_with_tensor(front, data));
}

TEST(Gguf, ADraftForDeepSeekV4TurnsAsItDoesUnlessAnotherArchitectureIsGiven) {
  const auto first = [](const char* type) {
    ConfigOptions options;
    options.model_type = type;
    return config_test::only(read_config(golden("gguf/dflash_v4.gguf"), options)).first;
  };
  EXPECT_EQ(first("dflash"), first(""));
  EXPECT_EQ(first("qwen2"), 0);
  EXPECT_NE(first(""), 0);
}

TEST(Gguf, HunyuansAlphaGrowsTheBase) {
  const auto scaling = [](float value) {
    const Model read = read_bytes(gguf_file("hunyuan-dense", 1, key_f32("hunyuan-dense.rope.scaling.alpha", value)));
    return config_test::only(read).rope.scaling;
  };
  EXPECT_EQ(std::get<Ntk>(scaling(1)).factor, 1);
  EXPECT_TRUE(std::holds_alternative<Unscaled>(scaling(0)));
  const std::string alpha = key_f32("hunyuan-dense.rope.scaling.alpha", 1000);
  const Model model = read_bytes(gguf_file("hunyuan-dense", 1, alpha));
  EXPECT_EQ(std::get<Ntk>(config_test::only(model).rope.scaling).factor, 1000);
  expect_error("ROPE", "alpha with another scaling", [&] {
    read_bytes(gguf_file("hunyuan-dense", 2, alpha + key_f32("hunyuan-dense.rope.scaling.factor", 2)));
  });
}

TEST(Gguf, YarnsWeightsAreThoseOfLlamaCpp) {
  const auto yarn = [](const char* key, float value) {
    const std::string keys = gguf_key("llama.rope.scaling.type", text, gguf_text("yarn")) +
                             gguf_number("llama.rope.scaling.original_context_length", 4096) +
                             key_f32("llama.rope.scaling.factor", 4) +
                             key_f32(std::string("llama.rope.scaling.") + key, value);
    return read_bytes(gguf_file("llama", 4, keys));
  };
  const auto scaling = [](const Model& model) { return std::get<Yarn>(config_test::only(model).rope.scaling); };
  EXPECT_EQ(scaling(yarn("yarn_ext_factor", 0.5F)).extrapolation_factor, 0.5);
  EXPECT_EQ(scaling(yarn("yarn_ext_factor", -1)).extrapolation_factor, 1);
  expect_error("ROPE", "yarn_ext_factor 0", [&] { yarn("yarn_ext_factor", 0); });
  EXPECT_EQ(scaling(yarn("attn_factor", 1.5F)).attn_factor, 1.5);
  const Model unread = yarn("yarn_attn_factor", 2);
  EXPECT_EQ(scaling(unread).attn_factor, 1);
  EXPECT_TRUE(noted(unread, "yarn_attn_factor is not used"));
}

TEST(Gguf, AFactorMultipliesTheTensorsFactors) {
  const Model model = with_factors(1, key_f32("llama.rope.scaling.factor", 4), 2, 2, 10);
  EXPECT_TRUE(noted(model, "10 factors: the first 8 are used"));
  expect_error("TENSOR", "for each of 8 pairs but has 7", [] { with_factors(0, "", 2, 2, 7); });
  const std::vector<double> got = frequencies(config_test::only(model).rope, 0).inv_freq;
  for (std::size_t i = 0; i < 8; ++i) {
    config_test::expect_near_relative(got.at(i), std::pow(10000.0, -2.0 * static_cast<double>(i) / 16) / 8, 1e-15);
  }
}

// M(1) / M(m), with M(m) = 0.1 m ln(factor) + 1; conversion stores m / 10 for multi-head latent attention.
TEST(Gguf, TheLogMultiplierMakesYarnsMagnitudeARatio) {
  const auto rope_of = [](const std::string& name, float multiplier) {
    const std::string keys = gguf_key(name + ".rope.scaling.type", text, gguf_text("yarn")) +
                             key_f32(name + ".rope.scaling.factor", 16) + gguf_number(name + ".context_length", 4096) +
                             key_f32(name + ".rope.scaling.yarn_log_multiplier", multiplier);
    return config_test::only(read_bytes(gguf_file(name, 4, keys)));
  };
  const auto attention = [&](const std::string& name, float multiplier) {
    return frequencies(rope_of(name, multiplier).rope, 0).attention_factor;
  };
  const double whole = 0.1 * std::log(16.0) + 1;
  config_test::expect_near_relative(attention("mistral3", 0.5F), whole / (0.05 * std::log(16.0) + 1), 1e-15);
  config_test::expect_near_relative(attention("mistral4", 0.05F), whole / (0.05 * std::log(16.0) + 1), 1e-7);
  EXPECT_EQ(attention("mistral4", 0.1F), 1);
  EXPECT_EQ(attention("deepseek2", 0.05F), 1);
  EXPECT_EQ(rope_of("mistral3", 1).softmax_factor, 1) << "only DeepSeek's graphs scale the softmax too";
  config_test::expect_near_relative(rope_of("deepseek2", 0.1F).softmax_factor, whole * whole, 1e-7);
}

TEST(Gguf, YarnIsDividedByTheTensorsFactors) {
  const std::string keys = gguf_key("llama.rope.scaling.type", text, gguf_text("yarn")) +
                           key_f32("llama.rope.scaling.factor", 4) + gguf_number("llama.context_length", 4096);
  const Model divided = with_factors(3, keys, 1, 3);
  const Frequencies got = frequencies(config_test::only(divided).rope, 0);
  const Frequencies yarn = frequencies(config_test::only(read_bytes(gguf_file("llama", 3, keys))).rope, 0);
  for (std::size_t i = 0; i < 8; ++i) {
    config_test::expect_near_relative(got.inv_freq.at(i), yarn.inv_freq.at(i) / (i < 4 ? 1 : 3), 4e-16);
  }
  EXPECT_EQ(got.attention_factor, yarn.attention_factor);
  EXPECT_TRUE(config_test::noted(divided, "divided by rope_freqs.weight"));
}

}  // namespace
}  // namespace rotary
