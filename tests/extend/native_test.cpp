// Plans in params.json of Mistral and Meta, and as options of llama.cpp.
#include <cmath>
#include <tuple>

#include "planned.h"

namespace rotary::extend_tests {
namespace {

extend::Plan params(const std::string& text, std::int64_t context, std::int64_t trained = 0,
                    const std::string& method = "") {
  extend::Request request = asked(text, context, method);
  if (trained != 0) request.trained_length = trained;
  return extend::plan(request);
}

// The scaling that Mistral published, planned from the file without it.
TEST(Params, says_the_yarn_of_mistral_as_it_was_published) {
  for (const auto& [file, trained, context] :
       {std::tuple{"ministral-3-8b.params", 16384, 262144}, std::tuple{"mistral-large-3.params", 8192, 294912}}) {
    const std::string published = golden(file);
    const extend::MethodPlan same = recommended(params(published, context));
    EXPECT_EQ(same.file, "params.json");
    EXPECT_EQ(same.config, published) << file;  // to the byte
    EXPECT_TRUE(same.changes.empty());
    const extend::MethodPlan twice = method_of(params(published, 2 * context), "yarn");
    Json wanted = Json::parse(published);
    wanted["yarn"]["factor"] = 2 * wanted["yarn"]["factor"].get<int>();
    wanted["max_position_embeddings"] = 2 * context;
    EXPECT_EQ(Json::parse(twice.config), wanted) << file;
    EXPECT_EQ(parse_config(twice.config).ropes.front().rope, twice.ropes.front().planned) << file;
    EXPECT_FALSE(any_has(twice.warnings, "max_position_embeddings becomes")) << file;  // a matter of config.json
  }
}

TEST(Params, adds_what_mistral_reads_to_a_file_without_a_scaling) {
  const std::string original = golden("mistral-7b-v0.3.params");
  const extend::Plan plan = params(original, 131072, 32768);
  const extend::MethodPlan& yarn = recommended(plan);
  Json wanted = Json::parse(original);
  wanted["yarn"] = Json::parse(R"({"original_max_position_embeddings": 32768, "factor": 4, "apply_scale": true,
                                   "beta": 32, "alpha": 1})");
  wanted["max_position_embeddings"] = 131072;
  EXPECT_EQ(Json::parse(yarn.config), wanted);
  EXPECT_NEAR(frequencies(parse_config(yarn.config).ropes.front().rope).attention_factor, 0.1 * std::log(4.0) + 1,
              1e-15);
  const extend::MethodPlan& ntk = method_of(plan, "ntk");
  EXPECT_EQ(parse_config(ntk.config).ropes.front().rope.base, ntk.rope_theta);
  EXPECT_EQ(Json::parse(method_of(params(golden("ministral-3-8b.params"), 524288), "ntk").config).count("yarn"), 0U);
  Json with_null = Json::parse(original);
  with_null["yarn"] = nullptr;
  EXPECT_EQ(Json::parse(recommended(params(with_null.dump(), 131072, 32768)).config)["yarn"], wanted["yarn"]);
  for (const char* method : {"linear", "dynamic", "llama3", "longrope"}) {
    EXPECT_EQ(method_of(plan, method).config, "") << method;
    EXPECT_NE(method_of(plan, method).unsaid.find("takes yarn, or another base (ntk)"), std::string::npos) << method;
    EXPECT_FALSE(method_of(plan, method).ropes.empty()) << method;  // planned all the same
  }
}

// Llama 3's file becomes that of Llama 3.1, which Meta published.
TEST(Params, says_the_llama3_of_meta) {
  Json original = Json::parse(golden("llama-3.1-8b.params"));
  original.erase("use_scaled_rope");
  extend::Request request = asked(original.dump(2), 131072, "llama3");
  request.factor = 8;
  const extend::Plan plan = extend::plan(request);
  EXPECT_EQ(plan.trained_length, 8192);
  EXPECT_EQ(plan.trained_length_from, "published by Meta");
  EXPECT_EQ(plan.recommended, "yarn");  // which its file cannot say
  EXPECT_EQ(parse_config(plan.methods.front().config).ropes.front().rope,
            parse_config(golden("llama-3.1-8b.params")).ropes.front().rope);
  const extend::MethodPlan more = recommended(params(golden("llama-3.1-8b.params"), 262144));
  EXPECT_EQ(Json::parse(more.config)["rope_scaling_factor"], 32);
  EXPECT_NE(method_of(params(original.dump(), 131072), "yarn").unsaid.find("Meta's params.json takes llama3"),
            std::string::npos);
  EXPECT_NE(method_of(params(original.dump(), 131072, 4096), "llama3").unsaid.find("scales from 8192 tokens"),
            std::string::npos);
  const Json ntk = Json::parse(method_of(params(golden("llama-3.1-8b.params"), 262144), "ntk").config);
  EXPECT_EQ(ntk["use_scaled_rope"], false);
}

extend::Plan of_gguf(const std::string& file, std::int64_t context, std::int64_t trained = 0) {
  extend::Request request;
  request.model = read_config(ROTARY_SOURCE_DIR "/tests/golden/gguf/" + file + ".gguf");
  request.context = context;
  if (trained != 0) request.trained_length = trained;
  return extend::plan(request);
}

TEST(Gguf, is_told_to_llama_cpp_by_its_options) {
  const extend::Plan plan = of_gguf("qwen2", 131072);
  EXPECT_EQ(plan.published->other_weights, "a smaller model or a Qwen1.5");  // the shape is one
  EXPECT_EQ(method_of(plan, "yarn").llama_cpp,
            "--ctx-size 131072 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768");
  EXPECT_EQ(method_of(plan, "linear").llama_cpp, "--ctx-size 131072 --rope-scaling linear --rope-scale 4");
  EXPECT_EQ(method_of(plan, "ntk").llama_cpp.rfind("--ctx-size 131072 --rope-freq-base 41829", 0), 0U);
  EXPECT_EQ(method_of(plan, "llama3").llama_cpp, "");
  EXPECT_EQ(method_of(plan, "dynamic").llama_cpp, "");
  EXPECT_EQ(method_of(of_gguf("deepseek2", 1 << 20), "yarn").llama_cpp, "");  // a temperature in its softmax
  EXPECT_EQ(method_of(of_gguf("gemma3", 1 << 20), "yarn").llama_cpp, "");     // layers with a window
  EXPECT_NE(method_of(of_gguf("gemma3", 1 << 20), "linear").llama_cpp, "");
  for (const extend::MethodPlan& method : plan.methods) EXPECT_EQ(method.config, "");
}

// A GGUF file holds Llama 3.1's scaling as factors by pair, and 131072 as the only length.
TEST(Gguf, is_planned_from_what_meta_publishes_where_factors_hide_the_trained_length) {
  const extend::Plan plan = of_gguf("llama31", 1 << 20);
  EXPECT_EQ(plan.trained_length, 8192);
  EXPECT_EQ(plan.recommended, "llama3");
  for (const extend::MethodPlan& method : plan.methods) EXPECT_EQ(method.llama_cpp, "") << method.method;
}

}  // namespace
}  // namespace rotary::extend_tests
