// The published long-context configs, planned from their short-context originals: the scaling is taken away, the length
// is the trained one, and the plan must turn as the published file does. That the published files are read right is
// held against mpmath by tests/config/golden_test.cpp.
#include "extend/steps.h"
#include "planned.h"

namespace rotary::extend_tests {
namespace {

struct Case {
  const char* file;
  std::int64_t trained, context;
  const char* method;
  double factor;
  bool recommended = true;  // else the method and the factor are asked for
};

constexpr Case cases[] = {
    {"qwen2.5-7b-yarn", 32768, 131072, "yarn", 4},
    {"llama-3.1-8b", 8192, 131072, "llama3", 8, false},
    {"llama-3.3-70b", 8192, 131072, "llama3", 8, false},
    {"llama-3.2-1b", 8192, 131072, "llama3", 32, false},
    {"llama-3.2-11b-vision", 8192, 131072, "llama3", 8},
    {"llama-4-scout-factor-16", 8192, 10485760, "llama3", 16},
    {"phi-3-mini-128k", 4096, 131072, "longrope", 32, false},
    {"phi-3.5-mini", 4096, 131072, "longrope", 32},
    {"phi-3.5-moe", 4096, 131072, "longrope", 32},
    {"phi-4-mini", 4096, 131072, "longrope", 32},
    {"deepseek-v2", 4096, 163840, "yarn", 40},
    {"deepseek-v2-lite", 4096, 163840, "yarn", 40},
    {"deepseek-v3", 4096, 163840, "yarn", 40},
    {"kimi-k2", 4096, 131072, "yarn", 32},
    {"gpt-oss-20b", 4096, 131072, "yarn", 32},
    {"ministral-3-8b", 16384, 262144, "yarn", 16},
    {"olmo-3-7b", 8192, 65536, "yarn", 8},
    {"afm-4.5b", 4096, 65536, "yarn", 20},
    {"apertus-8b", 8192, 65536, "llama3", 8},
    {"exaone-4.0-32b", 8192, 131072, "llama3", 16},
    {"exaone-4.0-1.2b", 8192, 65536, "llama3", 16},
    {"gemma-3-4b-v5", 32768, 131072, "linear", 8},
    {"gemma-3-27b", 32768, 131072, "linear", 8},
    {"yarn-llama-2-7b-128k", 4096, 131072, "yarn", 32},
    {"yarn-mistral-7b-128k", 8192, 131072, "yarn", 16},
    {"deepseek-coder-6.7b", 4096, 16384, "linear", 4, false},
    {"llama-7b-dynamic", 2048, 4096, "dynamic", 2, false},
    {"internlm2.5-7b-1m", 262144, 655360, "dynamic", 2.5},
    {"internlm2.5-7b-1m", 262144, 1048576, "dynamic", 2.5},
};

// Takes the scaling of the text model away; what else stands in its object stays.
void unscale(Json& keys, std::int64_t trained) {
  Json kept = {{"rope_type", "default"}};
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!keys.contains(name) || !keys[name].is_object()) continue;
    Json object = keys[name];
    if (object.contains("full_attention")) {
      keys[name]["full_attention"] = {{"rope_type", "default"}, {"rope_theta", object["full_attention"]["rope_theta"]}};
      keys["max_position_embeddings"] = trained;
      return;
    }
    for (const char* key : {"rope_theta", "llama_4_scaling_beta"}) {
      if (object.contains(key)) kept[key] = object[key];
    }
    keys.erase(name);
  }
  const std::string type = keys.value("model_type", "");
  const bool scaled_by_default = type == "gpt_oss" || type == "apertus" || type == "ministral3";
  if (kept.size() > 1 || scaled_by_default) {
    if (!kept.contains("rope_theta")) kept["rope_theta"] = keys["rope_theta"];
    keys["rope_parameters"] = kept;
  }
  keys["max_position_embeddings"] = trained;
}

std::string short_original(const std::string& file, std::int64_t trained) {
  Json config = Json::parse(golden(file));
  unscale(config.contains("text_config") ? config["text_config"] : config, trained);
  return config.dump(2);
}

class Published : public testing::TestWithParam<Case> {};

