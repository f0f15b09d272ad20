// read_config refuses: what is not known, what nobody reads, bad values, malformed files.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/config_helpers.h"

namespace rotary {
namespace {

using namespace config_test;

// ---- pairing ----

TEST(Config, an_unknown_model_type_needs_a_pairing) {
  const std::string json = model("something_new", R"("rope_theta": 3000.0)");
  EXPECT_EQ(code_of(json), "MODEL_TYPE");
  EXPECT_NE(sentence_of(json).find("no pairing is given"), std::string::npos);
  EXPECT_EQ(sentence_of(json).find("--"), std::string::npos) << "the library has no command line";
  const Model m = parse_config(json, {.pairing = Pairing::interleaved});
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved);
  EXPECT_EQ(only(m).rope.base, 3000);
  EXPECT_TRUE(noted(m, "the pairing given decides"));
}

TEST(Config, a_pairing_given_overrides_the_known_one_with_a_note) {
  const Model m = parse_config(model("llama", ""), {.pairing = Pairing::interleaved});
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved);
  EXPECT_TRUE(noted(m, "overrides half"));
}

TEST(Config, remote_code_families_are_known) {
  EXPECT_EQ(only(read("internlm2", R"("rope_scaling": {"type": "dynamic", "factor": 2.0})")).rope.pairing,
            Pairing::half);
  const Model glm = parse_config(R"({"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32,
    "num_layers": 2, "kv_channels": 128, "multi_query_attention": true, "multi_query_group_num": 2, "rope_ratio": 500,
    "original_rope": true})");
  EXPECT_EQ(only(glm).rope.pairing, Pairing::interleaved);
  EXPECT_EQ(only(glm).rope.base, 5000000);
  EXPECT_EQ(only(glm).rope.rotary_dim, 64);
  EXPECT_EQ(only(glm).kv_heads, 2);
}

// ---- nothing ignored ----

TEST(Config, a_rope_key_that_nobody_reads_is_refused_by_name_wherever_it_stands) {
  EXPECT_EQ(code_of(model("llama", R"("rope_foo": 1)")), "CONFIG_KEY");
  EXPECT_NE(sentence_of(model("llama", R"("rope_foo": 1)")).find("rope_foo"), std::string::npos);
  EXPECT_EQ(code_of(model("llama", R"("my_rotary": null)")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"type": "linear", "factor": 2.0, "extra": 1})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("rope_parameters": {"rope_type": "default", "factor": 2.0})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("other_config": {"deep": [{"rope_foo": 1}]})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("audio_config": {"model_type": "whisper", "ntk_x": 1})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("audio_config": {"model_type": "new_audio", "num_hidden_layers": 2,
    "num_attention_heads": 2, "rope_theta": 10000})")),
            "CONFIG_KEY");
}

