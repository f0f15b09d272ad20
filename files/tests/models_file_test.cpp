// A file in place of the sheet of models: a newer one, rows of one's own, and bad ones, which are refused whole.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "config_helpers.h"
#include "rotary/config.h"
#include "rotary/rotary_config_c.h"
#include "text/json.h"

namespace rotary::files {
namespace {

constexpr char my_llama[] = R"({"model_type": "my_llama", "num_hidden_layers": 2, "num_attention_heads": 4,
                                "hidden_size": 64, "max_position_embeddings": 128})";
constexpr char own_rows[] = R"({"schema": 1, "data": "mine-1", "extends": true, "models": {
  "my_llama": {"pairing": "interleaved", "base": 5000}}})";

Json sheet_json() { return config_test::json_in(ROTARY_SOURCE_DIR "/files/models/models.json"); }

class ModelsFile : public ::testing::Test {
 protected:
  ~ModelsFile() override { use_own_models(); }

  // The outcome of a file with this text.
  tests::Outcome use(const std::string& text) const {
    std::ofstream(path_) << text;
    return tests::outcome_of([&] { use_models(path_); });
  }
  // The sentence about a file, less its operation and its name.
  std::string refusal(const std::string& text) const {
    const std::string sentence = use(text).sentence, start = "[models] " + path_ + ": ";
    return sentence.starts_with(start) ? sentence.substr(start.size()) : "not about the file: " + sentence;
  }

  const test::ScratchFolder folder_;
  const std::string path_ = (folder_ / "own.json").string();
};

TEST_F(ModelsFile, a_newer_file_takes_the_place_of_the_sheet_built_in) {
  EXPECT_EQ(tests::outcome_of([] { parse_config(my_llama); }).code, Code::MODEL_TYPE);
  EXPECT_EQ(model_data().file, "");
  Json newer = sheet_json();
  newer["data"] = "2027.1.1";
  newer["models"]["my_llama"] = {{"base", 5000}};
  newer["models"].erase("arcee");
  EXPECT_EQ(use(newer.dump(3)).sentence, "");
  EXPECT_EQ(model_data().version, "2027.1.1");
  EXPECT_EQ(model_data().file, path_);
  EXPECT_EQ(parse_config(my_llama).ropes.at(0).rope.base, 5000);
  std::string arcee = my_llama;
  EXPECT_EQ(tests::outcome_of([&] { parse_config(arcee.replace(16, 8, "arcee")); }).code, Code::MODEL_TYPE);
  use_own_models();
  EXPECT_EQ(tests::outcome_of([] { parse_config(my_llama); }).code, Code::MODEL_TYPE);
}

TEST_F(ModelsFile, rows_of_ones_own_are_laid_over_the_sheet_built_in) {
  const std::string built_in = model_data().version;
  EXPECT_EQ(use(own_rows).sentence, "");
  EXPECT_EQ(model_data().version, built_in + "+mine-1");
  EXPECT_EQ(parse_config(my_llama).ropes.at(0).rope.pairing, Pairing::interleaved);
  EXPECT_FALSE(parse_config(R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4,
                                "hidden_size": 64})")
                   .ropes.empty());
  const std::string misnamed = R"({"schema": 1, "data": "a", "extends": true, "misnamed": [
    {"type": "", "architecture": "MyForCausalLM", "family": "llama"}]})";
  EXPECT_EQ(use(misnamed).sentence, "");
  EXPECT_EQ(parse_config(R"({"architectures": ["MyForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 4,
                             "hidden_size": 64})")
                .model_type,
            "llama");
}

TEST_F(ModelsFile, the_c_interface_takes_a_file_too) {
  EXPECT_EQ(use(own_rows).sentence, "");
  EXPECT_EQ(rotary_use_models("nothing.json"), ROTARY_FILE);
  EXPECT_NE(std::string(rotary_error()).find("[models] nothing.json: cannot be opened"), std::string::npos);
  EXPECT_NO_THROW(parse_config(my_llama));
  EXPECT_EQ(rotary_use_models(nullptr), 0);
  EXPECT_THROW(parse_config(my_llama), Error);
  EXPECT_EQ(rotary_use_models(path_.c_str()), 0);
  EXPECT_NO_THROW(parse_config(my_llama));
}

