// What a plan says of the pairs, what it warns of, what it refuses, and what it leaves of the file.
#include <cmath>

#include "extend/steps.h"
#include "planned.h"

namespace rotary::extend_tests {
namespace {

constexpr double circle = 6.283185307179586;

// ---- the numbers of a plan ----

TEST(Plan, counts_pairs_and_angles_as_the_formulas_say) {
  const extend::Plan plan = planned(golden("qwen2.5-7b"), 131072);
  ASSERT_EQ(plan.methods.size(), 6U);
  for (const extend::MethodPlan& method : plan.methods) {
    const extend::RopePlan& rope = method.ropes.front();
    EXPECT_EQ(rope.kept + rope.blended + rope.stretched, 64) << method.method;
    int fresh = 0;
    double largest = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      const double unscaled = std::pow(1e6, -static_cast<double>(i) / 64);
      const extend::PairPlan& pair = rope.pairs[i];
      EXPECT_NEAR(pair.unscaled / unscaled, 1, 1e-12);
      EXPECT_NEAR(pair.stretch * pair.inv_freq / unscaled, 1, 1e-12);
      EXPECT_NEAR(pair.trained_angle / (32768 * unscaled), 1, 1e-12);
      EXPECT_NEAR(pair.angle / (131071 * pair.inv_freq), 1, 1e-12);
      const bool is_new = 32768 * unscaled < circle && 131071 * pair.inv_freq > 32768 * unscaled;
      EXPECT_EQ(pair.sees_new_angles, is_new) << method.method << " pair " << i;
      fresh += is_new ? 1 : 0;
      if (is_new) largest = std::max(largest, std::min(131071 * pair.inv_freq, circle));
    }
    EXPECT_EQ(rope.pairs_with_new_angles, fresh);
    EXPECT_DOUBLE_EQ(rope.largest_unseen_angle, largest);
    EXPECT_DOUBLE_EQ(rope.smallest_step, rope.pairs.back().inv_freq);
    EXPECT_DOUBLE_EQ(rope.largest_step, rope.pairs.front().inv_freq);
  }
  EXPECT_EQ(method_of(plan, "linear").ropes.front().stretched, 64);
  EXPECT_EQ(method_of(plan, "linear").ropes.front().pairs_with_new_angles, 0);
  EXPECT_EQ(method_of(plan, "ntk").ropes.front().kept, 1);
  EXPECT_GT(method_of(plan, "ntk").ropes.front().pairs_with_new_angles, 0);
  EXPECT_EQ(method_of(plan, "yarn").ropes.front().pairs_with_new_angles, 0);
}

// ntk is a larger base, in the file too: b * f^(r / (r - 2)).
TEST(Plan, ntk_is_a_base_that_every_reader_knows) {
  const extend::MethodPlan ntk = method_of(planned(golden("qwen2.5-7b"), 131072), "ntk");
  EXPECT_NEAR(ntk.rope_theta, 1e6 * std::pow(4, 128.0 / 126), 1e-3);
  EXPECT_EQ(ntk.rope_scaling, "null");
  const Model read = parse_config(ntk.config);
  EXPECT_EQ(read.ropes.front().rope.base, ntk.rope_theta);
  Rope formula = parse_config(golden("qwen2.5-7b")).ropes.front().rope;
  formula.scaling = Ntk{.factor = 4};
  const std::vector<double> wanted = frequencies(formula).inv_freq;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(ntk.ropes.front().pairs[i].inv_freq / wanted[i], 1, 1e-14);
  }
}

