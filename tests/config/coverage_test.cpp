// read_config, the odd ones of transformers 5.23. Expected numbers come from its own modules, made from the same
// unusual configs (float32, hence 4e-6).
#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/config_helpers.h"

namespace rotary {
namespace {

using namespace config_test;

void expect_close(const std::vector<double>& ours, const std::vector<double>& first_of_theirs) {
  ASSERT_GE(ours.size(), first_of_theirs.size());
  for (std::size_t i = 0; i < first_of_theirs.size(); ++i) {
    EXPECT_NEAR(ours[i], first_of_theirs[i], 4e-6 * first_of_theirs[i]) << "pair " << i;
  }
}

std::vector<int> axes_of(const ModelRope& model) { return {model.rope.axis.begin(), model.rope.axis.end()}; }

// ---- heads by layer ----

TEST(ConfigCoverage, dots3_note_sliding_layers_have_mla_heads_of_their_own) {
  const Model m = parse_config(R"({"model_type": "dots3_note_text", "num_hidden_layers": 7, "hidden_size": 5120,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 96, "qk_nope_head_dim": 48,
    "qk_rope_head_dim": 24, "swa_num_attention_heads": 16, "swa_num_key_value_heads": 16, "swa_head_dim": 80,
    "swa_qk_nope_head_dim": 60, "rope_theta": 7e6, "swa_rope_theta": 3e4})");
  ASSERT_EQ(m.ropes.size(), 2u);
  const ModelRope& indexed = m.ropes[0];
  EXPECT_EQ(indexed.layers, (Layers{0, 1, 5}));
  EXPECT_EQ(indexed.heads, 32);
  EXPECT_EQ(indexed.first, 48);
  EXPECT_EQ(indexed.rope.head_dim, 72);
  expect_close(inv_freq(indexed), {1.0, 0.2688903212547302});
  const ModelRope& sliding = m.ropes[1];
  EXPECT_EQ(sliding.layers, (Layers{2, 3, 4, 6}));
  EXPECT_EQ(sliding.heads, 16);
  EXPECT_EQ(sliding.kv_heads, 16);
  EXPECT_EQ(sliding.first, 60);
  EXPECT_EQ(sliding.rope.rotary_dim, 20);
  expect_close(inv_freq(sliding), {1.0, 0.3566874563694});
}

TEST(ConfigCoverage, per_layer_config_is_read_with_padded_layer_numbers) {
  const Model m = read("gemma4_text", R"("layer_types": ["sliding_attention", "full_attention", "sliding_attention",
    "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
    "sliding_attention", "sliding_attention", "full_attention"],
    "per_layer_config": {"01": {"head_dim": 256, "num_key_value_heads": 2}, "10": {"head_dim": 256}})",
                       11);
  ASSERT_EQ(m.ropes.size(), 3u);
  EXPECT_EQ(m.ropes[0].rope.head_dim, 128);
  EXPECT_EQ(m.ropes[1].layers, (Layers{1}));
  EXPECT_EQ(m.ropes[1].rope.head_dim, 256);
  EXPECT_EQ(m.ropes[1].kv_heads, 2);
  EXPECT_EQ(m.ropes[2].layers, (Layers{10}));
  EXPECT_EQ(m.ropes[2].kv_heads, 8);
}

TEST(ConfigCoverage, sapiens2_shares_key_heads_in_the_layers_between) {
  const Model m = parse_config(R"({"model_type": "sapiens2", "hidden_size": 1024, "num_attention_heads": 16,
    "num_hidden_layers": 6, "num_first_full_attention_layers": 1, "num_last_full_attention_layers": 2,
    "num_key_value_attention_heads": 4})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].layers, (Layers{0, 4, 5}));
  EXPECT_EQ(m.ropes[0].kv_heads, 16);
  EXPECT_EQ(m.ropes[1].layers, (Layers{1, 2, 3}));
  EXPECT_EQ(m.ropes[1].kv_heads, 4);
}

TEST(ConfigCoverage, mimo_v2_flash_has_twice_the_key_heads_in_sliding_layers) {
  const Model m = parse_config(R"({"model_type": "mimo_v2_flash", "num_hidden_layers": 6, "hidden_size": 4096,
    "num_attention_heads": 64, "num_key_value_heads": 4})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].kv_heads, 4);
  EXPECT_EQ(m.ropes[1].kv_heads, 8);
}

