// rotate_qk against one rotate call for q and one for k: the same bits, whatever the memory, the split, the direction.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/tests/support/checks.h"
#include "core/tests/support/guarded.h"
#include "core/tests/support/qk_memory.h"
#include "core/tests/support/splits.h"
#include "core/tests/support/walking.h"
#include "rotate/checks.h"

namespace rotary::tests {
namespace {

struct Sizes {
  std::int64_t batch, tokens, q_heads, k_heads;
  int q_dim, k_dim;
};

// q and k in memories of their own, in every pair of layouts and dtypes.
std::vector<QkMemory> cases_out_of_place(const Sizes& s, DType dtype) {
  std::vector<QkMemory> cases;
  for (int q_kind = 0; q_kind < 3; ++q_kind) {
    for (int k_kind = 0; k_kind < 3; ++k_kind) {
      const DType k_dtype = q_kind == k_kind ? dtype : dtypes[(static_cast<std::size_t>(dtype) + 1) % 3];
      QkMemory c{"layouts " + std::to_string(q_kind) + " and " + std::to_string(k_kind),
                 {0, dtype, layout_of(q_kind, s.batch, s.tokens, s.q_heads, s.q_dim)},
                 {0, k_dtype, layout_of(k_kind, s.batch, s.tokens, s.k_heads, s.k_dim)}};
      c.k.at = (c.q.end() + 3) / 4 * 4;
      cases.push_back(c);
    }
  }
  return cases;
}

// [batch, tokens, heads, 3, head_dim], and with heads of two sizes [batch, tokens, q_heads * q_dim + k_heads * k_dim].
std::vector<QkMemory> cases_interleaved(const Sizes& s, DType dtype) {
  Layout thirds = bthd(s.batch, s.tokens, s.q_heads, 3 * s.q_dim);
  thirds.head_dim = s.q_dim;
  QkMemory a{"thirds", {0, dtype, thirds}, {0, dtype, thirds}};
  a.k.layout.heads = std::min(s.q_heads, s.k_heads);
  a.k.at = s.q_dim * static_cast<std::int64_t>(size_of(dtype));

  const std::int64_t token = s.q_heads * s.q_dim + s.k_heads * s.k_dim;
  QkMemory b{"two sizes",
             {0, dtype, {s.batch, s.tokens, s.q_heads, s.q_dim, s.tokens * token, token, s.q_dim}},
             {0, dtype, {s.batch, s.tokens, s.k_heads, s.k_dim, s.tokens * token, token, s.k_dim}}};
  b.k.at = s.q_heads * s.q_dim * static_cast<std::int64_t>(size_of(dtype));
  return {a, b};
}

std::vector<QkMemory> cases(const Sizes& s, DType dtype) {
  std::vector<QkMemory> all = cases_out_of_place(s, dtype);
  if (s.q_dim == s.k_dim) {
    for (int kind = 0; kind < 3; ++kind) {
      QkMemory& packed = all.emplace_back(packed_memory(kind, s.batch, s.tokens, s.q_heads, s.k_heads, s.q_dim, dtype));
      QkMemory k_first = packed;
      k_first.name = "k in front, " + packed.name;
      k_first.q.at = s.k_heads * packed.k.layout.head_stride * static_cast<std::int64_t>(size_of(dtype));
      k_first.k.at = 0;
      all.push_back(k_first);
    }
  }
  for (const QkMemory& c : cases_interleaved(s, dtype)) all.push_back(c);
  return all;
}

// Two memories at guard pages: one is read, the other is written.
class TwoMemories {
 public:
  explicit TwoMemories(std::int64_t bytes)
      : in_(static_cast<std::size_t>(bytes)), out_(static_cast<std::size_t>(bytes)) {}

  // Checks rotation in place, and into another memory that has the same places of q and k.
  void check(const QkMemory& c, const Table& table, Direction direction, const Executor& executor, Random& random) {
    SCOPED_TRACE(c.name);
    const auto bytes = static_cast<std::size_t>(c.bytes());
    const Bytes before = filled(random, c), to = filled(random, c);
    Bytes wanted = before, wanted_to = to;
    for (const OffsetHeads& p : {c.q, c.k}) {
      rotate(p.in(wanted.data()), p.in(wanted.data()), table, {.direction = direction});
      rotate(ConstHeads(p.in(before.data())), p.in(wanted_to.data()), table, {.direction = direction});
    }
    std::byte* in = random() % 2 == 0 ? in_.at_end(bytes) : in_.at_start();
    std::byte* out = random() % 2 == 0 ? out_.at_end(bytes) : out_.at_start();
    if (bytes == 0) return;
    std::memcpy(in, before.data(), bytes);
    std::memcpy(out, to.data(), bytes);
    rotate_qk({c.q.in(in), c.q.in(out)}, {c.k.in(in), c.k.in(out)}, table,
              {.direction = direction, .executor = &executor});
    EXPECT_EQ(std::memcmp(in, before.data(), bytes), 0) << "the input has changed";
    expect_same(out, wanted_to.data(), c, table.rotary_dim(), "out of place");
    rotate_qk(c.q.in(in), c.k.in(in), table, {.direction = direction, .executor = &executor});
    expect_same(in, wanted.data(), c, table.rotary_dim(), "in place");
  }