TEST(Plan, the_start_of_longrope_rises_from_1_to_the_factor) {
  std::vector<double> inv_freq;
  for (int i = 0; i < 64; ++i) inv_freq.push_back(std::pow(1e4, -i / 64.0));
  const std::vector<double> list = extend::starting_long_factor(inv_freq, 4096, 8);
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const double turns = 4096 * inv_freq[i] / circle;
    if (turns >= 32) {
      EXPECT_EQ(list[i], 1) << i;
    } else if (turns <= 1) {
      EXPECT_EQ(list[i], 8) << i;
    } else {
      const double kept = std::log(turns) / std::log(32);
      EXPECT_NEAR(list[i], 1 / (kept + (1 - kept) / 8), 1e-5 * list[i]) << i;
      EXPECT_GT(list[i], list[i - 1]) << i;
    }
  }
  const extend::MethodPlan plan = method_of(planned(small(""), 32768), "longrope");
  EXPECT_TRUE(any_has(plan.warnings, "a start for a search or for fine-tuning, not a published list"));
  EXPECT_EQ(plan.ropes.front().pairs_with_new_angles, 0);
}

// ---- factors and lengths ----

TEST(Plan, a_factor_reaches_the_context_whatever_the_ratio) {
  for (const std::int64_t context : {4097, 5000, 12289, 100003, 1048577}) {
    const extend::Plan plan = planned(small(""), context);
    EXPECT_GE(plan.smallest_factor * 4096, static_cast<double>(context));
    EXPECT_LT(plan.smallest_factor * 4096, static_cast<double>(context) * (1 + 1e-15));
    EXPECT_EQ(recommended(plan).factor, plan.smallest_factor);
    EXPECT_FALSE(any_has(recommended(plan).warnings, "the smallest factor that does"));
  }
}

TEST(Plan, warns_of_a_factor_that_does_not_reach) {
  extend::Request request = asked(golden("qwen2.5-7b"), 131072, "yarn");
  request.factor = 2;
  const extend::Plan plan = extend::plan(request);
  EXPECT_TRUE(any_has(plan.methods.front().warnings, "factor 2 reaches 65536 tokens"));
  EXPECT_TRUE(any_has(plan.methods.front().warnings, "the smallest factor that does is 4"));
  EXPECT_TRUE(any_has(recommended(planned(golden("llama-3-8b"), 131072)).warnings, "is what Meta published"));
}

// Only the published method with the published factor is what the makers published.
TEST(Plan, claims_no_publication_for_another_method_or_factor) {
  const auto claims = [](const char* file, const char* method, std::optional<double> factor) {
    extend::Request request = asked(golden(file), 131072, method);
    request.factor = factor;
    const std::vector<std::string> warnings = extend::plan(request).methods.front().warnings;
    EXPECT_TRUE(any_has(warnings, "the smallest factor that does is 16")) << method;
    return any_has(warnings, "published, with weights");
  };
  EXPECT_TRUE(claims("llama-3-8b", "llama3", std::nullopt));
  EXPECT_TRUE(claims("llama-3-8b", "llama3", 8));
  EXPECT_FALSE(claims("llama-3-8b", "llama3", 4));
  EXPECT_FALSE(claims("llama-3-8b", "yarn", 8));
  EXPECT_FALSE(claims("llama-3-8b", "ntk", 2));
}

TEST(Plan, says_what_the_family_publishes_at_another_length) {
  const extend::Plan plan = planned(golden("llama-3-8b"), 65536);
  ASSERT_TRUE(plan.published.has_value());
  EXPECT_FALSE(plan.published->applies);
  EXPECT_EQ(plan.published->factor, 8);
  EXPECT_EQ(plan.published->context, 131072);
  EXPECT_EQ(plan.recommended, "llama3");
  EXPECT_EQ(recommended(plan).factor, 8);  // 65536 / 8192
  EXPECT_EQ(recommended(planned(golden("llama-3-8b"), 32768)).factor, 4);
  EXPECT_FALSE(planned(golden("smollm2-135m"), 32768).published.has_value());
  EXPECT_EQ(planned(golden("smollm2-135m"), 32768).recommended, "yarn");
}

