// rotary convert: the keys of its JSON, what a dry run leaves alone, and what it refuses. Bytes: tests/convert.
#include <nlohmann/json.hpp>
#include <set>

#include "run.h"

namespace rotary::cli_tests {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

class ConvertCommand : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    fs::create_directory(path("llama"));
    small_llama_at("llama/config.json", 2);
    std::vector<Tensor> tensors;
    for (const std::string layer : {"0", "1"}) {
      for (const auto& [name, rows] : {std::pair<std::string, int>{"q", 8}, {"k", 4}, {"v", 4}, {"o", 8}}) {
        tensors.push_back(make_tensor<float>(
            "model.layers." + layer + ".self_attn." + name + "_proj.weight", ElementType::f32, {rows, 8},
            some_values(static_cast<std::size_t>(rows) * 8, static_cast<unsigned>(tensors.size() + 1))));
      }
    }
    write_tensors("llama/model.safetensors", tensors, {{"format", "pt"}});
  }
  void small_llama_at(const std::string& file, int layers) const {
    write_config(file, R"("model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,)"
                       R"("max_position_embeddings": 64, "rope_theta": 100.0, "num_hidden_layers": )" +
                           std::to_string(layers));
  }
  Strings convert(const std::string& from, const std::string& to, const Strings& more = {}) const {
    Strings words = {"convert", path(from), "--to", "interleaved", "--output", path(to)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The names in the scratch folder but for the program's stderr.
  std::set<std::string> there() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(fs::path(path("")))) names.insert(entry.path().filename().string());
    names.erase("stderr");
    return names;
  }
};

TEST_F(ConvertCommand, the_keys_of_its_json_are_a_contract) {
  const Json report = Json::parse(expect_success(convert("llama", "out", {"--json", "--verify"})).out);
  Strings keys;
  for (const auto& item : report.items()) keys.push_back(item.key());
  EXPECT_EQ(keys, (Strings{"model_type", "from", "to", "dry_run", "output", "bytes", "tensors", "config", "files",
                           "copied", "left_out", "notes", "verified"}));
  EXPECT_EQ(report["from"], "half");
  EXPECT_EQ(report["to"], "interleaved");
  EXPECT_EQ(report["dry_run"], false);
  EXPECT_EQ(report["output"], path("out"));
  ASSERT_EQ(report["tensors"].size(), 4U);
  EXPECT_EQ(report["tensors"][1], Json::parse(R"({"name": "model.layers.0.self_attn.k_proj.weight",)"
                                              R"("file": "model.safetensors", "layer": 0, "what": "k",)"
                                              R"("dtype": "F32", "shape": [4, 8], "q_heads": 0, "k_heads": 1,)"
                                              R"("head_dim": 4, "first": 0, "rotary_dim": 4})"));
  ASSERT_EQ(report["verified"].size(), 2U);
  for (const Json& layer : report["verified"]) {
    EXPECT_EQ(layer["equal"], true);
    EXPECT_EQ(layer["tensors"], 2);
  }
  EXPECT_EQ(SafetensorsFile(path("out/model.safetensors")).metadata(),
            (std::map<std::string, std::string>{
                {"format", "pt"}, {"rotary.pairing", "interleaved"}, {"rotary.pairing_before", "half"}}));
}

TEST_F(ConvertCommand, a_dry_run_lists_and_verifies_and_writes_nothing) {
  const std::set<std::string> before = there();
  const std::string out =
      expect_success({"convert", path("llama"), "--to", "interleaved", "--dry-run", "--verify"}).out;
  for (const char* words :
       {"model.layers.1.self_attn.q_proj.weight  F32 [8, 8]  q  2 heads of 4, elements 0 to 3\n",
        "4 of 8 tensors would change\n", "verified  model.layers.1.self_attn: 2 tensors, put back, equal their source"})
    EXPECT_NE(out.find(words), std::string::npos) << words << '\n' << out;
  EXPECT_EQ(there(), before);
  Json dry = Json::parse(expect_success(convert("llama", "out", {"--dry-run", "--verify", "--json"})).out);
  EXPECT_EQ(there(), before);
  EXPECT_EQ(dry["output"], nullptr);
  EXPECT_EQ(dry["dry_run"], true);
  Json real = Json::parse(expect_success(convert("llama", "out", {"--verify", "--json"})).out);
  for (const char* key : {"output", "dry_run"}) {
    dry.erase(key);
    real.erase(key);
  }
  EXPECT_EQ(dry, real);
}

TEST_F(ConvertCommand, refuses_with_a_code_and_writes_nothing) {
  expect_success(convert("llama", "out"));
  fs::create_directory(path("full"));
  write_text(path("full/notes.txt"), "kept");
  fs::create_directory(path("no-weights"));
  small_llama_at("no-weights/config.json", 2);
  fs::create_directory(path("three-layers"));
  small_llama_at("three-layers/config.json", 3);
  fs::copy(path("llama/model.safetensors"), path("three-layers"));
  fs::create_directory(path("truncated"));
  small_llama_at("truncated/config.json", 2);
  fs::copy(path("llama/model.safetensors"), path("truncated"));
  fs::resize_file(path("truncated/model.safetensors"), fs::file_size(path("llama/model.safetensors")) - 1);
  const std::set<std::string> before = there();
  expect_error(convert("out", "again"), "PAIRING");
  expect_error(convert("llama", "full"), "FILE");
  expect_error(convert("llama", "llama"), "FILE");
  expect_error(convert("missing", "new"), "FILE");
  expect_error(convert("no-weights", "new"), "FILE");
  expect_error(convert("truncated", "new"), "FORMAT");
  expect_error(convert("three-layers", "new"), "TENSOR");
  expect_error(convert("llama/model.safetensors", "new"), "FORMAT");
  EXPECT_EQ(there(), before);
  EXPECT_EQ(read_text(path("full/notes.txt")), "kept");

  const Result result = run(convert("out", "again", {"--json"}));
  EXPECT_EQ(result.exit, 1);
  EXPECT_EQ(result.out, "");
  const std::size_t second = result.err.find('\n') + 1;
  EXPECT_EQ(Json::parse(result.err.substr(second))["error"]["code"], "PAIRING");
}

TEST_F(ConvertCommand, says_what_was_meant) {
  expect_usage({"convert", path("llama"), "--to", "interleaved"});
  expect_usage({"convert", path("llama"), "--output", path("out")});
  expect_usage({"convert", path("llama"), "--to", "neox", "--output", path("out")});
  expect_usage(convert("llama", "out", {"--form", "doubled"}));
  expect_usage(convert("llama", "out", {"--tensor", "k"}));
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
}  // namespace rotary::cli_tests
