// A plan's facts on the pairs, and the parts of the file that it leaves. (What it prints and refuses:
// cli/tests/transcripts/extend.txt)
#include <cmath>

#include "extend/steps.h"
#include "planned.h"

namespace rotary::extend_tests {
namespace {

constexpr double circle = 6.283185307179586;

// ---- the numbers of a plan ----

TEST(Plan, says_in_json_of_each_pair_which_angles_are_new) {
  const Json answer = Json::parse(extend::to_json(planned(golden("qwen2.5-7b"), 131072)));
  EXPECT_EQ(answer.at("ropes").at(0).at("extended"), true);
  int compared = 0;
  for (const Json& method : answer.at("methods")) {
    if (method.contains("refused")) continue;
    int fresh = 0;
    double largest = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      const double unscaled = std::pow(1e6, -static_cast<double>(i) / 64), planned = method.at("inv_freq").at(i);
      EXPECT_NEAR(method.at("stretch").at(i).get<double>() * planned / unscaled, 1, 1e-12);
      EXPECT_NEAR(method.at("wavelength").at(i).get<double>() * planned / circle, 1, 1e-12);
      EXPECT_NEAR(method.at("turns_in_training").at(i).get<double>() / (32768 * unscaled / circle), 1, 1e-12);
      EXPECT_NEAR(method.at("turns_in_context").at(i).get<double>() / (131072 * planned / circle), 1, 1e-12);
      const bool is_new = 32768 * unscaled < circle && 131071 * planned > 32768 * unscaled * (1 + 1e-9);
      EXPECT_EQ(method.at("sees_new_angles").at(i).get<bool>(), is_new) << method.at("method") << " pair " << i;
      fresh += is_new ? 1 : 0;
      if (is_new) largest = std::max(largest, std::min(131071 * planned, circle));
    }
    EXPECT_EQ(method.at("pairs_with_new_angles").get<int>(), fresh);
    EXPECT_DOUBLE_EQ(method.at("largest_unseen_angle").get<double>(), largest);
    EXPECT_EQ(method.at("smallest_step"), method.at("inv_freq").back());
    EXPECT_EQ(method.at("largest_step"), method.at("inv_freq").front());
    const Json& pairs = method.at("pairs");
    EXPECT_EQ(pairs.at("kept").get<int>() + pairs.at("blended").get<int>() + pairs.at("stretched").get<int>(), 64);
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

// 32768 tokens of base 1e6 to four times the length, counted by the formula of YaRN's paper: pairs of 32 turns and more
// stay, those of less than one are stretched by 4.
TEST(Plan, counts_pairs_as_the_formulas_say) {
  const extend::Plan plan = planned(golden("qwen2.5-7b"), 131072);
  ASSERT_EQ(plan.methods.size(), 5U);
  const extend::RopePlan& yarn = method_of(plan, "yarn").ropes.front();
  const auto pair_of = [](double turns) { return 128 * std::log(32768 / (turns * circle)) / (2 * std::log(1e6)); };
  const double low = std::floor(pair_of(32)), high = std::ceil(pair_of(1));
  EXPECT_EQ(yarn.kept, static_cast<int>(low) + 1);
  EXPECT_EQ(yarn.stretched, 64 - static_cast<int>(high));
  EXPECT_EQ(yarn.kept + yarn.blended + yarn.stretched, 64);
  for (int i = 0; i < 64; ++i) {
    const double mix = std::clamp((i - low) / (high - low), 0.0, 1.0), plain = std::pow(1e6, -i / 64.0);
    const double wanted = plain / 4 * mix + plain * (1 - mix);
    EXPECT_NEAR(yarn.frequencies.inv_freq[static_cast<std::size_t>(i)] / wanted, 1, 1e-14) << i;
  }
  EXPECT_EQ(method_of(plan, "linear").ropes.front().stretched, 64);
  EXPECT_EQ(method_of(plan, "default").ropes.front().kept, 64);
  EXPECT_NE(method_of(plan, "longrope").refused.find("no lists are published"), std::string::npos);
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

// Hunyuan's alpha is the base that its training used, and Gemma 4 turns a share of its pairs: no method replaces these.
TEST(Plan, leaves_a_rope_as_it_was_trained) {
  for (const char* file : {"hunyuan-7b", "gemma-4-31b"}) {
    const Model before = parse_config(golden(file));
    const extend::Plan plan = planned(golden(file), 1 << 20);
    EXPECT_EQ(plan.recommended, "") << file;
    for (const extend::MethodPlan& method : plan.methods)
      EXPECT_EQ(method.refused.empty(), method.method == "default") << file << method.method << method.refused;
    const extend::RopePlan& stays = method_of(plan, "default").ropes.front();
    EXPECT_EQ(stays.planned, before.ropes[stays.rope].rope) << file;
    EXPECT_EQ(stays.trained, stays.frequencies.inv_freq) << file;
  }
}

// A converted checkpoint: its config.json cannot say the pairing of its weights.
TEST(Plan, keeps_the_pairing_of_the_weights) {
  extend::Request request = asked(small(""), 8192);
  request.model.ropes.front().rope.pairing = Pairing::interleaved;
  const extend::Plan plan = extend::plan(request);
  EXPECT_EQ(plan.recommended, "yarn");
  for (const char* method : {"linear", "yarn", "llama3", "default"}) {
    const extend::MethodPlan one = method_of(plan, method);
    ASSERT_EQ(one.refused, "") << method;
    EXPECT_EQ(one.ropes.front().planned.pairing, Pairing::interleaved) << method;
  }
}

// The kinds of yarn that have a rope_type of their own keep it, and with it its meaning.
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

// rope_parameters by layer type stay so, and the entry of the sliding layers keeps its values.
TEST(Plan, edits_one_entry_of_nested_parameters) {
  const std::string before = golden("gemma-3-4b-v5");
  const extend::MethodPlan plan = method_of(planned(before, 1 << 20), "yarn");
  const Json after = Json::parse(plan.config), old = Json::parse(before);
  EXPECT_EQ(after["text_config"]["rope_parameters"]["sliding_attention"],
            old["text_config"]["rope_parameters"]["sliding_attention"]);
  EXPECT_EQ(after["text_config"]["rope_parameters"]["full_attention"]["rope_type"], "yarn");
  EXPECT_EQ(Json::parse(plan.rope_parameters), after["text_config"]["rope_parameters"]);
}

// An object in rope_parameters that no reader knows makes no layer types of a model without them.
TEST(Plan, keeps_an_unknown_object_among_the_parameters) {
  const extend::MethodPlan plan =
      method_of(planned(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8,
                  "max_position_embeddings": 4096, "rope_parameters": {"rope_theta": 10000.0, "other": {}}})",
                        8192),
                "linear");
  EXPECT_EQ(plan.rope_parameters, R"({"rope_theta": 10000.0, "other": {}, "rope_type": "linear", "factor": 2.0})");
}

// ---- the file ----

// Published files and all methods: every key but the changed ones keeps its value and its place. What is read back
// turns as planned, by the axes of before, and so does the file as it is with the options for vLLM and SGLang, whose
// own scaling and base their readers leave when rope_parameters is there. The layers that attend to everything are
// extended, and other ropes stay.
TEST(Plan, changes_only_what_it_lists) {
  int compared = 0;
  for (const char* file : {"qwen2.5-7b", "llama-3-8b", "phi-3-mini-4k", "deepseek-v3", "gemma-3-4b-v5", "gemma-3-27b",
                           "gemma-3-1b", "olmo-3-7b", "gemma-4-31b", "qwen2-vl-7b", "qwen2.5-vl-7b", "qwen3-vl-8b",
                           "qwen3.5-27b", "gpt-oss-20b", "mistral-small-3.1-24b", "pythia-1.4b", "modernbert-base"}) {
    const Model before = parse_config(golden(file));
    const extend::Plan plan = planned(golden(file), 1 << 22);
    ASSERT_EQ(plan.extended.size(), 1U) << file;
    const std::vector<std::string> types = layer_types_of(before, before.ropes[plan.extended.front()]);
    EXPECT_TRUE(types.empty() || std::ranges::count(types, "full_attention") != 0) << file;
    for (const extend::MethodPlan& method : plan.methods) {
      SCOPED_TRACE(std::string(file) + " " + method.method);
      const bool has_sections = before.ropes.front().axis_names.size() > 1 && method.method != "longrope";
      EXPECT_TRUE(method.refused.empty() || !has_sections) << method.refused;
      const bool joined =
          std::string(file) == "olmo-3-7b" && method.method == "default";  // its layers then share a rope
      if (!method.refused.empty() || joined) continue;
      Json old = Json::parse(golden(file)), fresh = Json::parse(method.config), served = old;
      for (const extend::Change& change : method.changes) {
        const std::size_t dot = change.key.find('.');
        for (Json* keys : {&old, &fresh}) {
          (dot == std::string::npos ? *keys : (*keys)["text_config"]).erase(change.key.substr(dot + 1));
        }
      }
      EXPECT_EQ(old.dump(), fresh.dump());  // order too
      EXPECT_FALSE(method.changes.empty());
      for (const char* key : {"rope_scaling", "rope_theta", "rope_local_base_freq"}) {
        if (method.overrides.find("rope_parameters") == std::string::npos) break;  // the file's own stay
        (served.contains("text_config") ? served["text_config"] : served).erase(key);
      }
      served.merge_patch(Json::parse(method.overrides));
      // A merge leaves the factor of gemma-3-4b-v5 beside another method's.
      const std::string merged = std::string(file) == "gemma-3-4b-v5" ? method.config : served.dump();
      for (const std::string& config : {method.config, merged}) {
        const Model read = parse_config(config);
        for (const extend::RopePlan& rope : method.ropes) {
          EXPECT_EQ(read.ropes[rope.rope].rope, rope.planned) << config;
          EXPECT_EQ(read.ropes[rope.rope].rope.axis, before.ropes[rope.rope].rope.axis);
          EXPECT_EQ(read.ropes[rope.rope].axis_names, before.ropes[rope.rope].axis_names);
          EXPECT_EQ(part_of(read, read.ropes[rope.rope].part).context, method.max_position_embeddings);
        }
        ASSERT_EQ(read.ropes.size(), before.ropes.size());
        for (std::size_t i = 0; i < read.ropes.size(); ++i)
          EXPECT_TRUE(std::ranges::count(plan.extended, i) != 0 || read.ropes[i].rope == before.ropes[i].rope) << i;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(Plan, says_the_commands_of_servers) {
  const extend::MethodPlan less = recommended(planned(golden("qwen3-vl-8b"), 1000000));  // factor 3 for 3.8
  EXPECT_EQ(less.vllm,
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve MODEL --max-model-len 1000000 --hf-overrides \"$ROPE\"");
  EXPECT_EQ(less.sglang,
            "python -m sglang.launch_server --model-path MODEL --context-length 1000000 --json-model-override-args "
            "\"$ROPE\"");
}

// Layers, tokens and elements counted by hand from the files.
TEST(Plan, counts_the_cache_of_keys_and_values) {
  struct Kept {
    const char* file;
    std::int64_t context, bytes;
  };
  constexpr Kept table[] = {
      {"qwen2.5-7b", 131072, 28LL * 131072 * 2 * 4 * 128 * 2},
      {"deepseek-v3", 163840, 61LL * 163840 * (512 + 64) * 2},
      {"gemma-3-27b", 262144, (10LL * 262144 + 52 * 1024) * 2 * 16 * 128 * 2},
      {"qwen3-next-80b-a3b", 1010000, 12LL * 1010000 * 2 * 2 * 256 * 2},  // the others are linear
      {"smollm3-3b", 131072, 36LL * 131072 * 2 * 4 * 128 * 2},            // with and without a rope
      {"gpt-oss-20b", 262144, (12LL * 262144 + 12 * 128) * 2 * 8 * 64 * 2},
      {"mistral-7b-v0.1", 65536, 32LL * 4096 * 2 * 8 * 128 * 2},  // every layer has the window
  };
  for (const Kept& one : table) {
    EXPECT_EQ(planned(golden(one.file), one.context).cache.bytes, one.bytes) << one.file;
  }
  const std::string wide = R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 65536,
    "head_dim": 16384, "num_hidden_layers": 1, "max_position_embeddings": 4096})";
  EXPECT_EQ(planned(wide, 8192).cache.bytes, 8192LL * 2 * 65536 * 16384 * 2);
}

// Indented by 2, as Hugging Face writes it; every value that the plan does not change is the same.
TEST(Plan, writes_the_config_as_hugging_face_does) {
  const std::string before = small(R"(, "eps": 1e-6, "limit": Infinity, "rope_theta": 10000)");
  EXPECT_EQ(planned(before, 8192, "linear").methods.front().config,
            R"({
  "model_type": "llama",
  "hidden_size": 256,
  "num_attention_heads": 4,
  "num_hidden_layers": 2,
  "max_position_embeddings": 8192,
  "eps": 1e-06,
  "limit": Infinity,
  "rope_theta": 10000,
  "rope_scaling": {
    "rope_type": "linear",
    "factor": 2.0
  }
}
)");
  const std::string fresh = small(R"(, "transformers_version": "5.23.0")");
  const Json after = Json::parse(planned(fresh, 8192, "yarn").methods.front().config);
  EXPECT_EQ(after["rope_parameters"]["rope_type"], "yarn");
  EXPECT_FALSE(after.contains("rope_scaling"));
}

TEST(Plan, knows_its_methods) {
  test::expect_error("VALUE", "must be linear, yarn, llama3, longrope or default but got ntk",
                     [] { planned(small(""), 8192, "ntk"); });
}

}  // namespace
}  // namespace rotary::extend_tests
