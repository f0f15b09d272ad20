// rotary bench: which cells it measures, and that it notices a wrong result. Nothing here is about speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "bench/cell.h"
#include "core/tests/support/checks.h"
#include "rotary/targets.h"

namespace rotary::cli::bench {
namespace {

// Every type, pairing and place.
std::vector<Cell> cells_of(std::int64_t tokens) {
  std::vector<Cell> cells = grid();
  std::erase_if(cells, [](const Cell& cell) { return cell.tokens != 1; });
  for (Cell& cell : cells) cell.tokens = tokens;
  return cells;
}

TEST(Bench, the_grid_crosses_types_pairings_lengths_and_places) {
  std::set<DType> dtypes;
  std::set<Pairing> pairings;
  std::set<std::int64_t> lengths;
  for (const Cell& cell : grid()) {
    dtypes.insert(cell.dtype);
    pairings.insert(cell.pairing);
    lengths.insert(cell.tokens);
  }
  EXPECT_EQ(dtypes, (std::set{DType::f32, DType::bf16}));
  EXPECT_EQ(pairings, (std::set{Pairing::half, Pairing::interleaved}));
  EXPECT_EQ(lengths, (std::set<std::int64_t>{1, 64, 2048, 8192}));
  EXPECT_EQ(grid().size(), 32U);
  EXPECT_EQ(bytes({DType::bf16, Pairing::half, 3, true}), 2 * 3 * 40 * 128 * 2);
}

// ---- verification ----

void expect_refused(const ReadyCell& ready, const std::function<void()>& work) {
  EXPECT_EQ(tests::code_of([&] { ready.verify("it", work); }), Code::CHECK) << "a wrong result was accepted";
}

TEST(Bench, every_target_and_its_plain_loop_equal_the_reference) {
  ReadyCell::Memory memory;
  for (const Target& target : targets()) {
    if (!target.runs) continue;
    use_target(target.name);
    for (const Cell& cell : cells_of(3)) {
      const ReadyCell ready(cell, memory);
      EXPECT_EQ(ready.verify("rotate_qk", [&] { ready.rotate(); }), elements(cell));
      EXPECT_EQ(ready.verify("the plain loop", [&] { ready.rotate_by_loop(); }), elements(cell));
    }
  }
  use_target("");
}

TEST(Bench, one_wrong_bit_and_work_that_does_nothing_are_refused) {
  ReadyCell::Memory memory;
  for (const Cell& cell : cells_of(1)) {
    const ReadyCell ready(cell, memory);
    expect_refused(ready, [] {});
    expect_refused(ready, [&] { ready.copy(); });
    for (const Heads& x : {ready.q_out, ready.k_out}) {
      const std::int64_t size = x.layout.heads * head_dim * static_cast<std::int64_t>(size_of(cell.dtype));
      for (const std::int64_t at : {std::int64_t{0}, size / 2, size - 1}) {
        expect_refused(ready, [&] {
          ready.rotate();
          static_cast<std::byte*>(x.data)[at] ^= std::byte{1};
        });
      }
    }
  }
}

TEST(Bench, of_many_tokens_the_first_and_the_last_are_compared) {
  ReadyCell::Memory memory;
  const ReadyCell ready({DType::bf16, Pairing::half, 2048, true}, memory);
  EXPECT_EQ(ready.verify("it", [&] { ready.rotate(); }), 64 * 40 * 128);
  for (const std::int64_t token : {0, 2047}) {
    expect_refused(ready, [&] {
      ready.rotate();
      static_cast<std::uint16_t*>(ready.q.data)[token * q_heads * head_dim + 7] ^= 1;
    });
  }
}

TEST(Bench, a_copy_has_the_bytes_of_all_inputs) {
  ReadyCell::Memory memory;
  const Cell cell{DType::f32, Pairing::half, 64, false};
  const ReadyCell ready(cell, memory);
  ready.verify("it", [&] { ready.rotate(); });
  ready.copy();
  EXPECT_EQ(std::memcmp(ready.q.data, ready.q_out.data, static_cast<std::size_t>(bytes(cell)) / 2), 0);
}

TEST(Bench, each_cell_is_timed_three_times_at_least) {
  ReadyCell::Memory memory;
  for (const Cell& cell : cells_of(3)) {
    const Result result = measure(ReadyCell(cell, memory), 0);
    EXPECT_GT(std::min({result.rotary, result.loop, result.copy}), 0);
    EXPECT_EQ(result.samples, 3);
    EXPECT_EQ(result.verified, elements(cell));
  }
}

}  // namespace
}  // namespace rotary::cli::bench
