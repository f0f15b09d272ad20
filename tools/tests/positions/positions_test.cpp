// --positions SPEC: what is accepted, and what it means. The place of a CONFIG.
#include "rotary/choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "files/tests/file_helpers.h"
#include "text/json.h"

namespace rotary {
namespace {

using files::Json;
using Integers = std::vector<std::int64_t>;

std::string code_of(const std::string& spec, int axes = 1) {
  const tests::Outcome got = tests::outcome_of([&] { parse_positions(spec, axes); });
  EXPECT_TRUE(!got.refused || got.sentence.starts_with("[")) << got.sentence;
  return got.refused ? rotary::name(got.code) : "none";
}

// tools/tests/golden/position_specs.json. Refused are malformed, empty and reversed specs, and those beyond 64 bits or
// of too many positions, before they are made.
const Json& specs(const char* of) {
  static const Json all = Json::parse(test::read_text(ROTARY_SOURCE_DIR "/tools/tests/golden/position_specs.json"));
  return all.at(of);
}

TEST(Specs, list_positions) {
  for (const Json& row : specs("read")) {
    const std::string spec = row.at(0);
    const auto wanted = row.at(1).get<Integers>();
    const PositionSet set = parse_ranges(spec);
    EXPECT_EQ(set.open_from.has_value(), spec.starts_with('+') || spec.ends_with(':')) << spec;
    EXPECT_EQ(set.tokens, std::ssize(set.integers)) << spec;
    EXPECT_EQ(set.closed(std::ssize(wanted)).tokens, std::ssize(wanted)) << spec;
    EXPECT_EQ(set.closed(std::ssize(wanted)).integers, wanted) << spec;
  }
}

TEST(Specs, that_are_wrong_are_refused) {
  for (const Json& row : specs("refused")) {
    const auto code = row.at("code").get<std::string>();
    for (const std::string spec : row.at("specs")) EXPECT_EQ(code_of(spec, row.at("axes")), code) << spec;
  }
}

TEST(Specs, that_are_open_must_fit_the_tokens) {
  EXPECT_THROW(parse_ranges("0:4,100:").closed(3), Error);
  EXPECT_THROW(parse_ranges("9223372036854775807:").closed(2), Error);
}

TEST(Positions, as_text_serve_every_axis) {
  const PositionSet set = parse_positions("0:3", 3);
  EXPECT_EQ(set.axes, 1);
  EXPECT_EQ(set.tokens, 3);
  EXPECT_FALSE(set.batched);
}

// ---- positions for a model's rope ----------------------------------------------------------------

// A tower of which one rope turns by column and the other by row, and a part that turns by three axes of text.
Model several_ropes() {
  Model model;
  model.ropes.resize(4);
  for (ModelRope& rope : model.ropes) rope.part = "vision_config";
  model.ropes[0].rope.axis = {1, 1};
  model.ropes[1].rope.axis = {0, 0};
  model.ropes[2].rope.axis = {0, 1};
  for (ModelRope& rope : model.ropes) rope.coordinates = true;
  model.ropes[3].part = "text_config";
  model.ropes[3].rope.axis = {0, 1, 2};
  model.ropes[3].coordinates = false;
  return model;
}

class File : public testing::Test {
 protected:
  std::string write(const std::vector<std::int64_t>& shape, const Integers& values) const {
    const std::string path = (folder_ / "p.npy").string();
    write_npy(path, test::make_tensor<std::int64_t>("", ElementType::i64, shape, values));
    return path;
  }