TEST(Config, a_made_up_key_is_refused_in_an_object_that_is_not_used_too) {
  const std::string unused =
      R"("rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": )";
  EXPECT_EQ(code_of(model("llama", unused + R"("default"})")), "none");
  EXPECT_EQ(code_of(model("llama", unused + R"("default", "rope_foo": 1})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("falcon", R"("alibi": true, "rope_parameters": {"rope_theta": 10000.0, "foo": 1})")),
            "CONFIG_KEY");
  EXPECT_EQ(code_of(model("bert", R"("rope_theta": 10000.0)")), "none");
  EXPECT_EQ(code_of(model("bert", R"("rope_foo": 10000.0)")), "CONFIG_KEY");
}

TEST(Config, a_second_spelling_is_read_where_it_says_the_same) {
  EXPECT_EQ(code_of(model("stablelm", R"("partial_rotary_factor": 0.25, "rope_pct": 0.25)")), "none");
  EXPECT_EQ(code_of(model("stablelm", R"("partial_rotary_factor": 0.25, "rope_pct": 0.5)")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("lfm2", R"("rope_theta": 1000000.0, "theta": 1000000.0)")), "none");
  EXPECT_EQ(code_of(model("lfm2", R"("rope_theta": 1000000.0, "theta": 10000.0)")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("rope_interleaved": false)")), "none");  // SmolLM2
  EXPECT_EQ(code_of(model("llama", R"("rope_interleaved": true)")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("rope_condense_ratio": 1)")), "none");
  EXPECT_EQ(code_of(model("llama", R"("rope_position_scale": 8)")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("qwen2", R"("use_mrope": false)")), "none");
  EXPECT_EQ(code_of(model("qwen2", R"("use_mrope": true)")), "CONFIG_KEY");
}

TEST(Config, keys_that_only_look_like_rope_are_left_alone) {
  EXPECT_EQ(code_of(model("llama", R"("properties": {"a": 1}, "property": 2, "position_embedding_type": "absolute")")),
            "none");
}

TEST(Config, every_key_that_sounds_like_a_rope_is_refused_by_name) {
  for (const char* key : {"foo_rope",
                          "rotary_foo",
                          "yarn_factor",
                          "ntk_alpha",
                          "theta_base",
                          "rope_theta_2",
                          "no_rope",
                          "rope_type",
                          "rope_freq_base",
                          "freq_base",
                          "rope_local_theta",
                          "rope_local_base_freq",
                          "max_rope_len",
                          "rotary_percentage",
                          "rotate_every_two",
                          "rope_traditional",
                          "rope_interleaved",
                          "ropeScaling",
                          "ropeTheta",
                          "ROPE_THETA",
                          "_rope_theta",
                          "mrope_section",
                          "rope_layout",
                          "nope_layers",
                          "swa_rope_theta",
                          "use_xpos",
                          "inv_freq",
                          "beta_fast",
                          "attention_factor",
                          "attn_factor",
                          "extrapolation_factor",
                          "truncate",
                          "yarn_mscale",
                          "orig_max_position_embeddings",
                          "no_rope_layers",
                          "layer_rope_theta",
                          "rope_deltas_2"}) {
    const std::string line = '"' + std::string(key) + R"(": 12345)";
    for (const std::string& json : {model("llama", line), model("llama", R"("a": {"b": {"c": {)" + line + "}}}"),
                                    model("llama", R"("a": [[{"b": [{)" + line + "}]}]]"), model("bert", line),
                                    R"({"model_type": "llava", "text_config": )" + model("llama", line) + "}",
                                    R"({"dim": 64, "n_layers": 1, "n_heads": 2, "hidden_dim": 9, )" + line + "}"}) {
      EXPECT_EQ(code_of(json), "CONFIG_KEY") << json;
      EXPECT_NE(sentence_of(json).find("nothing reads " + std::string(key) + " in"), std::string::npos)
          << sentence_of(json);
    }
  }
}

TEST(Config, a_slip_of_the_pen_hides_no_rope_key) {
  for (const char* key : {"rop_scaling",
                          "rope_scalling",
                          "rpoe_scaling",
                          "roqe_scaling",
                          "rop_parameters",
                          "rope_parametrs",
                          "rpoe_parameters",
                          "rop_theta",
                          "rope_thet",
                          "roep_theta",
                          "rope_tehta",
                          "partial_rotry_factor",
                          "partial_roatry_factor",
                          "rotarry_dim",
                          "no_rop_layers",
                          "rop_ratio",
                          "original_max_position_embedding",
                          "orignal_max_position_embeddings",
                          "use_mem_rop",
                          "position_embeding_type",
                          "qk_roppe_head_dim"}) {
    EXPECT_EQ(code_of(model("llama", '"' + std::string(key) + R"(": 2)")), "CONFIG_KEY") << key;
  }
}

TEST(Config, keys_that_people_have_beside_a_rope_are_no_error) {
  for (const char* more :
       {R"("rope_deltas": null)", R"("use_rotary_pos_emb_fusion": true)", R"("relation_bias_theta": 1)",
        R"("use_xpos": false)", R"("rotary_use_xpos": false)", R"("use_nope": false)", R"("rope_interleave": false)",
        R"("scope": "x", "properties": {}, "role_type": 1, "beta": 2, "microphone": 3, "factory": null)",
        R"("quantization_config": {"dynamic": {"-:.*rotary_emb.*": {}}, "modules": ["rotary_emb"]})",
        R"("hf_device_map": {"model.layers.0.self_attn.rotary_emb": 0})", R"("alibi": false, "use_alibi": false)"}) {
    EXPECT_EQ(code_of(model("llama", more)), "none") << sentence_of(model("llama", more));
  }
  EXPECT_EQ(code_of(model("llama", R"("quantization_config": {"rope_foo": 1})")), "CONFIG_KEY");
}

TEST(Config, other_positions_are_noted_and_alibi_is_refused_where_layers_turn) {
  for (const char* kind : {"absolute", "alibi", "sinusoidal"}) {
    const Model m = read("llama", R"("position_embedding_type": ")" + std::string(kind) + '"');
    EXPECT_EQ(m.ropes.size(), 1u);
    EXPECT_TRUE(noted(m, "position_embedding_type is \"" + std::string(kind) + "\" and not read"));
  }
  EXPECT_FALSE(noted(read("llama", R"("position_embedding_type": "rope")"), "position_embedding_type"));
  EXPECT_EQ(code_of(model("llama", R"("alibi": true)")), "CONFIG_VALUE");
  EXPECT_EQ(code_of(model("llama", R"("use_alibi": true)")), "CONFIG_VALUE");
  EXPECT_TRUE(read("falcon", R"("alibi": true)").ropes.empty());
  EXPECT_EQ(code_of(model("llama", R"("use_rope": false)")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("use_rope": true)")), "none");
}

TEST(Config, a_list_of_bases_is_for_the_models_that_have_one) {
  EXPECT_EQ(code_of(model("llama", R"("rope_theta": [1e4, 1e4, 1e4, 1e4])")), "CONFIG_VALUE");
  EXPECT_EQ(code_of(model("step3p5", R"("rope_theta": [1e4, 1e4, 1e4, 1e4])")), "none");
  EXPECT_EQ(code_of(model("step3p5", R"("rope_theta": [1e4, 1e4, 1e4])")), "CONFIG_VALUE");
  EXPECT_EQ(code_of(model("step3p5", R"("rope_theta": [1e4, 1e4, 1e4, "x"])")), "CONFIG_VALUE");
}

TEST(Config, a_sub_config_whose_rope_is_not_known_is_named_in_a_note) {
  const Model m = read("llama", R"("audio_config": {"model_type": "new_audio", "num_hidden_layers": 2,
                                   "num_attention_heads": 2, "hidden_size": 8})");
  EXPECT_TRUE(noted(m, "audio_config: its rope"));
}

// ---- what cannot be described ----

TEST(Config, a_model_that_no_rope_describes_is_refused_with_the_reason) {
  EXPECT_EQ(code_of(model("lightglue", "")), "ROPE");
  EXPECT_NE(sentence_of(model("lightglue", "")).find("both coordinates"), std::string::npos);
}

TEST(Config, the_two_dimensional_positions_of_the_first_chatglm_are_refused) {
  const std::string json = R"({"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32, "num_layers": 2,
                               "position_encoding_2d": true})";
  EXPECT_EQ(code_of(json), "ROPE");
}

TEST(Config, a_model_without_rotary_positions_has_no_rope) {
  const Model m = read("bert", R"("position_embedding_type": "absolute")");
  EXPECT_TRUE(m.ropes.empty());
  EXPECT_TRUE(noted(m, "no rotary positions"));
}

// ---- values ----

TEST(Config, bad_values_are_refused_with_key_rule_and_value) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"("rope_theta": 1)", "rope_theta must be above 1"},
      {R"("rope_theta": 0.5)", "rope_theta"},
      {R"("rope_theta": "10000")", "rope_theta must be a number but got \"10000\""},
      {R"("rope_theta": "1e6")", "rope_theta must be a number but got \"1e6\""},
      {R"("rope_theta": 0)", "rope_theta must be above 1"},
      {R"("rope_theta": -10000.0)", "rope_theta must be above 1"},
      {R"("rope_theta": {"a": 1})", "rope_theta must be a number"},
      {R"("rope_parameters": {"rope_theta": "1e6"})", "rope_parameters.rope_theta must be a number"},
      {R"("rope_parameters": {"rope_theta": NaN})", "rope_parameters.rope_theta must be a finite number but got NaN"},
      {R"("rope_scaling": {"type": "linear", "factor": 1e308})", "rope_scaling.factor must be at most 1e+15"},
      {R"("rope_scaling": {"type": "yarn", "factor": 1e308, "original_max_position_embeddings": 4096})",
       "rope_scaling.factor must be at most 1e+15"},
      {R"("rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4096, "beta_fast": 1e308})",
       "rope_scaling.beta_fast must be"},
      {R"("rope_scaling": {"type": "ntk", "factor": 4, "mixed_b": 1e308})", "rope_scaling.mixed_b must be"},
      {R"("rope_theta": true)", "rope_theta must be a number"},
      {R"("rope_scaling": {"type": "linear", "factor": 0.5})", "rope_scaling.factor must be at least 1"},
      {R"("rope_scaling": {"type": "linear", "factor": "2"})", "rope_scaling.factor must be a number"},
      {R"("rope_scaling": [1])", "rope_scaling must be an object"},
      {R"("rope_scaling": {"type": "nonsense", "factor": 2.0})", "rope_scaling.type must be one of"},
      {R"("rope_scaling": {"type": 3})", "rope_scaling.type must be a string"},
      {R"("rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096.5})",
       "original_max_position_embeddings must be an integer"},
      {R"("rope_scaling": {"type": "yarn", "factor": 2.0, "attention_factor": -1.0})", "attention_factor"},
      {R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0})",
       "high_freq_factor must not be below low_freq_factor"},
      {R"("partial_rotary_factor": 1.5, "rope_scaling": {"type": "linear", "factor": 2.0})", "partial_rotary_factor"},
      {R"("partial_rotary_factor": 0, "rope_scaling": {"type": "linear", "factor": 2.0})", "partial_rotary_factor"},
      {R"("layer_types": ["full_attention"])", "layer_types must have one entry"},
  };
  for (const auto& [more, words] : bad) {
    EXPECT_EQ(code_of(model("llama", more)), "CONFIG_VALUE") << more;
    EXPECT_NE(sentence_of(model("llama", more)).find(words), std::string::npos) << sentence_of(model("llama", more));
  }
}

