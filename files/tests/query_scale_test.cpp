// Queries that are multiplied by their position: the formulas, and what configs say; and rotate_qk by a ModelRope.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "files/tests/config_helpers.h"
#include "rotary/config.h"
#include "rotary/error.h"

namespace rotary {
namespace {

using Places = std::vector<std::int64_t>;

Model model_with(const std::string& more) {
  return parse_config(R"({"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 8, )" + more + "}");
}

// files/tests/golden/query_scales.json has the factors at these positions, measured on the CPU in float32. Modules of
// transformers 5.23: get_llama_4_attn_scale of ministral3 (0.1, 16384) and mistral4 (0.1, 8192),
// compute_attention_scaling of beam, and Llama4TextAttention of a layer without rope, with a key cache of so many
// tokens. Remote code: logn_list of Qwen-7B's modeling_qwen.py (seq_length 8192).
const Places scaled_places = {0, 8190, 8191, 8192, 16383, 16384, 49151, 100000, 128000, 1000000};

TEST(QueryScale, is_what_the_modules_of_transformers_multiply_by) {
  const nlohmann::json measured = config_test::json_in(test::golden("query_scales.json"));
  EXPECT_EQ(measured.size(), 6U);
  for (nlohmann::json one : measured) {
    one["config"].update({{"hidden_size", 256}, {"num_attention_heads", 4}, {"num_hidden_layers", 8}});
    SCOPED_TRACE(one["config"].dump());
    const Model model = parse_config(one["config"].dump());
    ASSERT_EQ(model.query_scales.size(), 1U);
    const std::vector<float> found = query_scale(model, scaled_places, model.query_scales.front().layers.front());
    ASSERT_EQ(found.size(), one["scales"].size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], one["scales"][i].get<float>(), 2e-7) << "at " << scaled_places[i];
  }
}

// Each formula, computed again in long double, agrees within one ulp, and the steps are exactly where they belong.
TEST(QueryScale, formulas_are_rounded_once) {
  const auto near = [](const QueryScale& scale, std::int64_t position, long double wanted) {
    const float found = query_scale(scale, Places{position})[0], exact = static_cast<float>(wanted);
    EXPECT_TRUE(found == exact || found == std::nextafter(exact, 2.0F) || found == std::nextafter(exact, 0.0F))
        << formula(scale) << " at " << position << ": " << found << " not " << exact;
  };
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t p :
       {std::int64_t{0}, std::int64_t{4095}, std::int64_t{4096}, std::int64_t{123456789}, most}) {
    const auto x = static_cast<long double>(p);
    const long double n = x + 1, L = 4096;
    near({QueryForm::steps, 0.1, 4096, 1}, p, 1 + 0.1L * std::log1p(std::floor(n / L)));
    near({QueryForm::steps, 0.25, 4096, 0}, p, 1 + 0.25L * std::log1p(std::floor(x / L)));
    near({QueryForm::log, 0.1, 4096, 1}, p, 1 + 0.1L * std::log(std::max(1.0L, n / L)));
    near({QueryForm::power, 0.1, 4096, 1}, p, std::pow(1 + n / L, 0.1L));
    near({QueryForm::ratio, 0, 4096, 0}, p, std::log2(std::max(x, L)) / std::log2(L));
  }
  // The floor of a float32 quotient is one too high here.
  const std::int64_t L = std::int64_t{1} << 40;
  EXPECT_EQ(query_scale({QueryForm::steps, 1, L, 0}, Places{L - 1, L, -1}), (std::vector<float>{1, 1.69314718F, 1}));
}

TEST(QueryScale, which_layers_have_it) {
  const auto layers = [](const std::string& more) {
    const Model model = model_with(more);
    return model.query_scales.empty() ? std::vector<int>{} : model.query_scales.front().layers;
  };
  EXPECT_EQ(layers(R"("model_type": "llama4_text")"), (std::vector<int>{3, 7}));
  EXPECT_EQ(layers(R"("model_type": "llama4_text", "attn_temperature_tuning": false)"), std::vector<int>{});
  EXPECT_EQ(layers(R"("model_type": "llama4_text", "no_rope_layers": [1, 1, 1, 1, 1, 1, 1, 1])"), std::vector<int>{});
  EXPECT_EQ(layers(R"("model_type": "beam")"), (std::vector<int>{5, 7}));  // the last is full_attention
  EXPECT_EQ(layers(R"("model_type": "inkling_text", "log_scaling_n_floor": 128000)"), (std::vector<int>{5}));
  EXPECT_EQ(layers(R"("model_type": "inkling_text")"), std::vector<int>{}) << "null by default";
  EXPECT_EQ(layers(R"("model_type": "inkling2_text", "layer_types": ["hybrid", "hybrid_sliding", "hybrid",
      "hybrid", "hybrid", "hybrid", "hybrid", "hybrid"])"),
            (std::vector<int>{0, 2, 3, 4, 5, 6, 7}));
  const Model loop = parse_config(R"({"model_type": "inkling2_loop_text"})");
  EXPECT_EQ(loop.query_scales.at(0).layers, (std::vector<int>{5, 11, 17, 23}));
  EXPECT_EQ(formula(loop.query_scales.at(0).scale), "1 + 0.1 ln(max(1, (p + 1) / 8192))");
  EXPECT_EQ(layers(R"("model_type": "qwen", "seq_length": 8192, "use_logn_attn": false)"), std::vector<int>{});
  EXPECT_EQ(layers(R"("model_type": "grok-1", "attn_temperature_len": -1)"), std::vector<int>{});
  EXPECT_EQ(layers(R"("model_type": "grok-1", "attn_temperature_len": 1024)").size(), 8U);
  EXPECT_EQ(layers(R"("model_type": "llama")"), std::vector<int>{});
  const std::string draft = R"(, "attn_temperature_tuning_floor_scale": 8192,
      "attn_temperature_tuning_q_scale_constant": 0.1)";
  EXPECT_EQ(layers(R"("model_type": "muse_spark_text")" + draft), std::vector<int>{});
  EXPECT_THROW(layers(R"("model_type": "llama")" + draft), Error);
}