 private:
  static void expect_same(std::byte* got, std::byte* wanted, const QkMemory& c, int rotary_dim, const char* what) {
    for (const OffsetHeads& p : {c.q, c.k}) {
      level_nans(got, p, rotary_dim);
      level_nans(wanted, p, rotary_dim);
    }
    EXPECT_EQ(std::memcmp(got, wanted, static_cast<std::size_t>(c.bytes())), 0) << what;
  }

  Guarded in_;
  Guarded out_;
};

class Fused : public ::testing::TestWithParam<GridPoint> {};

TEST_P(Fused, EqualsACallForQAndACallForKInEveryMemoryFromAnyNumberOfThreads) {
  const auto [dtype, pairing, direction] = GetParam();
  Random random(1);
  TwoMemories arena(4 << 20);
  const ThreadPool two(2), three(3);
  const Shuffled shuffled(random());
  const Executor* const executors[] = {&serial(), &shuffled, &two, &three};
  // q and then k by one row of the table at a time, by several, or all of q first.
  constexpr std::int64_t table_bytes[] = {0, 2048, 128 * 1024};
  std::size_t turn = random();
  // The last is large enough for parts of 64 KiB.
  const Sizes all[] = {{1, 1, 32, 8, 64, 64}, {1, 1, 1, 1, 16, 16},  {2, 3, 4, 2, 40, 40},
                       {2, 5, 3, 3, 32, 48},  {3, 2, 5, 1, 34, 34},  {1, 4, 0, 2, 32, 32},
                       {2, 2, 3, 0, 32, 32},  {2, 1, 4, 4, 130, 66}, {2, 70, 8, 2, 128, 128}};
  for (const Sizes& s : all) {
    SCOPED_TRACE(::testing::Message() << "[" << s.batch << ", " << s.tokens << ", " << s.q_heads << " and " << s.k_heads
                                      << ", " << s.q_dim << " and " << s.k_dim << "]");
    const int widest = std::min(s.q_dim, s.k_dim) / 2;
    for (const int pairs : {widest, std::max(1, widest / 3)}) {
      for (const std::int64_t batch : {std::int64_t{1}, s.batch}) {
        if (s.tokens == 70 && (pairs != widest || batch != 1)) continue;  // time
        const bool by_head = s.k_heads > 0 && s.q_heads % s.k_heads == 0 && random() % 2 == 0;
        const Table table =
            random_table_by_head(random, s.tokens, pairs, pairing, static_cast<int>(batch), by_head ? s.k_heads : 1);
        for (const QkMemory& c : cases(s, dtype)) {
          const Walking walking(table_bytes[turn % 3]);
          arena.check(c, table, direction, *executors[turn++ % 4], random);
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rotate, Fused, grid, grid_name);

// A chunk of eight tokens, in parts of one to five.
TEST(FusedParts, OfFewerTokensThanAChunkRotateOnlyTheirOwn) {
  Random random(2);
  TwoMemories arena(1 << 16);
  const Shuffled shuffled(random());
  const Walking walking(512);
  const QkMemory apart = cases_out_of_place({1, 12, 4, 2, 16, 16}, DType::f32)[0];
  for (int round = 0; round < 8; ++round)
    arena.check(apart, random_table(random, 12, 8, Pairing::half), Direction::forward, shuffled, random);
}

// Rotates numbers as q and, `k_begin` behind it, as k: in one call and one after the other.
void expect_as_apart(const Layout& q, const Layout& k, std::int64_t k_begin, std::size_t numbers,
                     DType q_type = DType::f32, DType k_type = DType::f32) {
  const Table table(frequencies({.head_dim = 8, .pairing = Pairing::half}), positions(3, 2));
  std::vector<float> together(numbers);
  std::iota(together.begin(), together.end(), 1.0f);
  std::vector<float> apart = together;
  const OffsetHeads of_q{0, q_type, q}, of_k{k_begin * static_cast<std::int64_t>(size_of(q_type)), k_type, k};
  std::byte *const one = std::as_writable_bytes(std::span(together)).data(),
                   *const two = std::as_writable_bytes(std::span(apart)).data();
  rotate_qk(of_q.in(one), of_k.in(one), table);
  rotate(of_q.in(two), table);
  rotate(of_k.in(two), table);
  EXPECT_EQ(together, apart);
}

// Keys that begin where another head of q would, but differ from q in one size or stride.
TEST(FusedParts, KeysBehindQRotateWhereTheyAre) {
  const Layout q{2, 2, 2, 16, 512, 128, 16};
  const auto with = [&](auto field, int value) {
    Layout k = q;
    k.*field = value;
    return k;
  };
  expect_as_apart(q, with(&Layout::head_stride, 24), 32, 2048);
  expect_as_apart(q, with(&Layout::token_stride, 256), 32, 2048);
  expect_as_apart(q, with(&Layout::batch_stride, 1024), 32, 2048);
  expect_as_apart(q, with(&Layout::head_dim, 8), 32, 2048);
  expect_as_apart(q, q, 32, 2048, DType::f16, DType::bf16);
  Layout alone = q;
  alone.heads = 1, alone.head_stride = 24;  // without meaning for one head
  expect_as_apart(alone, q, 16, 2048);
  expect_error_with("SHAPE", "q and k must have one batch but got 2 and 1",
                    [&] { expect_as_apart(q, with(&Layout::batch, 1), 32, 2048); });
  expect_error_with("SHAPE", "tokens", [&] { expect_as_apart(q, with(&Layout::tokens, 1), 32, 2048); });
}

// q and k of unlike heads outside the tokens, and batches inside, which share the table's rows.
TEST(FusedParts, UnlikeHeadsOutsideTheTokensAreNotGrouped) {
  const Walking walking(0);
  const Layout q{2, 2, 4, 8, 8, 16, 32};
  Layout k = q;
  k.heads = 2;
  expect_as_apart(q, k, 160, 256);
}

// ---- packed q, k and v ----

// The heads behind `first`, as they lie in the memory of a place.
OffsetHeads heads_from(const OffsetHeads& all, std::int64_t first, std::int64_t heads) {
  OffsetHeads part = all;
  part.at += first * all.layout.head_stride * static_cast<std::int64_t>(size_of(all.dtype));
  part.layout.heads = heads;
  return part;
}

// From a packed tensor of one layout to one of another, and in place. v is full of signalling NaN, and its part of the
// output stays as it was. In place it is one job, and out of place too.
void check_packed(const OffsetHeads& from, const OffsetHeads& to, std::int64_t kv_heads, const Table& table,
                  Direction direction, const Executor& executor, Random& random) {
  const std::int64_t rotating = from.layout.heads - kv_heads, q_heads = rotating - kv_heads;
  const OffsetHeads qk = heads_from(from, 0, rotating), v = heads_from(from, rotating, kv_heads);
  const OffsetHeads q = heads_from(from, 0, q_heads), k = heads_from(from, q_heads, kv_heads);
  const OffsetHeads qk_out = heads_from(to, 0, rotating);
  const OffsetHeads q_out = heads_from(to, 0, q_heads), k_out = heads_from(to, q_heads, kv_heads);
  Bytes in = hard_values(random, from.dtype, extent(from.layout));
  Bytes nans(in.size());
  fill_signalling(nans.data(), from.dtype, extent(from.layout));
  copy_heads(v.in(nans.data()), v.in(in.data()));
  Bytes out(bytes_of(to.layout, to.dtype), std::byte{0x5a}), wanted = out, wanted_in_place = in;

  rotate(ConstHeads(qk.in(in.data())), qk_out.in(wanted.data()), table, {.direction = direction});
  rotate(qk.in(wanted_in_place.data()), qk.in(wanted_in_place.data()), table, {.direction = direction});

  const Heads q_in = q.in(in.data()), k_in = k.in(in.data());
  const InOut q_both{q_in, q_out.in(out.data())}, k_both{k_in, k_out.in(out.data())};
  rotate_qk(q_both, k_both, table, {.direction = direction, .executor = &executor});
  if (q_heads > 0 && kv_heads > 0) {
    EXPECT_EQ(detail::check_rotate_qk("rotate_qk", q_both, k_both, table, direction).k.rows(), 0);
    EXPECT_EQ(detail::check_rotate_qk("rotate_qk", q_in, k_in, table, direction).k.rows(), 0);
  }
  rotate_qk(q_in, k_in, table, {.direction = direction, .executor = &executor});
  for (std::byte* memory : {out.data(), wanted.data()}) level_nans(memory, qk_out, table.rotary_dim());
  for (std::byte* memory : {in.data(), wanted_in_place.data()}) level_nans(memory, qk, table.rotary_dim());
  EXPECT_TRUE(out == wanted) << "out of place";
  EXPECT_TRUE(in == wanted_in_place) << "in place";
}

TEST(FusedQkv, RotatesQAndKAndKeepsTheBitsOfV) {
  Random random(3);
  const ThreadPool pool(3);
  for (const DType dtype : dtypes) {
    for (const auto& [batch, tokens, heads, kv_heads] : std::vector<std::array<std::int64_t, 4>>{
             {1, 1, 48, 8}, {2, 3, 4, 1}, {2, 3, 4, 2}, {1, 5, 2, 1}, {1, 4, 6, 0}, {2, 140, 5, 2}}) {
      for (int from = 0; from < 3; ++from) {
        for (int to = 0; to < 3; ++to) {
          SCOPED_TRACE(::testing::Message() << batch << " " << tokens << " " << heads << " " << kv_heads << " layout "
                                            << from << " to " << to);
          const Table table = random_table(random, tokens, 16 + below(random, 9), pairings[random() % 3],
                                           static_cast<int>(random() % 2 == 0 ? 1 : batch));
          const OffsetHeads in{0, dtype, layout_of(from, batch, tokens, heads, 50)};
          const OffsetHeads out{0, dtype, layout_of(to, batch, tokens, heads, 50)};
          const Shuffled shuffled(random());
          for (const Executor* executor :
               {&serial(), static_cast<const Executor*>(&pool), static_cast<const Executor*>(&shuffled)}) {
            check_packed(in, out, kv_heads, table, directions[random() % 2], *executor, random);
          }
        }
      }
    }
  }
}

// ---- one dispatch ----

class Counting final : public Executor {
 public:
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t grain, Body body, void* context) const override {
    ++runs;
    smallest = grain;
    body(context, 0, count);
  }
  mutable int runs = 0;
  mutable std::int64_t smallest = 0;
};

TEST(FusedDispatch, IsOneRunOfTheExecutor) {
  Random random(4);
  for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{100}}) {
    const Table table = random_table(random, tokens, 64, Pairing::half);
    for (const QkMemory& c : cases({1, tokens, 6, 2, 128, 128}, DType::bf16)) {
      Bytes memory(static_cast<std::size_t>(c.bytes()));
      const Counting counting;
      rotate_qk(c.q.in(memory.data()), c.k.in(memory.data()), table, {.executor = &counting});
      EXPECT_EQ(counting.runs, 1) << c.name;
    }
    Bytes in(static_cast<std::size_t>(tokens) * 10 * 128 * 2), out(in.size());
    const OffsetHeads all{0, DType::bf16, thd(tokens, 10, 128)};
    const OffsetHeads q = heads_from(all, 0, 6), k = heads_from(all, 6, 2);
    const Counting counting;
    rotate_qk({q.in(in.data()), q.in(out.data())}, {k.in(in.data()), k.in(out.data())}, table, {.executor = &counting});
    EXPECT_EQ(counting.runs, 1);
  }
}

TEST(FusedDispatch, NoPartIsBelow64KiB) {
  Random random(5);
  const Counting counting;
  Bytes memory(4096 * 128 * 4 * 2);
  const Table one = random_table(random, 1, 50, Pairing::half), many = random_table(random, 400, 50, Pairing::half);
  rotate({memory.data(), DType::f32, thd(1, 4000, 100)}, one, {.executor = &counting});
  EXPECT_GE(counting.smallest * 400, 64 * 1024);
  EXPECT_LT((counting.smallest - 1) * 400, 64 * 1024);
  std::byte* behind = memory.data() + 400 * 5 * 100 * 4;
  rotate_qk({memory.data(), DType::f32, thd(400, 5, 100)}, {behind, DType::f32, thd(400, 2, 100)}, many,
            {.executor = &counting});
  EXPECT_GE(counting.smallest * 7 * 400, 64 * 1024);
  EXPECT_LT((counting.smallest - 1) * 7 * 400, 64 * 1024);
}

}  // namespace
}  // namespace rotary::tests