TEST(Config, a_layer_type_that_is_not_known_is_refused) {
  const std::string types = R"("layer_types": ["full_attention", "full_attention", "full_attention", )";
  EXPECT_EQ(code_of(model("llama", types + R"("foo"])")), "CONFIG_VALUE");
  EXPECT_NE(sentence_of(model("llama", types + R"("foo"])")).find("not \"foo\""), std::string::npos);
  EXPECT_EQ(only(read("lfm2", types + R"("conv"])")).layers_without_rope, (Layers{3}));
}

TEST(Config, key_heads_must_divide_the_heads) {
  const auto heads = [](const std::string& kv) {
    return R"({"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 1,
               "num_key_value_heads": )" +
           kv + "}";
  };
  EXPECT_EQ(code_of(heads("3")), "CONFIG_VALUE");
  EXPECT_EQ(code_of(heads("16")), "CONFIG_VALUE");
  EXPECT_EQ(only(parse_config(heads("null"))).kv_heads, 8);
  EXPECT_TRUE(noted(parse_config(heads("null")), "num_key_value_heads is null: 8"));
}

TEST(Config, sizes_beyond_reason_are_refused) {
  const auto with = [](const std::string& layers, const std::string& heads, const std::string& dim) {
    return code_of(R"({"model_type": "llama", "num_hidden_layers": )" + layers + R"(, "num_attention_heads": )" +
                   heads + R"(, "head_dim": )" + dim + "}");
  };
  EXPECT_EQ(with("1000000000", "32", "128"), "CONFIG_VALUE");
  EXPECT_EQ(with("99999999999999999999999", "32", "128"), "CONFIG_VALUE");
  EXPECT_EQ(with("2", "-4", "128"), "CONFIG_VALUE");
  EXPECT_EQ(with("2", "4", "1000000"), "CONFIG_VALUE");
  EXPECT_EQ(with("2", "4.0", "128"), "CONFIG_VALUE");
  EXPECT_EQ(with("2", "4", "81"), "CONFIG_VALUE");
  EXPECT_EQ(with("0", "4", "128"), "CONFIG_VALUE");
}

