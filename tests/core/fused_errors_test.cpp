// What the fused calls refuse, with which sentence, and which neighbours in one memory they let through.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "rotate/overlap.h"
#include "tests/support/checks.h"
#include "tests/support/heads.h"

namespace rotary::tests {

using namespace detail;
namespace {

class FusedChecks : public ::testing::Test {
 protected:
  std::vector<float> memory = std::vector<float>(8192), other = std::vector<float>(8192);
  const Layout q_layout = bthd(2, 3, 4, 16), k_layout = bthd(2, 3, 2, 16);
  const Table table = table_of(3, 8);

  Heads q(const Layout& l) { return {memory.data(), DType::f32, l}; }
  Heads k(const Layout& l) { return {memory.data() + 2048, DType::f32, l}; }
  Heads q_out(const Layout& l) { return {other.data(), DType::f32, l}; }
  Heads k_out(const Layout& l) { return {other.data() + 2048, DType::f32, l}; }
};

TEST_F(FusedChecks, SaysWhoseShapeItIs) {
  expect_error("SHAPE", "[rotate_qk] table has 2 rows but q has 3 tokens",
               [&] { rotate_qk(q(q_layout), k(k_layout), table_of(2, 8)); });
  expect_error("SHAPE", "[rotate_qk] table has 3 rows but k has 4 tokens",
               [&] { rotate_qk(q(q_layout), k(bthd(2, 4, 2, 16)), table, Direction::backward); });
  expect_error("SHAPE", "[rotate_qk] table has 2 batch rows but k has 1",
               [&] { rotate_qk(q(q_layout), k(bthd(1, 3, 2, 16)), table_of(3, 8, 2)); });
  expect_error("SHAPE", "[rotate_qk] q and k must have one batch but got 2 and 1",
               [&] { rotate_qk(q(q_layout), k(bthd(1, 3, 2, 16)), table); });
  expect_error("SHAPE", "[rotate_qk] rotary_dim must be at most head_dim 14 but the table's is 16",
               [&] { rotate_qk(q(q_layout), k(bthd(2, 3, 2, 14)), table); });
  expect_error("SHAPE", "[rotate_qk] k_out must have the shape of k, [2, 3, 2, 16], but got [2, 3, 3, 16]",
               [&] { rotate_qk({q(q_layout), q_out(q_layout)}, {k(k_layout), k_out(bthd(2, 3, 3, 16))}, table); });
  Layout negative = k_layout;
  negative.heads = -1;
  expect_error("SHAPE",
               "[rotate_qk] sizes must not be negative but got [batch, tokens, heads, head_dim] = [2, 3, -1, 16]",
               [&] { rotate_qk(q(q_layout), k(negative), table); });
}

TEST_F(FusedChecks, SaysWhoseKindOrPointerItIs) {
  expect_error("DTYPE", "[rotate_qk] k and k_out must have one dtype but got f32 and bf16", [&] {
    rotate_qk({q(q_layout), q_out(q_layout)}, {k(k_layout), {other.data() + 2048, DType::bf16, k_layout}}, table);
  });
  expect_error("DTYPE", "[rotate_qk] dtype must be f32, f16 or bf16 but got value 9", [&] {
    rotate_qk(q(q_layout), Heads{memory.data() + 2048, static_cast<DType>(9), k_layout}, table);
  });
  expect_error("SHAPE", "[rotate_qk] k must point to its elements but got null", [&] {
    rotate_qk(q(q_layout), Heads{nullptr, DType::f32, k_layout}, table);
  });
  expect_error("SHAPE", "[rotate_qk] q_out must point to its elements but got null", [&] {
    rotate_qk({q(q_layout), {nullptr, DType::f32, q_layout}}, {k(k_layout), k_out(k_layout)}, table);
  });
  expect_error("DTYPE", "[rotate_qk] k must be aligned to the 4 bytes of f32 but got an address 2 beyond", [&] {
    rotate_qk(q(q_layout), Heads{reinterpret_cast<char*>(memory.data()) + 8194, DType::f32, k_layout}, table);
  });
}

TEST_F(FusedChecks, SaysWhoseStridesTheyAre) {
  Layout overlapping = k_layout, backwards = q_layout, endless = k_layout;
  overlapping.head_stride = 15;
  backwards.token_stride = -64;
  endless.batch_stride = std::int64_t{1} << 61;
  expect_error("SHAPE",
               "[rotate_qk] the written elements of k must be distinct but head_stride 15 steps over 16 elements",
               [&] { rotate_qk(q(q_layout), k(overlapping), table); });
  expect_error("SHAPE", "[rotate_qk] q token_stride must not be negative but got -64",
               [&] { rotate_qk(q(backwards), k(k_layout), table); });
  expect_error("SHAPE", "[rotate_qk] k must span less than 2^63 bytes but got more",
               [&] { rotate_qk(q(q_layout), k(endless), table); });
  EXPECT_THROW(rotate_qkv(q(overlapping), 1, table), Error);
}

TEST_F(FusedChecks, RefusesInputAndOutputThatOverlap) {
  expect_error(
      "ALIAS",
      "[rotate_qk] k and k_out must not overlap, or be the same with the same strides, but k_out begins 1 "
      "elements from k",
      [&] {
        rotate_qk({q(q_layout), q_out(q_layout)}, {k(k_layout), {memory.data() + 2049, DType::f32, k_layout}}, table);
      });
}

TEST_F(FusedChecks, RefusesQAndKWhoseElementsMeet) {
  const Heads same_k{memory.data() + 64, DType::f32, k_layout};
  expect_error("ALIAS",
               "[rotate_qk] what is written to q must not overlap k but their elements overlap, or interleave with "
               "strides that are not the same",
               [&] { rotate_qk(q(q_layout), same_k, table); });
  expect_error(
      "ALIAS",
      "[rotate_qk] what is written to q_out must not overlap k_out but their elements overlap, or "
      "interleave with strides that are not the same",
      [&] {
        rotate_qk({q(q_layout), q_out(q_layout)}, {k(k_layout), {other.data() + 64, DType::f32, k_layout}}, table);
      });
  expect_error("ALIAS",
               "[rotate_qk] what is written to q_out must not overlap k but their elements overlap, or interleave "
               "with strides that are not the same",
               [&] { rotate_qk({q(q_layout), k(q_layout)}, {k(k_layout), k_out(k_layout)}, table); });
  expect_error("ALIAS",
               "[rotate_qk] what is written to k_out must not overlap q but their elements overlap, or interleave "
               "with strides that are not the same",
               [&] { rotate_qk({q(q_layout), q_out(q_layout)}, {k(k_layout), q(k_layout)}, table); });
  EXPECT_NO_THROW(rotate_qk({q(q_layout), q_out(q_layout)}, {q(k_layout), k_out(k_layout)}, table))
      << "both may be read from one memory";
}

TEST_F(FusedChecks, LetsNeighboursInOneMemoryThrough) {
  const Layout thirds{2, 3, 4, 16, 3 * 4 * 48, 4 * 48, 48};
  const auto at = [&](std::int64_t first, const Layout& l) { return Heads{memory.data() + first, DType::f32, l}; };
  EXPECT_NO_THROW(rotate_qk(at(0, thirds), at(16, thirds), table)) << "[batch, tokens, heads, 3, head_dim]";
  EXPECT_NO_THROW(rotate_qk(at(16, thirds), at(0, thirds), table));
  EXPECT_THROW(rotate_qk(at(0, thirds), at(15, thirds), table), Error);
  EXPECT_THROW(rotate_qk(at(0, thirds), at(96, thirds), table), Error);
  Layout two = thirds;
  two.heads = 2;
  EXPECT_NO_THROW(rotate_qk(at(0, two), at(96, two), table)) << "heads 0 and 1 beside 2 and 3";
  EXPECT_THROW(rotate_qk(at(0, thirds), at(96, two), table), Error);

  // Grouped: [tokens, groups, 2 heads of q and one of k, head_dim], groups as the batch.
  const Layout group_q{4, 3, 2, 16, 48, 4 * 48, 16}, group_k{4, 3, 1, 16, 48, 4 * 48, 0};
  EXPECT_NO_THROW(rotate_qk(at(0, group_q), at(32, group_k), table));
  EXPECT_THROW(rotate_qk(at(0, group_q), at(16, group_k), table), Error);

  // Extents that interleave with strides that do not nest are refused, though no element may be shared.
  const Layout slow{1, 3, 1, 16, 0, 64, 0}, fast{1, 3, 1, 16, 0, 48, 0};
  EXPECT_THROW(rotate_qk(at(0, slow), at(16, fast), table), Error);
}

TEST_F(FusedChecks, RefusesHeadsThatAreNotThoseOfAPackedTensor) {
  expect_error("SHAPE", "[rotate_qkv] kv_heads must not be negative but got -1",
               [&] { rotate_qkv(q(q_layout), -1, table); });
  expect_error("SHAPE", "[rotate_qkv] heads must be at least twice kv_heads but got 4 heads and 3 kv_heads",
               [&] { rotate_qkv(q(q_layout), q_out(q_layout), 3, table, Direction::backward); });
  EXPECT_THROW(rotate_qkv(q(q_layout), std::numeric_limits<std::int64_t>::max(), table), Error);
  expect_error("SHAPE", "[rotate_qkv] table has 2 rows but qkv has 3 tokens",
               [&] { rotate_qkv(q(q_layout), 1, table_of(2, 8)); });
  expect_error("SHAPE", "[rotate_qkv] out must have the shape of qkv, [2, 3, 4, 16], but got [2, 3, 2, 16]",
               [&] { rotate_qkv(q(q_layout), q_out(k_layout), 1, table); });
  Layout short_of_v = q_layout;
  short_of_v.token_stride = 48;
  expect_error("SHAPE", "[rotate_qkv] the written elements must be distinct but token_stride 48 steps over 64 elements",
               [&] { rotate_qkv(q(short_of_v), 1, table); });
}

// ---- blocks_meet against every pair of bytes ----

bool bytes_meet(const Blocks& a, const Blocks& b) {
  const auto each = [](const Blocks& x, const auto& visit) {
    for (std::int64_t i = 0; i < x.count[0]; ++i) {
      for (std::int64_t j = 0; j < x.count[1]; ++j) {
        for (std::int64_t k = 0; k < x.count[2]; ++k) {
          const std::int64_t at = i * x.stride[0] + j * x.stride[1] + k * x.stride[2];
          for (std::int64_t n = 0; n < x.block; ++n) visit(x.begin + static_cast<std::uintptr_t>(at + n));
        }
      }
    }
  };
  std::vector<bool> taken(8192);
  bool meet = false;
  each(a, [&](std::uintptr_t byte) { taken[byte] = true; });
  each(b, [&](std::uintptr_t byte) { meet = meet || taken[byte]; });
  return meet;
}

TEST(BlocksMeet, NeverSaysNoWhereTheyDo) {
  Random random(6);
  const auto blocks = [&] {
    Blocks x{static_cast<std::uintptr_t>(below(random, 120)), 1 + below(random, 12), {}, {}};
    for (int k = 0; k < 3; ++k) x.count[k] = 1 + below(random, 4), x.stride[k] = below(random, 60);
    return x;
  };
  int meeting = 0;
  for (int round = 0; round < 200000; ++round) {
    const Blocks a = blocks();
    Blocks b = blocks();
    if (round % 2 == 0) std::copy_n(a.stride, 3, b.stride);
    const bool meet = bytes_meet(a, b);
    meeting += meet;
    if (meet) {
      ASSERT_TRUE(blocks_meet(a, b)) << round;
    }
  }
  EXPECT_GT(meeting, 50000);
}

TEST(BlocksMeet, SaysNoForNestedStridesWhereTheyDoNot) {
  Random random(7);
  int apart = 0;
  for (int round = 0; round < 100000; ++round) {
    Blocks a{0, 1 + below(random, 8), {}, {}};
    Blocks b{static_cast<std::uintptr_t>(below(random, 300)), 1 + below(random, 8), {}, {}};
    std::int64_t reach_a = a.block, reach_b = b.block;
    for (int k = 2; k >= 0; --k) {
      a.count[k] = 1 + below(random, 4);
      b.count[k] = 1 + below(random, 4);
      a.stride[k] = b.stride[k] = std::max(reach_a, reach_b) + below(random, 9);
      reach_a += (a.count[k] - 1) * a.stride[k];
      reach_b += (b.count[k] - 1) * b.stride[k];
    }
    const bool interleave = b.begin < static_cast<std::uintptr_t>(reach_a);
    if (interleave && !bytes_meet(a, b)) {
      ASSERT_FALSE(blocks_meet(a, b)) << round;
      ++apart;
    }
  }
  EXPECT_GT(apart, 3000);
}

}  // namespace
}  // namespace rotary::tests
