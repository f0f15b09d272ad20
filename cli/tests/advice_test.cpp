// The advice of a refusal is complete: what the sentence suggests is done, and the second run is right or says what is
// missing. The right values are those of the models' own code (shared/reference/realconfigs-2026-11-28.md).
#include "shell.h"

namespace rotary::cli_tests {
namespace {

// A file that is refused, and what its reader knows of the model beside it. model_type "": no known one fits.
struct Refused {
  std::string config;
  std::string model_type, pairing;
  double base = 10000;
  int rotary_dim = 0;
};

const std::string sizes = R"("num_attention_heads": 8, "hidden_size": 512, "num_hidden_layers": 2)";

const std::vector<Refused> refused = {
    {"{" + sizes + R"(, "rope_theta": 500000.0})", "llama", "half", 500000, 64},
    {"{" + sizes + "}", "llama", "half", 10000, 64},
    {R"({"n_layer": 6, "n_head": 8, "n_embd": 512})", "", "interleaved", 20000, 64},
    {R"({"model_type": "Llama", )" + sizes + "}", "llama", "half", 10000, 64},
    {R"({"model_type": "qwen33", )" + sizes + R"(, "head_dim": 128, "rope_theta": 1e6})", "qwen3", "half", 1e6, 128},
    {R"({"model_type": "mystery", "architectures": ["LlamaForCausalLM"], )" + sizes + R"(, "rope_theta": 20000.0})",
     "llama", "half", 20000, 64},
    {R"({"dim": 2560, "num_heads": 20, "num_layers": 24, "positional_embedding": "rope", "max_period": 100000})", "",
     "interleaved", 100000, 128},
    {R"({"dim": 512, "n_layers": 2, "n_heads": 8, "rope_theta": 1e6})", "", "interleaved", 1e6, 64},
    {R"({"model_type": "sba", "num_heads": 8, "hidden_size": 512, "num_layers": 2, "rotary_emb_base": 3e4})", "",
     "half", 30000, 64},
    {R"({"speculators_model_type": "eagle3", "transformer_layer_config": {)" + sizes + "}}",
     "llama", "half", 10000, 64},
    {R"({"position_embedding_type": "rope", "rotary_percentage": 0.5, "rotary_base": 20000, )" + sizes + "}", "",
     "half", 20000, 32},
};

const std::vector<std::string> without_options = {
    R"({"peft_type": "LORA", "base_model_name_or_path": "a/b"})",
    R"({"model": {"type": "phi3"}, "search": {}})",
    R"({"medusa_num_heads": 4, "base_model_name_or_path": "a/b"})",
    R"({"image_processor_type": "CLIPImageProcessor"})",
    R"({"builder_config": {}, "plugin_config": {}})",
    R"({"pretrained_config": {}, "build_config": {}})",
    R"({"module": "keras_hub", "class_name": "LlamaBackbone", "config": {}})",
    R"({"error": "Repository not found"})",
    R"({"weight_map": {}})",
    R"({"tokenizer_class": "LlamaTokenizer"})",
    R"({"_class_name": "FluxPipeline"})",
    "<html></html>",
    "{'architectures': []}",
    "Qwen3Config {\n}",
    "architectures: x",
};

bool says(const Result& result, const std::string& text) { return result.err.find(text) != std::string::npos; }

// Every set of options that a refusal suggests, with the values that this model has.
std::vector<std::string> advised(const Result& result, const Refused& file) {
  std::vector<std::string> options;
  std::smatch meant;
  if (std::regex_search(result.err, meant, std::regex("did you mean (\\S+)\\?")))
    options.push_back("--model-type " + meant[1].str());
  if (std::regex_search(result.err, meant, std::regex("is a class of ([^ ;]+)")))
    options.push_back("--model-type " + meant[1].str());
  if (says(result, "--model-type") && !file.model_type.empty()) options.push_back("--model-type " + file.model_type);
  const std::string base = says(result, "--base") ? " --base " + std::to_string(file.base) : "";
  if (says(result, "--pairing")) {
    options.push_back("--pairing " + file.pairing + base);
  } else if (!base.empty()) {
    options.push_back("--pairing " + file.pairing + base);
  }
  return options;
}

TEST(Advice, that_is_followed_leads_to_the_right_rope) {
  int followed = 0;
  for (const Refused& file : refused) {
    SCOPED_TRACE(file.config);
    const Shell shell;
    shell.make("file config.json " + file.config);
    const Result first = shell.run("rotary inspect config.json");
    EXPECT_EQ(first.exit, 1);
    const std::vector<std::string> options = advised(first, file);
    EXPECT_FALSE(options.empty()) << first.err;
    for (const std::string& option : options) {
      SCOPED_TRACE(option);
      const Result second = shell.run("rotary inspect config.json --json " + option);
      ASSERT_EQ(second.exit, 0) << second.err;
      const Json ropes = Json::parse(second.out).at("ropes");
      ASSERT_EQ(ropes.size(), 1u);
      EXPECT_EQ(ropes[0].at("pairing").get<std::string>(), file.pairing);
      EXPECT_EQ(ropes[0].at("base").get<double>(), file.base);
      EXPECT_EQ(ropes[0].at("rotary_dim").get<int>(), file.rotary_dim);
      ++followed;
    }
  }
  EXPECT_GT(followed, 15);
}

// The pairing alone makes no rope of a file without any rope key, and the sentence says what is missing.
TEST(Advice, of_a_pairing_without_a_rope_key_says_what_is_missing) {
  const Shell shell;
  shell.make("file config.json {" + sizes + "}");
  const Result refusal = shell.run("rotary inspect config.json --pairing half");
  EXPECT_EQ(refusal.exit, 1);
  EXPECT_TRUE(says(refusal, "must have a rope key but this one has none")) << refusal.err;
  EXPECT_TRUE(says(refusal, "add --base B")) << refusal.err;
}

TEST(Advice, where_no_option_helps_names_the_file_to_give) {
  for (const std::string& text : without_options) {
    SCOPED_TRACE(text);
    const Shell shell;
    write_text(shell.path("config.json"), text);
    const Result refusal = shell.run("rotary inspect config.json");
    EXPECT_EQ(refusal.exit, 1);
    const bool helps = says(refusal, ": give ") || says(refusal, "take the link") || says(refusal, "json.dump") ||
                       says(refusal, "remove \"");
    EXPECT_TRUE(helps) << refusal.err;
    EXPECT_FALSE(says(refusal, "--")) << refusal.err;
  }
}

}  // namespace
}  // namespace rotary::cli_tests
