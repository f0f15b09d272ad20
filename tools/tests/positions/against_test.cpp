// Ids beside those of a model: made by the rules of Qwen2-VL here, by hand, with and without each mistake.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "files/tests/file_helpers.h"
#include "rotary/positions.h"

namespace rotary {
namespace {

using Rows = std::vector<std::vector<double>>;  // by axis

const std::string sees = R"({"model_type": "qwen2_vl", "image_token_id": 9, "video_token_id": 10,
    "vision_config": {"spatial_merge_size": 2}})";
const std::string reads = R"({"model_type": "llama"})";

enum class Mistake { none, unmerged, behind };

// A prompt: words {n}, or a picture {height, width} in patches, of which 2 x 2 are a token.
struct Prompt {
  std::vector<std::int64_t> ids = {};
  std::vector<std::array<std::int64_t, 3>> grids = {};
  Rows places = Rows(3);
  double next = 0;

  Prompt(const std::vector<std::vector<int>>& pieces, Mistake mistake = Mistake::none) {
    for (const std::vector<int>& piece : pieces) {
      if (piece.size() == 1) {
        for (int i = 0; i < piece[0]; ++i) add(1, next, next, next), ++next;
        continue;
      }
      const int height = piece[0], width = piece[1], tokens = height * width / 4;
      const int columns = mistake == Mistake::unmerged ? width : width / 2;
      for (int i = 0; i < tokens; ++i) add(9, next, next + i / columns, next + i % columns);
      next += std::max(height, width) / (mistake == Mistake::none ? 2 : 1);
      grids.push_back({1, height, width});
    }
  }
  void add(std::int64_t id, double time, double row, double column) {
    ids.push_back(id);
    places[0].push_back(time), places[1].push_back(row), places[2].push_back(column);
  }
  double delta() const { return next - static_cast<double>(ids.size()); }
};

PositionsRequest asking(const Prompt& prompt) {
  PositionsRequest request{.config = sees};
  request.inputs.tokens = std::ssize(prompt.ids);
  request.inputs.ids = prompt.ids;
  request.inputs.image_grids = prompt.grids;
  return request;
}

IdsCheck check(const PositionsRequest& request, const Rows& rows, std::int64_t batch = 1) {
  std::vector<double> all;
  for (const std::vector<double>& row : rows) all.insert(all.end(), row.begin(), row.end());
  const auto axes = std::ssize(rows);
  const std::vector<std::int64_t> shape = {axes, batch, std::ssize(all) / axes / batch};
  return check_ids(request, all, axes > 1 ? shape : std::vector(shape.begin() + 1, shape.end()));
}

void expect(const IdsCheck& found, IdsRule rule) { EXPECT_STREQ(name(found.rule), name(rule)) << found.sentence(); }

const std::vector<std::vector<int>> pieces = {{5}, {8, 12}, {7}, {4, 4}, {3}};

Rows plus(Rows rows, double by, std::size_t from = 0) {
  for (std::vector<double>& row : rows)
    for (std::size_t i = from; i < row.size(); ++i) row[i] += by;
  return rows;
}

Rows decoded(Rows rows, double first, int count) {
  for (std::vector<double>& row : rows)
    for (int i = 0; i < count; ++i) row.push_back(first + i);
  return rows;
}

TEST(Against, ids_that_are_right_are_equal) {
  const Prompt prompt(pieces);
  const PositionsRequest request = asking(prompt);
  EXPECT_TRUE(check(request, prompt.places).equal());
  EXPECT_TRUE(check(request, decoded(prompt.places, prompt.next, 4)).equal());
  Rows with_plain = prompt.places;  // as generate() stacks them
  with_plain.insert(with_plain.begin(), std::vector<double>(prompt.ids.size(), 77));
  EXPECT_TRUE(check(request, with_plain).equal());
}

