// rotary_config_c.h against config.h: every golden config.
#include "rotary/rotary_config_c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "files/tests/file_helpers.h"
#include "rotary/config.h"

namespace rotary::tests {
namespace {

TEST(ConfigC, EveryConfigIsReadAsByCpp) {
  int seen = 0;
  for (const auto& file : std::filesystem::directory_iterator(test::golden("configs"))) {
    rotary_model* model = nullptr;
    std::string refused;
    Model wanted;
    try {
      wanted = read_config(file.path());
    } catch (const Error& error) {
      refused = error.what();
    }
    const rotary_status status = rotary_model_read(file.path().string().c_str(), 0, &model);
    ASSERT_EQ(status == ROTARY_OK, refused.empty()) << file.path() << rotary_error();
    if (status != ROTARY_OK) {
      EXPECT_EQ(rotary_error(), refused);
      continue;
    }
    ASSERT_EQ(static_cast<std::size_t>(rotary_model_ropes(model)), wanted.ropes.size());
    for (std::size_t i = 0; i < wanted.notes.size(); ++i) {
      const auto at = static_cast<std::int32_t>(i);
      EXPECT_EQ(rotary_model_note(model, at), sentence_of(wanted.notes[i]));
      EXPECT_EQ(rotary_model_note_part(model, at), wanted.notes[i].part);
      EXPECT_STREQ(rotary_model_note_kind(model, at), name(wanted.notes[i].kind));
    }
    for (const auto& of_note : {rotary_model_note, rotary_model_note_part, rotary_model_note_kind}) {
      EXPECT_EQ(of_note(model, static_cast<std::int32_t>(wanted.notes.size())), nullptr);
    }
    for (std::int32_t i = 0; i < rotary_model_ropes(model); ++i) {
      const ModelRope& rope = wanted.ropes[static_cast<std::size_t>(i)];
      rotary_model_rope got;
      rotary_model_rope_init(&got, sizeof got);
      ASSERT_EQ(rotary_model_rope_get(model, i, &got), ROTARY_OK) << rotary_error();
      EXPECT_EQ(got.part, rope.part);
      EXPECT_EQ((std::vector<std::int64_t>{got.head_dim, got.rotary_dim, got.first, got.pairing, got.heads,
                                           got.kv_heads, got.scaling, got.context, got.depends_on_length}),
                (std::vector<std::int64_t>{rope.rope.head_dim, rope.rope.rotary_dim, rope.first,
                                           ROTARY_HALF - 1 + static_cast<int>(rope.rope.pairing), rope.heads,
                                           rope.kv_heads, ROTARY_UNSCALED + static_cast<int>(rope.rope.scaling.index()),
                                           part_of(wanted, rope.part).context, depends_on_length(rope.rope.scaling)}));
      EXPECT_EQ(got.base, rope.rope.base);
      EXPECT_EQ(got.softmax_factor, rope.softmax_factor);
      for (const int layer : rope.layers) {  // some models turn a layer by two
        const std::int32_t first = rotary_model_rope_of_layer(model, layer, rope.part.c_str());
        ASSERT_TRUE(first >= 0 && first <= i);
        const std::vector<int>& layers = wanted.ropes[static_cast<std::size_t>(first)].layers;
        EXPECT_NE(std::find(layers.begin(), layers.end(), layer), layers.end());
      }
      EXPECT_EQ(rotary_model_rope_of_layer(model, 100000, rope.part.c_str()), -2);
      EXPECT_EQ(rotary_model_rope_of_layer(model, 0, "no_such_part"), -2);
      EXPECT_THROW(rope_of_layer(wanted, -1, rope.part), Error);
      if (i == 0 && !rope.layers.empty()) {
        EXPECT_EQ(rotary_model_rope_of_layer(model, rope.layers.front(), nullptr), 0);
        EXPECT_EQ(rope_of_layer(wanted, rope.layers.front()), &rope);
      }
      rotary_frequencies* frequencies = nullptr;
      ASSERT_EQ(rotary_model_frequencies_make(model, i, 5000, &frequencies), ROTARY_OK) << rotary_error();
      const Frequencies bits = rotary::frequencies(rope.rope, 5000);
      const double* inv_freq = rotary_frequencies_inv_freq(frequencies);
      EXPECT_EQ(std::vector(inv_freq, inv_freq + rotary_frequencies_pairs(frequencies)), bits.inv_freq);
      EXPECT_EQ(rotary_frequencies_axes(frequencies), bits.axes());
      EXPECT_EQ(got.axes, bits.axes());
      rotary_frequencies_free(frequencies);
      ++seen;
    }
    rotary_frequencies* none = nullptr;
    EXPECT_EQ(rotary_model_frequencies_make(model, rotary_model_ropes(model), 0, &none), ROTARY_ROPE);
    rotary_model_free(model);
  }
  EXPECT_GT(seen, 50);
}

// (0.1 * mscale_all_dim * ln(factor) + 1)^2 by Python.
TEST(ConfigC, TheSoftmaxFactorOfLatentAttention) {
  const std::pair<const char*, double> wanted[] = {{"deepseek-v3", 1.8738542070926265},
                                                   {"deepseek-v2-lite", 1.5896261651208736},
                                                   {"llama-3.1-8b", 1},
                                                   {"yarn-mistral-7b-128k", 1}};
  for (const auto& [model, factor] : wanted) {
    const Model read = read_config(test::golden(std::string("configs/") + model + ".json"));
    EXPECT_DOUBLE_EQ(read.ropes.front().softmax_factor, factor) << model;
  }
}

TEST(ConfigC, TextAPairingAndRefusals) {
  const std::string json =
      R"({"model_type": "mine", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, )"
      R"("rope_theta": 5e5})";
  rotary_model* model = nullptr;
  EXPECT_EQ(rotary_model_parse(json.c_str(), 0, &model), ROTARY_MODEL_TYPE);
  ASSERT_EQ(rotary_model_parse(json.c_str(), ROTARY_INTERLEAVED, &model), ROTARY_OK) << rotary_error();
  rotary_model_rope rope;
  rotary_model_rope_init(&rope, sizeof rope);
  EXPECT_EQ(rotary_model_rope_get(model, 0, &rope), ROTARY_OK);
  EXPECT_EQ(rope.pairing, ROTARY_INTERLEAVED);
  rotary_model_free(model);
  EXPECT_EQ(rotary_model_read("/absent/config.json", 0, &model), ROTARY_FILE);
  EXPECT_EQ(rotary_model_rope_of_layer(nullptr, 0, nullptr), -2);
  EXPECT_EQ(rotary_model_parse("{", 0, &model), ROTARY_JSON);
  EXPECT_EQ(rotary_model_parse(nullptr, 0, &model), ROTARY_VALUE);
}

}  // namespace
}  // namespace rotary::tests
