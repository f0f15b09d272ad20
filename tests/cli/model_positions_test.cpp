// Positions as models make them, of what their processors hand them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

Drawing drawing_of(const Json& wanted) {
  Drawing drawing;
  drawing.size = wanted.value("size", drawing.size);
  drawing.frame_indices = wanted.value("frame_indices", drawing.frame_indices);
  drawing.frames = wanted.value("frames", 0);
  drawing.fps = wanted.value("fps", 0.0);
  if (wanted.contains("text")) drawing.text = wanted.at("text").get<std::int64_t>();
  drawing.references = wanted.value("references", drawing.references);
  drawing.vae_scale_time = wanted.value("vae_scale_time", 0);
  return drawing;
}

// tests/golden/diffusion_positions.json: what diffusers' pipelines made, by tools/sweep/diffusion_positions.py.
TEST(ModelPositions, of_a_diffusion_transformer_are_those_of_its_pipeline) {
  const Json cases = files::parse_json(test::read_text(ROTARY_SOURCE_DIR "/tests/golden/diffusion_positions.json"));
  EXPECT_GE(cases.size(), 67U);
  for (const Json& wanted : cases) {
    ModelInputs inputs;
    inputs.part = wanted.value("part", "");
    inputs.drawing = drawing_of(wanted);
    const std::string text = wanted.at("config").dump();
    expect_places(model_positions(text, inputs).positions, wanted.at("positions"), text);
  }
}

// Of attention_type nabla Kandinsky5Pipeline's transformer sees blocks of 8 x 8 tokens (fractal_flatten).
TEST(ModelPositions, of_a_diffusion_transformer_of_sparse_attention_stand_in_blocks) {
  ModelInputs inputs;
  inputs.drawing = Drawing{.size = {256, 384}, .frames = 5};
  std::vector<std::vector<double>> wanted(3);
  for (int token = 0; token < 2 * 16 * 24; ++token) {
    const int block = token / 64 % 6, of_block = token % 64;
    wanted[0].push_back(token / (16 * 24));
    wanted[1].push_back((block / 3 * 8 + of_block / 8) / 3.16);
    wanted[2].push_back((block % 3 * 8 + of_block % 8) / 3.16);
  }
  const Json config = {{"_class_name", "Kandinsky5Transformer3DModel"}, {"attention_type", "nabla"}};
  expect_places(made(config, inputs).positions, wanted, "nabla");
}

// WanPipeline's h_multiple_of and w_multiple_of; HunyuanImage's and Cosmos' patches are read so too.
TEST(ModelPositions, of_a_diffusion_transformer_have_patches_of_unequal_sides) {
  ModelInputs inputs;
  inputs.drawing = Drawing{.size = {64, 128}, .frames = 1};
  inputs.drawing->vae_scale_time = 4;
  const auto last = [&](const char* type, const char* patch) {
    const std::string text = std::string("{\"_class_name\": \"") + type + "\", \"patch_size\": " + patch + "}";
    const PositionSet set = model_positions(text, inputs).positions;
    const std::int64_t* end = set.integers.data() + set.integers.size();
    return set.reals.empty() ? std::pair<double, double>(*(end - 1 - set.tokens), *(end - 1))
                             : std::pair(*(set.reals.end() - 1 - set.tokens), set.reals.back());
  };
  using Pair = std::pair<double, double>;
  EXPECT_EQ(last("WanTransformer3DModel", "[1, 4, 2]"), (Pair{1, 7}));
  EXPECT_EQ(last("WanTransformer3DModel", "[1, 2, 8]"), (Pair{3, 1}));
  EXPECT_EQ(last("CosmosTransformer3DModel", "[1, 4, 2]"), (Pair{1, 7}));
  inputs.drawing->frames = 0;
  inputs.drawing->vae_scale_time = 0;
  EXPECT_EQ(last("HunyuanImageTransformer2DModel", "[1, 2]"), (Pair{1, 1}));
  EXPECT_EQ(last("HunyuanImageTransformer2DModel", "[1, 1, 2]"), (Pair{3, 3}));
}