TEST(Config, what_is_missing_is_named) {
  const std::string json = R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})";
  EXPECT_EQ(code_of(json), "CONFIG_MISSING");
  EXPECT_NE(sentence_of(json).find("num_hidden_layers"), std::string::npos);
  EXPECT_EQ(code_of(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64})"), "CONFIG_MISSING");
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"type": "linear"})")), "CONFIG_MISSING");
  EXPECT_EQ(code_of("{}"), "CONFIG_MISSING");
}

TEST(Config, a_base_that_grows_needs_more_than_one_pair) {
  for (const char* type : {"dynamic", "ntk_aware"}) {
    const std::string json = R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 4,
      "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_scaling": {"factor": 2, "rope_type": ")" +
                             std::string(type) + R"("}})";
    EXPECT_EQ(code_of(json), "SCALING");
    EXPECT_NE(sentence_of(json).find("needs an exponent_dim above 2"), std::string::npos);
  }
}

TEST(Config, a_head_dim_of_zero_or_null_is_hidden_size_over_heads) {
  for (const char* value : {"0", "null"}) {
    const Model m = parse_config(R"({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16,
                                     "num_hidden_layers": 1, "head_dim": )" +
                                 std::string(value) + "}");
    EXPECT_EQ(only(m).rope.head_dim, 64);
    EXPECT_TRUE(noted(m, "as the frameworks read it"));
  }
  const Model m = parse_config(R"({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16,
                                   "num_hidden_layers": 1})");
  EXPECT_EQ(only(m).rope.head_dim, 128);  // its class default
}