TEST_P(Published, is_planned_from_its_short_original) {
  const Case& one = GetParam();
  const std::string original = short_original(one.file, one.trained);
  const Model before = parse_config(original);
  extend::Request request = asked(original, one.context, one.recommended ? "" : one.method);
  if (!one.recommended) request.factor = one.factor;
  const extend::Plan plan = extend::plan(request);
  EXPECT_EQ(plan.trained_length, one.trained);
  if (one.recommended) {
    EXPECT_EQ(plan.recommended, one.method) << plan.why;
  }
  const extend::MethodPlan& method = method_of(plan, one.method);
  ASSERT_EQ(method.refused, "");
  EXPECT_EQ(method.factor, one.factor);
  const Model published = parse_config(golden(one.file)), read = parse_config(method.config);
  ASSERT_EQ(published.ropes.size(), read.ropes.size());
  // Rope by rope as published. (Olmo 3's layers share one rope until the full ones are scaled.)
  for (const extend::RopePlan& rope : method.ropes) {
    EXPECT_NE(rope.planned.scaling, before.ropes[rope.rope].rope.scaling);  // the original is unscaled
    const auto same = std::find_if(published.ropes.begin(), published.ropes.end(), [&](const ModelRope& used) {
      return used.part == before.ropes[rope.rope].part && used.rope.scaling.index() == rope.planned.scaling.index();
    });
    ASSERT_NE(same, published.ropes.end());
    const Frequencies wanted = frequencies(same->rope, one.context);
    EXPECT_EQ(rope.frequencies.inv_freq, wanted.inv_freq);
    EXPECT_EQ(rope.frequencies.attention_factor, wanted.attention_factor);
  }
  for (std::size_t i = 0; i < read.ropes.size(); ++i) {
    for (const std::int64_t length : {one.trained, one.context}) {
      const Frequencies wanted = frequencies(published.ropes[i].rope, length);
      const Frequencies got = frequencies(read.ropes[i].rope, length);
      EXPECT_EQ(got.inv_freq, wanted.inv_freq);
      EXPECT_EQ(got.attention_factor, wanted.attention_factor);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, Published, testing::ValuesIn(cases), [](const auto& tested) {
  std::string name = tested.param.file;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name + "_to_" + std::to_string(tested.param.context);
});

// A published file planned for its own context comes out as it is, but for the spelling of its keys.
TEST(Extend, keeps_a_published_file_at_its_own_context) {
  for (const Case& one : cases) {
    const std::string config = golden(one.file);
    const extend::Plan plan = planned(config, one.context);
    EXPECT_TRUE(any_has(plan.warnings, "is scaled already")) << one.file;
    EXPECT_EQ(plan.recommended, one.method) << one.file;
    const Model before = parse_config(config), after = parse_config(method_of(plan, one.method).config);
    for (std::size_t i = 0; i < before.ropes.size(); ++i) {
      const Frequencies wanted = frequencies(before.ropes[i].rope, one.context);
      EXPECT_EQ(frequencies(after.ropes[i].rope, one.context).inv_freq, wanted.inv_freq) << one.file;
    }
  }
}

// transformers turns phimoe by short_factor alone: lists that were not trained would change nothing there.
TEST(Extend, recommends_for_phimoe_the_published_lists_or_what_transformers_can_turn_by) {
  const extend::Plan trained = planned(short_original("phi-3.5-moe", 4096), 131072);
  EXPECT_EQ(trained.recommended, "longrope");
  EXPECT_TRUE(any_has(recommended(trained).warnings, "by short_factor at every length"));
  const extend::Plan plan = planned(short_original("phi-3.5-moe", 4096), 262144);
  EXPECT_EQ(plan.recommended, "ntk");
  EXPECT_NE(plan.why.find("what Microsoft publishes for Phi-3.5-MoE"), std::string::npos) << plan.why;
  EXPECT_NE(plan.why.find("by short_factor at every length"), std::string::npos) << plan.why;
}

// A number that nobody read in a file is not shipped as Microsoft's.
TEST(Extend, knows_where_the_numbers_of_every_recipe_were_read) {
  for (const extend::Recipe& recipe : extend::published_recipes()) {
    EXPECT_GT(recipe.seen.size(), 10U) << recipe.says.models;
    EXPECT_GE(recipe.says.context, recipe.says.trained_length) << recipe.says.models;
    EXPECT_NE(recipe.says.method, "") << recipe.says.models;
  }
  const std::string medium = R"({"model_type": "phi3", "hidden_size": 5120, "num_attention_heads": 40,
      "num_hidden_layers": 2, "num_key_value_heads": 10, "max_position_embeddings": 4096, "rope_theta": 10000.0})";
  const extend::Plan plan = planned(medium, 131072);
  EXPECT_FALSE(plan.published.has_value());
  EXPECT_TRUE(method_of(plan, "longrope").starting_list);
}