TEST(ConfigCoverage, a_falcon_that_does_not_say_multi_query_has_one_key_head) {
  const std::string falcon = R"({"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71,
    "num_hidden_layers": 2)";
  EXPECT_EQ(only(parse_config(falcon + "}")).kv_heads, 1);
  EXPECT_EQ(only(parse_config(falcon + R"(, "multi_query": false})")).kv_heads, 71);
}

TEST(ConfigCoverage, zamba2_attends_in_nine_of_its_54_layers) {
  const Model m = parse_config(R"({"model_type": "zamba2", "hidden_size": 2560, "num_attention_heads": 32,
    "num_hidden_layers": 54, "attention_head_dim": 160, "use_mem_rope": true})");
  EXPECT_EQ(only(m).layers, (Layers{6, 12, 18, 24, 30, 36, 42, 47, 51}));
}

// ---- towers and matchers ----

TEST(ConfigCoverage, the_memory_attention_of_sam2_video_has_names_of_its_own) {
  const Model m = parse_config(R"({"model_type": "sam2_video", "memory_attention_hidden_size": 384,
    "memory_attention_num_attention_heads": 2, "memory_attention_downsample_rate": 4,
    "memory_attention_num_layers": 3, "rope_parameters": {"rope_type": "axial", "rope_theta": 5000.0}})");
  const ModelRope& model = only(m);
  EXPECT_EQ(model.layers, (Layers{0, 1, 2}));
  EXPECT_EQ(model.heads, 2);
  EXPECT_EQ(model.rope.head_dim, 48);
  EXPECT_STREQ(name(model.rope.pairing), "interleaved");
  EXPECT_EQ(model.rope.axis.front(), 1);  // the column comes first
  EXPECT_EQ(model.rope.axis.back(), 0);
  const auto ours = inv_freq(model);
  ASSERT_EQ(ours.size(), 24u);
  expect_close(ours, {1.0, 0.49175918102264404, 0.2418271005153656, 0.1189207136631012});
  EXPECT_EQ(ours[0], ours[12]);
}

TEST(ConfigCoverage, efficientloftr_turns_one_head_of_the_hidden_size) {
  const std::string keys = R"({"model_type": "efficientloftr", "hidden_size": 64, "num_attention_layers": 3,
    "num_attention_heads": 4, "rope_theta": 500.0, "partial_rotary_factor": )";
  const Model m = parse_config(keys + "2.0}");
  const ModelRope& model = only(m);
  EXPECT_EQ(model.heads, 1);
  EXPECT_EQ(model.rope.head_dim, 64);
  EXPECT_EQ(model.layers, (Layers{0, 1, 2}));
  const auto ours = inv_freq(model);
  ASSERT_EQ(ours.size(), 32u);
  expect_close({ours[0], ours[2], ours[4]}, {1.0, 0.6781322360038757, 0.4598632752895355});
  EXPECT_EQ(ours[2], ours[3]);
  EXPECT_EQ(model.rope.axis[2], 0);
  EXPECT_EQ(model.rope.axis[3], 1);
  EXPECT_EQ(code_of(keys + "4.0}"), "CONFIG_VALUE");  // makes the whole width, not half: the model does not run
}

TEST(ConfigCoverage, lfm3_vl_vision_turns_in_its_attention_layers_and_groups_its_heads) {
  const Model m = parse_config(R"({"model_type": "lfm3_vl_vision", "hidden_size": 1024, "num_attention_heads": 16,
    "num_key_value_heads": 4, "num_hidden_layers": 7})");
  EXPECT_EQ(only(m).layers, (Layers{2, 4, 6}));
  EXPECT_EQ(only(m).kv_heads, 4);
  EXPECT_EQ(only(m).rope.base, 1e6);
}

