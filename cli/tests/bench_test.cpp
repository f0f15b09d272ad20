// rotary bench: which cells it measures, and that it notices a wrong result. Nothing here is about speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

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

constexpr std::size_t crossed = 32;  // cells of the grid that cross types, pairings, lengths and places

TEST(Bench, the_grid_crosses_types_pairings_lengths_and_places) {
  std::set<DType> dtypes;
  std::set<Pairing> pairings;
  std::set<std::int64_t> lengths;
  std::vector<Cell> cells = grid();
  cells.resize(crossed);
  for (const Cell& cell : cells) {
    dtypes.insert(cell.dtype);
    pairings.insert(cell.pairing);
    lengths.insert(cell.tokens);
  }
  EXPECT_EQ(dtypes, (std::set{DType::f32, DType::bf16}));
  EXPECT_EQ(pairings, (std::set{Pairing::half, Pairing::interleaved}));
  EXPECT_EQ(lengths, (std::set<std::int64_t>{1, 64, 2048, 8192}));
  EXPECT_EQ(bytes({DType::bf16, Pairing::half, 3, true}), 2 * 3 * 40 * 128 * 2);
}

TEST(Bench, the_last_cells_lie_around_the_last_cache) {
  const std::vector<Cell> cells = grid();
  ASSERT_EQ(cells.size(), crossed + 8);
  std::map<std::int64_t, int> of_length;
  int after_write = 0;
  for (std::size_t i = crossed; i < cells.size(); ++i) {
    EXPECT_TRUE(cells[i].in_place && cells[i].dtype == DType::f32);
    ++of_length[cells[i].tokens];
    after_write += cells[i].after_write ? 1 : 0;
  }
  const std::int64_t half = cells[crossed].tokens;
  EXPECT_EQ(of_length, (std::map<std::int64_t, int>{{half, 2}, {2 * half, 4}, {3 * half, 2}}));
  EXPECT_EQ(after_write, 2);
}

TEST(Bench, a_write_brings_the_inputs_back) {
  ReadyCell::Memory memory;
  const Cell cell{DType::f32, Pairing::half, 3, true, true};
  const ReadyCell ready(cell, memory);
  const auto inputs = [&] {
    const auto* const first = static_cast<const std::byte*>(ready.q.data);
    return std::vector<std::byte>(first, first + bytes(cell) / 2);
  };
  ready.write_inputs();
  const std::vector<std::byte> written = inputs();
  ready.rotate();
  EXPECT_NE(inputs(), written);
  ready.write_inputs();
  EXPECT_EQ(inputs(), written);
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
