// --positions SPEC: what is accepted, and what it means.
#include "apps/rotary/positions.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace rotary::cli {
namespace {

using Integers = std::vector<std::int64_t>;

std::string code_of(const std::string& spec, int axes = 1) {
  try {
    parse_positions(spec, axes);
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("[", 0), 0U) << error.what();
    return std::string(rotary::name(error.code()));
  }
  return "none";
}

TEST(Ranges, end_before_their_end) { EXPECT_EQ(parse_ranges("0:4"), (Integers{0, 1, 2, 3})); }
TEST(Ranges, may_be_one_position) { EXPECT_EQ(parse_ranges("7"), (Integers{7})); }
TEST(Ranges, may_be_several) { EXPECT_EQ(parse_ranges("0:2,100:102,7"), (Integers{0, 1, 100, 101, 7})); }
TEST(Ranges, may_be_negative) {
  EXPECT_EQ(parse_ranges("-2:2"), (Integers{-2, -1, 0, 1}));
  EXPECT_EQ(parse_ranges("-3"), (Integers{-3}));
  EXPECT_EQ(parse_ranges("-3:-1"), (Integers{-3, -2}));
}

TEST(Ranges, reach_both_ends_of_64_bits) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(parse_ranges("-9223372036854775808,9223372036854775807"), (Integers{least, most}));
  EXPECT_EQ(parse_ranges("9223372036854775805:9223372036854775807"), (Integers{most - 2, most - 1}));
}

TEST(Ranges, that_are_empty_or_reversed_are_refused) {
  EXPECT_EQ(code_of("5:5"), "POSITION");
  EXPECT_EQ(code_of("5:4"), "POSITION");
  EXPECT_EQ(code_of("-1:-2"), "POSITION");
}

TEST(Ranges, that_are_malformed_are_refused) {
  for (const char* spec : {"",     ",",   "0:4,", ",0:4", "0:4,,7", ":4",   "0:",  ":",   "0:4:2", "x",   "1x",
                           "0x10", "1.5", "+3",   " 3",   "3 ",     "0 :4", "--3", "1e3", "nan",   "0-4", "file.np"}) {
    EXPECT_EQ(code_of(spec), "POSITION") << spec;
  }
  EXPECT_EQ(code_of(std::string("3\0", 2)), "POSITION");
}

TEST(Ranges, beyond_64_bits_are_refused) {
  EXPECT_EQ(code_of("9223372036854775808"), "POSITION");
  EXPECT_EQ(code_of("-9223372036854775809"), "POSITION");
  EXPECT_EQ(code_of("0:99999999999999999999999"), "POSITION");
}

TEST(Ranges, of_too_many_positions_are_refused_before_they_are_made) {
  EXPECT_EQ(code_of("0:9223372036854775807"), "POSITION");
  EXPECT_EQ(code_of("-9223372036854775808:9223372036854775807"), "POSITION");
  EXPECT_EQ(code_of("0:16777217"), "POSITION");
  EXPECT_EQ(code_of("0:16000000,0:16000000"), "POSITION");
}

TEST(Positions, as_text_serve_every_axis) {
  const PositionSet set = parse_positions("0:3", 3);
  EXPECT_EQ(set.axes, 1);
  EXPECT_EQ(set.tokens, 3);
  EXPECT_FALSE(set.batched);
}

TEST(Positions, of_a_missing_file_are_refused) { EXPECT_EQ(code_of("/nowhere/positions.npy"), "FILE"); }

TEST(Length, is_the_largest_position_plus_one) {
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

}  // namespace
}  // namespace rotary::cli