TEST(ConfigCoverage, neomme_alternates_rows_and_columns_and_a_top_base_is_both_types_base) {
  const Model m = parse_config(R"({"model_type": "neomme", "hidden_size": 1024, "num_attention_heads": 16,
    "num_key_value_heads": 4, "num_hidden_layers": 8, "rope_theta": 50000.0})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].rope.rotary_dim, 64);
  expect_close(inv_freq(m.ropes[0]), {1.0, 0.7131111025810242});
  EXPECT_EQ(m.ropes[1].layers, (Layers{5, 7}));
  EXPECT_EQ(m.ropes[1].rope.rotary_dim, 16);
  expect_close(inv_freq(m.ropes[1]), {1.0, 0.2586001455783844});
  EXPECT_EQ(axes_of(m.ropes[1]), (std::vector<int>{0, 1, 0, 1, 0, 1, 0, 1}));
}

// ---- speech, music, proteins ----

TEST(ConfigCoverage, clvp_turns_half_a_head_of_its_projection) {
  const std::string keys = R"({"model_type": "clvp_encoder", "hidden_size": 1024, "num_attention_heads": 8,
    "num_hidden_layers": 2, "projection_dim": )";
  EXPECT_EQ(only(parse_config(keys + "1280}")).rope.rotary_dim, 80);
  expect_close(inv_freq(only(parse_config(keys + "1280}"))), {1.0, 0.7943282127380371});
  EXPECT_EQ(only(parse_config(keys + "128}")).rope.rotary_dim, 32);  // at least that
  const Model off = parse_config(keys + R"(1280, "use_rotary_embedding": false})");
  EXPECT_TRUE(off.ropes.empty());
}

TEST(ConfigCoverage, music_flamingo_turns_the_audio_once_by_window_and_frame) {
  const Model m = parse_config(R"({"model_type": "musicflamingo", "partial_rotary_factor": 0.1, "rope_theta": 900.0,
    "audio_config": {"model_type": "audioflamingo3_encoder", "hidden_size": 640, "num_attention_heads": 10}})");
  const auto root = std::find_if(m.ropes.begin(), m.ropes.end(), [](const ModelRope& r) { return r.part.empty(); });
  ASSERT_NE(root, m.ropes.end());
  EXPECT_EQ(root->rope.head_dim, 640);
  EXPECT_EQ(root->rope.rotary_dim, 128);
  EXPECT_EQ(root->layers, (Layers{0}));
  const auto ours = inv_freq(*root);
  expect_close(ours, {1.0, 0.8084997534751892});
  EXPECT_EQ(ours[0], ours[32]);
  EXPECT_EQ(root->rope.axis[31], 0);
  EXPECT_EQ(root->rope.axis[32], 1);
}

TEST(ConfigCoverage, esmfold2_has_four_axes_and_two_bases) {
  const Model m = parse_config(R"({"model_type": "esmfold2", "atom_encoder": {"hidden_size": 96,
    "num_attention_heads": 4, "num_hidden_layers": 2, "num_spatial_rope_pairs_per_axis": 2, "num_uid_rope_pairs": 4,
    "spatial_rope_base_frequency": 30.0, "uid_rope_base_frequency": 500.0}})");
  const auto atoms =
      std::find_if(m.ropes.begin(), m.ropes.end(), [](const ModelRope& r) { return r.part == "atom_encoder"; });
  ASSERT_NE(atoms, m.ropes.end());
  const auto ours = inv_freq(*atoms);
  ASSERT_EQ(ours.size(), 12u);
  expect_close({ours[1], ours[3], ours[5]}, {0.18257418274879456, 0.18257418274879456, 0.18257418274879456});
  expect_close({ours[7], ours[8], ours[9]}, {0.2114742398262024, 0.04472136124968529, 0.009457415901124477});
  EXPECT_EQ(ours[10], 0);
  EXPECT_EQ(axes_of(*atoms), (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3}));
}

TEST(ConfigCoverage, a_model_whose_code_reads_no_scaling_refuses_one) {
  const std::string keys = R"({"model_type": "esm", "hidden_size": 768, "num_attention_heads": 12,
    "num_hidden_layers": 2, "position_embedding_type": "rotary", )";
  EXPECT_EQ(only(parse_config(keys + R"("rope_theta": 20000.0})")).rope.base, 20000);
  EXPECT_EQ(code_of(keys + R"("rope_scaling": {"rope_type": "linear", "factor": 2.0}})"), "CONFIG_KEY");
}

// ---- spellings that a class reads in its own way ----

constexpr const char* yarn_to_2048 =
    R"("rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 2048, "truncate": false})";