// Short originals, and the numbers that were published for them: of files and cards, and of models without a whole file
// here.
TEST(Extend, writes_the_parameters_that_were_published) {
  const std::string mla = R"("hidden_size": 7168, "num_attention_heads": 64, "num_hidden_layers": 2,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rope_theta": 50000.0, "max_position_embeddings": 4096})";
  const std::string heads = R"("num_attention_heads": 32, "num_hidden_layers": 2, "head_dim": 128, )";
  struct Recipe {
    std::string original;
    std::int64_t context;
    const char* scaling;  // rope_scaling; with a rope_theta: rope_parameters
  };
  const Recipe recipes[] = {
      {golden("qwen2.5-7b"), 131072, R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0,
                                         "original_max_position_embeddings": 32768})"},
      {golden("qwen3-8b"), 131072, R"({"rope_type": "yarn", "rope_theta": 1000000, "factor": 4.0,
                                       "original_max_position_embeddings": 32768})"},
      {golden("qwen3.5-27b"), 1010000,  // as the model card has it
       R"({"mrope_interleaved": true, "mrope_section": [11, 11, 10], "rope_type": "yarn", "rope_theta": 10000000,
           "partial_rotary_factor": 0.25, "factor": 4.0, "original_max_position_embeddings": 262144})"},
      {short_original("deepseek-v3", 4096), 163840, R"({"rope_type": "yarn", "factor": 40.0,
           "original_max_position_embeddings": 4096, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0})"},
      {R"({"model_type": "kimi_k2", )" + mla, 262144,  // Kimi-K2-Instruct-0905
       R"({"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096, "beta_fast": 1.0,
           "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0})"},
      {R"({"model_type": "kimi_k25", "text_config": {"model_type": "deepseek_v3", )" + mla + "}", 262144,
       R"({"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0,
           "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0})"},
      {R"({"model_type": "solar_open", "hidden_size": 4096, )" + heads +
           R"("rope_theta": 1000000, "max_position_embeddings": 65536})",
       131072, R"({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 65536})"},
      {R"({"model_type": "bailing_moe_v2", "hidden_size": 4096, )" + heads +
           R"("rope_theta": 600000, "max_position_embeddings": 32768})",
       131072, R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})"},
      {R"({"model_type": "cwm", "hidden_size": 6144, )" + heads +
           R"("max_position_embeddings": 8192, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}})",
       131072, R"({"rope_type": "llama3", "factor": 16.0, "original_max_position_embeddings": 8192,
                   "low_freq_factor": 1.0, "high_freq_factor": 4.0})"},
      {R"({"model_type": "ministral3", "hidden_size": 5120, )" + heads +  // Devstral Small 2
           R"("max_position_embeddings": 8192,
              "rope_parameters": {"rope_type": "default", "rope_theta": 100000000.0}})",
       393216, R"({"rope_type": "yarn", "factor": 48.0, "original_max_position_embeddings": 8192, "beta_fast": 32.0,
                   "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0})"},
  };
  for (const Recipe& recipe : recipes) {
    const extend::Plan plan = planned(recipe.original, recipe.context);
    ASSERT_TRUE(plan.published) << recipe.original;
    const Json wanted = Json::parse(recipe.scaling);
    const extend::MethodPlan& best = recommended(plan);
    EXPECT_EQ(Json::parse(wanted.contains("rope_theta") ? best.rope_parameters : best.rope_scaling), wanted)
        << recipe.original;
  }
}

