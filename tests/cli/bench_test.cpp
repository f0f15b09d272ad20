// rotary bench: which cells it measures, and that it notices a wrong result. Nothing here is about speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "apps/rotary/bench/bench.h"
#include "apps/shared/usage_error.h"
#include "rotary/targets.h"

namespace rotary::cli::bench {
namespace {

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

// ---- which cells ----

std::vector<Cell> grid(const std::string& name, bool cuda, Words words = {}) {
  words["device"] = cuda ? "cuda" : "cpu";
  words["target"] = "a target";
  return bench::grid(name, 2, words);
}

// All values of the key, sorted as words.
std::string values(const std::vector<Cell>& cells, const std::string& key) {
  std::set<std::string> found;
  for (const Cell& cell : cells) found.insert(describe(cell)[key].dump());
  std::string text;
  for (const std::string& value : found) text += (text.empty() ? "" : " ") + value;
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  return text;
}

struct GridCase {
  const char* name;
  bool cuda;
  const char* filter;  // of what is expected
  std::size_t cells;   // 0: not counted
  std::map<std::string, std::string> values;
};

TEST(BenchGrid, crosses_what_the_issues_name) {
  const std::string head_dims = "128 256 64 80 96";
  const GridCase cases[] = {
      {"full", false, "", 1364, {{"op", "backward fused rotate table"}, {"threads", "1 2"}}},
      {"full",
       false,
       "op=rotate",
       3U * 2 * 4 * 2 * 2 * 6 * 2,
       {{"tokens", "1 2048 64 8192"},
        {"head_dim", head_dims},
        {"in_place", "false true"},
        {"rotary_dim", "128 24 256 64 80 96"},
        {"layout", "bhtd bthd"}}},
      {"small", false, "", 24, {{"in_place", "false null true"}}},
      {"full", true, "", 572, {{"table", "false null true"}, {"threads", "null"}, {"device", "cuda"}}},
      {"full",
       true,
       "op=fused,table=true",
       3U * 2 * 5 * 2 * 5,
       {{"head_dim", head_dims}, {"tokens", "1 32768 512 64 8192"}, {"in_place", "false true"}}},
      {"full", true, "op=norm_append", 0, {{"cache", "f8 same"}}},
      {"small", true, "", 38, {{"target", "a target"}}}};
  for (const GridCase& each : cases) {
    SCOPED_TRACE(std::string(each.name) + (each.cuda ? " cuda " : " ") + each.filter);
    const std::vector<Cell> all = grid(each.name, each.cuda);
    const std::vector<Cell> cells = filtered(all, each.filter);
    EXPECT_TRUE(each.cells == 0 || cells.size() == each.cells) << cells.size();
    for (const auto& [key, expected] : each.values) EXPECT_EQ(values(cells, key), expected) << key;
    EXPECT_EQ(values(all, "op"),
              each.cuda ? "append backward fused norm_append rotate table" : "backward fused rotate table");
    EXPECT_EQ(values(all, "dtype"), "bf16 f16 f32");
  }
}

TEST(BenchGrid, a_flag_sets_its_key_where_a_cell_has_it_and_no_cell_is_there_twice) {
  std::vector<Cell> cells = grid("full", false, {{"threads", "3"}, {"head_dim", "32"}});
  EXPECT_EQ(values(cells, "threads"), "3");
  EXPECT_EQ(values(cells, "head_dim"), "32");
  EXPECT_EQ(values(cells, "rotary_dim"), "32") << "a new head turns whole";
  std::set<std::string> seen;
  for (const Cell& cell : cells) EXPECT_TRUE(seen.insert(describe(cell).dump()).second);
  EXPECT_EQ(values(bench::grid("full", 1, {}), "threads"), "1") << "one core";

  cells = grid("full", true, {{"table", "false"}, {"cache", "f8"}});
  EXPECT_EQ(values(cells, "table"), "false null") << "null: the op that makes one";
  EXPECT_EQ(values(cells, "cache"), "f8 null");
  cells = grid("full", true, {{"pairing", "interleaved_to_half"}, {"in_place", "true"}});
  EXPECT_EQ(values(filtered(cells, "op=norm_append"), "in_place"), "false") << "out of place only";
  EXPECT_EQ(values(filtered(cells, "op=append"), "in_place"), "true");
}

TEST(BenchGrid, a_filter_takes_the_cells_with_its_values) {
  const std::vector<Cell> all = grid("full", false);
  const auto cells = filtered(all, "dtype=bf16,tokens=1,tokens=64,op=rotate,in_place=true,layout=bthd");
  EXPECT_EQ(values(cells, "dtype"), "bf16");
  EXPECT_EQ(values(cells, "tokens"), "1 64");
  EXPECT_EQ(cells.size(), 2U * 2 * 6 * 2);
  EXPECT_EQ(values(filtered(all, "in_place=false"), "op"), "backward fused rotate") << "a table has no place";
  for (const char* none : {"size=3", "tokens=77", "dtype", "=", "op=fused,layout=bhtd"})
    EXPECT_THROW(filtered(all, none), UsageError) << none;
}

// ---- what is counted ----

TEST(BenchCell, what_rotates_or_is_written_is_counted) {
  Cell cell = small_cell();  // 3 tokens, 3 + 1 heads of 10, 6 of which rotate
  EXPECT_EQ(elements(cell), 3 * 4 * 6);
  EXPECT_EQ(bytes(cell), 2 * 3 * 4 * 6 * 2);
  cell.in_place = false;
  EXPECT_EQ(elements(cell), 3 * 4 * 10);
  cell.op = Op::table;
  EXPECT_EQ(elements(cell), 3 * 3) << "pairs";
  EXPECT_EQ(bytes(cell), 3 * 3 * 2 * 4) << "cos and sin, written";
  cell = small_cell();
  cell.op = Op::append;
  EXPECT_EQ(elements(cell), 3 * (3 * 6 + 2 * 10));
  EXPECT_EQ(bytes(cell), 2 * 2 * 3 * (3 * 6 + 2 * 10));
  cell.f8 = true;
  EXPECT_EQ(bytes(cell), 2 * 2 * 3 * 3 * 6 + 3 * 2 * 10 * (2 + 1));
  cell.op = Op::norm_append;
  EXPECT_EQ(elements(cell), 3 * (3 * 10 + 2 * 10)) << "the norm has all of a head";
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
  struct {
    const char* code;
    void (*change)(Cell&);
    double free_bytes = 0x1p30;
  } const cases[] = {{"none", [](Cell&) {}},
                     {"MEMORY", [](Cell&) {}, 100},
                     {"SHAPE", [](Cell& c) { c.rotary_dim = 5; }},
                     {"SHAPE", [](Cell& c) { c.rotary_dim = 12; }},
                     {"SHAPE", [](Cell& c) { c.layout = "thd", c.batch = 2; }},
                     {"MEMORY", [](Cell& c) { c.tokens = c.heads = c.batch = std::int64_t{1} << 40; }}};
  for (const auto& each : cases) {
    Cell cell = small_cell();
    each.change(cell);
    std::string code = "none";
    try {
      check(cell, each.free_bytes);
    } catch (const Error& error) {
      code = rotary::name(error.code());
    }
    EXPECT_EQ(code, each.code) << &each - cases;
  }
}

// ---- verification ----

std::vector<Cell> cells_of_every_kind() {
  const std::string kinds = "dtype=f32,bf16,f16 in_place=true,false ",
                    shape = " tokens=3 heads=3 kv_heads=1 head_dim=10 rotary_dim=6";
  return combined({kinds + "batch=2 layout=bthd,bhtd,tbhd" + shape, kinds + "layout=thd" + shape},
                  {{"target", std::string(chosen_target())}});
}

// With `instead` as the cell's call, which is given the right one.
void expect_refused(ReadyCell& ready, const std::function<void(const Call&)>& instead) {
  const Call right = ready.calls[0];
  ready.calls[0] = [&] { instead(right); };
  try {
    verify(ready);
    ADD_FAILURE() << "accepted " << describe(ready.cell).dump();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(rotary::name(error.code())), "CHECK") << error.what();
  }
  ready.calls[0] = right;
}

TEST(BenchVerify, a_right_result_is_accepted_whole_and_one_wrong_bit_anywhere_refused) {
  const std::unique_ptr<Machine> machine = cpu();
  for (const Cell& cell : cells_of_every_kind()) {
    const std::unique_ptr<ReadyCell> ready = machine->prepare(cell);
    EXPECT_EQ(verify(*ready), cell.batch * 3 * 4 * 10) << describe(cell).dump();
    expect_refused(*ready, [](const Call&) {});  // the right result is there from before
    if (cell.in_place) expect_refused(*ready, [](const Call& call) { call(), call(); });
    for (const Heads* x : {&ready->sets[0].q_out, &ready->sets[0].k_out}) {
      const std::int64_t bytes = heads_bytes(cell, x->layout.heads);
      for (const std::int64_t at : {std::int64_t{0}, bytes / 2, bytes - 1}) {
        expect_refused(*ready, [&](const Call& call) {
          call();
          static_cast<std::byte*>(x->data)[at] ^= std::byte{1};
        });
      }
    }
  }
}

TEST(BenchVerify, of_many_tokens_the_first_middle_and_last_are_compared) {
  Cell cell = small_cell();
  cell.tokens = 20000;
  const std::unique_ptr<Machine> machine = cpu();
  const std::unique_ptr<ReadyCell> ready = machine->prepare(cell);
  EXPECT_LT(verify(*ready), cell.tokens * 4 * 10);
  for (const std::int64_t token : {0, 10000, 19999}) {
    expect_refused(*ready, [&](const Call& call) {
      call();
      static_cast<std::uint16_t*>(ready->sets[0].q.data)[token * 30 + 7] ^= 1;
    });
  }
}

TEST(BenchVerify, a_table_that_is_an_ulp_off_is_refused) {
  Cell cell = small_cell();
  cell.op = Op::table;
  cell.dtype = DType::f32;
  const std::unique_ptr<Machine> machine = cpu();
  const std::unique_ptr<ReadyCell> ready = machine->prepare(cell);
  EXPECT_EQ(verify(*ready), 9);
  const Table table = ready->table();
  std::vector<float> cos(table.cos().begin(), table.cos().end());
  const std::vector<float> sin(table.sin().begin(), table.sin().end());
  cos[4] = std::nextafter(cos[4], 2.0F);
  EXPECT_THROW(verify_rows(cell, ready->turns, Table(cos, sin, 3, Pairing::half)), Error);
}

// ---- measuring ----

TEST(BenchMeasure, every_op_place_and_layout_is_measured) {
  const std::unique_ptr<Machine> machine = cpu();
  const auto measured = [&](const Cell& cell) { return measure(*machine->prepare(cell), {.seconds = 0.001}); };
  for (const Op op : {Op::rotate, Op::backward, Op::fused}) {
    for (Cell cell : cells_of_every_kind()) {
      cell.op = op;
      cell.kv_heads = cell.in_place ? 1 : 0;
      cell.threads = cell.dtype == DType::f32 ? 2 : 1;
      const Result result = measured(cell);
      EXPECT_TRUE(result.seconds > 0 && result.ceiling_seconds > 0) << describe(cell).dump();
      EXPECT_GE(result.samples, 3);
    }
  }
  for (const Cell& cell : combined({"op=table dtype=f32,f16,bf16 tokens=100000 head_dim=10"},
                                   {{"target", std::string(chosen_target())}})) {
    const Result result = measured(cell);
    EXPECT_GT(result.verified, 10000);
    EXPECT_GT(result.cold_seconds.value_or(0), 0);
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

TEST(BenchMeasure, calls_run_in_turn_and_a_peers_beside_the_cell) {
  const std::unique_ptr<Machine> machine = cpu();
  const std::unique_ptr<ReadyCell> ready = machine->prepare(small_cell());
  int calls = 0;
  ready->beside.push_back([&calls] { ++calls; });
  const Result result = measure(*ready, {.rounds = 5, .sample = 1e-6});
  EXPECT_EQ(result.samples, 5);
  ASSERT_EQ(result.beside_seconds.size(), 1U);
  EXPECT_GE(calls, 5);
  EXPECT_GE(median_seconds({[] {}, [] {}}, {.seconds = 0.002}, false).samples, 3);
}

}  // namespace
}  // namespace rotary::cli::bench
