// The position ids of models: of those that see or hear against transformers' (tools/tests/golden/position_ids.json,
// made by files/models/sweep/position_ids.py), of towers, parts and words; and what is refused
// (position_refusals.json).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "files/tests/file_helpers.h"
#include "rotary/positions.h"
#include "text/json.h"

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

TEST(PositionIds, are_those_of_transformers) {
  const Json golden = Json::parse(test::read_text(ROTARY_SOURCE_DIR "/tools/tests/golden/position_ids.json"));
  ASSERT_GE(golden.size(), 47U);
  for (const Json& given : golden) {
    const ModelPositions result = positions(given);
    const PositionSet& set = result.positions;
    const std::vector<double> wanted = flat<double>(given.at("positions"));
    const std::string type = given.at("config").at("model_type");
    EXPECT_EQ(set.axes, static_cast<int>(given.at("positions").size())) << type;
    EXPECT_TRUE(set.batched) << type;
    EXPECT_EQ(set.reals.empty(), type != "qwen3_omni_moe");
    const std::vector<double> from(set.integers.begin(), set.integers.end());
    EXPECT_EQ(set.reals.empty() ? from : set.reals, wanted) << given;
    EXPECT_EQ(result.deltas, given.contains("deltas") ? flat<double>(given.at("deltas")) : std::vector<double>())
        << given;
  }
}

TEST(PositionIds, of_what_does_not_fit_are_refused) {
  const Json golden = Json::parse(test::read_text(ROTARY_SOURCE_DIR "/tools/tests/golden/position_refusals.json"));
  ASSERT_EQ(golden.at("ids").size(), 23U);
  for (const Json& given : golden.at("ids")) {
    SCOPED_TRACE(given.dump());
    test::expect_error(given.value("code", "POSITION"), given.at("words"), [&] { positions(given); });
  }
}

// ---- towers, parts and words ----

// tools/tests/golden/towers.json, a tower for each order: what its own code made, by files/models/sweep/towers.py. Its
// fractions are float32.
TEST(ModelPositions, of_a_tower_are_those_of_its_own_code) {
  const Json cases = Json::parse(test::read_text(ROTARY_SOURCE_DIR "/tools/tests/golden/towers.json"));
  EXPECT_GE(cases.size(), 11U);
  for (const Json& given : cases) {
    SCOPED_TRACE(given.at("config").dump());
    ModelInputs inputs;
    inputs.image_grids = given.at("images");
    inputs.video_grids = given.at("films");
    const PositionSet got = positions(given.at("config"), inputs).positions;
    const std::vector<double> wanted = flat<double>(given.at("positions"));
    const auto tokens = static_cast<std::size_t>(got.tokens);
    ASSERT_EQ(got.axes, static_cast<int>(given.at("positions").size()));
    ASSERT_EQ(static_cast<std::size_t>(got.axes) * tokens, wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double tolerance = got.reals.empty() ? 0 : 1e-7 * std::max(1.0, 5 * std::abs(wanted[i]));
      ASSERT_NEAR(got.value(i / tokens, 0, i % tokens), wanted[i], tolerance) << i;
    }
  }
}

// tools/tests/golden/position_parts.json: parts have the positions of their class. Words, in two rows of 4 tokens, are
// counted as generate() does, where a model that sees gets no grids too: masked tokens differ. After a film of 3 frames
// of 1 x 2 tokens from 1 on transformers goes on at 1 + 2, publishers at 1 + 3.
TEST(ModelPositions, of_parts_words_and_films) {
  for (const Json& given : Json::parse(test::read_text(ROTARY_SOURCE_DIR "/tools/tests/golden/position_parts.json"))) {
    SCOPED_TRACE(given.dump());
    ModelInputs inputs{.part = given.value("part", "")};
    inputs.image_grids = given.value("images", inputs.image_grids);
    inputs.video_grids = given.value("films", inputs.video_grids);
    inputs.publisher = given.value("publisher", false);
    inputs.ids = given.value("ids", Integers());
    inputs.mask = given.value("mask", Integers());
    if (inputs.part.empty()) inputs.batch = given.value("batch", 2), inputs.tokens = 8 / inputs.batch;
    if (given.contains("code")) {
      test::expect_error(given.at("code"), "", [&] { positions(given.at("config"), inputs); });
      continue;
    }
    const ModelPositions found = positions(given.at("config"), inputs);
    EXPECT_EQ(found.positions.integers, given.at("positions").get<Integers>());
    EXPECT_EQ(found.deltas, given.value("deltas", found.deltas));
    EXPECT_EQ(found.notes.size(), given.value("notes", 0U));
  }
}

}  // namespace
}  // namespace rotary
