// Summaries: parameter counts that are published, shapes, and models far larger than this machine's memory.
#include "rotary_torch/models/summary.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "rotary_torch/models/decoder.h"
#include "rotary_torch/models/roformer.h"
#include "tests/support/file_helpers.h"

namespace rotary_torch {
namespace {

std::int64_t peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

Summary summary_of(const std::string& json) {
  const rotary::test::ScratchFolder folder;
  rotary::test::write_text(folder / "config.json", json);
  const DecoderConfig config = read_decoder_config(folder.path());
  const MetaDevice no_memory;
  return summarise(*Decoder(config), 1, 8);
}

const SummaryRow& row(const Summary& summary, const std::string& path) {
  for (const SummaryRow& one : summary.rows) {
    if (one.path == path) return one;
  }
  throw std::runtime_error("no row " + path);
}

struct Published {
  const char* name;
  std::int64_t parameters;
  const char* config;
};

// As the checkpoints on the hub have them, counted by transformers.
const std::vector<Published> published = {
    {"llama_2_7b", 6738415616,
     R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
         "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "hidden_act": "silu"})"},
    {"qwen2_0_5b", 494032768,
     R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
         "num_hidden_layers": 24, "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 131072,
         "rope_theta": 1000000.0, "tie_word_embeddings": true, "use_sliding_window": false})"},
    {"gpt_j_6b", 6050882784,
     R"({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_positions": 2048, "rotary_dim": 64,
         "vocab_size": 50400, "activation_function": "gelu_new", "tie_word_embeddings": false})"},
    {"gpt_neox_20b", 20554567680,
     R"({"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_attention_heads": 64,
         "num_hidden_layers": 44, "rotary_pct": 0.25, "vocab_size": 50432, "max_position_embeddings": 2048,
         "use_parallel_residual": true, "tie_word_embeddings": false})"},
    {"mistral_7b", 7241732096,
     R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
         "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000, "sliding_window": 4096,
         "max_position_embeddings": 32768, "tie_word_embeddings": false})"},
    {"qwen3_0_6b", 596049920,
     R"({"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16,
         "num_hidden_layers": 28, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
         "max_position_embeddings": 40960, "rope_theta": 1000000, "tie_word_embeddings": true})"},
};

class SummaryCounts : public testing::TestWithParam<Published> {};

TEST_P(SummaryCounts, ArePublishedOnesAndTakeNoMemory) {
  const std::int64_t before = peak_kilobytes();
  const Summary summary = summary_of(GetParam().config);
  EXPECT_EQ(summary.parameters, GetParam().parameters);
  EXPECT_EQ(summary.trainable, GetParam().parameters);
  EXPECT_EQ(summary.bytes_f32(), 4 * GetParam().parameters);
  EXPECT_EQ(summary.rows.front().parameters, GetParam().parameters);
  EXPECT_LT(peak_kilobytes() - before, 200000);  // the smallest of them has 2 GB of weights
}
INSTANTIATE_TEST_SUITE_P(Models, SummaryCounts, testing::ValuesIn(published),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

TEST(SummaryShapes, OfGroupedQueriesWithNorms) {
  const Summary summary = summary_of(published.back().config);
  const auto shape = [&](const char* path) { return row(summary, path).output_shape; };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape(""), (Shape{1, 8, 151936}));
  EXPECT_EQ(shape("embedding"), (Shape{1, 8, 1024}));
  EXPECT_EQ(shape("layers"), Shape{});
  EXPECT_EQ(shape("layers.27"), (Shape{1, 8, 1024}));
  EXPECT_EQ(shape("layers.3.attention"), (Shape{1, 8, 1024}));
  EXPECT_EQ(shape("layers.3.attention.qkv"), (Shape{1, 8, 32 * 128}));
  EXPECT_EQ(shape("layers.3.attention.q_norm"), (Shape{1, 8, 16, 128}));
  EXPECT_EQ(shape("layers.3.attention.k_norm"), (Shape{1, 8, 8, 128}));
  EXPECT_EQ(row(summary, "layers.3.attention").parameters, 1024 * 4096 + 2048 * 1024 + 256);
  EXPECT_EQ(row(summary, "layers.3.attention").depth, 3);
  EXPECT_EQ(row(summary, "layers.3.attention").type, "MultiHeadAttention");
}

TEST(SummaryPresets, TheNotebookHasWhatItsFormulaSays) {
  const MetaDevice no_memory;
  const Summary summary = summarise(*RoFormer(notebook_roformer()), 2, 1024);
  EXPECT_EQ(summary.parameters, 77509632);
  EXPECT_EQ(row(summary, "word_embeddings").parameters, 24576000);
  for (const char* layer : {"layers.0", "layers.3"}) {
    const auto part = [&](const char* name) { return row(summary, std::string(layer) + name).parameters; };
    EXPECT_EQ(part(".attention_norm"), 1536);
    EXPECT_EQ(part(".attention"), 2362368);
    EXPECT_EQ(part(".norm"), 1536);
    EXPECT_EQ(part(".feed_forward"), 4723968);
    EXPECT_EQ(part(""), 1536 + 2362368 + 1536 + 4723968);
  }
  EXPECT_EQ(row(summary, "output").parameters, 24576000);
  EXPECT_EQ(row(summary, "output").output_shape, (std::vector<std::int64_t>{2, 1024, 32000}));
}

// transformers 5.23: RoFormerForMaskedLM(RoFormerConfig()) has 124,197,968, the table's 98,304 frozen, the word
// embeddings shared with the head; RoFormerModel 123,555,840; embedding_size 128 91,801,040.
TEST(SummaryPresets, RoFormerHasTransformersCounts) {
  const MetaDevice no_memory;
  const Summary base = summarise(*RoFormer(RoFormerConfig{}), 1, 4);
  EXPECT_EQ(base.parameters, 124197968);
  EXPECT_EQ(base.trainable, 124099664);
  EXPECT_FALSE(row(base, "position_table").trainable);
  EXPECT_EQ(row(base, "position_table").output_shape, (std::vector<std::int64_t>{4, 64}));
  EXPECT_EQ(row(base, "prediction").output_shape, (std::vector<std::int64_t>{1, 4, 50000}));
  EXPECT_EQ(row(base, "prediction").own_parameters, 50000);
  EXPECT_EQ(summarise(*RoFormer(RoFormerConfig{}, false), 1, 4).parameters, 123555840);
  RoFormerConfig narrow;
  narrow.embedding_size = 128;
  EXPECT_EQ(summarise(*RoFormer(narrow), 1, 4).parameters, 91801040);
}

TEST(SummaryWalk, CountsSharedParametersOnce) {
  torch::nn::ModuleList pair;
  torch::nn::Linear shared(3, 5);
  pair->push_back(shared);
  pair->push_back(shared);
  const Summary summary = summarise(*pair, 1, 1);
  EXPECT_EQ(summary.parameters, 20);
  EXPECT_EQ(parameter_count(*pair), 20);
  EXPECT_EQ(summary.rows[1].parameters, 20);
  EXPECT_EQ(summary.rows[2].parameters, 0);
}

TEST(MetaDeviceScope, MakesShapesOnlyAndEndsWithIt) {
  {
    const MetaDevice no_memory;
    EXPECT_TRUE(at::zeros({1 << 20, 1 << 20}).is_meta());
    EXPECT_TRUE(torch::nn::Linear(1 << 20, 1 << 20)->weight.is_meta());
  }
  EXPECT_TRUE(at::zeros({2}).is_cpu());
}

}  // namespace
}  // namespace rotary_torch
