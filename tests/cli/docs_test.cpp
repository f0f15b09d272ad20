// docs/cli.md and README.md show what the program prints. With ROTARY_UPDATE_DOCS=1 in the environment they are written
// anew: the blocks of ```console, but for those that leave lines out ("   ...").
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "run.h"

namespace rotary::cli_tests {
namespace {

const std::string left_out = "   ...";

// A command and what it prints.
struct Example {
  std::string command;
  Strings printed;
};

// Times and instruction sets.
bool depends_on_the_machine(const std::string& line) {
  static const std::regex word("avx|sse2|neon|scalar|[0-9] us");
  return std::regex_search(line, word);
}

// Line for line; what follows a left_out may come any number of lines later.
std::string difference(const Strings& shown, const Strings& printed) {
  auto next = printed.begin();
  bool skipping = false;
  for (const std::string& line : shown) {
    if (line == left_out) {
      skipping = true;
      continue;
    }
    if (skipping) next = std::find(next, printed.end(), line);
    skipping = false;
    if (next == printed.end()) return "not printed: " + line;
    if (*next != line && !(depends_on_the_machine(*next) && depends_on_the_machine(line))) {
      return "shown:   " + line + "\nprinted: " + *next;
    }
    ++next;
  }
  return skipping || next == printed.end() ? "" : "not shown: " + *next;
}

class Docs : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    const std::filesystem::path source = ROTARY_SOURCE_DIR;
    std::filesystem::create_directory(path("Llama-3.1-8B"));
    std::filesystem::copy(source / "tests/golden/configs/llama-3.1-8b.json", path("Llama-3.1-8B/config.json"));
    for (const auto& [folder, file] :
         {std::pair("Qwen2.5-7B", "qwen2.5-7b"), std::pair("Llama-3-8B", "llama-3-8b"),
          std::pair("Llama-4-Scout", "llama-4-scout")}) {
      std::filesystem::create_directory(path(folder));
      std::filesystem::copy(source / "tests/golden/configs" / (std::string(file) + ".json"),
                            path(std::string(folder) + "/config.json"));
    }
    std::filesystem::create_directory(path("Qwen2.5-VL-7B"));
    std::filesystem::copy(source / "tests/golden/configs/qwen2.5-vl-7b.json", path("Qwen2.5-VL-7B/config.json"));
    std::filesystem::copy(source / "data/demo/qk.safetensors", path("qk.safetensors"));
    write_learned();
    write_dumps();
    write_checkpoints();
    write_npy(path("q.npy"),
              make_tensor<float>("", ElementType::f32, {3, 1, 4}, {1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10}));
    write_npy(path("mask.npy"), make_tensor<std::int64_t>("", ElementType::i64, {2, 4}, {0, 0, 1, 1, 1, 1, 1, 1}));
    write_npy(path("grid.npy"), make_tensor<std::int64_t>("", ElementType::i64, {1, 3}, {1, 2, 4}));
  }

  // q and k as they lie in PyTorch behind transpose(1, 2).
  void write_dumps() const {
    std::vector<Tensor> tensors;
    for (const auto& [name, heads] : {std::pair("q", 32), std::pair("k", 8)}) {
      const auto count = static_cast<std::size_t>(heads) * 16 * 128;
      tensors.push_back(make_tensor<float>(name, ElementType::f32, {1, heads, 16, 128}, some_values(count)));
    }
    write_tensors("transposed.safetensors", tensors);
  }

  // Given frequencies, and a Mistral Large 4 of 8 rotated elements with the tensor that it learns.
  void write_learned() const {
    write_npy(path("inv_freq.npy"), make_tensor<float>("", ElementType::f32, {4}, {1, 0.25F, 0.0625F, 0}));
    std::filesystem::create_directory(path("Tiny-Large-4"));
    write_config("Tiny-Large-4/config.json",
                 R"("model_type": "mistral_large4_text", "hidden_size": 32, "num_attention_heads": 2,)"
                 R"("num_key_value_heads": 2, "num_hidden_layers": 4, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,)"
                 R"("no_rope_layers": [1, 1, 1, 0], "max_position_embeddings": 4096,)"
                 R"("rope_parameters": {"rope_type": "default", "rope_theta": 10000.0})");
    write_tensors("Tiny-Large-4/model.safetensors",
                  {make_tensor<float>("model.rotary_emb.alpha", ElementType::f32, {4}, {0, -0.5F, 0.25F, 0.5F})});
  }