TEST(Against, names_the_rule_that_made_them) {
  const Prompt prompt(pieces);
  const PositionsRequest request = asking(prompt);
  const std::size_t tokens = prompt.ids.size();
  expect(check(request, Prompt(pieces, Mistake::unmerged).places), IdsRule::unmerged);
  expect(check(request, Prompt(pieces, Mistake::behind).places), IdsRule::unmerged_behind);
  const Rows whole = decoded(prompt.places, prompt.next, 4);
  expect(check(request, plus(whole, prompt.delta(), tokens)), IdsRule::delta_twice);
  expect(check(request, plus(whole, -prompt.delta(), tokens)), IdsRule::delta_left_out);
  expect(check(request, plus(whole, 3, tokens)), IdsRule::offset);
  expect(check(request, plus(prompt.places, 1)), IdsRule::offset);
  std::vector<double> words(tokens);
  for (std::size_t i = 0; i < tokens; ++i) words[i] = static_cast<double>(i);
  expect(check(request, {words, words, words}), IdsRule::as_words);
  Rows one = prompt.places;
  one[1][9] += 1;
  const IdsCheck found = check(request, one);
  expect(found, IdsRule::unknown);
  EXPECT_EQ(std::vector({found.off, found.token, std::int64_t{found.axis}}), (std::vector<std::int64_t>{1, 9, 1}));
}

TEST(Against, reads_masks_and_rows) {
  const Prompt first(pieces), second({{4}, {4, 4}, {2}});
  const std::size_t tokens = first.ids.size(), hidden = tokens - second.ids.size();
  PositionsRequest request = asking(first);
  request.inputs.batch = 2;
  request.inputs.ids.resize(tokens + hidden, 0);
  request.inputs.ids.insert(request.inputs.ids.end(), second.ids.begin(), second.ids.end());
  request.inputs.mask.assign(2 * tokens, 1);
  std::fill_n(request.inputs.mask.begin() + static_cast<std::ptrdiff_t>(tokens), hidden, 0);
  request.inputs.image_grids.push_back(second.grids[0]);
  // by: added to the visible tokens of the second row, then to what each row decodes.
  const auto rows = [&](double at_hidden, double by, double first_by, double second_by) {
    Rows all(3);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      all[axis] = first.places[axis];
      for (int i = 0; i < 2; ++i) all[axis].push_back(first.next + first_by + i);
      all[axis].insert(all[axis].end(), hidden, at_hidden);
      for (const double place : second.places[axis]) all[axis].push_back(place + by);
      for (int i = 0; i < 2; ++i) all[axis].push_back(second.next + second_by + i);
    }
    return all;
  };
  const auto padding = static_cast<double>(hidden);
  EXPECT_TRUE(check(request, rows(1, 0, 0, 0), 2).equal());
  EXPECT_TRUE(check(request, rows(-5, 0, 0, 0), 2).equal());  // nothing reads these
  expect(check(request, rows(0, padding, 0, padding), 2), IdsRule::through_padding);
  expect(check(request, rows(1, 0, 0, padding), 2), IdsRule::through_padding);
  const double other = second.delta() - first.delta();
  expect(check(request, rows(1, 0, other, -other), 2), IdsRule::delta_of_another_row);
}

TEST(Against, packed_sequences_that_see_and_their_shards) {
  const Prompt first({{3}, {4, 4}, {5}}), second({{8}, {4, 4}});
  PositionsRequest request = asking(first);
  request.inputs.ids.insert(request.inputs.ids.end(), second.ids.begin(), second.ids.end());
  request.inputs.tokens = 24;
  request.inputs.image_grids.push_back(second.grids[0]);
  request.cu_seqlens = {0, 12, 24};
  const auto joined = [&](double by) {
    Rows all = first.places;
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (const double place : second.places[axis]) all[axis].push_back(place + by);
    return all;
  };
  EXPECT_TRUE(check(request, joined(0)).equal());
  expect(check(request, joined(first.next)), IdsRule::through_sequences);
  request.split = Split::zigzag;
  request.ranks = 2;
  const auto part = [&](const std::vector<std::size_t>& tokens) {
    Rows own(3);
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (const std::size_t token : tokens) own[axis].push_back(joined(0)[axis][token]);
    return own;
  };
  EXPECT_TRUE(check(request, part({0, 1, 2, 9, 10, 11, 12, 13, 14, 21, 22, 23})).equal());
  expect(check(request, part({3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20})), IdsRule::other_rank);
  request.inputs.mask.assign(24, 1);
  request.inputs.mask[0] = 0;  // the first token of this rank
  Rows hidden = part({0, 1, 2, 9, 10, 11, 12, 13, 14, 21, 22, 23});
  for (std::vector<double>& axis : hidden) {
    for (std::size_t i = 1; i < 6; ++i) axis[i] -= 1;
    axis[0] = -7;
  }
  EXPECT_TRUE(check(request, hidden).equal());
  request.cu_seqlens = {0, 12, 23};
  test::expect_error("POSITION", "the bounds of one row", [&] { make_positions(request); });
  request.cu_seqlens = {0};  // the first has no token
  for (std::int64_t i = 0; i < 5000; ++i) request.cu_seqlens.push_back(i);
  request.cu_seqlens.push_back(10000);
  request.inputs.ids.assign(10000, 1);
  request.inputs.mask.clear();
  request.inputs.tokens = 10000;
  test::expect_error("SHAPE", "5000 x 5001", [&] { make_positions(request); });
}