TEST(Plan, knows_lengths_that_were_raised_without_training) {
  const extend::Plan qwen3 = planned(golden("qwen3-8b"), 131072);
  EXPECT_EQ(qwen3.trained_length, 32768);
  EXPECT_TRUE(any_has(qwen3.warnings, "max_position_embeddings 40960 is above the trained length 32768"));
  for (const std::int64_t context : {131072, 262144}) {  // max_position_embeddings is 131072 there
    const extend::Plan qwen2 = planned(golden("qwen2-7b"), context);
    EXPECT_EQ(qwen2.trained_length, 32768);
    EXPECT_EQ(recommended(qwen2).factor, context / 32768);
    EXPECT_TRUE(any_has(qwen2.warnings, "max_position_embeddings 131072 is above the trained length 32768"));
    EXPECT_EQ(qwen2.why.find("not known"), std::string::npos) << qwen2.why;
  }
  extend::Request request = asked(small("", "llama", 131072), 262144);
  request.trained_length = 4096;
  EXPECT_EQ(extend::plan(request).smallest_factor, 64);
  EXPECT_TRUE(any_has(extend::plan(request).warnings, "131072 is above the trained length 4096"));
}

// ---- refusals ----

TEST(Plan, refuses_a_context_that_needs_nothing) {
  EXPECT_NE(error_of(asked(small(""), 4096)).find("VALUE: [extend] --context must be above the trained length 4096"),
            std::string::npos);
  std::string raised = golden("qwen2.5-7b");  // to a length that no published file has
  raised.replace(raised.find("32768"), 5, "65536");
  EXPECT_NE(error_of(asked(raised, 65536)).find("--trained-length 32768"), std::string::npos);
}

TEST(Plan, refuses_what_no_scaling_can_extend) {
  const auto expect = [](const std::string& config, const std::string& words) {
    const std::string error = error_of(asked(config, 1 << 22));
    EXPECT_EQ(error.rfind("ROPE: [extend] ", 0), 0U) << error;
    EXPECT_NE(error.find(words), std::string::npos) << error;
  };
  expect(golden("gpt-j-6b"), "its frequencies are fixed");
  expect(golden("command-r7b"), "only the sliding layers have one, with a window of 4096");
  expect(R"({"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8})",
         "must have a rope but has none");
  expect(R"({"model_type": "mistral_large4_text", "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2,
             "num_hidden_layers": 4, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "max_position_embeddings": 4096,
             "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})",
         "learned them");
  expect(R"({"model_type": "llava", "te.xt": {"model_type": "qwen2", "max_position_embeddings": 32768}})",
         "an object at the place of its rope but \"te.xt\" is none");
  extend::Request tower = asked(golden("qwen2.5-vl-7b"), 1 << 22);
  tower.rope = 1;
  EXPECT_NE(error_of(tower).find("turns by coordinates"), std::string::npos);
}

TEST(Plan, refuses_methods_that_the_family_cannot_use) {
  const extend::Plan phi = planned(golden("phi-3-mini-4k"), 131072);
  EXPECT_NE(method_of(phi, "yarn").refused.find("longrope"), std::string::npos);
  EXPECT_EQ(method_of(phi, "ntk").refused, "");
  const extend::Plan gemma4 = planned(golden("gemma-4-31b"), 1 << 20);
  EXPECT_EQ(gemma4.recommended, "linear");
  EXPECT_NE(method_of(gemma4, "yarn").refused.find("proportional"), std::string::npos);
  EXPECT_EQ(error_of(asked(golden("phi-3-mini-4k"), 131072, "yarn")).rfind("ROPE: [extend] yarn must be a method", 0),
            0U);
}

// The makers' length counts, not max_position_embeddings divided by the factor.
TEST(Plan, starts_a_published_linear_scaling_from_its_published_length) {
  for (const std::int64_t context : {131072, 262144}) {
    const extend::Plan plan = planned(golden("gemma-3-27b"), context);
    EXPECT_EQ(plan.trained_length, 32768);
    EXPECT_EQ(plan.trained_length_from, "published by Google");
    EXPECT_EQ(plan.recommended, "linear");
    EXPECT_EQ(recommended(plan).factor, 8);
    EXPECT_FALSE(any_has(plan.warnings, "is taken as the one after"));
  }
  EXPECT_EQ(method_of(planned(golden("gemma-3-27b"), 262144), "yarn").factor, 8);
}

