// The position ids of models that see or hear, against transformers' (tests/golden/position_ids.json, made by
// tools/sweep/position_ids.py), and what is refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "files/text/json.h"
#include "rotary/positions.h"
#include "tests/support/file_helpers.h"

namespace rotary {
namespace {

using files::Json;
using Integers = std::vector<std::int64_t>;

template <class T>
std::vector<T> flat(const Json& nested) {
  if (!nested.is_array()) return {nested.get<T>()};
  std::vector<T> values;
  for (const Json& part : nested) {
    const std::vector<T> more = flat<T>(part);
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

ModelInputs inputs_of(const Json& given) {
  ModelInputs inputs;
  inputs.batch = static_cast<std::int64_t>(given.at("ids").size());
  inputs.tokens = static_cast<std::int64_t>(given.at("ids").at(0).size());
  inputs.ids = flat<std::int64_t>(given.at("ids"));
  const auto get = [&](const char* key, auto& values) {
    if (given.contains(key)) given.at(key).get_to(values);
  };
  if (given.contains("mask")) inputs.mask = flat<std::int64_t>(given.at("mask"));
  get("image_grids", inputs.image_grids);
  get("video_grids", inputs.video_grids);
  get("seconds", inputs.seconds_per_grid);
  get("audio_lengths", inputs.audio_lengths);
  return inputs;
}

ModelPositions positions(const Json& config, const ModelInputs& inputs) {
  const test::ScratchFolder folder;
  test::write_text(folder / "config.json", config.dump());
  return model_positions((folder / "config.json").string(), inputs);
}

ModelPositions positions(const Json& given) { return positions(given.at("config"), inputs_of(given)); }

Integers integers(const std::string& given) { return positions(Json::parse(given)).positions.integers; }

void refused(const std::string& given, const std::string& words, const std::string& code = "POSITION") {
  test::expect_error(code, words, [&] { positions(Json::parse(given)); });
}

TEST(PositionIds, are_those_of_transformers) {
  const Json golden = Json::parse(test::read_text(ROTARY_SOURCE_DIR "/tests/golden/position_ids.json"));
  ASSERT_GE(golden.size(), 47U);
  for (const Json& given : golden) {
    const ModelPositions made = positions(given);
    const PositionSet& set = made.positions;
    const std::vector<double> wanted = flat<double>(given.at("positions"));
    const std::string type = given.at("config").at("model_type");
    EXPECT_EQ(set.axes, static_cast<int>(given.at("positions").size())) << type;
    EXPECT_TRUE(set.batched) << type;
    EXPECT_EQ(set.reals.empty(), type != "qwen3_omni_moe");
    const std::vector<double> from(set.integers.begin(), set.integers.end());
    EXPECT_EQ(set.reals.empty() ? from : set.reals, wanted) << given;
    EXPECT_EQ(made.deltas, given.contains("deltas") ? flat<double>(given.at("deltas")) : std::vector<double>())
        << given;
  }
}

// A film of 3 frames of 1 x 2 tokens from 1 on: transformers goes on at 1 + 2, publishers at 1 + 3.
TEST(PositionIds, after_a_film_are_the_publishers_where_that_is_asked) {
  const Json config = {{"model_type", "qwen2_vl"}};
  ModelInputs inputs;
  inputs.tokens = 8;
  inputs.ids = {7, 151656, 151656, 151656, 151656, 151656, 151656, 8};
  inputs.video_grids = {{3, 2, 4}};
  const ModelPositions ours = positions(config, inputs);
  EXPECT_EQ(ours.positions.integers.at(7), 3);
  EXPECT_EQ(ours.deltas, std::vector<double>{-4});
  EXPECT_EQ(ours.notes.size(), 1U);
  inputs.publisher = true;
  const ModelPositions theirs = positions(config, inputs);
  EXPECT_EQ(theirs.positions.integers.at(7), 4);
  EXPECT_EQ(theirs.deltas, std::vector<double>{-3});
}

// As generate() prepares them; masked tokens differ.
TEST(PositionIds, without_grids_count_plainly) {
  const std::string rows = R"("ids":[[9,9,8,8],[9,9,9,8]],"mask":[[0,1,0,1],[0,0,0,1]]})";
  EXPECT_EQ(integers(R"({"config":{"model_type":"neomme"},)" + rows), (Integers{0, 1, 2, 3, 0, 1, 2, 3,  //
                                                                                0, 1, 2, 3, 0, 1, 2, 3}));
  Json given = Json::parse(R"({"config":{"model_type":"glm4v"},)" + rows);
  const Integers masked_0 = {0, 0, 0, 1, 0, 0, 0, 0};
  ModelPositions made = positions(given);
  EXPECT_EQ(Integers(made.positions.integers.begin(), made.positions.integers.begin() + 8), masked_0);
  EXPECT_EQ(made.deltas, (std::vector<double>{0, 0}));
  given["config"]["model_type"] = "qwen2_5_omni";  // its class has no vision_start_token_id: no need here
  made = positions(given);
  EXPECT_EQ(Integers(made.positions.integers.begin() + 8, made.positions.integers.begin() + 16),
            (Integers{1, 0, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(made.deltas, (std::vector<double>{0, 1}));
}

TEST(PositionIds, of_what_does_not_fit_are_refused) {
  const std::string qwen = R"({"config":{"model_type":"qwen2_vl"},"ids":[[7,151655,151655,8]])";
  refused(qwen + R"(})", "a grid for every picture but got more than 0");
  refused(qwen + R"(,"image_grids":[[1,2,6]]})", "3 ids for the picture that begins at its unmasked token 1 but got 2");
  refused(qwen + R"(,"image_grids":[[1,2,4],[1,2,2]]})", "as many pictures as have a grid or a length, 2 but got 1");
  refused(qwen + R"(,"image_grids":[[1,2,3]]})", "must divide by 1 x 2 x 2 but got 1 x 2 x 3");
  refused(qwen + R"(,"image_grids":[[1,2,4]],"mask":[[0,0,0,0]]})", "a token that the mask shows");
  refused(qwen + R"(,"image_grids":[[1,2,4]],"seconds":[1]})", "takes no seconds");
  refused(R"({"config":{"model_type":"paddleocr_vl"},"ids":[[7]],"video_grids":[[1,2,2]]})", "takes no video grids");
  refused(R"({"config":{"model_type":"qwen2_5_vl"},"ids":[[7]],"video_grids":[[1,2,2]],"seconds":[1,2]})",
          "every film must have its seconds", "SHAPE");
  refused(R"({"config":{"model_type":"qwen3_vl"},"ids":[[151656,7]],"video_grids":[[2,2,2]]})",
          "the last lacks 1 frames");
  refused(R"({"config":{"model_type":"hunyuan_vl"},"ids":[[7]]})", "must have 3 or 4 sections", "CONFIG_VALUE");
  refused(R"({"config":{"model_type":"minicpmv4_7"},"ids":[[7]],"image_grids":[[1,4,4]]})", "have image_token_id",
          "CONFIG_MISSING");
  const std::string omni = R"({"config":{"model_type":"qwen2_5_omni","thinker_config":{)";
  const std::string grid = R"(,"image_grids":[[1,2,2]]})";
  refused(omni + R"(}},"ids":[[151652,151655,151653]])" + grid, "vision_start_token_id", "CONFIG_MISSING");
  const std::string start = omni + R"("vision_start_token_id":151652}},"ids":)";
  refused(start + "[[7,151655,151653]]" + grid, "a start mark before every picture");
  refused(start + "[[151652,151655]]" + grid, "an end mark behind every picture");
  refused(start + R"([[151652,151656,151653]],"video_grids":[[1,2,2]]})", "the seconds per grid");
  refused(start + R"([[151652,151655,151653,151647,7]])" + grid, "behind every start mark");
  refused(start + R"([[151652,151655,151653,151647,151646,7]],"audio_lengths":[2])" + grid, "must make a token");
  refused(R"({"config":{"model_type":"glm_image"},"ids":[[16385,7]])" + grid, "a start before every end");
  refused(R"({"config":{"model_type":"glm_image"},"ids":[[7],[7]])" + grid, "as many grids");
  refused(R"({"config":{"model_type":"neomme"},"ids":[[5,6,9,6]])" + grid, "ids for the picture");
  refused(R"({"config":{"model_type":"neomme"},"ids":[[5,6,9,9]],"image_grids":[[1,1,1]]})", "another order");
}

}  // namespace
}  // namespace rotary
