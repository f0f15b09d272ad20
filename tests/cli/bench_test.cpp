// rotary bench: which cells it measures, and that it notices a wrong result. Nothing here is about speed.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "apps/rotary/bench/grid.h"
#include "apps/rotary/bench/measure.h"
#include "apps/rotary/bench/verify.h"
#include "apps/shared/usage_error.h"
#include "rotary/targets.h"

namespace rotary::cli::bench {
namespace {

constexpr double a_gib = 0x1p30;

Cell small_cell() {
  Cell cell;
  cell.tokens = 3;
  cell.heads = 3;
  cell.kv_heads = 1;
  cell.head_dim = 10;
  cell.rotary_dim = 6;
  cell.target = chosen_target();
  return cell;
}

std::string usage_of(const std::vector<std::string>& filter, const std::vector<Cell>& cells) {
  try {
    filtered(cells, parse_filter(filter));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<Cell> grid(const std::string& name, const Choice& choice = {}) {
  return bench::grid(name, 2, "avx2", choice);
}

std::set<std::string> values(const std::vector<Cell>& cells, const std::string& key) {
  std::set<std::string> found;
  for (const Cell& cell : cells) found.insert(describe(cell)[key].dump());
  return found;
}

// ---- which cells ----

TEST(BenchGrid, the_full_grid_crosses_what_the_issue_names) {
  Choice rotate;
  rotate.op = Op::rotate;
  const std::vector<Cell> all = grid("full");
  const std::vector<Cell> cells = filtered(all, {{"op", "rotate"}});
  EXPECT_EQ(cells.size(), 3U * 2 * 4 * 2 * 2 * 6 * 2);
  EXPECT_EQ(values(all, "op"), (std::set<std::string>{R"("backward")", R"("fused")", R"("rotate")", R"("table")"}));
  EXPECT_EQ(values(cells, "tokens"), (std::set<std::string>{"1", "64", "2048", "8192"}));
  EXPECT_EQ(values(cells, "head_dim"), (std::set<std::string>{"64", "80", "96", "128", "256"}));
  EXPECT_EQ(values(cells, "rotary_dim"), (std::set<std::string>{"24", "64", "80", "96", "128", "256"}));
  EXPECT_EQ(values(cells, "layout"), (std::set<std::string>{R"("bhtd")", R"("bthd")"}));
  EXPECT_EQ(values(cells, "threads"), (std::set<std::string>{"1", "2"}));
  EXPECT_EQ(values(cells, "in_place"), (std::set<std::string>{"false", "true"}));
}

TEST(BenchGrid, the_small_grid_is_small_and_has_every_op_dtype_and_place) {
  const std::vector<Cell> cells = grid("small");
  EXPECT_LE(cells.size(), 32U);
  EXPECT_EQ(values(cells, "op").size(), 4U);
  EXPECT_EQ(values(cells, "dtype").size(), 3U);
  EXPECT_EQ(values(cells, "in_place"), (std::set<std::string>{"false", "null", "true"}));
}

TEST(BenchGrid, a_flag_sets_its_key_in_every_cell_and_no_cell_is_there_twice) {
  Choice choice;
  choice.threads = 3;
  choice.head_dim = 32;
  const std::vector<Cell> cells = grid("full", choice);
  EXPECT_EQ(values(cells, "threads"), (std::set<std::string>{"3"}));
  EXPECT_EQ(values(cells, "head_dim"), (std::set<std::string>{"32"}));
  EXPECT_EQ(values(cells, "rotary_dim"), (std::set<std::string>{"32"})) << "a new head turns whole";
  std::set<std::string> seen;
  for (const Cell& cell : cells) EXPECT_TRUE(seen.insert(describe(cell).dump()).second);
}

TEST(BenchGrid, one_core_has_no_second_number_of_threads) {
  EXPECT_EQ(values(bench::grid("full", 1, "avx2", {}), "threads"), (std::set<std::string>{"1"}));
}

TEST(BenchFilter, several_keys_all_hold_and_several_values_of_one_are_alternatives) {
  const auto cells =
      filtered(grid("full"), parse_filter({"dtype=bf16,tokens=1,tokens=64,op=rotate", "in_place=true,layout=bthd"}));
  EXPECT_EQ(values(cells, "dtype"), (std::set<std::string>{R"("bf16")"}));
  EXPECT_EQ(values(cells, "tokens"), (std::set<std::string>{"1", "64"}));
  EXPECT_EQ(values(cells, "in_place"), (std::set<std::string>{"true"}));
  EXPECT_EQ(cells.size(), 2U * 2 * 6 * 2);
}

TEST(BenchFilter, a_key_without_meaning_for_a_table_keeps_no_table) {
  EXPECT_EQ(values(filtered(grid("full"), {{"in_place", "false"}}), "op").count(R"("table")"), 0U);
}

TEST(BenchFilter, what_it_does_not_know_is_named_with_what_it_knows) {
  const std::vector<Cell> cells = grid("full");
  EXPECT_EQ(usage_of({"size=3"}, cells),
            "--filter has no key 'size'; the keys are op, dtype, pairing, layout, batch, tokens, heads, kv_heads, "
            "head_dim, rotary_dim, in_place, threads, target, device");
  EXPECT_EQ(usage_of({"tokens=77"}, cells),
            "--filter tokens=77 matches no cell; its values here are 1, 64, 2048, 8192, 131072");
  EXPECT_EQ(usage_of({"dtype"}, cells), "--filter takes KEY=VALUE,... but got 'dtype'");
  EXPECT_EQ(usage_of({""}, cells), "--filter takes KEY=VALUE,... but got ''");
  EXPECT_EQ(usage_of({"dtype=bf16,"}, cells), "--filter takes KEY=VALUE,... but got ''");
  EXPECT_EQ(usage_of({"op=fused,layout=bhtd"}, cells), "--filter matches no cell: no cell has all of its values");
}

// ---- on CUDA: which cells ----

std::vector<Cell> cuda_grid(const std::string& name, Choice choice = {}) {
  choice.cuda = true;
  return bench::grid(name, 2, "a device", choice);
}

std::vector<Cell> of_op(const std::vector<Cell>& cells, Op op) { return filtered(cells, {{"op", name(op)}}); }

TEST(BenchGridCuda, the_full_grid_crosses_what_the_issue_names) {
  const std::vector<Cell> all = cuda_grid("full");
  const std::vector<Cell> cells = filtered(all, parse_filter({"op=fused,table=true"}, true));
  EXPECT_EQ(cells.size(), 3U * 2 * 5 * 2 * 5);
  EXPECT_EQ(values(cells, "head_dim"), (std::set<std::string>{"64", "80", "96", "128", "256"}));
  EXPECT_EQ(values(cells, "tokens"), (std::set<std::string>{"1", "64", "512", "8192", "32768"}));
  EXPECT_EQ(values(cells, "dtype").size(), 3U);
  EXPECT_EQ(values(cells, "pairing").size(), 2U);
  EXPECT_EQ(values(cells, "in_place").size(), 2U);
  EXPECT_EQ(values(all, "op").size(), 6U);
  EXPECT_EQ(values(all, "table"), (std::set<std::string>{"false", "null", "true"}));
  EXPECT_EQ(values(of_op(all, Op::norm_append), "cache"), (std::set<std::string>{R"("f8")", R"("same")"}));
  EXPECT_EQ(values(all, "threads"), (std::set<std::string>{"null"}));
  EXPECT_EQ(values(all, "device"), (std::set<std::string>{R"("cuda")"}));
  EXPECT_EQ(values(all, "target"), (std::set<std::string>{R"("a device")"}));
}

TEST(BenchGridCuda, the_small_grid_is_small_and_has_every_op) {
  const std::vector<Cell> cells = cuda_grid("small");
  EXPECT_LE(cells.size(), 48U);
  EXPECT_EQ(values(cells, "op").size(), 6U);
}

TEST(BenchGridCuda, a_flag_sets_its_key_where_a_cell_has_it) {
  Choice choice;
  choice.with_table = false;
  choice.f8 = true;
  const std::vector<Cell> cells = cuda_grid("full", choice);
  EXPECT_EQ(values(cells, "table"), (std::set<std::string>{"false", "null"})) << "null: the op that makes one";
  EXPECT_EQ(values(cells, "cache"), (std::set<std::string>{R"("f8")", "null"}));
}

TEST(BenchGridCuda, what_turns_apart_only_is_never_in_place) {
  Choice choice;
  choice.pairing = Pairing::interleaved_to_half;
  choice.in_place = true;
  const std::vector<Cell> cells = cuda_grid("full", choice);
  EXPECT_EQ(values(of_op(cells, Op::norm_append), "in_place"), (std::set<std::string>{"false"}));
  EXPECT_EQ(values(of_op(cells, Op::append), "in_place"), (std::set<std::string>{"true"}));
}

TEST(BenchCell, what_is_appended_counts_whole_and_by_the_cache) {
  Cell cell = small_cell();  // 3 tokens, 3 + 1 heads of 10, 6 of which turn
  cell.cuda = true;
  cell.op = Op::append;
  EXPECT_EQ(elements(cell), 3 * (3 * 6 + 2 * 10));
  EXPECT_EQ(bytes(cell), 2 * 2 * 3 * (3 * 6 + 2 * 10));
  cell.f8 = true;
  EXPECT_EQ(bytes(cell), 2 * 2 * 3 * 3 * 6 + 3 * 2 * 10 * (2 + 1));
  cell.op = Op::norm_append;
  EXPECT_EQ(elements(cell), 3 * (3 * 10 + 2 * 10)) << "the norm has all of a head";
}

// ---- what is counted ----

TEST(BenchCell, in_place_what_turns_is_counted_and_out_of_place_all) {
  Cell cell = small_cell();
  EXPECT_EQ(elements(cell), 3 * 4 * 6);
  EXPECT_EQ(bytes(cell), 2 * 3 * 4 * 6 * 2);
  cell.in_place = false;
  EXPECT_EQ(elements(cell), 3 * 4 * 10);
  cell.op = Op::table;
  EXPECT_EQ(elements(cell), 3 * 3) << "pairs";
  EXPECT_EQ(bytes(cell), 3 * 3 * 2 * 4) << "cos and sin, written";
}

TEST(BenchCell, the_lines_of_a_part_of_each_head_are_counted_once) {
  Cell cell;
  cell.dtype = DType::f32;
  cell.tokens = 2;
  cell.heads = 3;
  cell.kv_heads = 0;
  cell.head_dim = 96;    // six lines
  cell.rotary_dim = 24;  // one and a half
  EXPECT_EQ(line_bytes(cell), 2 * 3 * 2 * 64);
  cell.head_dim = 24;
  EXPECT_EQ(line_bytes(cell), 2 * 3 * 24 * 4) << "heads that touch share lines";
  cell.head_dim = 4;
  cell.rotary_dim = 2;
  EXPECT_EQ(line_bytes(cell), 2 * 64) << "96 bytes";
}

TEST(BenchCell, errors_are_the_librarys_and_the_memorys) {
  const auto code_of = [](const Cell& cell, double free_bytes) -> std::string {
    try {
      check(cell, free_bytes);
    } catch (const Error& error) {
      return std::string(rotary::name(error.code()));
    }
    return "none";
  };
  Cell cell = small_cell();
  EXPECT_EQ(code_of(cell, a_gib), "none");
  EXPECT_EQ(code_of(cell, 100), "MEMORY");
  cell.rotary_dim = 5;
  EXPECT_EQ(code_of(cell, a_gib), "SHAPE");
  cell.rotary_dim = 12;
  EXPECT_EQ(code_of(cell, a_gib), "SHAPE") << "more than the head has";
  cell = small_cell();
  cell.layout = "thd";
  cell.batch = 2;
  EXPECT_EQ(code_of(cell, a_gib), "SHAPE");
  cell = small_cell();
  cell.tokens = cell.heads = cell.batch = std::int64_t{1} << 40;
  EXPECT_EQ(code_of(cell, a_gib), "MEMORY") << "no overflow";
}

// ---- verification ----

// A cell in its memory, with its table.
struct Setting {
  explicit Setting(const Cell& c) : cell(c), places(cell, arena) {
    table = Table(turns, positions(1, cell.tokens));
  }
  void rotate_both() const {
    rotate(places.q, places.q_out, table);
    rotate(places.k, places.k_out, table);
  }
  std::int64_t verify(const std::function<void()>& work) const { return bench::verify(cell, places, table, work); }
  // verify refuses it.
  void expect_refused(const std::function<void()>& work) const {
    try {
      verify(work);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(rotary::name(error.code())), "CHECK") << error.what();
    }
  }

  Cell cell;
  Arena arena;
  Places places;
  Frequencies turns = frequencies(rope_of(cell));
  Table table{std::vector<float>{}, std::vector<float>{}, 1, Pairing::half};
};

std::vector<Cell> cells_of_every_kind() {
  std::vector<Cell> cells;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::string& layout : layout_words()) {
      for (const bool in_place : {true, false}) {
        Cell cell = small_cell();
        cell.dtype = dtype;
        cell.layout = layout;
        cell.batch = layout == "thd" ? 1 : 2;
        cell.in_place = in_place;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

TEST(BenchVerify, a_right_result_is_accepted_whole) {
  for (const Cell& cell : cells_of_every_kind()) {
    const Setting setting(cell);
    EXPECT_EQ(setting.verify([&] { setting.rotate_both(); }), cell.batch * 3 * 4 * 10) << describe(cell).dump();
  }
}

TEST(BenchVerify, one_wrong_bit_anywhere_is_refused) {
  for (const Cell& cell : cells_of_every_kind()) {
    const Setting setting(cell);
    for (const Heads* x : {&setting.places.q_out, &setting.places.k_out}) {
      const auto size = static_cast<std::int64_t>(size_of(cell.dtype));
      const std::int64_t bytes = cell.batch * 3 * x->layout.heads * 10 * size;
      for (const std::int64_t at : {std::int64_t{0}, bytes / 2, bytes - 1}) {
        setting.expect_refused([&] {
          setting.rotate_both();
          static_cast<std::byte*>(x->data)[at] ^= std::byte{1};
        });
      }
    }
  }
}

TEST(BenchVerify, work_that_does_nothing_or_the_other_direction_is_refused) {
  for (const Cell& cell : cells_of_every_kind()) {
    const Setting setting(cell);
    setting.verify([&] { setting.rotate_both(); });  // leaves the right result where the next one belongs
    setting.expect_refused([] {});
    setting.expect_refused([&] {
      rotate(setting.places.q, setting.places.q_out, setting.table, Direction::backward);
      rotate(setting.places.k, setting.places.k_out, setting.table, Direction::backward);
    });
  }
}

TEST(BenchVerify, of_many_tokens_the_first_middle_and_last_are_compared) {
  Cell cell = small_cell();
  cell.tokens = 20000;
  const Setting setting(cell);
  EXPECT_LT(setting.verify([&] { setting.rotate_both(); }), cell.tokens * 4 * 10);
  for (const std::int64_t token : {0, 10000, 19999}) {
    setting.expect_refused([&] {
      setting.rotate_both();
      static_cast<std::uint16_t*>(setting.places.q.data)[token * 30 + 7] ^= 1;
    });
  }
}

TEST(BenchVerify, a_table_that_is_an_ulp_off_is_refused) {
  Cell cell = small_cell();
  cell.op = Op::table;
  cell.dtype = DType::f32;
  const Setting setting(cell);
  EXPECT_EQ(verify_table(cell, setting.turns, setting.table), 9);
  std::vector<float> cos(setting.table.cos().begin(), setting.table.cos().end());
  const std::vector<float> sin(setting.table.sin().begin(), setting.table.sin().end());
  cos[4] = std::nextafter(cos[4], 2.0F);
  EXPECT_THROW(verify_table(cell, setting.turns, Table(cos, sin, 3, Pairing::half)), Error);
}

TEST(BenchVerify, tables_of_every_rounding_are_accepted_far_out) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Cell cell = small_cell();
    cell.op = Op::table;
    cell.dtype = dtype;
    cell.tokens = 100000;
    const Result result = Bench(0.001).measure(cell);
    EXPECT_GT(result.verified, 10000);
    EXPECT_GT(result.cold_seconds, 0);
  }
}

// ---- measuring ----

TEST(BenchMeasure, every_op_place_and_placement_is_measured) {
  Bench bench(0.001);
  for (const Op op : {Op::rotate, Op::backward, Op::fused}) {
    for (Cell cell : cells_of_every_kind()) {
      cell.op = op;
      cell.kv_heads = cell.in_place ? 1 : 0;
      cell.threads = cell.dtype == DType::f32 ? 2 : 1;
      cell.placement.offset = 4096 - 6 * static_cast<std::int64_t>(size_of(cell.dtype));
      if (cell.layout == "bthd" || cell.layout == "thd") cell.placement.padding = 5;
      cell.placement.aliased = !cell.in_place;
      const Result result = bench.measure(cell);
      EXPECT_TRUE(result.seconds > 0 && result.ceiling_seconds > 0) << describe(cell).dump();
      EXPECT_GE(result.samples, 3);
    }
  }
}

TEST(BenchMeasure, the_figures_are_those_of_the_times) {
  Result result;
  result.cell = small_cell();  // 72 elements, 288 bytes
  result.seconds = 72e-9;
  result.ceiling_seconds = 36e-9;
  EXPECT_DOUBLE_EQ(result.ns_per_element(), 1);
  EXPECT_DOUBLE_EQ(result.gb_per_s(), 4);
  EXPECT_DOUBLE_EQ(result.ceiling_gb_per_s(), 8);
  EXPECT_DOUBLE_EQ(result.percent_of_ceiling(), 50);
}

TEST(BenchMeasure, works_run_in_turn_and_each_as_often) {
  std::vector<int> calls(2);
  std::vector<Repeat> works;
  for (int& count : calls) {
    works.emplace_back([&count](int runs) {
      ++count;
      volatile double sink = 0;
      for (int i = 0; i < 100 * runs; ++i) sink = sink + 1;
    });
  }
  const Medians medians = median_seconds(works, {0.002, false});
  EXPECT_GE(medians.samples, 7);
  EXPECT_GE(calls[0], medians.samples);
  EXPECT_GE(calls[1], medians.samples);
  EXPECT_TRUE(medians.seconds[0] > 0 && medians.seconds[1] > 0);
}

}  // namespace
}  // namespace rotary::cli::bench
