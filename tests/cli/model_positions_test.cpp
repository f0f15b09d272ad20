// Positions as models make them, of what their processors hand them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "files/text/json.h"
#include "rotary/positions.h"
#include "tests/support/file_helpers.h"

namespace rotary {
namespace {

using files::Json;

ModelPositions made(const Json& config, const ModelInputs& inputs) {
  const test::ScratchFolder folder;
  test::write_text(folder / "config.json", config.dump());
  return model_positions((folder / "config.json").string(), inputs);
}

// theirs are float32.
void expect_places(const PositionSet& got, const std::vector<std::vector<double>>& axes, const std::string& config) {
  ASSERT_EQ(got.axes, static_cast<int>(axes.size())) << config;
  ASSERT_EQ(got.tokens, static_cast<std::int64_t>(axes[0].size())) << config;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    for (std::size_t i = 0; i < axes[axis].size(); ++i) {
      const double tolerance = got.reals.empty() ? 0 : 1e-7 * std::max(1.0, 5 * std::abs(axes[axis][i]));
      ASSERT_NEAR(got.value(axis, 0, i), axes[axis][i], tolerance) << config << " axis " << axis << " token " << i;
    }
  }
}

// tests/golden/towers.json, a tower for each order: what its own code made, by tools/sweep/towers.py.
TEST(ModelPositions, of_a_tower_are_those_of_its_own_code) {
  const Json cases = files::parse_json(test::read_text(ROTARY_SOURCE_DIR "/tests/golden/towers.json"));
  EXPECT_GE(cases.size(), 11U);
  for (const Json& wanted : cases) {
    ModelInputs inputs;
    inputs.image_grids = wanted.at("images");
    inputs.video_grids = wanted.at("films");
    expect_places(made(wanted.at("config"), inputs).positions, wanted.at("positions"), wanted.at("config").dump());
  }
}

TEST(ModelPositions, of_a_part_are_those_of_its_class) {
  const auto tokens = [](const char* config, const char* part) {
    ModelInputs inputs;
    inputs.part = part;
    inputs.image_grids = {{1, 2, 4}};
    return made(files::parse_json(config), inputs).positions.integers;
  };
  const std::vector<std::int64_t> blocks = {0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1, 2, 3, 2, 3};
  const std::vector<std::int64_t> rows = {0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 2, 3, 0, 1, 2, 3};
  EXPECT_EQ(tokens(R"({"model_type": "qwen2_vl"})", "vision_config"), blocks);
  EXPECT_EQ(tokens(R"({"model_type": "qwen2_vl", "vision_config": {"model_type": "qwen2_vl"}})", "vision_config"),
            blocks);
  EXPECT_EQ(tokens(R"({"model_type": "qwen2_vl", "vision_config": {"spatial_merge_size": 1}})", "vision_config"), rows);
  EXPECT_EQ(tokens(R"({"model_type": "llava", "vision_config": {"model_type": "pixtral"}})", "vision_config"), rows);
  EXPECT_EQ(tokens(R"({"model_type": "qwen2_5_omni"})", "vision_config"), blocks);
  EXPECT_EQ(tokens(R"({"model_type": "qwen2_5_omni"})", "thinker_config.vision_config"), blocks);
  EXPECT_EQ(tokens(R"({"model_type": "colqwen2", "vlm_config": {"model_type": "qwen2_vl"}})", "vision_config"), blocks);
  EXPECT_THROW(
      tokens(R"({"model_type": "mistral3", "vision_config": {"model_type": "siglip_vision_model"}})", "vision_config"),
      Error);
}

TEST(ModelPositions, of_words_are_counted_as_generate_does) {
  ModelInputs inputs{.batch = 2, .tokens = 4, .mask = {0, 1, 0, 1, 1, 1, 1, 0}};
  const auto positions = [&](const char* type) { return made({{"model_type", type}}, inputs).positions.integers; };
  EXPECT_EQ(positions("llama"), (std::vector<std::int64_t>{0, 0, 0, 1, 0, 1, 2, 0}));
  EXPECT_EQ(positions("mistral3"), (std::vector<std::int64_t>{0, 0, 0, 1, 0, 1, 2, 0}));
  EXPECT_EQ(positions("paligemma"), (std::vector<std::int64_t>{1, 1, 1, 2, 1, 2, 3, 1}));
  EXPECT_EQ(positions("modernbert"), (std::vector<std::int64_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  inputs.mask.clear();
  EXPECT_EQ(positions("paligemma"), (std::vector<std::int64_t>{1, 2, 3, 4, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace rotary
