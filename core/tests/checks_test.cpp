// Calls that are refused, with which sentence; calls that are let through; names, layouts and targets.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "core/tests/support/checks.h"
#include "core/tests/support/heads.h"
#include "core/tests/support/refused_calls.h"
#include "rotary/reference.h"
#include "rotate/overlap.h"

namespace rotary::tests {
namespace {

TEST(Checks, RefuseWhatBreaksARuleWithItsSentenceAndNothingElse) {
  std::vector<std::byte> memory(65536 + 64);
  std::byte* const aligned = memory.data() + 64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
  for (const JudgedCall& judged : JudgedCalls(aligned).all) {
    const RandomCall& c = judged.call;
    judged.expect(make_call(c), c.name());
    judged.expect(checked(c), c.name());
    if (c.operation != RandomCall::one || c.in_place) continue;
    const auto call = [&] {
      reference::rotate(c.sides[RandomCall::q], c.sides[RandomCall::q_out], table_of(c.table), c.direction);
    };
    judged.expect(outcome_of(call), "reference::rotate");
  }
  expect_error("SHAPE", "[bthd] the elements must number less than 2^63 but got 1099511627776 times 1099511627776",
               [] { bthd(1, std::int64_t{1} << 40, (std::int64_t{1} << 40) / 128, 128); });
}

TEST(Checks, SeeAnOverlapBehindTheFirstHead) {
  std::vector<float> memory(64);
  const Layout x{.tokens = 3, .head_dim = 8, .token_stride = 16};  // 0 to 7, 16 to 23, 32 to 39
  Layout out = x;
  out.token_stride = 8;
  const Table table(frequencies({.head_dim = 8, .pairing = Pairing::half}), positions(0, 3));
  const auto to = [&](int begin) {
    rotate(heads(std::as_const(memory), x), {memory.data() + begin, DType::f32, out}, table);
  };
  EXPECT_NO_THROW(to(40));
  expect_error_with("ALIAS", "overlap", [&] { to(39); });
  const Heads q = heads(memory, x);
  expect_error_with("ALIAS", "overlap", [&] { rotate_qk(q, q, table); });
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
  std::vector<bool> covered(8192);
  bool meet = false;
  each(a, [&](std::uintptr_t byte) { covered[byte] = true; });
  each(b, [&](std::uintptr_t byte) { meet = meet || covered[byte]; });
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

// ---- layouts, names, targets ----

TEST(Slice, TakesElementsOfEveryHeadOrRefuses) {
  std::vector<std::uint16_t> x(64);
  const Heads heads{x.data(), DType::bf16, thd(2, 2, 16)};
  const Heads part = slice(heads, 10, 6);
  EXPECT_EQ(part.data, x.data() + 10);
  EXPECT_EQ(part.layout.head_dim, 6);
  EXPECT_EQ(part.layout.head_stride, 16);
  expect_error("SHAPE", "[slice] elements must lie inside head_dim 16 but got 10 to 17", [&] { slice(heads, 10, 7); });
  EXPECT_THROW(slice(heads, -1, 4), Error);
  EXPECT_THROW(slice(heads, 4, -1), Error);
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
  const std::int64_t many = std::int64_t{1} << 31;  // 8 * many * many is 2^65
  EXPECT_EQ(code_of([&] { bhtd(many, many, 1, 8); }), Code::SHAPE);
  EXPECT_EQ(code_of([&] { tbhd(many, many, 1, 8); }), Code::SHAPE);
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
  expect_error_with("TARGET", "(scalar", [] { use_target("mmx"); });
  expect_error_with("TARGET", "but got \"mmx\"", [] { use_target("mmx"); });
  EXPECT_EQ(chosen_target(), running_targets().back()) << "a refused name changes nothing";
}

// Each in a process of its own: a process chooses its target once.
TEST(TargetsDeathTest, TheEnvironmentNamesOneOrIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto chosen_with = [](const char* word) -> std::string {
    setenv("ROTARY_TARGET", word, 1);
    std::string chosen;
    const Outcome got = outcome_of([&] { chosen = chosen_target(); });
    return got.refused ? rotary::name(got.code) : chosen;
  };
  const auto exits_with = ::testing::ExitedWithCode(0);
  EXPECT_EXIT(std::exit(chosen_with("scalar") == "scalar" ? 0 : 1), exits_with, "");
  EXPECT_EXIT(std::exit(chosen_with("") == running_targets().back() ? 0 : 1), exits_with, "");
  EXPECT_EXIT(std::exit(chosen_with("altivec") == "TARGET" ? 0 : 1), exits_with, "");
}

}  // namespace
}  // namespace rotary::tests