TEST(ConfigCoverage, deepseek_v4_reads_flat_rope_parameters_as_rope_scaling) {
  const std::string keys = R"({"model_type": "deepseek_v4", "num_hidden_layers": 4, "num_attention_heads": 64,
    "head_dim": 512, "hidden_size": 4096, "qk_rope_head_dim": 64, "max_position_embeddings": 65536,
    "rope_theta": 20000.0, )";
  const Model linear = parse_config(keys + R"("rope_parameters": {"rope_theta": 777777, "rope_type": "linear",
    "factor": 3.7}})");
  EXPECT_EQ(only(linear).rope.base, 160000);
  expect_close(inv_freq(only(linear)), {0.2702702581882477, 0.1858529895544052, 0.12780292332172394});
  EXPECT_TRUE(noted(linear, "rope_parameters.rope_theta is not read"));
  const Model yarn = parse_config(keys + R"("rope_parameters": {"rope_type": "yarn", "factor": 8.0,
    "original_max_position_embeddings": 8192, "partial_rotary_factor": 0.25, "truncate": false}})");
  EXPECT_EQ(only(yarn).rope.rotary_dim, 64);
  EXPECT_EQ(frequencies(only(yarn).rope, 0).attention_factor, 1);
  EXPECT_NEAR(inv_freq(only(yarn)).back(), 1.1361058795955614e-06, 4e-12);
  const Model both = parse_config(keys + R"("compress_rope_theta": 90000.0, "rope_parameters": {"main":
    {"rope_theta": 777777, "rope_type": "default"}}, "rope_scaling": {"type": "linear", "factor": 3}})");
  expect_close(inv_freq(only(both)), {0.3333333432674408, 0.2333773374557495, 0.16339494287967682});
}

TEST(ConfigCoverage, truncate_has_no_effect_in_a_rope_scaling_that_the_class_nests) {
  const std::string keys = R"("num_hidden_layers": 6, "num_attention_heads": 2, "hidden_size": 160, "head_dim": 80,
    "max_position_embeddings": 131072, "rope_scaling": {)";
  const Model gemma = parse_config(R"({"model_type": "gemma3_text", )" + keys + yarn_to_2048 + "}");
  ASSERT_EQ(gemma.ropes.size(), 2u);
  EXPECT_NEAR(inv_freq(gemma.ropes[1])[5], 0.17782793939113617, 4e-7);
  EXPECT_NEAR(inv_freq(gemma.ropes[1]).back(), 1.7656714135227958e-07, 4e-13);
  EXPECT_TRUE(std::get<Yarn>(gemma.ropes[1].rope.scaling).truncate);
  EXPECT_TRUE(noted(gemma, "rope_scaling.truncate has no effect"));
  const Model bert = parse_config(R"({"model_type": "modernbert", )" + keys + yarn_to_2048 + "}");
  ASSERT_EQ(bert.ropes.size(), 2u);
  EXPECT_NEAR(inv_freq(bert.ropes[0]).back(), 1.0541268693486927e-06, 4e-12);
  EXPECT_NEAR(inv_freq(bert.ropes[1]).back(), 1.5736564819235355e-05, 4e-11);
}

TEST(ConfigCoverage, a_truncate_of_null_is_false) {
  const Model m = parse_config(R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2,
    "hidden_size": 160, "max_position_embeddings": 131072, "rope_theta": 12345.6, "rope_scaling": {
    "rope_type": "yarn", "factor": 3.7, "original_max_position_embeddings": 1000, "truncate": null}})");
  EXPECT_FALSE(std::get<Yarn>(only(m).rope.scaling).truncate);
  expect_close(inv_freq(only(m)), {1.0, 0.7901548147201538, 0.6243446469306946, 0.49332889914512634});
}

TEST(ConfigCoverage, dots3_note_copies_flat_parameters_to_both_layer_types_with_one_base) {
  const std::string keys = R"({"model_type": "dots3_note_text", "num_hidden_layers": 7, "hidden_size": 5120,
    "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 96, "qk_nope_head_dim": 48,
    "qk_rope_head_dim": 24, "swa_num_attention_heads": 16, "swa_num_key_value_heads": 16, "swa_head_dim": 80,
    "swa_qk_nope_head_dim": 60, "max_position_embeddings": 131072, "swa_rope_theta": 3e4, "rope_theta": 7e6, )";
  const Model m = parse_config(keys + R"("rope_scaling": {)" + yarn_to_2048 + "}");
  ASSERT_EQ(m.ropes.size(), 2u);
  expect_close(inv_freq(m.ropes[0]), {1.0, 0.2688903212547302, 0.05648593604564667, 0.010935735888779163});
  expect_close(inv_freq(m.ropes[1]), {1.0, 0.20677126944065094, 0.030284333974123, 0.0036834876518696547});
  EXPECT_TRUE(noted(m, "swa_rope_theta is not read"));
}