// LTX2AudioVideoRotaryPosEmbed.prepare_video_coords: arange(0, num_frames, step=patch_size_t).
TEST(ModelPositions, of_a_diffusion_transformer_have_patches_in_time) {
  ModelInputs inputs;
  inputs.drawing = Drawing{.size = {32, 64}, .frames = 25};
  for (const char* type : {"LTXVideoTransformer3DModel", "LTX2VideoTransformer3DModel"}) {
    const auto tokens = [&](const char* more) {
      return model_positions("{\"_class_name\": \"" + std::string(type) + "\"" + more + "}", inputs).positions.tokens;
    };
    EXPECT_EQ(tokens(""), 4 * 2) << type;
    EXPECT_EQ(tokens(R"(, "patch_size_t": 2)"), 2 * 2) << type;
  }
}

// ChronoEditRotaryPosEmbed.forward: two latent frames are the first and the last of eight.
TEST(ModelPositions, of_chrono_edit_skip_where_two_latent_frames_are) {
  ModelInputs inputs;
  const auto last_time = [&](std::int64_t frames, const char* patch) {
    inputs.drawing = Drawing{.size = {32, 32}, .frames = frames};
    const std::string config = R"({"_class_name": "ChronoEditTransformer3DModel", "patch_size": )" + std::string(patch);
    const PositionSet set = model_positions(config + "}", inputs).positions;
    return set.value(0, 0, static_cast<std::size_t>(set.tokens) - 1);
  };
  EXPECT_EQ(last_time(5, "[1, 2, 2]"), 7);
  EXPECT_EQ(last_time(9, "[1, 2, 2]"), 2);
  EXPECT_EQ(last_time(13, "[2, 2, 2]"), 1);
}

// As WanPipeline rounds num_frames, HeliosPipeline's pieces and CogVideoX 1.5's pairs of latent frames.
TEST(ModelPositions, of_a_film_note_the_frames_that_its_pipeline_makes) {
  const auto notes = [](const char* type, std::int64_t frames, const char* more = "") {
    ModelInputs inputs;
    inputs.drawing = Drawing{.size = {64, 64}, .frames = frames};
    return model_positions("{\"_class_name\": \"" + std::string(type) + "\"" + more + "}", inputs).notes;
  };
  const auto expect = [](const std::vector<std::string>& found, const char* part) {
    ASSERT_FALSE(found.empty()) << part;
    EXPECT_NE(found.back().find(part), std::string::npos) << found.back();
  };
  expect(notes("WanTransformer3DModel", 50), "50 frames are 13 tokens in time, those of 49 frames");
  EXPECT_TRUE(notes("WanTransformer3DModel", 49).empty());
  EXPECT_TRUE(notes("WanAnimateTransformer3DModel", 77).empty());
  const char* const pairs = R"(, "patch_size_t": 2, "use_rotary_positional_embeddings": true)";
  expect(notes("CogVideoXTransformer3DModel", 49, pairs), "49 frames are 7 tokens in time, those of 53 frames");
  expect(notes("HeliosTransformer3DModel", 33), "which is no rotation");
}

TEST(ModelPositions, of_a_diffusion_transformer_are_refused_where_its_pipeline_has_none) {
  const Json golden = files::parse_json(test::read_text(ROTARY_SOURCE_DIR "/tests/golden/position_refusals.json"));
  ASSERT_EQ(golden.at("drawings").size(), 24U);
  ModelInputs inputs;
  for (const Json& given : golden.at("drawings")) {
    SCOPED_TRACE(given.dump());
    inputs.drawing = drawing_of(given);
    try {
      model_positions(given.at("config").dump(), inputs);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(given.at("words")), std::string::npos) << error.what();
    }
  }
  inputs.drawing = Drawing{.size = {16, 16}, .frames = 5};
  EXPECT_NO_THROW(model_positions(R"({"_class_name": "AnyFlowFARTransformer3DModel"})", inputs));
  EXPECT_THROW(made({{"model_type", "llama"}}, {.tokens = 3, .drawing = Drawing{.size = {64, 64}}}), Error);
  const Json sound = {{"_class_name", "LTX2VideoTransformer3DModel"}};
  EXPECT_THROW(made(sound, {.part = "audio", .drawing = Drawing{.frames = 1, .fps = 1e6}}), Error);
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
