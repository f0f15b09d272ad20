// What is refused, with which sentence; what is let through; names, layouts and targets.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "rotary/reference.h"
#include "tests/support/checks.h"
#include "tests/support/heads.h"

namespace rotary::tests {
namespace {

class Checks : public ::testing::Test {
 protected:
  std::vector<float> x = std::vector<float>(4096), y = std::vector<float>(4096);
  const Layout layout = bthd(2, 3, 4, 16);

  Heads heads(const Layout& l) { return {x.data(), DType::f32, l}; }
  Heads out(const Layout& l) { return {y.data(), DType::f32, l}; }
};

TEST_F(Checks, RefusesShapesThatDoNotMatch) {
  expect_error("SHAPE", "[rotate] table has 2 rows but x has 3 tokens", [&] { rotate(heads(layout), table_of(2, 8)); });
  expect_error("SHAPE", "[rotate] table has 2 rows but x has 3 tokens",
               [&] { rotate(heads(layout), table_of(2, 8), Direction::backward); });
  expect_error("SHAPE", "[reference::rotate] table has 2 rows but x has 3 tokens",
               [&] { reference::rotate(heads(layout), out(layout), table_of(2, 8)); });
  expect_error("SHAPE", "[rotate] table has 3 batch rows but x has 2",
               [&] { rotate(heads(layout), table_of(3, 8, 3)); });
  expect_error("SHAPE", "[rotate] rotary_dim must be at most head_dim 16 but the table's is 18",
               [&] { rotate(heads(layout), table_of(3, 9)); });
  expect_error("SHAPE", "[rotate] out must have the shape of x, [2, 3, 4, 16], but got [2, 3, 4, 17]",
               [&] { rotate(heads(layout), out(bthd(2, 3, 4, 17)), table_of(3, 8)); });
  Layout negative = layout;
  negative.heads = -1;
  expect_error("SHAPE", "[rotate] sizes must not be negative but got [batch, tokens, heads, head_dim] = [2, 3, -1, 16]",
               [&] { rotate(heads(negative), table_of(3, 8)); });
}

TEST_F(Checks, RefusesKindsThatDoNotMatch) {
  expect_error("DTYPE", "[rotate] x and out must have one dtype but got f32 and bf16", [&] {
    rotate(heads(layout), Heads{y.data(), DType::bf16, layout}, table_of(3, 8));
  });
  expect_error("DTYPE", "[rotate] dtype must be f32, f16 or bf16 but got value 9", [&] {
    rotate(Heads{x.data(), static_cast<DType>(9), layout}, table_of(3, 8));
  });
}

TEST_F(Checks, RefusesPointersThatCannotHoldTheElements) {
  expect_error("SHAPE", "[rotate] x must point to its elements but got null", [&] {
    rotate(Heads{nullptr, DType::f32, layout}, table_of(3, 8));
  });
  expect_error("DTYPE", "[rotate] x must be aligned to the 4 bytes of f32 but got an address 2 beyond", [&] {
    rotate(Heads{reinterpret_cast<char*>(x.data()) + 2, DType::f32, layout}, table_of(3, 8));
  });
}

TEST_F(Checks, RefusesStridesThatOverlapOrOverflow) {
  Layout overlapping = layout;
  overlapping.head_stride = 15;
  expect_error("SHAPE", "[rotate] the written elements must be distinct but head_stride 15 steps over 16 elements",
               [&] { rotate(heads(overlapping), table_of(3, 8)); });
  Layout shared = layout;
  shared.batch_stride = 0;
  EXPECT_THROW(rotate(heads(shared), table_of(3, 8)), Error);
  EXPECT_NO_THROW(rotate(heads(shared), out(layout), table_of(3, 8))) << "a broadcast input can be read";
  Layout backwards = layout;
  backwards.token_stride = -64;
  expect_error("SHAPE", "[rotate] x token_stride must not be negative but got -64",
               [&] { rotate(heads(backwards), table_of(3, 8)); });
  Layout endless = layout;
  endless.batch_stride = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(rotate(heads(endless), table_of(3, 8)), Error);
  endless.batch_stride = std::int64_t{1} << 61;
  expect_error("SHAPE", "[rotate] x must span less than 2^63 bytes but got more",
               [&] { rotate(heads(endless), table_of(3, 8)); });
  expect_error("SHAPE", "[bthd] the elements must number less than 2^63 but got 1099511627776 times 1099511627776",
               [] { bthd(1, std::int64_t{1} << 40, (std::int64_t{1} << 40) / 128, 128); });
}

TEST_F(Checks, RefusesOverlapOfInputAndOutput) {
  const Heads in = heads(layout);
  const Table table = table_of(3, 8);
  expect_error("ALIAS",
               "[rotate] x and out must not overlap, or be the same with the same strides, but out begins 1 elements from x",
               [&] {
                 rotate(in, Heads{x.data() + 1, DType::f32, layout}, table);
               });
  EXPECT_THROW(rotate(Heads{x.data() + 1, DType::f32, layout}, in, table), Error);
  EXPECT_THROW(rotate(in, Heads{x.data() + 64, DType::f32, layout}, table), Error);
  EXPECT_THROW(rotate(in, heads(bhtd(2, 4, 3, 16)), table), Error) << "the same pointer with other strides";
  EXPECT_NO_THROW(rotate(in, in, table));
  EXPECT_NO_THROW(rotate(in, Heads{x.data() + 2 * 3 * 4 * 16, DType::f32, layout}, table));
}

TEST_F(Checks, LetsPartsOfOneBufferThroughThatDoNotTouch) {
  const Layout half = slice(heads(layout), 0, 8).layout;
  const Table table = table_of(3, 4);
  EXPECT_NO_THROW(rotate(heads(half), Heads{x.data() + 8, DType::f32, half}, table));
  EXPECT_NO_THROW(rotate(Heads{x.data() + 8, DType::f32, half}, heads(half), table));
  EXPECT_NO_THROW(rotate(heads(half), Heads{x.data() + 16 * 3 + 8, DType::f32, half}, table));
  EXPECT_THROW(rotate(heads(half), Heads{x.data() + 7, DType::f32, half}, table), Error);
  EXPECT_THROW(rotate(heads(half), Heads{x.data() + 16 * 3, DType::f32, half}, table), Error);
}

TEST_F(Checks, LetsNothingHappenWithoutElements) {
  const Layout none = bthd(0, 3, 4, 16), no_heads = bthd(2, 3, 0, 16);
  EXPECT_NO_THROW(rotate(Heads{nullptr, DType::f32, none}, table_of(3, 8)));
  EXPECT_NO_THROW(rotate(Heads{nullptr, DType::f32, no_heads}, table_of(3, 8)));
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_NO_THROW(rotate(Heads{nullptr, DType::f32, {huge, 3, 0, 16, huge, huge, huge}}, table_of(3, 8)));
}

TEST_F(Checks, IgnoresTheStridesOfSingleRows) {
  Layout single = bthd(1, 1, 1, 16);
  single.batch_stride = -5;
  single.token_stride = 0;
  single.head_stride = std::numeric_limits<std::int64_t>::max();
  EXPECT_NO_THROW(rotate(heads(single), table_of(1, 8)));
}

TEST(Slice, TakesElementsOfEveryHeadOrRefuses) {
  std::vector<std::uint16_t> x(64);
  const Heads heads{x.data(), DType::bf16, thd(2, 2, 16)};
  const Heads part = slice(heads, 10, 6);
  EXPECT_EQ(part.data, x.data() + 10);
  EXPECT_EQ(part.layout.head_dim, 6);
  EXPECT_EQ(part.layout.head_stride, 16);
  expect_error("SHAPE", "[slice] elements must lie inside head_dim 16 but got 10 to 17", [&] { slice(heads, 10, 7); });
  EXPECT_THROW(slice(heads, -1, 4), Error);
  EXPECT_THROW(slice(heads, std::numeric_limits<int>::max(), 4), Error);
  EXPECT_THROW(slice(heads, 4, std::numeric_limits<int>::max()), Error);
}

TEST(Layouts, PutTheSameElementWhereTheirNamesSay) {
  const auto at = [](const Layout& l) { return l.batch_stride + 2 * l.token_stride + 3 * l.head_stride; };  // b1 t2 h3
  EXPECT_EQ(at(bthd(2, 5, 7, 16)), ((1 * 5 + 2) * 7 + 3) * 16);
  EXPECT_EQ(at(bhtd(2, 7, 5, 16)), ((1 * 7 + 3) * 5 + 2) * 16);
  EXPECT_EQ(at(tbhd(5, 2, 7, 16)), ((2 * 2 + 1) * 7 + 3) * 16);
  EXPECT_EQ(2 * thd(5, 7, 16).token_stride + 3 * thd(5, 7, 16).head_stride, (2 * 7 + 3) * 16);
  EXPECT_EQ(thd(5, 7, 16).batch, 1);
}

TEST(Names, AreTheOnesThatFilesAndPeopleUse) {
  EXPECT_STREQ(name(DType::f32), "f32");
  EXPECT_STREQ(name(DType::f16), "f16");
  EXPECT_STREQ(name(DType::bf16), "bf16");
  EXPECT_EQ(size_of(DType::f32), 4u);
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_STREQ(name(Pairing::half), "half");
  EXPECT_STREQ(name(Pairing::interleaved), "interleaved");
  EXPECT_STREQ(name(Pairing::interleaved_to_half), "interleaved_to_half");
}

TEST(Targets, AreListedForcedAndRefusedByName) {
  const std::vector<Target> all = targets();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().name, "scalar");
  EXPECT_TRUE(all.front().runs);
  for (const Target& target : all) {
    if (target.runs) {
      use_target(target.name);
      EXPECT_EQ(chosen_target(), target.name);
    } else {
      EXPECT_THROW(use_target(target.name), Error);
    }
  }
  use_target("");
  EXPECT_EQ(chosen_target(), running_targets().back());
  try {
    use_target("mmx");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(rotary::name(e.code())), "TARGET");
    EXPECT_NE(std::string(e.what()).find("(scalar"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("but got \"mmx\""), std::string::npos) << e.what();
  }
  EXPECT_EQ(chosen_target(), running_targets().back()) << "a refused name changes nothing";
}

// Runs in processes of its own: the choice is made once.
TEST(TargetsDeathTest, TheEnvironmentNamesOneOrIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("ROTARY_TARGET", "scalar", 1);
        std::exit(chosen_target() == "scalar" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("ROTARY_TARGET", "", 1);
        std::exit(chosen_target() == running_targets().back() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("ROTARY_TARGET", "altivec", 1);
        try {
          chosen_target();
        } catch (const Error& e) {
          std::exit(std::string(rotary::name(e.code())) == "TARGET" ? 0 : 1);
        }
        std::exit(2);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rotary::tests
