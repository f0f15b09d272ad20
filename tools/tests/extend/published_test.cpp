// The published long-context configs, planned from their short-context originals: the scaling is taken away, the length
// is the trained one, and the plan must turn as the published file does. That the published files are read right is
// held against mpmath by files/tests/golden_test.cpp.
#include "extend/steps.h"
#include "planned.h"

namespace rotary::extend_tests {
namespace {

// The cases of a test, in tools/tests/golden/plans.json:
// published  a published file, and whether its method is recommended or must be asked for with its factor (DeepSeek's
//            cards say 128K, and its files have the factor for 160K: both contexts are planned with it)
// recipes    short originals (a file, the original of a scaled one, or a config), and the numbers that were published
//            for them: of files and cards, and of models without a whole file here
// weights    files with a patch: what is recommended, whether it is this very case, what why, otherwise or caution say
const Json& plans(const char* test) {
  static const Json all = Json::parse(test::read_text(ROTARY_SOURCE_DIR "/tools/tests/golden/plans.json"));
  return all.at(test);
}

// Removes the scaling of the text model; rope_theta and llama_4_scaling_beta stay.
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

void expect_planned(const Json& one) {
  const std::string file = one.at("file"), name = one.at("method");
  const std::int64_t trained = one.at("trained"), context = one.at("context");
  const double factor = one.at("factor");
  const bool by_itself = one.value("recommended", true);
  const std::string original = short_original(file, trained);
  const Model before = parse_config(original);
  extend::Request request = asked(original, context, by_itself ? "" : name);
  if (!by_itself) request.factor = factor;
  const extend::Plan plan = extend::plan(request);
  EXPECT_EQ(plan.start.trained_length, trained);
  const bool known = plan.published && plan.published->weights_known;
  EXPECT_EQ(known, one.value("weights_known", known));  // a file without the scaling does not show them
  EXPECT_TRUE(!by_itself || plan.recommended == name) << plan.why;
  const extend::MethodPlan& method = method_of(plan, name);
  ASSERT_EQ(method.refused, "");
  EXPECT_EQ(method.factor, factor);
  const Model published = parse_config(golden(file)), read = parse_config(method.config);
  ASSERT_EQ(published.ropes.size(), read.ropes.size());
  // Rope by rope as published. (Olmo 3's layers share one rope until the full ones are scaled.)
  for (const extend::RopePlan& rope : method.ropes) {
    EXPECT_NE(rope.planned.scaling, before.ropes[rope.rope].rope.scaling);  // the original is unscaled
    const auto same = std::find_if(published.ropes.begin(), published.ropes.end(), [&](const ModelRope& used) {
      return used.part == before.ropes[rope.rope].part && used.rope.scaling.index() == rope.planned.scaling.index();
    });
    ASSERT_NE(same, published.ropes.end());
    const Frequencies wanted = frequencies(same->rope, context);
    EXPECT_EQ(rope.frequencies.inv_freq, wanted.inv_freq);
    EXPECT_EQ(rope.frequencies.attention_factor, wanted.attention_factor);
  }
  for (std::size_t i = 0; i < read.ropes.size(); ++i) {
    for (const std::int64_t length : {trained, context}) {
      const Frequencies wanted = frequencies(published.ropes[i].rope, length);
      const Frequencies got = frequencies(read.ropes[i].rope, length);
      EXPECT_EQ(got.inv_freq, wanted.inv_freq);
      EXPECT_EQ(got.attention_factor, wanted.attention_factor);
    }
  }
}

TEST(Extend, plans_published_files_from_their_short_originals) {
  for (const Json& one : plans("published")) {
    SCOPED_TRACE(one.dump());
    expect_planned(one);
  }
}

// A published file planned for its own context comes out as it is, but for the spelling of its keys.
TEST(Extend, keeps_a_published_file_at_its_own_context) {
  for (const Json& one : plans("published")) {
    SCOPED_TRACE(one.dump());
    const std::string config = golden(one.at("file"));
    const extend::Plan plan = planned(config, one.at("context"));
    EXPECT_TRUE(any_has(plan.warnings, "is scaled already"));
    EXPECT_EQ(plan.recommended, one.at("method").get<std::string>());
    const Model before = parse_config(config), after = parse_config(method_of(plan, one.at("method")).config);
    for (std::size_t i = 0; i < before.ropes.size(); ++i) {
      const Frequencies wanted = frequencies(before.ropes[i].rope, one.at("context").get<std::int64_t>());
      EXPECT_EQ(frequencies(after.ropes[i].rope, one.at("context").get<std::int64_t>()).inv_freq, wanted.inv_freq);
    }
  }
}

// transformers turns phimoe by short_factor alone, and takes no other method; there is nothing to plan without lists.
TEST(Extend, plans_phimoe_by_the_published_lists_alone) {
  const extend::Plan trained = planned(short_original("phi-3.5-moe", 4096), 131072);
  EXPECT_EQ(trained.recommended, "longrope");
  EXPECT_TRUE(any_has({trained.published->caution}, "by short_factor at every length"));
  const extend::Plan more = planned(short_original("phi-3.5-moe", 4096), 262144);
  EXPECT_EQ(more.recommended, "");
  EXPECT_NE(more.why.find("as Microsoft publishes it for Phi-3.5-MoE, at another length, if these"), std::string::npos)
      << more.why;
  EXPECT_NE(method_of(more, "longrope").refused.find("are for another context"), std::string::npos);
}

// A number that nobody read in a file is not shipped as Microsoft's.
TEST(Extend, knows_where_the_numbers_of_every_recipe_were_read) {
  for (const extend::Recipe& recipe : extend::published_recipes()) {
    EXPECT_GT(recipe.row.at("seen").get_ref<const std::string&>().size(), 10U) << recipe.says.models;
    EXPECT_GE(recipe.says.context, recipe.says.trained_length) << recipe.says.models;
    EXPECT_NE(recipe.says.method, "") << recipe.says.models;
  }
  const std::string medium = R"({"model_type": "phi3", "hidden_size": 5120, "num_attention_heads": 40,
      "num_hidden_layers": 2, "num_key_value_heads": 10, "max_position_embeddings": 4096, "rope_theta": 10000.0})";
  const extend::Plan plan = planned(medium, 131072);
  EXPECT_FALSE(plan.published.has_value());
  EXPECT_NE(method_of(plan, "longrope").refused.find("no lists are published"), std::string::npos);
}