TEST(Plan, says_what_it_does_not_recommend_where_the_length_is_another) {
  extend::Request request = asked(golden("qwen2.5-7b"), 262144);
  request.trained_length = 65536;
  const extend::Plan plan = extend::plan(request);
  EXPECT_EQ(plan.recommended, "yarn");
  EXPECT_NE(plan.why.find("what Qwen publishes starts from 32768 tokens"), std::string::npos) << plan.why;
}

// Hunyuan's alpha is the base that its training used: 10000 * 1000^(128 / 126).
TEST(Plan, keeps_the_static_ntk_base_of_the_training) {
  extend::Request request = asked(golden("hunyuan-7b"), 1 << 20);
  request.trained_length = 262144;
  const extend::Plan plan = extend::plan(request);
  const double base = 1e4 * std::pow(1000.0, 128.0 / 126);
  EXPECT_EQ(plan.recommended, "yarn");
  EXPECT_TRUE(any_has(plan.warnings, "was trained with a static NTK base (alpha 1000)"));
  EXPECT_FALSE(any_has(plan.warnings, "is scaled already"));
  const std::vector<double> trained = frequencies(parse_config(golden("hunyuan-7b")).ropes.front().rope).inv_freq;
  for (const extend::MethodPlan& method : plan.methods) {
    ASSERT_EQ(method.refused, "") << method.method;
    const double wanted = method.method == "ntk" ? base * std::pow(4, 128.0 / 126) : base;
    EXPECT_NEAR(method.rope_theta / wanted, 1, 1e-14) << method.method;
    EXPECT_EQ(method.config.find("alpha"), std::string::npos) << method.method;
    for (std::size_t i = 0; i < trained.size(); ++i) {
      EXPECT_NEAR(method.ropes.front().pairs[i].unscaled / trained[i], 1, 1e-13) << method.method;
    }
  }
}

TEST(Plan, asks_for_the_trained_length_where_nothing_says_it) {
  EXPECT_EQ(error_of(asked(golden("hunyuan-7b"), 1 << 20)).rfind("CONFIG_MISSING", 0), 0U);
  extend::Request request = asked(golden("hunyuan-7b"), 1 << 20);
  request.trained_length = 32768;
  EXPECT_EQ(error_of(request), "");
}

// The kinds of yarn that have a rope_type of their own keep it, and with it what it says.
TEST(Plan, says_the_kinds_of_yarn_by_their_own_words) {
  for (const char* word : {"telechat3-yarn", "deepseek_yarn", "yarn"}) {
    const std::string scaling = std::string(R"(, "rope_scaling": {"rope_type": ")") + word +
                                R"(", "factor": 4.0, "original_max_position_embeddings": 4096, "mscale": 1.0})";
    const std::string config = small(scaling, "llama", 16384);
    const extend::MethodPlan yarn = method_of(planned(config, 65536), "yarn");
    ASSERT_EQ(yarn.refused, "") << word;
    EXPECT_EQ(Json::parse(yarn.rope_scaling)["rope_type"], word);
    EXPECT_EQ(Json::parse(yarn.rope_scaling).size(), 4U) << yarn.rope_scaling;
    Yarn wanted = std::get<Yarn>(parse_config(config).ropes.front().rope.scaling);
    wanted.factor = 16;
    EXPECT_EQ(parse_config(yarn.config).ropes.front().rope.scaling, Scaling(wanted)) << word;
  }
}

// ---- several ropes, M-RoPE, MLA ----

// A linear factor of the file above its length, or a length of one token.
TEST(Plan, asks_for_another_trained_length_where_the_one_of_the_file_is_none) {
  const std::string divided = small(R"(, "rope_scaling": {"rope_type": "linear", "factor": 1e15})");
  EXPECT_EQ(error_of(asked(divided, 8192)),
            "VALUE: [extend] the trained length must be at least 2 but got 0 (max_position_embeddings / factor): "
            "--trained-length gives another");
  EXPECT_NE(error_of(asked(small("", "llama", 1), 8192)).find("at least 2 but got 1"), std::string::npos);
  extend::Request given = asked(divided, 8192);
  given.trained_length = 4096;
  EXPECT_EQ(error_of(given), "");
}