// ---- malformed files ----

TEST(Config, malformed_json_is_refused) {
  for (const char* json :
       {"", "{", "nonsense", "[]", "3", "null", R"({"a": nan})", R"({"a": -NaN})", R"({NaN: 1})", R"({"a": 1e999})",
        R"({"a": 1, "a": 2})", R"({"a": {"b": 1, "b": 2}})", "{\"a\": \"\xff\"}", R"({"a": 1} x)"}) {
    EXPECT_EQ(code_of(json), "JSON") << json;
  }
  const std::string sound = model("llama", "");
  EXPECT_EQ(code_of(sound + std::string(1, '\0')), "JSON");
  EXPECT_EQ(code_of("\xEF\xBB\xBF" + sound), "JSON");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_EQ(code_of(deep), "JSON");
  EXPECT_EQ(code_of(std::string((16u << 20) + 1, ' ')), "JSON");
  EXPECT_EQ(code_of(R"({"model_type": 3})"), "CONFIG_VALUE");
}

TEST(Config, pythons_nan_and_infinity_are_read_where_no_rope_depends_on_them) {
  EXPECT_EQ(code_of(model("falcon_h1", R"("time_step_limit": [0.0, Infinity], "x": NaN, "y": {"z": -Infinity})")),
            "none");
  EXPECT_EQ(code_of(model("llama", R"("words": "NaN \" Infinity \\")")), "none");
  for (const char* more :
       {R"("rope_theta": NaN)", R"("rope_theta": Infinity)", R"("head_dim": Infinity)", R"("layer_types": [NaN])",
        R"("rope_scaling": {"type": "linear", "factor": Infinity})", R"("rope_foo": NaN)", R"("rope_foo": [-Infinity])",
        R"("rope_scaling": {"type": "linear", "factor": 2.0, "finetuned": NaN})",
        R"("rope_scaling": {"type": "longrope", "factor": 2.0, "short_factor": [NaN], "long_factor": [1.0]})"}) {
    const std::string json = R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
                                 "num_hidden_layers": 1, )" +
                             std::string(more) + "}";
    EXPECT_TRUE(code_of(json) == "CONFIG_VALUE" || code_of(json) == "CONFIG_KEY") << json << code_of(json);
  }
  EXPECT_NE(sentence_of(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1,
                            "rope_theta": -Infinity})")
                .find("rope_theta must be a finite number but got -Infinity"),
            std::string::npos);
}