TEST_F(ModelsFile, a_reading_sees_one_sheet_while_another_thread_changes_it) {
  const std::string vl = R"({"model_type": "qwen2_vl", "text_config": {"num_hidden_layers": 2,
    "num_attention_heads": 4, "hidden_size": 64, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}}})";
  std::ofstream(path_) << own_rows;
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) i % 2 == 0 ? use_models(path_) : use_own_models();
  });
  for (int i = 0; i < 200; ++i) EXPECT_EQ(parse_config(vl).ropes.size(), 1u);
  other.join();
}

TEST_F(ModelsFile, a_text_that_is_no_sheet_is_refused) {
  const std::string head = R"({"schema": 1, "data": "1", )";
  const struct {
    std::string text, sentence;
  } wrong[] = {
      {"", "the text must be JSON but is empty"},
      {"[1]", "the file must be an object but got [1]"},
      {"{}", "schema must be 1, which this version of rotary reads, but got null"},
      {R"({"schema": 2, "data": "1"})", "schema must be 1, which this version of rotary reads, but got 2"},
      {R"({"schema": 1.0, "data": "1"})", "schema must be 1, which this version of rotary reads, but got 1.0"},
      {R"({"schema": 1})", "data must be a version, as \"2026.11.2\", but got null"},
      {R"({"schema": 1, "data": 3})", "data must be a version, as \"2026.11.2\", but got 3"},
      {R"({"schema": 1, "data": "A B"})", "data must be of 1 to 100 letters, digits and _-+./ but got \"A B\""},
      {head + R"("models": {}})", "the file must have the section about but has not"},
      {head + R"("extends": 1})", "extends must be true or absent but got 1"},
      {head + R"("extends": true, "modles": {}})", "the file must have known sections only but got \"modles\""},
      {head + R"("extends": true, "models": []})", "models must be an object but got a list"},
      {head + R"("extends": true, "models": {"a b": {}}})",
       "a name in models must be of 1 to 100 letters, digits and _-+./ but got \"a b\""},
      {head + R"("extends": true, "models": {"a": NaN}})", "the numbers must be finite but got NaN or Infinity"},
      {head + R"("models": {"a": {}, "a": {"base": 5}}})",
       "a key must appear once in an object but \"a\" appears twice, with two values"},
      {std::string(200, '[') + std::string(200, ']'), "arrays and objects must not nest deeper than 64"},
  };
  for (const auto& [text, sentence] : wrong) EXPECT_EQ(refusal(text), sentence) << text.substr(0, 100);
  std::filesystem::resize_file(path_, 100'000'000);
  EXPECT_EQ(tests::outcome_of([&] { use_models(path_); }).sentence,
            "[models] " + path_ + ": a JSON file must be at most 16 MB but \"" + path_ + "\" has 100000000 bytes");
  EXPECT_EQ(tests::outcome_of([] { use_models("nothing.json"); }).code, Code::FILE);
}