// One method whose numbers overflow does not keep the others from being planned.
TEST(Plan, refuses_a_method_whose_frequencies_cannot_be_computed) {
  extend::Request request = asked(small(R"(, "rope_theta": 1e300, "head_dim": 4)"), 131072);
  request.factor = 1e15;
  const extend::Plan plan = extend::plan(request);
  EXPECT_EQ(method_of(plan, "ntk").refused.substr(0, 34), "its frequencies cannot be computed");
  EXPECT_EQ(method_of(plan, "linear").refused, "");
}

TEST(Plan, extends_the_layers_that_attend_to_everything) {
  for (const char* file : {"gemma-3-4b-v5", "gemma-3-27b", "gemma-3-1b", "olmo-3-7b", "gemma-4-31b"}) {
    const Model before = parse_config(golden(file));
    const extend::Plan plan = planned(golden(file), 1 << 20);
    ASSERT_EQ(plan.extended.size(), 1U) << file;
    EXPECT_EQ(before.ropes[plan.extended.front()].layer_types, std::vector<std::string>{"full_attention"});
    EXPECT_TRUE(any_has(plan.warnings, "stays as it is: its layers look back over a window only"));
    for (const extend::MethodPlan& method : plan.methods) {
      if (!method.refused.empty()) continue;
      const Model after = parse_config(method.config);
      ASSERT_EQ(after.ropes.size(), before.ropes.size()) << file << method.method;
      for (const std::size_t i : plan.left) EXPECT_EQ(after.ropes[i].rope, before.ropes[i].rope) << file;
      EXPECT_EQ(after.ropes[plan.extended.front()].rope, method.ropes.front().planned) << file << method.method;
    }
  }
}

// rope_parameters by layer type stay so, and the entry of the sliding layers keeps its bytes.
TEST(Plan, edits_one_entry_of_nested_parameters) {
  const std::string before = golden("gemma-3-4b-v5");
  const extend::MethodPlan plan = method_of(planned(before, 1 << 20), "yarn");
  const Json after = Json::parse(plan.config), old = Json::parse(before);
  EXPECT_EQ(after["text_config"]["rope_parameters"]["sliding_attention"],
            old["text_config"]["rope_parameters"]["sliding_attention"]);
  EXPECT_EQ(after["text_config"]["rope_parameters"]["full_attention"]["rope_type"], "yarn");
  EXPECT_EQ(Json::parse(plan.rope_parameters), after["text_config"]["rope_parameters"]);
}

TEST(Plan, keeps_the_sections_of_mrope) {
  for (const char* file : {"qwen2-vl-7b", "qwen2.5-vl-7b", "qwen3-vl-8b", "qwen3.5-27b"}) {
    const Model before = parse_config(golden(file));
    const extend::Plan plan = planned(golden(file), 1 << 21);
    for (const extend::MethodPlan& method : plan.methods) {
      ASSERT_EQ(method.refused, "") << file << method.method;
      const Model after = parse_config(method.config);
      EXPECT_EQ(after.ropes.front().rope.axis, before.ropes.front().rope.axis) << file << method.method;
      EXPECT_EQ(after.ropes.front().axis_names, before.ropes.front().axis_names);
      for (std::size_t i = 1; i < after.ropes.size(); ++i) EXPECT_EQ(after.ropes[i].rope, before.ropes[i].rope);
    }
  }
}