TEST(Extend, writes_the_parameters_that_were_published) {
  ASSERT_EQ(plans("recipes").size(), 11U);
  for (const Json& recipe : plans("recipes")) {
    SCOPED_TRACE(recipe.dump());
    const Json& original = recipe.at("original");
    const bool whole = !original.contains("file"), scaled = original.contains("trained");
    const extend::Plan plan = planned(whole    ? original.dump()
                                      : scaled ? short_original(original.at("file"), original.at("trained"))
                                               : golden(original.at("file")),
                                      recipe.at("context"));
    ASSERT_TRUE(plan.published);
    const Json& wanted = recipe.at("scaling");  // rope_scaling; with a rope_theta, or by layers: rope_parameters
    const extend::MethodPlan& best = recommended(plan);
    const bool fresh = wanted.contains("rope_theta") || wanted.contains("full_attention");
    EXPECT_EQ(Json::parse(fresh ? best.rope_parameters : best.rope_scaling), wanted);
  }
}

// A recipe is this very case only for the weights that it was made for; what a publisher says against it is quoted.
TEST(Extend, knows_for_which_weights_a_recipe_is) {
  ASSERT_EQ(plans("weights").size(), 23U);
  for (const Json& one : plans("weights")) {
    const std::string file = one.at("file");
    SCOPED_TRACE(file + " " + one.at("context").dump());
    Json config = Json::parse(golden(file));
    config.merge_patch(one.value("patch", Json::object()));
    const extend::Plan plan = planned(config.dump(), one.at("context"));
    EXPECT_EQ(plan.recommended, one.at("recommended").get<std::string>());
    EXPECT_EQ(plan.published && plan.published->applies, one.at("applies").get<bool>());
    const std::string caution = plan.published ? plan.published->caution : "", words = one.at("said");
    EXPECT_TRUE(any_has({plan.why, plan.otherwise, caution}, words.c_str())) << plan.why << plan.otherwise;
  }
  // The file says it already, in words of its own: an attention_factor that is the derived one.
  EXPECT_TRUE(recommended(planned(golden("olmo-3-7b"), 65536)).changes.empty());
  // No scaling, but the longer text.
  const extend::MethodPlan raised = recommended(planned(golden("qwen2.5-vl-7b"), 131072));
  EXPECT_EQ(raised.changes.size(), 1U);
  EXPECT_EQ(parse_config(raised.config).ropes.front().rope, parse_config(golden("qwen2.5-vl-7b")).ropes.front().rope);
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

// A fine-tune keeps the lists and loses the name; lists of its own are for its own weights.
TEST(Extend, keeps_the_lists_of_a_file_that_has_some_for_the_context) {
  Json config = Json::parse(golden("phi-3.5-mini"));
  config.erase("_name_or_path");
  for (const bool own : {false, true}) {
    if (own) config["rope_scaling"]["long_factor"][3] = 1.5;
    const extend::Plan plan = planned(config.dump(), 131072);
    EXPECT_EQ(plan.recommended, "longrope") << plan.why;
    EXPECT_EQ(plan.otherwise, "");
    const Model before = parse_config(config.dump()), after = parse_config(method_of(plan, "longrope").config);
    EXPECT_EQ(before.ropes[0].rope, after.ropes[0].rope);
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
