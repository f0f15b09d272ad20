// shift on every target against the reference out of place, token by token, bit for bit; what does not move keeps its
// bytes. And what it refuses.
#include <gtest/gtest.h>

#include "core/tests/support/caches.h"
#include "core/tests/support/checks.h"
#include "core/tests/support/guarded.h"
#include "core/tests/support/heads.h"
#include "core/tests/support/splits.h"
#include "rotary/cache.h"
#include "rotary/reference.h"
#include "rotary/threads.h"

namespace rotary::tests {
namespace {

// Keys or values in pages with gaps, which end at a guard page.
struct Side {
  Side(Random& random, std::int64_t pages, std::int64_t page_size, std::int64_t heads, int head_dim)
      : dtype(dtypes[random() % 3]),
        layout(random_layout(random, pages, page_size, heads, head_dim)),
        before(hard_values(random, dtype, extent(layout))),
        wanted(before),
        memory(before.size()) {}
  Heads view() const { return {memory.at_end(before.size()), dtype, layout}; }
  Heads token(Bytes& bytes, std::int64_t page, std::int64_t at) const {
    const std::int64_t element = page * layout.batch_stride + at * layout.token_stride;
    return {bytes.data() + element * static_cast<std::int64_t>(size_of(dtype)),
            dtype,
            {1, 1, layout.heads, layout.head_dim, 0, 0, layout.head_stride}};
  }

  DType dtype;
  Layout layout;
  Bytes before, wanted;
  Guarded memory;
};

struct Shift {
  explicit Shift(Random& random)
      : pages(1 + below(random, 8)),
        page_size(std::array{1, 3, 4, 16, 40}[random() % 5]),
        head_dim(2 + below(random, 60)),
        pairs(1 + below(random, head_dim / 2)),
        direction(directions[random() % 2]),
        first(random() % 3 == 0 ? below(random, head_dim - 2 * pairs + 1) : 0),
        k(random, pages, page_size, 1 + below(random, 4), head_dim),
        table(random_table_of_heads(random, 1, pairs, pairings[random() % 3], 1, k.layout.heads)),
        v(random, pages, page_size, random() % 8 == 0 ? 0 : 1 + below(random, 4), 1 + below(random, 70)),
        keep(below(random, 6)),
        drop(std::array{0, 1, 2, 1 + below(random, 20), 300}[random() % 5]),
        sequences(random, pages, page_size) {}

  void expect() {
    const std::vector<std::int32_t>&lengths = sequences.lengths, &indices = sequences.indices,
          &indptr = sequences.indptr;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      for (std::int64_t t = keep; t + drop < lengths[s]; ++t) {
        const auto page_of = [&](std::int64_t token) -> std::int64_t {
          return indices[static_cast<std::size_t>(indptr[s] + token / page_size)];
        };
        const std::int64_t from = page_of(t + drop), to = page_of(t);
        if (drop == 0 || std::min(from, to) < 0 || std::max(from, to) >= pages) continue;
        move(k, from, to, t, true);
        if (v.layout.heads > 0) move(v, from, to, t, false);
      }
    }
  }
  void move(Side& side, std::int64_t from, std::int64_t to, std::int64_t t, bool turns) {
    const Heads in = side.token(side.before, from, (t + drop) % page_size);
    const Heads out = side.token(side.wanted, to, t % page_size);
    copy_heads(in, out);
    const auto block = [&](const Heads& x) { return slice(x, first, head_dim - first); };
    if (turns) reference::rotate(block(in), block(out), table, direction);
  }

  void run(const Executor& executor) const {
    for (const Side* side : {&k, &v}) std::copy(side->before.begin(), side->before.end(), start(*side));
    const RotateOptions options{.direction = direction,
                                .stores = static_cast<Stores>(executor.concurrency() % 3),
                                .first = first,
                                .executor = &executor};
    shift(k.view(), v.layout.heads == 0 ? Heads{} : v.view(), table, keep, drop, sequences.host(), options);
    const std::vector<bool> turned = rotated_elements(k.layout, head_dim),
                            none(static_cast<std::size_t>(extent(v.layout)));
    ASSERT_TRUE(same(start(k), k.wanted.data(), k.dtype, extent(k.layout), turned)) << "of keys";
    ASSERT_TRUE(same(start(v), v.wanted.data(), v.dtype, extent(v.layout), none)) << "of values";
  }
  static std::byte* start(const Side& side) { return static_cast<std::byte*>(side.view().data); }