  // Two layers of Qwen 3 and one of DeepSeek-V3.
  void write_checkpoints() const {
    std::filesystem::create_directory(path("tiny-qwen3"));
    write_config("tiny-qwen3/config.json",
                 R"("model_type": "qwen3", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,)"
                 R"("head_dim": 16, "num_hidden_layers": 2, "max_position_embeddings": 512, "rope_theta": 1000000.0)");
    std::vector<Tensor> tensors;
    const auto add = [](std::vector<Tensor>& list, const std::string& name, const std::vector<std::int64_t>& shape) {
      std::int64_t count = 1;
      for (const std::int64_t size : shape) count *= size;
      const auto seed = static_cast<unsigned>(list.size() + 1);
      list.push_back(
          make_tensor<float>(name, ElementType::f32, shape, some_values(static_cast<std::size_t>(count), seed)));
    };
    for (const std::string layer : {"0", "1"}) {
      const std::string at = "model.layers." + layer + ".self_attn.";
      add(tensors, at + "q_proj.weight", {64, 32});
      add(tensors, at + "k_proj.weight", {32, 32});
      add(tensors, at + "v_proj.weight", {32, 32});
      add(tensors, at + "o_proj.weight", {32, 64});
      add(tensors, at + "q_norm.weight", {16});
      add(tensors, at + "k_norm.weight", {16});
    }
    write_tensors("tiny-qwen3/model.safetensors", tensors);
    std::filesystem::create_directory(path("tiny-deepseek"));
    write_text(path("tiny-deepseek/config.json"),
               "{\n  \"model_type\": \"deepseek_v3\",\n  \"hidden_size\": 32,\n  \"num_attention_heads\": 4,\n"
               "  \"num_hidden_layers\": 1,\n  \"kv_lora_rank\": 16,\n  \"q_lora_rank\": null,\n"
               "  \"qk_nope_head_dim\": 16,\n  \"qk_rope_head_dim\": 8,\n  \"v_head_dim\": 16,\n"
               "  \"max_position_embeddings\": 512,\n  \"rope_theta\": 10000.0\n}\n");
    tensors.clear();
    add(tensors, "model.layers.0.self_attn.q_proj.weight", {96, 32});
    add(tensors, "model.layers.0.self_attn.kv_a_proj_with_mqa.weight", {24, 32});
    write_tensors("tiny-deepseek/model.safetensors", tensors);
  }

  // stdout and stderr together, and the exit status where it is not 0.
  Strings run_in_shell(const std::string& command) const {
    const std::string programs = std::filesystem::path(ROTARY_PROGRAM).parent_path().string();
    const std::string all = "cd '" + path("") + "' && unset ROTARY_TARGET COLUMNS && PATH='" + programs +
                            "':\"$PATH\" && { " + command + "; } >'" + path("printed") + "' 2>&1";
    const int status = std::system(all.c_str());
    std::string text = read_text(path("printed"));
    const std::string folder = ROTARY_SOURCE_DIR "/";
    for (std::size_t at = 0; (at = text.find(folder)) != std::string::npos;) text.erase(at, folder.size());
    Strings lines = lines_of(text);
    if (status != 0) lines.push_back("(exit " + std::to_string(WEXITSTATUS(status)) + ")");
    return lines;
  }
};

class Page : public Docs, public ::testing::WithParamInterface<std::pair<const char*, int>> {};

TEST_P(Page, shows_what_the_program_prints) {
  const std::string document = std::string(ROTARY_SOURCE_DIR "/") + GetParam().first;
  const bool update = std::getenv("ROTARY_UPDATE_DOCS") != nullptr;
  Strings page;
  std::vector<Example> block;
  bool inside = false;
  int compared = 0;
  for (const std::string& line : lines_of(read_text(document))) {
    if (line == "```console") {
      inside = true;
    } else if (inside && line == "```") {
      for (const Example& example : block) {
        page.push_back("$ " + example.command);
        const Strings printed = run_in_shell(example.command);
        const bool whole = std::find(example.printed.begin(), example.printed.end(), left_out) == example.printed.end();
        const Strings& wanted = update && whole ? printed : example.printed;
        page.insert(page.end(), wanted.begin(), wanted.end());
        EXPECT_EQ(difference(wanted, printed), "") << "$ " << example.command;
        ++compared;
      }
      inside = false;
      block.clear();
    } else if (inside) {
      if (line.starts_with("$ ")) {
        block.push_back({line.substr(2), {}});
      } else {
        ASSERT_FALSE(block.empty()) << line;
        block.back().printed.push_back(line);
      }
      continue;
    }
    page.push_back(line);
  }
  EXPECT_GE(compared, GetParam().second);
  if (update) {
    std::string text;
    for (const std::string& line : page) text += line + '\n';
    write_text(document, text);
  }
}

// A page, and the commands it shows at least.
INSTANTIATE_TEST_SUITE_P(Docs, Page,
                         ::testing::Values(std::pair("docs/accuracy.md", 3), std::pair("docs/cli.md", 15),
                                           std::pair("docs/convert.md", 3), std::pair("docs/porting.md", 6),
                                           std::pair("docs/long-context.md", 3), std::pair("README.md", 1)),
                         [](const auto& tested) {
                           std::string name = std::filesystem::path(tested.param.first).stem().string();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace rotary::cli_tests
