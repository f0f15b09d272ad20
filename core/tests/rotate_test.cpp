// Every target against the reference, bit for bit, between guard pages.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cstdlib>

#include "core/tests/support/splits.h"
#include "core/tests/support/walking.h"
#include "rotary/cache.h"
#include "rotary/query_scale.h"

namespace rotary::tests {

using namespace detail;
namespace {

struct Named {
  const char* name;
  Layout layout;
};

std::vector<Named> layouts(int head_dim) {
  const Layout fused = {1, 3, 2, head_dim, 0, (2 + 1 + 1) * std::int64_t{head_dim}, head_dim};
  const std::int64_t head = head_dim + 1, token = 2 * head + 3, batch = 2 * token + 5;
  return {{"bthd", bthd(2, 2, 2, head_dim)},
          {"bhtd", bhtd(2, 2, 2, head_dim)},
          {"tbhd", tbhd(2, 2, 2, head_dim)},
          {"thd", thd(3, 2, head_dim)},
          {"view of fused qkv", fused},
          {"odd strides", {2, 2, 2, head_dim, batch, token, head}},
          {"many heads of bhtd", bhtd(1, 13, 2, head_dim)},
          {"many tokens of bthd", bthd(1, 11, 2, head_dim)}};
}

void check(Arena& arena, const Layout& layout, DType dtype, const Table& table, Direction direction, Random& random) {
  static const Shuffled shuffled(5);
  static std::size_t turn = 0;
  arena.draw(layout, dtype, table, direction, random);
  for (const std::string_view target : running_targets()) {
    SCOPED_TRACE(std::string(target));
    const Using forced(target);
    arena.check([&](const ConstHeads& in, const Heads& out, Stores stores) {
      if (in.data != out.data) return rotate(in, out, table, {.direction = direction, .stores = stores});
      rotate(out, table, {.direction = direction, .executor = turn++ % 2 == 0 ? nullptr : &shuffled});
    });
  }
}

class Grid : public ::testing::TestWithParam<GridPoint> {};

TEST_P(Grid, EveryTargetEqualsTheReferenceAtEverySizeAndLayout) {
  const auto [dtype, pairing, direction] = GetParam();
  Random random(1);
  Arena arena(256 * 1024);
  for (int rotary_dim = 2; rotary_dim <= 256; rotary_dim += 2) {
    const int head_dim = rotary_dim + std::array{0, 1, 6, 17}[static_cast<std::size_t>(rotary_dim / 2 % 4)];
    for (const auto& [name, layout] : layouts(head_dim)) {
      SCOPED_TRACE(std::string(name) + ", rotary_dim " + std::to_string(rotary_dim));
      const Table table = random_table_of_heads(random, layout.tokens, rotary_dim / 2, pairing,
                                                rotary_dim % 3 == 0 ? static_cast<int>(layout.batch) : 1, layout.heads);
      check(arena, layout, dtype, table, direction, random);
      if (HasFatalFailure()) return;
    }
  }
  for (const int rotary_dim : {512, 1022, 1024, 1026, 2050, 4100, 10006}) {
    SCOPED_TRACE(rotary_dim);
    check(arena, thd(2, 2, rotary_dim + 3), dtype, random_table(random, 2, rotary_dim / 2, pairing), direction, random);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Rotate, Grid, grid, grid_name);

// Each call runs on another executor: in order, by a pool, or in random order.
TEST(Rotate, AnyShapeAnyPairOfLayoutsAndAnySplitEqualsTheReference) {
  Random random(3);
  const ThreadPool pool(3);
  const Shuffled shuffled(4);
  const Executor* const executors[] = {&serial(), &pool, &shuffled};
  std::size_t turn = 0;
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    const DType dtype = dtypes[random() % 3];
    const int pairs = 1 + below(random, below(random, 20) == 0 ? 700 : 70);
    const Layout sizes = {below(random, 4), below(random, 5), below(random, 5), 2 * pairs + below(random, 9), 0, 0, 0};
    const Layout from = nested_layout(random, sizes, true), to = nested_layout(random, sizes, false);
    const int batch = below(random, 2) == 0 ? 1 : std::max<int>(1, static_cast<int>(sizes.batch));
    const Table table = random_table(random, sizes.tokens, pairs, pairings[random() % 3], batch);
    const Direction direction = directions[random() % 2];
    const Bytes x = hard_values(random, dtype, extent(from));
    Bytes wanted(bytes_of(to, dtype));
    fill_signalling(wanted.data(), dtype, extent(to));
    Bytes out = wanted;
    reference::rotate({x.data(), dtype, from}, {wanted.data(), dtype, to}, table, direction);
    for (const std::string_view target : running_targets()) {
      SCOPED_TRACE(std::string(target));
      const Using forced(target);
      fill_signalling(out.data(), dtype, extent(to));
      rotate({x.data(), dtype, from}, {out.data(), dtype, to}, table,
             {.direction = direction, .executor = executors[turn++ % 3]});
      ASSERT_TRUE(same(out.data(), wanted.data(), dtype, extent(to), rotated_elements(to, 2 * pairs)));
    }
  }
}

TEST(Rotate, OffsetsBeyondTwoToTheThirtyOneElementsAreReached) {
  const std::int64_t far = (std::int64_t{1} << 31) + 7;
  const Layout layout = {1, 2, 2, 66, 0, far, 67};
  const std::size_t bytes = bytes_of(layout, DType::bf16);
  void* sparse = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (sparse == MAP_FAILED) GTEST_SKIP() << "no " << bytes << " bytes of address space";
  Random random(5);
  const Table table = random_table(random, 2, 33, Pairing::interleaved);
  const Layout near = thd(2, 2, 66);
  const Bytes x = hard_values(random, DType::bf16, extent(near));
  Bytes wanted(x.size()), got(x.size());
  reference::rotate({x.data(), DType::bf16, near}, {wanted.data(), DType::bf16, near}, table);
  for (const std::string_view target : running_targets()) {
    const Using forced(target);
    rotate({x.data(), DType::bf16, near}, Heads{sparse, DType::bf16, layout}, table);
    for (std::int64_t t = 0; t < 2; ++t) {
      for (std::int64_t h = 0; h < 2; ++h) {
        std::memcpy(got.data() + (t * 2 + h) * 132, static_cast<std::byte*>(sparse) + 2 * (t * far + h * 67), 132);
      }
    }
    EXPECT_TRUE(same(got.data(), wanted.data(), DType::bf16, extent(near), rotated_elements(near, 66))) << target;
  }
  munmap(sparse, bytes);
}

// It takes 5 GB: ROTARY_LARGE=1 runs it.
TEST(Rotate, MoreThanTwoToTheThirtyOneElementsAreRotated) {
  if (std::getenv("ROTARY_LARGE") == nullptr) GTEST_SKIP() << "ROTARY_LARGE is not set";
  const std::int64_t tokens = (std::int64_t{1} << 18) + 3;
  const Layout layout = thd(tokens, 64, 128), row = thd(1, 64, 128);
  Random random(5);
  const Bytes x = hard_values(random, DType::bf16, extent(row));
  Bytes all(x.size() * static_cast<std::size_t>(tokens)), wanted(x.size());
  for (std::int64_t t = 0; t < tokens; ++t) std::memcpy(all.data() + t * std::ssize(x), x.data(), x.size());
  const Table table = random_table(random, tokens, 64, Pairing::half);
  rotate(Heads{all.data(), DType::bf16, layout}, table);
  for (std::int64_t t = tokens - 1; t >= 0; t -= 101) {
    const auto at = static_cast<std::size_t>(64 * t);
    const Table one(table.cos().subspan(at, 64), table.sin().subspan(at, 64), 64, Pairing::half);
    reference::rotate({x.data(), DType::bf16, row}, {wanted.data(), DType::bf16, row}, one);
    const std::byte* got = all.data() + t * std::ssize(x);
    ASSERT_TRUE(same(got, wanted.data(), DType::bf16, extent(row), rotated_elements(row, 128))) << t;
  }
}

// ---- the caller's floating-point state ----

#if defined(__x86_64__)
// Flush both ways, round toward zero, every exception traps.
unsigned hostile_state() { return 0xe040; }
unsigned float_state() { return __builtin_ia32_stmxcsr() & ~0x3fu; }
void set_float_state(unsigned state) { __builtin_ia32_ldmxcsr(state); }
#elif defined(__aarch64__)
std::uint64_t hostile_state() { return 1u << 24 | 3u << 22; }
std::uint64_t float_state() {
  std::uint64_t state;
  __asm__ volatile("mrs %0, fpcr" : "=r"(state));
  return state;
}
void set_float_state(std::uint64_t state) { __asm__ volatile("msr fpcr, %0" : : "r"(state) : "memory"); }
#else
int hostile_state() { return FE_UPWARD; }
int float_state() { return std::fegetround(); }
void set_float_state(int state) { std::fesetround(state); }
#endif

TEST(Rotate, SubnormalsAndRoundingDoNotDependOnTheCallersFloatingPointState) {
  Random random(6);
  const Layout layout = thd(5, 3, 74);
  for (const DType dtype : dtypes) {
    for (const Pairing pairing : pairings) {
      const Table table = random_table(random, 5, 37, pairing);
      Bytes x = hard_values(random, dtype, extent(layout)), wanted(x.size()), got(x.size()), oracle(x.size());
      const Format f = format(dtype);
      for (std::int64_t i = 0; i < extent(layout); i += 2) {  // half of them subnormal
        set_bits(x.data(), dtype, i, static_cast<std::uint32_t>(random()) & (f.sign | ((1u << f.fraction) - 1)));
      }
      reference::rotate({x.data(), dtype, layout}, {wanted.data(), dtype, layout}, table);
      for (const std::string_view target : running_targets()) {
        const Using forced(target);
        const auto before = float_state();
        set_float_state(hostile_state());
        rotate({x.data(), dtype, layout}, Heads{got.data(), dtype, layout}, table);
        const auto after = float_state();
        reference::rotate({x.data(), dtype, layout}, {oracle.data(), dtype, layout}, table);
        set_float_state(before);
        EXPECT_EQ(after, hostile_state());
        EXPECT_TRUE(same(got.data(), wanted.data(), dtype, extent(layout), rotated_elements(layout, 74))) << target;
        EXPECT_EQ(oracle, wanted);
      }
    }
  }
}

// Runs on a thread of the caller's, whose state is as hostile.
class HostileThread final : public Executor {
 public:
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, Body body, void* context) const override {
    const auto before = float_state();
    set_float_state(hostile_state() | (before & 0x1f80));
    body(context, 0, count);
    set_float_state(before);
  }
};

TEST(Rotate, NoOperationDependsOnTheFloatingPointStateOfTheCallersThreads) {
  const Frequencies f = frequencies({.head_dim = 64, .base = 500000, .pairing = Pairing::half});
  const Table table(f, positions(0, 16)), one(f, positions(5, 1));
  std::vector<f16> cos(16 * 32), sin(cos.size());
  std::ranges::transform(table.cos(), cos.begin(), to_f16);
  std::ranges::transform(table.sin(), sin.begin(), to_f16);
  const Rows rows{cos.data(), sin.data(), DType::f16, 32, Pairing::half, 32, 16, positions(0, 16)};
  const std::vector<float> factors(16, 0.7f);
  const auto all = [&](const RotateOptions& by) {
    std::vector<float> x(16 * 2 * 72, 1.25f), y(16 * 72, 0.7f);
    const Heads q = heads(x, thd(16, 2, 72)), k = heads(y, thd(16, 1, 72));
    rotate(q, rows, by);
    rotate(q, table, by, factors);
    rotate_qk(q, k, table, by);
    rotate_qk(q, k, table.rows(positions(0, 16)), by);
    shift(k, {}, one, 0, 3, by);
    std::vector<float> cache(2 * 16 * 72);
    rotate_append(q, k, k, table, nhd(cache.data(), cache.data() + 16 * 72, 1, 16, 1, 72), Slots::rows(0), by);
    const Walking walking(0);
    rotate_qk(q, k, Table(f, positions(0, 16), *by.executor), by);
    x.insert(x.end(), y.begin(), y.end());
    x.insert(x.end(), cache.begin(), cache.end());
    for (const f16 value : sin) x.push_back(to_float(to_f16(to_float(value) + 0x1p-20f)));
    return x;
  };
  const std::vector<float> wanted = all({.executor = &serial()});
  const HostileThread hostile;
  EXPECT_EQ(all({.executor = &hostile}), wanted);
  const auto before = float_state();
  set_float_state(hostile_state() | (before & 0x1f80));  // no traps: the test's own sums round
  const std::vector<float> got = all({.executor = &serial()});
  set_float_state(before);
  EXPECT_EQ(got, wanted);
}

// The sums of bf16 pairs cancel, at all magnitudes of x, cos and sin.
TEST(Rotate, SumsThatCancelToASubnormalAreKept) {
  Random random(5);
  constexpr int pairs = 48, rows = 16;
  const auto power = [&random](int least, int most) {
    return std::ldexp(below(random, 2) != 0 ? -1.0f : 1.0f, least + below(random, most - least + 1));
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<float> cos(pairs * rows), sin(pairs * rows);
    const int least = std::array{0, -36, -37, -38, -70, -126}[static_cast<std::size_t>(round % 6)];
    for (std::size_t i = 0; i < cos.size(); ++i) {
      cos[i] = power(least, 0);
      sin[i] = below(random, 3) == 0 ? power(least, 0) : cos[i] * (1 + static_cast<float>(below(random, 3)) * 0x1p-20f);
    }
    const int exponent = std::array{-126, -100, -90, -64, -63, -62}[static_cast<std::size_t>(round / 6 % 6)];
    std::vector<std::uint16_t> x(2 * pairs * rows);
    for (std::uint16_t& value : x) {
      const float magnitude = power(exponent, exponent + 1) * (1 + static_cast<float>(below(random, 3)) / 128);
      value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(below(random, 9) == 0 ? 0 : magnitude) >> 16);
    }
    for (const Pairing pairing : pairings) {
      const Table table(cos, sin, pairs, pairing);
      std::vector<std::uint16_t> wanted(x.size());
      const Layout layout = thd(rows, 1, 2 * pairs);
      reference::rotate({x.data(), DType::bf16, layout}, {wanted.data(), DType::bf16, layout}, table);
      for (const std::string_view target : running_targets()) {
        const Using forced(target);
        std::vector<std::uint16_t> out = x;
        rotate({out.data(), DType::bf16, layout}, table);
        ASSERT_EQ(out, wanted) << target << ", round " << round << ", " << name(pairing);
      }
    }
  }
}