// A recipe is this very case only for the weights that it was made for; what a publisher says against it is quoted.
TEST(Extend, knows_for_which_weights_a_recipe_is) {
  struct Weights {
    const char* file;
    std::int64_t context;
    const char* recommended;
    bool applies;
    const char* said;          // in why, otherwise or caution
    const char* patch = "{}";  // of the file
  };
  constexpr const char* of_256k = R"({"rope_theta": 10000000, "max_position_embeddings": 262144})";
  const std::string lists = Json::parse(golden("phi-3.5-moe"))["rope_scaling"]["short_factor"].dump();
  const std::string minicpm =
      R"({"model_type": "minicpm", "rope_theta": 10000.0, "max_position_embeddings": 65536, "rope_scaling": {
          "rope_type": "longrope", "original_max_position_embeddings": 65536, "short_factor": )" +
      lists + R"(, "long_factor": )" + lists + "}}";
  const Weights table[] = {
      {"llama-3-8b", 131072, "yarn", false, "of Llama 3.1 and 3.3: --scaling llama3 --factor 8 ("},
      {"llama-3-8b", 65536, "yarn", false, "for the weights of Llama 3: does best"},
      {"llama-3.1-8b", 131072, "llama3", true, "what Meta publishes"},
      {"llama-3.1-8b", 262144, "llama3", false, "at another length"},
      {"phi-3-mini-4k", 131072, "longrope", false, "of Phi-3-mini: --scaling longrope --factor 32 ("},
      {"phi-3-mini-128k", 131072, "longrope", true, "what Microsoft publishes"},
      {"mistral-7b-v0.1", 131072, "yarn", false, "for the weights of Mistral 7B v0.1: does best"},
      {"qwen2.5-7b", 131072, "yarn", true, "\"potentially impacting performance on shorter texts"},
      {"qwen1.5-7b", 131072, "yarn", false, "for the weights of a smaller model or a Qwen1.5"},
      {"qwen2.5-vl-7b", 131072, "default", true, "and is therefore not recommended for use\""},
      {"qwen2.5-vl-7b", 65536, "default", false, "can be directly modified to a larger value, such as 64k\""},
      {"qwen2-vl-7b", 131072, "yarn", false, "publish is not known"},
      {"deepseek-v2-lite", 163840, "yarn", true, "\"32k\""},
      {"olmo-3-7b", 65536, "yarn", true, "what Ai2 publishes"},
      {"hunyuan-7b", 262144, "default", true, "\"Natively supports a 256K context window\""},
      {"hunyuan-7b", 524288, "yarn", false, "what Tencent publishes ends at 262144 tokens"},
      {"qwen3-30b-a3b", 1010000, "", true, "\"replace the content of your config.json with config_1m.json\"", of_256k},
      {"qwen3-30b-a3b", 1048576, "yarn", true, "extendable up to 1M tokens using Yarn\"",
       R"({"rope_theta": 10000000, "max_position_embeddings": 262144, "intermediate_size": 5472})"},
      {"qwen2.5-7b", 1010000, "default", true, "dual_chunk_attention_config",
       R"({"rope_theta": 1e7, "max_position_embeddings": 1010000})"},
      {"llama-3-8b", 131072, "longrope", true, "what OpenBMB publishes for MiniCPM4.1-8B", minicpm.c_str()},
      {"llama-2-7b", 100000, "default", true, "support sequence lengths up to 100,000 tokens\"",
       R"({"rope_theta": 1000000, "max_position_embeddings": 16384})"},
  };
  for (const Weights& one : table) {
    Json config = Json::parse(golden(one.file));
    config.merge_patch(Json::parse(one.patch));
    const extend::Plan plan = planned(config.dump(), one.context);
    EXPECT_EQ(plan.recommended, one.recommended) << one.file;
    EXPECT_EQ(plan.published && plan.published->applies, one.applies) << one.file;
    const std::string caution = plan.published ? plan.published->caution : "";
    EXPECT_TRUE(any_has({plan.why, plan.otherwise, caution}, one.said)) << one.file << plan.why << plan.otherwise;
  }
  // The file says it already, in words of its own: an attention_factor that is the derived one.
  EXPECT_TRUE(recommended(planned(golden("olmo-3-7b"), 65536)).changes.empty());
  // No scaling, but the longer text.
  const extend::MethodPlan raised = recommended(planned(golden("qwen2.5-vl-7b"), 131072));
  EXPECT_EQ(raised.changes.size(), 1U);
  EXPECT_EQ(parse_config(raised.config).ropes.front().rope, parse_config(golden("qwen2.5-vl-7b")).ropes.front().rope);
}