TEST(ConfigCoverage, a_base_at_the_top_beats_the_one_in_dbrx_attn_config) {
  const std::string keys = R"({"model_type": "dbrx", "d_model": 512, "n_heads": 4, "n_layers": 2, )";
  const std::string below = R"("attn_config": {"kv_n_heads": 2, "rope_theta": 500000})";
  const Model both = parse_config(keys + R"("rope_theta": 30000.0, )" + below + "}");
  expect_close(inv_freq(only(both)), {1.0, 0.8512262105941772, 0.7245860695838928});
  EXPECT_TRUE(noted(both, "attn_config.rope_theta is not read"));
  EXPECT_EQ(only(parse_config(keys + below + "}")).rope.base, 500000);
}

TEST(ConfigCoverage, mistral4_turns_its_rope_block_whatever_the_top_says) {
  const std::string keys = R"({"model_type": "mistral4", "hidden_size": 4096, "num_hidden_layers": 2,
    "num_attention_heads": 32, "partial_rotary_factor": 0.75)";
  const Model default_value = parse_config(keys + "}");
  EXPECT_EQ(only(default_value).rope.rotary_dim, 64);
  EXPECT_NEAR(inv_freq(only(default_value)).back(), 1.04181367532874e-06, 4e-12);
  EXPECT_TRUE(noted(default_value, "partial_rotary_factor is not read"));
  const Model linear = parse_config(keys + R"(, "rope_theta": 50000.0, "rope_parameters": {"rope_type": "linear",
    "factor": 2.0}})");
  expect_close(inv_freq(only(linear)), {0.5, 0.3565555512905121, 0.2542637288570404});
}

TEST(ConfigCoverage, the_factor_of_longrope_may_be_below_one) {
  const std::string keys = R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2,
    "hidden_size": 16, "max_position_embeddings": 4096, "rope_theta": 10000.0, "rope_scaling": {"rope_type": "longrope",
    "short_factor": [1.1, 1.2, 1.3, 1.4], "long_factor": [2, 3, 4, 5], "original_max_position_embeddings": 8192)";
  for (const char* factor : {"", R"(, "factor": 0.5)"}) {
    const Model m = parse_config(keys + factor + "}}");
    expect_close(inv_freq(only(m)), {0.9090908765792847, 0.0833333358168602, 0.007692307699471712});
    EXPECT_EQ(frequencies(only(m).rope, 0).attention_factor, 1) << factor;
  }
  EXPECT_EQ(code_of(keys + R"(, "factor": 0}})"), "CONFIG_VALUE");
}

TEST(ConfigCoverage, positions_that_a_file_leaves_out_are_the_class_default) {
  const std::string keys = R"({"model_type": "qwen2", "num_hidden_layers": 2, "num_attention_heads": 2,
    "hidden_size": 160, "rope_scaling": {"factor": 4.0, "rope_type": )";
  const Model yarn = parse_config(keys + R"("yarn"}})");
  EXPECT_NEAR(inv_freq(only(yarn)).back(), 3.147312963847071e-05, 2e-10);
  EXPECT_TRUE(noted(yarn, "max_position_embeddings is not given: 32768, the default of qwen2"));
  EXPECT_EQ(std::get<Dynamic>(only(parse_config(keys + R"("dynamic"}})")).rope.scaling).trained_length, 32768);
}