TEST(Against, packed_sequences_without_ids) {
  PositionsRequest request;
  request.cu_seqlens = {0, 3, 6};
  EXPECT_TRUE(check(request, {{0, 1, 2, 0, 1, 2}}).equal());
  expect(check(request, {{0, 1, 2, 3, 4, 5}}), IdsRule::through_sequences);
  expect(check(request, {{0, 1, 2, 0, 9, 2}}), IdsRule::unknown);
  request.split = Split::contiguous;
  request.ranks = 3;
  EXPECT_TRUE(check(request, {{0, 0}}).equal());
  expect(check(request, {{1, 1}}), IdsRule::other_rank);
}

TEST(Against, patches_of_a_tower) {
  PositionsRequest request{.config = R"({"model_type": "qwen2_vl_vision"})"};
  request.inputs.image_grids = {{1, 2, 2}};
  EXPECT_TRUE(check(request, {{0, 0, 1, 1}, {0, 1, 0, 1}}).equal());
  expect(check(request, {{0, 1, 0, 1}, {0, 0, 1, 1}}), IdsRule::unknown);
}

// As many rows as the ids have axes, or one more.
TEST(Against, one_axis_for_all_of_several_rows) {
  for (const std::int64_t batch : {1, 2, 3, 4, 5}) {
    PositionsRequest request = asking(Prompt(std::vector<std::vector<int>>{{6}}));
    request.inputs.batch = batch;
    request.inputs.ids.assign(static_cast<std::size_t>(6 * batch), request.inputs.ids[0]);
    std::vector<double> ids;
    for (std::int64_t i = 0; i < 6 * batch; ++i) ids.push_back(static_cast<double>(i % 6));
    EXPECT_TRUE(check_ids(request, ids, std::vector<std::int64_t>{batch, 6}).equal()) << batch;
  }
}

TEST(Against, words_alone) {
  PositionsRequest request{.config = reads};
  request.inputs.batch = 2;
  request.inputs.tokens = 4;
  request.inputs.mask = {0, 0, 1, 1, 1, 1, 1, 1};
  EXPECT_TRUE(check(request, {{9, 9, 0, 1, 2, 0, 1, 2, 3, 4}}, 2).equal());
  expect(check(request, {{0, 1, 2, 3, 0, 1, 2, 3}}, 2), IdsRule::through_padding);
  expect(check(request, {{9, 9, 0, 1, 4, 0, 1, 2, 3, 4}}, 2), IdsRule::through_padding);
  test::expect_error("SHAPE", "[1, 2, 4]", [&] { check(request, {{0, 1, 0, 1}}, 2); });
  const std::vector<double> ids = {9, 9, 0, 1, 0, 1, 2, 3};
  EXPECT_TRUE(check_ids(request, ids, std::vector<std::int64_t>{1, 2, 4}).equal());
  test::expect_error("SHAPE", "8 values", [&] { check_ids(request, ids, std::vector<std::int64_t>{2, 5}); });
}

}  // namespace
}  // namespace rotary