  std::int64_t pages;
  int page_size, head_dim, pairs;
  Direction direction;
  int first;
  Side k;
  Table table;  // perhaps with a row per head
  Side v;
  std::int64_t keep, drop;
  RandomSequences sequences;
};

TEST(ShiftOfACache, IsTheReferenceOutOfPlaceWhateverTheCall) {
  Random random(31);
  static const ThreadPool two(2);
  const Shuffled shuffled(5);
  const Executor* const executors[] = {&serial(), &two, &shuffled};
  std::size_t turn = 0;
  for (int round = 0; round < 1000; ++round) {
    Shift call(random);
    call.expect();
    for (const std::string_view target : running_targets()) {
      SCOPED_TRACE(::testing::Message() << round << " " << target << ", keep " << call.keep << ", drop " << call.drop);
      const Using forced(target);
      call.run(*executors[turn++ % std::size(executors)]);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ShiftOfACache, SaysWhatIsWrong) {
  std::vector<float> memory(8192);
  const Layout l = bthd(2, 8, 2, 16);
  const auto at = [&](std::size_t element, const Layout& layout) {
    return Heads{memory.data() + element, DType::f32, layout};
  };
  const Heads k = at(0, l), v = at(1024, l);
  const std::vector<float> cos(16, 1.0f), sin(16, 0.0f);
  const Table table({cos.data(), 8}, {sin.data(), 8}, 8, Pairing::half);
  const std::array<std::int32_t, 3> indptr{0, 1, 2}, lengths{8, 9, 0};
  const auto pages = [&](const std::int32_t* by) { return Sequences::paged(indptr.data(), indptr.data(), by, 2); };
  expect_error("SHAPE", "[shift] keep and drop must not be negative but got 0 and -1",
               [&] { shift(k, v, table, 0, -1); });
  expect_error("SHAPE", "[shift] the table must have one row but got 1 times 2",
               [&] { shift(k, v, Table(cos, sin, 8, Pairing::half), 0, 1); });
  expect_error("SHAPE",
               "[shift] rotary_dim must be at most 15, the elements of a head from first on, but the table's is 16",
               [&] { shift(k, v, table, 0, 1, {.first = 1}); });
  expect_error("SHAPE", "[shift] v must have the batch and the tokens of k, [2, 8, 2, 16], but got [2, 7, 2, 16]",
               [&] { shift(k, at(1024, bthd(2, 7, 2, 16)), table, 0, 1); });
  expect_error("SHAPE", "[shift] sequence 1 must lie in its pages, 1 of 8 tokens, but its length is 9",
               [&] { shift(k, v, table, 0, 1, pages(lengths.data())); });
  expect_error("SHAPE", "[shift] lengths must point to its elements but got null",
               [&] { shift(k, v, table, 0, 1, Sequences::each_row(nullptr)); });
  // Only the pages of tokens that move, of 2 tokens each, must exist.
  const std::array<std::int32_t, 2> four{0, 4}, seven{7, 0};
  std::array<std::int32_t, 4> indices{0, 1, -1, 3};
  Sequences holes = Sequences::paged(four.data(), indices.data(), seven.data(), 1);
  const Heads paged_k = at(0, bthd(4, 2, 2, 16));
  EXPECT_NO_THROW(shift(paged_k, {}, table, 0, 6, holes));
  expect_error("SHAPE", "[shift] indices must be pages of the cache, from 0 to 3, but page 2 of sequence 0 is -1",
               [&] { shift(paged_k, {}, table, 0, 2, holes); });
  holes.skip_missing = true;
  EXPECT_NO_THROW(shift(paged_k, {}, table, 0, 2, holes));
  indices[2] = 4, holes.skip_missing = false;
  expect_error("SHAPE", "[shift] indices must be pages of the cache, from 0 to 3, but page 2 of sequence 0 is 4",
               [&] { shift(paged_k, {}, table, 0, 2, holes); });
  expect_error("SHAPE", "[shift] v must have no elements where k has none but got [2, 8, 2, 16]", [&] {
    shift({nullptr, DType::f32, bthd(2, 8, 0, 16)}, v, table, 0, 1);
  });
  expect_error("SHAPE", "[shift] lengths must point to its elements but got null",
               [&] { shift(k, v, table, 0, 1, pages(nullptr)); });
  expect_error("ALIAS",
               "[shift] what is written to k must not overlap v but their elements overlap, or interleave with strides "
               "that are not the same",
               [&] { shift(k, at(511, l), table, 0, 1); });
  const std::span<const float> inside = std::span(memory).first(8), outside = std::span(cos).first(8);
  expect_error_with("ALIAS", "must not overlap the table's cos",
                    [&] { shift(k, v, Table::borrow(inside, outside, 8, Pairing::half), 0, 1); });
  expect_error_with("ALIAS", "must not overlap the table's sin",
                    [&] { shift(k, v, Table::borrow(outside, inside, 8, Pairing::half), 0, 1); });
  const Heads odd{static_cast<std::byte*>(v.data) + 2, DType::f32, l};
  expect_error_with("DTYPE", "v must be aligned", [&] { shift(k, odd, table, 0, 1); });
  const auto* const numbers = reinterpret_cast<const std::int32_t*>(memory.data());
  expect_error_with("ALIAS", "must not overlap lengths", [&] { shift(k, v, table, 0, 1, pages(numbers)); });
  expect_error_with("ALIAS", "must not overlap indptr",
                    [&] { shift(k, v, table, 0, 1, Sequences::paged(numbers, indptr.data(), lengths.data(), 2)); });
  shift(k, at(512, l), table, 0, 1);  // side by side
  Cache cache = nhd(memory.data() + 64, nullptr, 2, 8, 2, 16);
  cache.k_offset = -64;
  expect_error("SHAPE", "[shift] k_offset and v_head_dim must not be negative but got -64 and 0",
               [&] { shift(cache, DType::f32, table, 0, 1); });
  cache.k_offset = 0, cache.type = static_cast<CacheType>(9);
  expect_error("DTYPE", "[shift] the cache must be same, f8_e4m3, f32, f16 or bf16 but got value 9",
               [&] { shift(cache, DType::f32, table, 0, 1); });
}

}  // namespace
}  // namespace rotary::tests