// The temperature of an MLA stands in its softmax scale: mscale = mscale_all_dim, and an attention factor of 1.
TEST(Plan, gives_an_mla_both_mscales) {
  const std::string config =
      R"({"model_type": "glm4_moe_lite", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
          "hidden_size": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 64,
          "max_position_embeddings": 8192, "rope_theta": 10000.0})";
  const extend::MethodPlan yarn = method_of(planned(config, 32768), "yarn");
  const Json scaling = Json::parse(yarn.rope_scaling);
  EXPECT_EQ(scaling["mscale"], 1.0);
  EXPECT_EQ(scaling["mscale_all_dim"], 1.0);
  EXPECT_EQ(yarn.ropes.front().frequencies.attention_factor, 1);
  const extend::MethodPlan v2 = recommended(planned(golden("deepseek-v2"), 81920));
  EXPECT_EQ(Json::parse(v2.rope_scaling)["mscale"], 0.707);
  EXPECT_EQ(v2.factor, 20);
}

// ---- the file ----

// Every key but the changed ones keeps its value and its place, over published files and all methods.
TEST(Plan, changes_only_what_it_lists) {
  int compared = 0;
  for (const char* file : {"qwen2.5-7b", "llama-3-8b", "phi-3-mini-4k", "deepseek-v3", "gemma-3-27b", "gpt-oss-20b",
                           "mistral-small-3.1-24b", "pythia-1.4b", "qwen3.5-27b", "modernbert-base"}) {
    for (const extend::MethodPlan& method : planned(golden(file), 1 << 22).methods) {
      if (!method.refused.empty()) continue;
      Json old = Json::parse(golden(file)), fresh = Json::parse(method.config);
      for (const extend::Change& change : method.changes) {
        const std::size_t dot = change.key.find('.');
        for (Json* keys : {&old, &fresh}) {
          (dot == std::string::npos ? *keys : (*keys)["text_config"]).erase(change.key.substr(dot + 1));
        }
      }
      EXPECT_EQ(old.dump(), fresh.dump()) << file << " " << method.method;  // order too
      EXPECT_FALSE(method.changes.empty()) << file << " " << method.method;
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(Plan, keeps_the_spelling_of_numbers) {
  const std::string config = R"({
  "model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2,
  "rms_norm_eps": 1e-05, "big": 123456789012345678901234567890, "limit": [0.0, Infinity],
  "max_position_embeddings": 4096,
  "rope_theta": 1.0E+4
})";
  const std::string now = recommended(planned(config, 8192)).config;
  for (const char* kept : {"1e-05", "123456789012345678901234567890", "[0.0, Infinity]", "1.0E+4"}) {
    EXPECT_NE(now.find(kept), std::string::npos) << kept;
  }
}

TEST(Plan, uses_the_form_that_the_file_has) {
  const extend::MethodPlan fresh =
      recommended(planned(small(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0})"), 8192));
  EXPECT_TRUE(Json::parse(fresh.config).contains("rope_parameters"));
  EXPECT_FALSE(Json::parse(fresh.config).contains("rope_scaling"));
  EXPECT_EQ(Json::parse(fresh.config)["rope_parameters"]["rope_theta"], 5000.0);
  const extend::MethodPlan old = recommended(planned(small(R"(, "rope_theta": 5000.0)"), 8192));
  EXPECT_TRUE(Json::parse(old.config).contains("rope_scaling"));
  EXPECT_EQ(Json::parse(old.config)["rope_theta"], 5000.0);
  EXPECT_EQ(Json::parse(old.config)["max_position_embeddings"], 8192);
  const extend::Plan plan = planned(small(R"(, "rope_theta": 5000.0)"), 8192);
  EXPECT_EQ(Json::parse(method_of(plan, "dynamic").config)["max_position_embeddings"], 4096);
}

TEST(Plan, plans_for_a_file_whose_text_cannot_be_changed) {
  extend::Request request = asked(small(""), 8192, "yarn");
  request.config.clear();
  const extend::MethodPlan plan = extend::plan(request).methods.front();
  EXPECT_EQ(plan.config, "");
  EXPECT_EQ(Json::parse(plan.rope_parameters)["factor"], 2.0);
  EXPECT_EQ(plan.ropes.front().pairs.size(), 32U);
}

}  // namespace
}  // namespace rotary::extend_tests