TEST_F(ModelsFile, a_half_good_sheet_is_refused_whole) {
  const struct {
    std::string place, value, sentence;  // an empty value erases
  } wrong[] = {
      {"/models/llama", "", "models.llama must be a row, which params.json needs, but got null"},
      {"/counted", "", "the file must have the section counted but has not"},
      {"/architectures/deepseek4", "",
       "architectures.deepseek4 must be a row, which a draft for it needs, but got null"},
      {"/positions/my_vision", "{\"order\": \"rows\", \"clip\": true}",
       "positions.my_vision must be of a side where it has a fixed_grid or a clip but got "
       "{\"clip\":true,\"order\":\"rows\"}"},
      {"/towers", "{}", "models.cohere_compass_vision.tower must be the name of a tower but got \"row_column\""},
      {"/misnamed", "{}", "misnamed must be a list but got an object"},
      {"/models/llama", "null", "models.llama must be an object but got null"},
      {"/models/llama", "[]", "models.llama must be an object but got []"},
      {"/models/llama/pairing", "\"halves\"",
       "models.llama.pairing must be one of \"unset half interleaved interleaved_to_half\" but got \"halves\""},
      {"/models/llama/head_count", "3", "models.llama must have known fields only but got \"head_count\""},
      {"/models/llama/shape", "3", "models.llama.shape must be an object but got 3"},
      {"/models/llama/base_key", "3",
       "models.llama.base_key must be a string of at most 1000 characters of ASCII on one line but got 3"},
      {"/models/llama/reads_partial", "1", "models.llama.reads_partial must be a boolean but got 1"},
      {"/models/llama/old", "\"new\"",
       "models.llama.old must be one of \"one_for_all all_to_all scaling_to_full scaling_to_both scaling_to_compress\" "
       "but got \"new\""},
      {"/models/llama/pattern", "{\"types\": [\"full\", \"none of them\"]}",
       "models.llama.pattern.types must be one of \"none sliding full linear hybrid indexed mlp\" but got "
       "\"none of them\""},
      {"/models/llama/pattern", "{\"period_key\": \"per\"}",
       "models.llama.pattern must be of types where it has a period_key but got {\"period_key\":\"per\"}"},
      {"/models/llama", "{\"sections_are_weights\": true}",
       "models.llama must be of sections that sum to 1 to 16384 where they are weights but got "
       "{\"sections_are_weights\":true}"},
      {"/models/llama/sections", "[1, 2, 3, 4, 5]",
       "models.llama.sections must be a list of up to four counts but got [1,2,3,4,5]"},
      {"/models/llama/shape/head_count", "3", "models.llama.shape must have known fields only but got \"head_count\""},
      {"/models/llama/shape/heads", "-1", "models.llama.shape.heads must be a count up to 1048576 but got -1"},
      {"/models/llama/shape/heads", "\"32\"", "models.llama.shape.heads must be a count up to 1048576 but got \"32\""},
      {"/models/llama/shape/heads", "4294967328",
       "models.llama.shape.heads must be a count up to 1048576 but got 4294967328"},
      {"/models/llama/shape/heads", "18446744073709551615",
       "models.llama.shape.heads must be a count up to 1048576 but got 18446744073709551615"},
      {"/models/llama/shape/heads", "100000",
       "models.llama.shape must be at most 10000 layers and 65536 heads with an even head_dim up to 16384 but got "
       "{\"heads\":100000,\"hidden\":4096,\"layers\":32}"},
      {"/models/llama/shape/heads", "3.5", "models.llama.shape.heads must be a count up to 1048576 but got 3.5"},
      {"/models/llama/pairing", "\"unset\"",
       "models.llama must be of a pairing but got "
       "{\"context\":2048,\"pairing\":\"unset\",\"shape\":{\"heads\":32,\"hi..."},
      {"/models/llama/mla", "{\"nope\": 64, \"rope\": 33}",
       "models.llama.mla must be of an even number of elements but got {\"nope\":64,\"rope\":33}"},
      {"/models/llama/shape/head_dim", "33",
       "models.llama.shape must be at most 10000 layers and 65536 heads with an even head_dim up to 16384 but got "
       "{\"head_dim\":33,\"heads\":32,\"hidden\":4096,\"layers\":32}"},
      {"/models/llama/base", "\"x\"", "models.llama.base must be a number above 0, up to 1e15 but got \"x\""},
      {"/models/llama/base", "0", "models.llama.base must be a number above 0, up to 1e15 but got 0"},
      {"/models/llama/base", "1e300", "models.llama.base must be a number above 0, up to 1e15 but got 1e+300"},
      {"/models/llama/base", "0.5",
       "llama: base must be finite and above 1 (at 1 all pairs would turn at the same speed, below 1 ever faster along "
       "the head) but got 0.5"},
      {"/models/llama/partial", "5",
       "llama: text_config.partial_rotary_factor must be above 0 and at most 1 but got 5"},
      {"/models/llama/partial", "true", "models.llama.partial must be a number above 0, up to 1e15 but got true"},
      {"/models/llama/rope_parameters", "{\"rope_type\": \"yarm\"}",
       "models.llama.rope_parameters.rope_type must be the name of a scaling but got \"yarm\""},
      {"/models/zaya/rope_parameters/hybrid_sliding", "2",
       "models.zaya.rope_parameters.hybrid_sliding must be an object, as that of another type of layers, but got 2"},
      {"/models/zaya/rope_parameters/hybrid_sliding/rope_theta", "0.5",
       "models.zaya.rope_parameters.hybrid_sliding.rope_theta must be a base above 1 but got 0.5"},
      {"/models/llama/rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": -2}",
       "llama: the default rope_parameters of llama.factor must be at least 1 (below, positions would be stretched "
       "apart instead of drawn together) but got -2"},
      {"/models/llama/turns_where", "{}", "models.llama.turns_where must be of a key but got {}"},
      {"/models/llama/quirk", "\"odd\"", "models.llama.quirk must be the name of a quirk but got \"odd\""},
      {"/models/llama/tower", "\"high\"", "models.llama.tower must be the name of a tower but got \"high\""},
      {"/models/llama/unusable", "{\"methods\": \"yarm\", \"why\": \"\"}",
       "models.llama.unusable must be about methods of scaling by their names but got "
       "{\"methods\":\"yarm\",\"why\":\"\"}"},
      {"/models/llama/remark", "{\"text\": \"two\\nlines\"}",
       "models.llama.remark.text must be a string of at most 1000 characters of ASCII on one line but got "
       "\"two\\nlines\""},
      {"/models/bert", "{}", "the file must have a type once but got \"bert\""},
      {"/remote_models/llama", "{}", "the file must have a type once but got \"llama\""},
      {"/children/aria/text_config", "\"nothing\"",
       "children.aria.text_config must name types that have a row but got \"nothing\""},
      {"/children/aria/text_config", "{\"base\": 3}",
       "children.aria.text_config must be of a type but got {\"base\":3}"},
      {"/children/aria/text_config", "\"aria\"",
       "children.aria.text_config must not lie in more than 8 others, nor in itself, but got \"aria\""},
      {"/misnamed/0/family", "\"nothing\"", "misnamed must name families that have a row but got \"nothing\""},
      {"/misnamed/0/architecture", "\"\"",
       "misnamed[0] must be a family with the architecture or the key that tells it but got "
       "{\"architecture\":\"\",\"family\":\"grok-1\",\"type\":\"git\"}"},
      {"/our_names/0", "\"nothing\"", "our_names must name types that have a row but got \"nothing\""},
      {"/counted/often", "[]", "counted must have the lists seen, from_one and every but got \"often\""},
      {"/counted/seen/0", "\"nothing\"", "counted must name types that have a row but got \"nothing\""},
      {"/positions/qwen2_vl/variant", "\"film\"",
       "positions.qwen2_vl.variant must be one of \"none whole_film film_in_seconds film_merged_in_time film_by_frame "
       "frame_after_frame between_marks words_keep_counting page canvas omni_by_pieces omni_by_time\" but got "
       "\"film\""},
      {"/positions/sam3/inside", "\"nothing\"",
       "positions.sam3.inside must be a sub-config of children but got \"nothing\""},
      {"/towers/round", "{\"words\": \"in circles\"}",
       "towers.round must be the facts of a layout that is known by this name but got {\"words\":\"in circles\"}"},
      {"/towers/pixtral", "{\"axes\": \"height width\"}",
       "towers.pixtral must be of words that say how its pairs turn but got {\"axes\":\"height width\"}"},
      {"/query_scales/0/type", "\"nothing\"", "query_scales must name types that have a row but got \"nothing\""},
      {"/query_scales/0/scale", "{\"form\": \"odd\"}",
       "query_scales[0].scale.form must be one of \"none steps log power ratio learned\" but got \"odd\""},
      {"/architectures/llama/rope_type", "\"round\"",
       "architectures.llama.rope_type must be one of \"none norm neox mrope imrope norm_mrope neox_mrope\" but got "
       "\"round\""},
      {"/diffusers/FluxTransformer2DModel/defaults/num_attention_heads", "\"24\"",
       "FluxTransformer2DModel: num_attention_heads must be an integer from 1 to 65536 but got \"24\""},
      {"/diffusers/FluxTransformer2DModel", "{\"laid\": \"learned\"}",
       "diffusers.FluxTransformer2DModel must be of a key of widths where it is laid learned or interleaved but got "
       "{\"laid\":\"learned\"}"},
      {"/diffusers/FluxTransformer2DModel", "{\"stretch\": [\"t\", \"h\", \"w\"], \"widths\": \"axes\"}",
       "diffusers.FluxTransformer2DModel must be of one key of stretch, or without widths of one for each axis but got "
       "{\"stretch\":[\"t\",\"h\",\"w\"],\"widths\":\"axes\"}"},
      {"/refused/x y", "\"why\"", "a name in refused must be of 1 to 100 letters, digits and _-+./ but got \"x y\""},
  };
  const Json good = sheet_json();
  EXPECT_EQ(use(own_rows).sentence, "");
  for (const auto& [place, value, sentence] : wrong) {
    Json sheet = good;
    sheet["data"] = "2027.1.1";
    const Json::json_pointer at(place);
    if (value.empty()) {
      sheet.at(at.parent_pointer()).erase(at.back());
    } else {
      sheet[at] = Json::parse(value);
    }
    EXPECT_EQ(refusal(sheet.dump()), sentence) << place << " = " << value;
    EXPECT_NO_THROW(parse_config(my_llama)) << "the earlier sheet is no longer in use";
  }
}

}  // namespace
}  // namespace rotary::files