// Step 3.7 scales its full layers alone, with a high_freq_factor of its own.
TEST(Extend, plans_the_full_layers_of_step) {
  const extend::Plan plan = planned(R"({"model_type": "step3p5", "hidden_size": 4096, "num_attention_heads": 64,
      "head_dim": 128, "num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"],
      "sliding_window": 512, "rope_theta": [5000000.0, 10000.0], "max_position_embeddings": 131072})",
                                    262144);
  EXPECT_EQ(plan.recommended, "llama3");
  ASSERT_EQ(recommended(plan).ropes.size(), 1U);
  EXPECT_EQ(recommended(plan).ropes.front().planned.base, 5e6);
  EXPECT_EQ(recommended(plan).ropes.front().planned.scaling,
            Scaling(Llama3{.factor = 2, .trained_length = 131072, .low = 1, .high = 32}));
}

// DeepSeek's cards say 128K, and its files have the factor for 160K: both contexts are planned with it.
TEST(Extend, plans_deepseek_for_the_context_of_its_card_with_the_factor_of_its_file) {
  for (const char* file : {"deepseek-v2", "deepseek-v3"}) {
    const extend::Plan plan = planned(short_original(file, 4096), 131072);
    ASSERT_TRUE(plan.published) << file;
    EXPECT_FALSE(plan.published->weights_known) << file;  // a file without the scaling does not show them
    EXPECT_TRUE(planned(golden(file), 131072).published->applies) << file;
    EXPECT_EQ(recommended(plan).factor, 40) << file;
    EXPECT_EQ(frequencies(parse_config(recommended(plan).config).ropes.front().rope).inv_freq,
              frequencies(parse_config(golden(file)).ropes.front().rope).inv_freq)
        << file;
  }
}

// The compressed layers of DeepSeek-V4 turn by another base, which is the one that is scaled.
TEST(Extend, plans_the_compressed_layers_of_deepseek_v4) {
  const std::string rest = R"("hidden_size": 4096, "num_attention_heads": 64, "num_hidden_layers": 4, "head_dim": 512,
      "qk_rope_head_dim": 64, "rope_theta": 10000, "compress_rope_theta": 160000, "compress_ratios": [0, 4, 128, 4],)";
  const std::string original = R"({"model_type": "deepseek_v4", )" + rest + R"("max_position_embeddings": 65536})";
  const std::string published = R"({"model_type": "deepseek_v4", )" + rest + R"("max_position_embeddings": 1048576,
      "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 16, "original_max_position_embeddings": 65536,
                       "type": "yarn"}})";
  const extend::Plan plan = planned(original, 1048576);
  const Model wanted = parse_config(published), read = parse_config(recommended(plan).config);
  ASSERT_EQ(read.ropes.size(), wanted.ropes.size());
  for (std::size_t i = 0; i < wanted.ropes.size(); ++i) {
    EXPECT_EQ(frequencies(read.ropes[i].rope).inv_freq, frequencies(wanted.ropes[i].rope).inv_freq) << i;
    EXPECT_EQ(frequencies(read.ropes[i].rope).attention_factor, frequencies(wanted.ropes[i].rope).attention_factor);
  }
}

// Microsoft's own code takes no fourth key.
TEST(Extend, writes_the_lists_of_microsoft_and_no_fourth_key) {
  extend::Request request = asked(golden("phi-3-mini-4k"), 131072, "longrope");
  request.factor = 32;
  const Json phi = Json::parse(extend::plan(request).methods.front().rope_scaling);
  const Json microsoft = Json::parse(golden("phi-3-mini-128k"))["rope_scaling"];
  EXPECT_EQ(phi["long_factor"], microsoft["long_factor"]);
  EXPECT_EQ(phi["short_factor"], microsoft["short_factor"]);
  EXPECT_EQ(phi.size(), 3U);
}

}  // namespace
}  // namespace rotary::extend_tests