TEST(QueryScale, of_a_scaled_rope_has_its_trained_length) {
  const auto read = [](const std::string& more, const std::string& rope) {
    return model_with(R"("model_type": "ministral3", )" + more +
                      R"("rope_parameters": {"llama_4_scaling_beta": 0.1, "rope_theta": 1e6, "rope_type": )" + rope +
                      "}");
  };
  const auto length = [&](const std::string& more, const std::string& rope) {
    const Model model = read(more, rope);
    return model.query_scales.empty() ? 0 : model.query_scales.front().scale.length;
  };
  const std::string top = R"("original_max_position_embeddings": 4096, )",
                    inside = R"(, "original_max_position_embeddings": 16384)";
  EXPECT_EQ(length("", R"("yarn", "factor": 16)" + inside), 16384);
  EXPECT_EQ(length(top, R"("yarn", "factor": 16)" + inside), 4096) << "the rope's own";
  EXPECT_EQ(length(top, R"("llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4)"), 4096);
  EXPECT_EQ(length("", R"("default")" + inside), 16384);
  const Model without = read("", R"("default")");
  EXPECT_TRUE(without.query_scales.empty());
  EXPECT_TRUE(config_test::noted(without, "multiplies no queries, because original_max_position_embeddings is not"));
}

TEST(QueryScale, of_a_model_whose_layers_differ_is_of_a_layer) {
  const Model model = model_with(R"("model_type": "llama4_text")");
  EXPECT_THROW(query_scale(model, scaled_places), Error);
  for (const int missing : {-1, 8}) {
    for (const Model& one : {model, model_with(R"("model_type": "llama")"),
                             model_with(R"("model_type": "inkling_text", "log_scaling_n_floor": 128000)")}) {
      test::expect_error(
          "ROPE",
          "[query_scale] the layer must be one of the model's layers, 0 to 7, but got " + std::to_string(missing),
          [&] { query_scale(one, scaled_places, missing); });
    }
  }
  EXPECT_EQ(formula({QueryForm::log, -0.1, 4096, 1}), "1 - 0.1 ln(max(1, (p + 1) / 4096))");
  EXPECT_EQ(query_scale(model, scaled_places, 0), std::vector<float>(scaled_places.size(), 1.0F));
  EXPECT_EQ(query_scale(model_with(R"("model_type": "llama")"), scaled_places),
            std::vector<float>(scaled_places.size(), 1.0F));
  const Model rope_of_the_tower_alone = parse_config(R"({"model_type": "inkling2",
      "text_config": {"model_type": "inkling2_text"}, "vision_config": {"model_type": "inkling2_vision"}})");
  EXPECT_EQ(rope_of_the_tower_alone.ropes.size(), 1U);
  EXPECT_EQ(query_scale(rope_of_the_tower_alone, Places{0, 300000}, 5), (std::vector<float>{1, 1.0851755F}));
  const Model learned = model_with(R"("model_type": "mistral_large4_text")");
  EXPECT_THROW(query_scale(learned, scaled_places, 0), Error) << "each head's own, in the checkpoint";
  EXPECT_THROW(query_scale({QueryForm::ratio, 0, 1, 0}, scaled_places), Error);
  EXPECT_THROW(query_scale({QueryForm::steps, std::nan(""), 8, 0}, scaled_places), Error);
}

// As rotate_qk by its Rope (core/tests/api_test.cpp, c_test.cpp) on the elements from `first` on.
TEST(RotateModel, RotatesTheBlockThatBeginsAtFirst) {
  ModelRope used;  // elements on both sides stand still
  used.first = 6;
  used.rope = {.head_dim = 20,
               .rotary_dim = 8,
               .base = 100,
               .pairing = Pairing::interleaved,
               .scaling = Dynamic{.factor = 4, .trained_length = 16}};
  std::vector<float> q(3 * 4 * 20), k(3 * 2 * 20);
  std::iota(q.begin(), q.end(), -50.5F);
  std::iota(k.begin(), k.end(), 7.25F);
  const std::vector<float> before = q;
  std::vector<float> wanted_q = q, wanted_k = k;
  const auto of_q = [](std::vector<float>& x) { return heads(x, thd(3, 4, 20)); };
  const auto of_k = [](std::vector<float>& x) { return heads(x, thd(3, 2, 20)); };
  RotateOptions options{.direction = Direction::backward};
  rotate_qk(of_q(q), of_k(k), used, 64, options);
  options.first = 6;
  rotate_qk(of_q(wanted_q), of_k(wanted_k), used.rope, 64, options);
  EXPECT_EQ(q, wanted_q);
  EXPECT_EQ(k, wanted_k);
  EXPECT_NE(q, before);
}

}  // namespace
}  // namespace rotary