// ---- the frameworks ----

struct Eager {
  DType dtype;
  Pairing pairing;
  std::vector<std::uint32_t> x, out, gradient_of_out, gradient_of_x;
};
#include "core/tests/golden/eager_rotation.inc"

Bytes packed(const std::vector<std::uint32_t>& words, DType dtype) {
  Bytes data(words.size() * size_of(dtype));
  for (std::size_t i = 0; i < words.size(); ++i) set_bits(data.data(), dtype, static_cast<std::int64_t>(i), words[i]);
  return data;
}
std::vector<float> floats(const std::vector<std::uint32_t>& words) {
  std::vector<float> values(words.size());
  std::memcpy(values.data(), words.data(), words.size() * sizeof(float));
  return values;
}

TEST(EachStep, EqualsTransformersBitForBitForwardAndBackward) {
  const Layout layout = thd(eager_tokens, eager_heads, 2 * eager_pairs);
  const std::vector<bool> turns = rotated_elements(layout, 2 * eager_pairs);
  ASSERT_EQ(eager.size(), 9u);
  for (const Eager& e : eager) {
    SCOPED_TRACE(std::string(name(e.dtype)) + " " + name(e.pairing));
    const Table table(floats(eager_cos), floats(eager_sin), eager_pairs, e.pairing);
    const auto expect = [&](const auto& given, const auto& wanted, Direction direction) {
      const Bytes x = packed(given, e.dtype);
      Bytes out(x.size());
      const Heads to{out.data(), e.dtype, layout};
      reference::rotate({x.data(), e.dtype, layout}, to, table, direction, reference::Arithmetic::each_step);
      EXPECT_TRUE(same(out.data(), packed(wanted, e.dtype).data(), e.dtype, extent(layout), turns));
      if (e.dtype != DType::f32) return;
      rotate({x.data(), e.dtype, layout}, to, table, {.direction = direction});
      EXPECT_TRUE(same(out.data(), packed(wanted, e.dtype).data(), e.dtype, extent(layout), turns));
    };
    expect(e.x, e.out, Direction::forward);
    expect(e.gradient_of_out, e.gradient_of_x, Direction::backward);
  }
}

}  // namespace
}  // namespace rotary::tests