 private:
  test::ScratchFolder folder_;
};

TEST_F(File, of_all_axes_serves_sister_ropes_of_one) {
  const Model model = several_ropes();
  const Choice request{.positions = written_positions(write({2, 3}, {1, 2, 3, 40, 50, 60}))};
  const PositionSet columns = positions_of("test", request, model, model.ropes[0]);
  EXPECT_EQ(columns.axes, 2);
  EXPECT_EQ(columns.integers, (Integers{1, 2, 3, 40, 50, 60}));
  const PositionSet rows = positions_of("test", request, model, model.ropes[1]);
  EXPECT_EQ(rows.axes, 1);
  EXPECT_EQ(rows.tokens, 3);
  EXPECT_EQ(rows.batch, 1);
  EXPECT_EQ(rows.integers, (Integers{1, 2, 3}));
  const Choice batch{.positions = written_positions(write({2, 2, 1}, {1, 2, 30, 40}))};
  EXPECT_EQ(positions_of("test", batch, model, model.ropes[1]).batch, 2);
  EXPECT_EQ(positions_of("test", batch, model, model.ropes[1]).integers, (Integers{1, 2}));
  const Choice own{.positions = written_positions(write({3}, {7, 8, 9}))};
  EXPECT_EQ(positions_of("test", own, model, model.ropes[1]).integers, (Integers{7, 8, 9}));
  const Choice three{.positions = written_positions(write({3, 2}, {1, 2, 3, 4, 5, 6}))};
  EXPECT_THROW(positions_of("test", three, model, model.ropes[1]), Error);
}

// A class of diffusers has as many coordinates as widths, whichever of them are 0.
TEST_F(File, has_every_coordinate_though_the_last_turn_nothing) {
  const auto flux = [](const char* widths) {
    return parse_config(R"({"_class_name": "FluxTransformer2DModel", "num_attention_heads": 2,)"
                        R"( "attention_head_dim": 72, "axes_dims_rope": )" +
                        std::string(widths) + "}");
  };
  const Choice request{.positions = written_positions(write({3, 2}, {1, 2, 30, 40, 500, 600}))};
  const Model two = flux("[16, 56, 0]"), one = flux("[72, 0, 0]");
  EXPECT_EQ(positions_of("test", request, two, two.ropes[0]).integers, (Integers{1, 2, 30, 40}));
  const PositionSet first = positions_of("test", request, one, one.ropes[0]);
  EXPECT_EQ(first.integers, (Integers{1, 2}));
  EXPECT_EQ(first.batch, 1);
  const Choice shorter{.positions = written_positions(write({2, 2}, {1, 2, 30, 40}))};
  EXPECT_THROW(positions_of("test", shorter, two, two.ropes[0]), Error);
  EXPECT_THROW(positions_of("test", shorter, one, one.ropes[0]), Error);
}

TEST_F(File, is_needed_where_positions_are_coordinates) {
  const Model model = several_ropes();
  for (const Choice& request : {Choice{}, Choice{.positions = written_positions("0:4")}}) {
    EXPECT_THROW(positions_of("test", request, model, model.ropes[2]), Error);
    const Choice same{.positions = request.positions, .same_on_every_axis = true};
    EXPECT_NO_THROW(positions_of("test", same, model, model.ropes[2]));
    EXPECT_NO_THROW(positions_of("test", request, model, model.ropes[0])) << "it turns by one axis";
    EXPECT_NO_THROW(positions_of("test", request, model, model.ropes[3])) << "it is text";
  }
  EXPECT_TRUE(positions_of("test", {}, model, model.ropes[3]).open_from);
}

TEST(Length, is_the_largest_position_plus_one) {
  EXPECT_EQ(parse_ranges("100:").closed(3).length(), 103);
  EXPECT_EQ(parse_ranges("100:").closed(0).length(), 0);
  EXPECT_EQ(parse_positions("0:8,100:104,7", 1).length(), 104);
  EXPECT_EQ(parse_positions("-5:0", 1).length(), 0);
  EXPECT_EQ(parse_positions("-5:1", 1).length(), 1);
  EXPECT_EQ(parse_positions("9223372036854775807", 1).length(), std::numeric_limits<std::int64_t>::max());
  PositionSet reals;
  reals.reals = {0.5, 7.75, -3};
  EXPECT_EQ(reals.length(), 8);
  reals.reals = {-0.5};
  EXPECT_EQ(reals.length(), 0);
  reals.reals = {1e300};
  EXPECT_EQ(reals.length(), std::numeric_limits<std::int64_t>::max());
}

// ---- the place of a config ----

TEST(ConfigPlace, is_a_file_a_folder_or_a_snapshot_of_the_cache) {
  const test::ScratchFolder cache;
  const std::filesystem::path repository = cache / "models--org--name", snapshot = repository / "snapshots" / "c0ffee";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(repository / "refs");
  test::write_text(repository / "refs" / "main", "c0ffee\n");
  test::write_text(snapshot / "config.json", "{}");
  ASSERT_EQ(setenv("HF_HUB_CACHE", cache.path().c_str(), 1), 0);
  EXPECT_EQ(config_path("org/name"), snapshot);
  EXPECT_EQ(config_text_at("org/name@c0ffee"), "{}");
  EXPECT_EQ(config_path(snapshot.string()), snapshot);
  EXPECT_EQ(config_text_at((snapshot / "config.json").string()), "{}");
  test::expect_error("FILE", "hf download org/other config.json", [] { config_path("org/other"); });
  unsetenv("HF_HUB_CACHE");
}

// ---- positions by the names of what makes them ----

TEST(NamedPositions, packed_sequences_begin_anew) {
  EXPECT_EQ(packed_positions(Integers{0, 5, 5, 9}), (Integers{0, 1, 2, 3, 4, 0, 1, 2, 3}));
  EXPECT_EQ(parse_positions("packed:0,2,5", 1).integers, (Integers{0, 1, 0, 1, 2}));
  EXPECT_EQ(parse_positions("packed:0,3", 3).integers, (Integers{0, 1, 2})) << "for every axis";
}

TEST(NamedPositions, masked_tokens_are_not_counted) {
  EXPECT_EQ(mask_positions(Integers{0, 0, 1, 1, 1, 1, 0, 1}, 4), (Integers{0, 0, 0, 1, 0, 1, 0, 2}));
  const test::ScratchFolder folder;
  const auto spec = [&](const Tensor& mask) {
    write_npy(folder / "mask.npy", mask);
    return "mask:" + (folder / "mask.npy").string();
  };
  const PositionSet two = parse_positions(
      spec(test::make_tensor("", ElementType::i64, {2, 3}, std::vector<std::int64_t>{0, 1, 1, 1, 1, 0})), 1);
  EXPECT_EQ(two.integers, (Integers{0, 0, 1, 0, 1, 0}));
  EXPECT_TRUE(two.batched && two.batch == 2 && two.tokens == 3 && two.axes == 1);
  const auto bytes = std::vector<std::uint8_t>{1, 0, 1};
  EXPECT_EQ(parse_positions(spec(test::make_tensor("", ElementType::boolean, {3}, bytes)), 1).integers,
            (Integers{0, 0, 1}));
  EXPECT_EQ(code_of(spec(test::make_tensor("", ElementType::f32, {1}, std::vector<float>{1}))), "DTYPE");
  EXPECT_EQ(code_of(spec(test::make_tensor("", ElementType::u8, {1, 1, 3}, bytes))), "SHAPE");
}

TEST(NamedPositions, patches_of_an_image) {
  EXPECT_EQ(image_positions(2, 3).integers, (Integers{0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(image_positions(2, 4, 2).integers, (Integers{0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(parse_positions("image:2x4/2", 2).integers, image_positions(2, 4, 2).integers);
  const PositionSet timed = parse_positions("image:1x2", 3);
  EXPECT_EQ(timed.integers, (Integers{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(timed.axes, 3);
}

// chunk 8 and local 2 by the statements of vLLM's dual_chunk_rope.py.
TEST(NamedPositions, maps_of_dual_chunk_attention_and_self_extend) {
  const DualChunkPositions chunks = dual_chunk_positions(Integers{0, 3, 5, 6, 13}, 8, 2);
  EXPECT_EQ(chunks.key, (Integers{0, 3, 5, 0, 1}));
  EXPECT_EQ(chunks.same, chunks.key);
  EXPECT_EQ(chunks.before, (Integers{6, 8, 8, 6, 7}));
  EXPECT_EQ(chunks.far, Integers(5, 8));
  EXPECT_EQ(chunks.before_critical, (Integers{6, 9, 11, 6, 7}));
  EXPECT_EQ(chunks.far_critical, (Integers{8, 11, 13, 8, 9}));
  const SelfExtendPositions groups = self_extend_positions(Integers{0, 5, 9}, 4, 10);
  EXPECT_EQ(groups.query, (Integers{8, 9, 10}));
  EXPECT_EQ(groups.key, (Integers{0, 1, 2}));
  EXPECT_THROW(dual_chunk_positions(Integers{0}, 4, 4), Error);
  EXPECT_THROW(dual_chunk_positions(Integers{-1}, 4, 1), Error);
  EXPECT_THROW(self_extend_positions(Integers{0}, 4, 2), Error);
}

TEST(NamedPositions, shards_are_those_of_their_sources) {
  const Integers whole = {0, 16};
  EXPECT_EQ(shard_tokens(Split::contiguous, 1, 4, whole), (Integers{4, 5, 6, 7}));
  EXPECT_EQ(shard_tokens(Split::zigzag, 0, 2, whole), (Integers{0, 1, 2, 3, 12, 13, 14, 15}));
  EXPECT_EQ(shard_tokens(Split::zigzag, 1, 2, whole), (Integers{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(shard_tokens(Split::striped, 3, 4, whole), (Integers{3, 7, 11, 15}));
  EXPECT_EQ(shard_tokens(Split::zigzag, 1, 2, Integers{0, 4, 12}), (Integers{1, 2, 6, 7, 8, 9})) << "each by itself";
  EXPECT_EQ(parse_positions("zigzag:1/2:16", 1).integers, shard_tokens(Split::zigzag, 1, 2, whole));
  EXPECT_EQ(parse_split(name(Split::striped)), Split::striped);
}

TEST(NamedPositions, the_inverse_gathers) {
  const Integers packed = {0, 8, 24};
  for (const Split split : {Split::contiguous, Split::zigzag, Split::striped}) {
    Integers gathered;
    for (int rank = 0; rank < 4; ++rank) {
      const Integers shard = shard_tokens(split, rank, 4, packed);
      gathered.insert(gathered.end(), shard.begin(), shard.end());
    }
    const Integers places = place_of_tokens(split, 4, packed);
    ASSERT_EQ(places.size(), 24U);
    for (std::size_t t = 0; t < 24; ++t)
      EXPECT_EQ(gathered[static_cast<std::size_t>(places[t])], static_cast<std::int64_t>(t));
  }
}

TEST(NamedPositions, a_window_holds_its_sinks_and_the_newest) {
  const SlidingWindow window{6, 2};
  const HeldTokens early = held_tokens(window, 3), full = held_tokens(window, 5), late = held_tokens(window, 8);
  EXPECT_EQ(early.tokens, (Integers{0, 1, 2, 3}));
  EXPECT_EQ(early.positions, early.tokens);
  EXPECT_EQ(full.positions, (Integers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(late.tokens, (Integers{0, 1, 6, 7, 8, 5}));
  EXPECT_EQ(late.positions, (Integers{3, 4, 6, 7, 8, 5}));
  // A text of any length: every token in its slot, all positions within the window, each once.
  Integers slots(6);
  for (std::int64_t t = 0; t < 100; ++t) {
    slots[static_cast<std::size_t>(window.slot(t))] = t;
    HeldTokens held = held_tokens(window, t);
    EXPECT_TRUE(std::ranges::equal(held.tokens, std::span(slots).first(held.tokens.size())));
    std::ranges::sort(held.positions);
    for (std::size_t i = 0; i < held.positions.size(); ++i)
      EXPECT_EQ(held.positions[i], std::max<std::int64_t>(0, t - 5) + static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(held_tokens({3, 0}, std::numeric_limits<std::int64_t>::max()).tokens.size(), 3U);
  for (const auto& [wrong, t] : {std::pair(SlidingWindow{4, 4}, 0), {{4, -1}, 0}, {{0, 0}, 0}, {{}, 0}, {{4, 1}, -1}})
    EXPECT_THROW(held_tokens(wrong, t), Error);
}

}  // namespace
}  // namespace rotary