TEST(ConfigCoverage, empty_rope_parameters_are_unscaled_where_the_class_default_is_scaled) {
  const std::string keys = R"("hidden_size": 320, "num_attention_heads": 4, "head_dim": 80, "num_hidden_layers": 2, )";
  const Model empty = parse_config(R"({"model_type": "gpt_oss", )" + keys + R"("rope_parameters": {}})");
  expect_close(inv_freq(only(empty)), {1.0, 0.7423311471939087, 0.5510556101799011});
  EXPECT_EQ(frequencies(only(empty).rope, 0).attention_factor, 1);
  const Model old = parse_config(R"({"model_type": "gpt_oss", )" + keys + R"("rope_scaling": {}})");
  EXPECT_NEAR(frequencies(only(old).rope, 0).attention_factor, 1.3465735902799727, 1e-15);
  const Model ministral = parse_config(R"({"model_type": "ministral3", )" + keys + R"("rope_parameters": {}})");
  EXPECT_EQ(only(ministral).rope.base, 10000);
}

TEST(ConfigCoverage, deepseek_ocr2_derives_its_head_dim) {
  const Model m = parse_config(R"({"model_type": "deepseek_ocr2_text", "num_hidden_layers": 2,
    "num_attention_heads": 6, "hidden_size": 768, "head_dim": 64})");
  EXPECT_EQ(only(m).rope.head_dim, 128);
  EXPECT_TRUE(noted(m, "head_dim is not read"));
}

// As vLLM reads them; transformers does not have the model.
TEST(ConfigCoverage, step3p5_lists_the_layers_that_turn_and_the_types_that_scale) {
  const std::string keys = R"({"model_type": "step3p5", "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_attention_groups": 2, "hidden_size": 320, "head_dim": 80, "max_position_embeddings": 262144,
    "rope_theta": [5000000.0, 10000.0, 10000.0, 10000.0], "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0],
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"],
    "rope_scaling": {"rope_type": "llama3", "factor": 2.0, "original_max_position_embeddings": 131072,
    "low_freq_factor": 1.0, "high_freq_factor": 32.0}, )";
  const auto scaled = [](const ModelRope& model) { return std::holds_alternative<Llama3>(model.rope.scaling); };
  const Model published = parse_config(keys + R"("use_rope_layers": [], "yarn_only_types": ["full_attention"]})");
  ASSERT_EQ(published.ropes.size(), 2u);
  EXPECT_TRUE(scaled(published.ropes[0]));
  EXPECT_FALSE(scaled(published.ropes[1]));
  const Model other = parse_config(keys + R"("use_rope_layers": [true, true, false, true],
    "yarn_only_types": ["sliding_attention"]})");
  ASSERT_EQ(other.ropes.size(), 2u);
  EXPECT_FALSE(scaled(other.ropes[0]));
  EXPECT_TRUE(scaled(other.ropes[1]));
  EXPECT_EQ(other.ropes[1].layers, (Layers{1, 3}));
  EXPECT_EQ(other.ropes[1].layers_without_rope, (Layers{2}));
  EXPECT_EQ(code_of(keys + R"("use_rope_layers": [1, 1, 1, 1]})"), "CONFIG_VALUE");
}

// ---- no rope ----

TEST(ConfigCoverage, an_odd_head_of_one_part_leaves_the_others_their_ropes) {
  const Model m = parse_config(R"({"model_type": "qwen3_omni_moe_thinker",
    "text_config": {"model_type": "qwen3_omni_moe_text", "hidden_size": 2048, "num_attention_heads": 28,
      "num_key_value_heads": 4, "num_hidden_layers": 2},
    "vision_config": {"model_type": "qwen3_omni_moe_vision_encoder", "hidden_size": 1152, "num_heads": 16,
      "depth": 3}})");
  EXPECT_EQ(only(m).part, "vision_config");
  EXPECT_TRUE(noted(m, "heads of 73 elements cannot turn"));
}

TEST(ConfigCoverage, types_in_which_nothing_turns_are_known) {
  for (const char* type : {"deberta-v2", "parakeet_encoder", "inkling2_text", "xlnet", "videomae"}) {
    const Model m = read(type, "");
    EXPECT_TRUE(m.ropes.empty()) << type;
    EXPECT_TRUE(noted(m, "no rotary positions")) << type;
  }
}

TEST(ConfigCoverage, what_is_no_rotation_is_refused_in_one_line) {
  EXPECT_EQ(code_of(model("vjepa2", "")), "ROPE");
  EXPECT_NE(sentence_of(model("vjepa2", "")).find("two members of a pair by different angles"), std::string::npos);
}

}  // namespace
}  // namespace rotary