TEST(Config, every_sentence_is_one_line_whatever_the_file_calls_its_keys) {
  for (const std::string& json :
       {model("llama", R"("rope_\nfoo": 1)"), model("a\\nb", ""), model("llama", R"("x\ny": {"rope_foo": 1})"),
        model("llama", R"("layer_types": ["a\nb", "c", "d", "e"])"), std::string(R"({"a\nb": 1, "a\nb": 2})")}) {
    EXPECT_NE(sentence_of(json), "") << json;
    EXPECT_EQ(sentence_of(json).find('\n'), std::string::npos) << sentence_of(json);
  }
  const Model m = read("llama", R"("rope_scaling": {"type": "a\nb", "rope_type": "linear", "factor": 2.0})");
  EXPECT_TRUE(noted(m, "a\\x0Ab"));
}

TEST(Config, bytes_that_are_no_text_are_escaped_in_sentences) {
  EXPECT_NE(sentence_of("{\"a\": \x7F}").find("\\x7F"), std::string::npos);
  EXPECT_NE(sentence_of("{\"a\": \xFF}").find("\\xFF"), std::string::npos);
  EXPECT_NE(sentence_of("{\"model_type\": \"\xC3(\"}").find("\\xC3("), std::string::npos);
  EXPECT_NE(sentence_of(model("llama", "\"rope_theta\": \"\x7F\"")).find("\\x7F"), std::string::npos);
}

TEST(Config, a_folder_is_read_by_its_config_or_params) {
  const auto folder = std::filesystem::temp_directory_path() / "rotary_config_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto code = [](const std::filesystem::path& path) -> std::string {
    try {
      read_config(path);
    } catch (const Error& e) {
      return std::string(rotary::name(e.code()));
    }
    return "none";
  };
  EXPECT_EQ(code(folder), "FILE");
  EXPECT_EQ(code(folder / "absent.json"), "FILE");
  std::ofstream(folder / "params.json") << R"({"dim": 64, "n_layers": 1, "n_heads": 2, "hidden_dim": 9})";
  EXPECT_EQ(read_config(folder).model_type, "mistral");
  std::ofstream(folder / "config.json") << model("llama", "");
  EXPECT_EQ(read_config(folder).model_type, "llama");
  EXPECT_EQ(read_config(folder / "params.json").model_type, "mistral");
  std::filesystem::remove_all(folder);
}

TEST(Config, sentences_about_a_file_name_it_once) {
  const auto file = std::filesystem::temp_directory_path() / "rotary_named_config.json";
  for (const std::string& text :
       {std::string("{"), model("something_new", ""), model("llama", R"("rope_theta": 1.0)"), std::string("[]")}) {
    std::ofstream(file, std::ios::trunc) << text;
    std::string sentence;
    try {
      read_config(file);
    } catch (const Error& e) {
      sentence = e.what();
    }
    const std::string where = "] " + file.string() + ": ";
    const std::size_t named = sentence.find(where);
    ASSERT_NE(named, std::string::npos) << sentence;
    EXPECT_EQ(sentence.find(file.string(), named + where.size()), std::string::npos) << sentence;
    EXPECT_EQ(std::string(sentence).erase(named + 2, where.size() - 2), sentence_of(text));
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace rotary
