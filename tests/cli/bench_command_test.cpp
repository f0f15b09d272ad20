// rotary bench: growth, the plots, and what the command prints. Nothing here is about speed.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/rotary/bench/grid.h"
#include "apps/rotary/bench/growth.h"
#include "apps/rotary/bench/report.h"
#include "rotary/gpu.h"
#include "run.h"
#include "xml_judge.h"

namespace rotary::cli_tests {
namespace {

using cli::bench::Cell;
using cli::bench::Measured;
using cli::bench::Op;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

// ---- growth ----

cli::bench::Result result_of(Cell cell, double ns_per_element) {
  cli::bench::Result result;
  result.seconds = static_cast<double>(cli::bench::elements(cell)) * ns_per_element * 1e-9;
  result.ceiling_seconds = result.seconds / 2;
  result.cell = std::move(cell);
  return result;
}

std::vector<Measured> measured(const Cell& base, double ns_per_element) {
  std::vector<Measured> all;
  for (const cli::bench::Series& series : cli::bench::growth(base, 2)) {
    all.push_back({series, {}});
    for (const Cell& cell : series.cells) all.back().results.push_back(result_of(cell, ns_per_element));
  }
  return all;
}

TEST(BenchGrowth, the_regular_series_span_five_decades_in_rising_order) {
  const std::vector<cli::bench::Series> all = cli::bench::growth(Cell{}, 2);
  EXPECT_EQ(all[0].cells.front().threads, 1U);
  EXPECT_EQ(all[1].cells.front().threads, 2U);
  for (const cli::bench::Series& series : all) {
    for (std::size_t i = 1; series.regular && i < series.cells.size(); ++i) {
      EXPECT_LT(cli::bench::elements(series.cells[i - 1]), cli::bench::elements(series.cells[i]));
    }
  }
  const double first = static_cast<double>(cli::bench::elements(all[0].cells.front()));
  EXPECT_EQ(all[0].cells.front().tokens, 1);
  EXPECT_GE(static_cast<double>(cli::bench::elements(all[0].cells.back())), 1e5 * first);
  EXPECT_EQ(cli::bench::growth(Cell{}, 1).size() + 1, all.size());
}

TEST(BenchGrowth, the_worst_cell_is_the_one_that_leaves_the_line) {
  std::vector<Measured> all = measured(Cell{}, 0.25);
  EXPECT_NEAR(cli::bench::worst(all).ratio, 1, 1e-9);
  cli::bench::Result& bump = all[0].results[7];
  bump.seconds *= 2;
  cli::bench::Outlier found = cli::bench::worst(all);
  EXPECT_EQ(found.result, &bump);
  EXPECT_NEAR(found.ratio, 2, 1e-9);
  cli::bench::Result& odd = all.back().results[3];
  odd.seconds *= 3;
  found = cli::bench::worst(all);
  EXPECT_EQ(found.result, &odd);
  EXPECT_EQ(found.series, all.back().series.name);
  EXPECT_NEAR(found.ratio, 3, 1e-9);
}

// ---- what is drawn ----

// Of any shape: they have an edge in the colour of the paper.
std::size_t dots(const std::vector<plot_tests::Element>& document) {
  return static_cast<std::size_t>(std::count_if(document.begin(), document.end(), [](const auto& element) {
    const bool shape = element.name == "circle" || element.name == "rect" || element.name == "path";
    return shape && element.attributes.count("stroke") != 0;
  }));
}

bool says(const std::vector<plot_tests::Element>& document, const std::string& text) {
  return std::any_of(document.begin(), document.end(), [&](const auto& element) { return element.text == text; });
}

TEST(BenchPlot, the_ceiling_has_a_dot_for_each_cell_of_heads) {
  std::vector<cli::bench::Result> results;
  for (const Cell& cell : cli::bench::grid("small", 2, "avx2", {})) results.push_back(result_of(cell, 1));
  const auto tables = static_cast<std::size_t>(std::count_if(
      results.begin(), results.end(), [](const cli::bench::Result& r) { return r.cell.op == Op::table; }));
  const auto document = plot_tests::parse_xml(svg(cli::bench::ceiling_plot(results)));
  const std::size_t legend = 6;  // dtypes and places
  EXPECT_EQ(dots(document), results.size() - tables + legend);
  EXPECT_TRUE(says(document, "bf16 in place") && says(document, "the ceiling"));
  EXPECT_NO_THROW(plot_tests::parse_xml(svg(cli::bench::ceiling_plot({}))));
}

TEST(BenchPlot, growth_draws_the_time_of_an_element) {
  const std::vector<Measured> all = measured(Cell{}, 0.5);
  const cli::Plot plot = cli::bench::growth_plot(all, {{"memory", 50, 1e300}});
  for (const auto& [elements, ns] : plot.lines[0].points) EXPECT_NEAR(ns, 0.5, 1e-9) << elements;
  const auto level = std::find_if(plot.lines.begin(), plot.lines.end(),
                                  [](const cli::Line& line) { return line.guide && line.name.starts_with("memory"); });
  ASSERT_NE(level, plot.lines.end());
  EXPECT_DOUBLE_EQ(level->points.front().second, level->points.back().second) << "a level is level";
  EXPECT_NEAR(level->points.front().second, 4.0 / 50, 1e-9) << "bf16 is read and written: 4 bytes at 50 GB/s";
}

TEST(BenchPlot, growth_has_its_series_and_the_levels_of_memory) {
  for (const bool in_place : {true, false}) {
    Cell base;
    base.in_place = in_place;
    std::vector<Measured> all = measured(base, 0.5);
    for (cli::bench::Result& result : all[1].results) result.seconds *= 0.75;  // equal lines would be one
    const auto document = plot_tests::parse_xml(
        svg(cli::bench::growth_plot(all, {{"L1", 200, 32e3}, {"L2", 100, 1e6}, {"memory", 50, 1e300}})));
    for (const Measured& each : all) EXPECT_TRUE(says(document, each.series.name)) << each.series.name;
    EXPECT_TRUE(says(document, "L1 200 GB/s by 1 thread") && says(document, "memory 50 GB/s by 1 thread"));
    EXPECT_TRUE(says(document, "ns per element"));
  }
}

// ---- the command ----

class BenchCommand : public Cli {
 protected:
  std::vector<Json> lines(Words words) const {
    words.insert(words.begin(), "bench");
    words.insert(words.end(), {"--seconds", "0.001", "--json"});
    std::vector<Json> all;
    std::istringstream stream(expect_success(words).out);
    for (std::string line; std::getline(stream, line);) all.push_back(Json::parse(line));
    return all;
  }
};

void expect_keys(const Json& line) {
  const bool table = line["op"] == "table";
  const Words first = {"op",       "dtype",    "pairing",    "layout",   "batch",   "tokens", "heads",
                       "kv_heads", "head_dim", "rotary_dim", "in_place", "threads", "target", "device"};
  Words keys;
  for (const auto& item : line.items()) keys.push_back(item.key());
  ASSERT_GE(keys.size(), first.size());
  EXPECT_EQ(Words(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(first.size())), first);
  EXPECT_EQ(line["device"], "cpu");
  for (const char* key : {"op", "dtype", "target"}) EXPECT_TRUE(line[key].is_string()) << key;
  for (const char* key : {"tokens", "head_dim", "rotary_dim", "threads"}) EXPECT_TRUE(line[key].is_number_integer());
  for (const char* key : {"pairing", "layout"}) EXPECT_TRUE(table ? line[key].is_null() : line[key].is_string());
  for (const char* key : {"heads", "kv_heads"})
    EXPECT_TRUE(table ? line[key].is_null() : line[key].is_number_integer());
  EXPECT_TRUE(table ? line["in_place"].is_null() : line["in_place"].is_boolean());
  for (const char* key : {"ns_per_element", "gb_per_s", "ceiling_gb_per_s", "percent_of_ceiling"}) {
    EXPECT_TRUE(line[key].is_number_float() && line[key].get<double>() > 0) << key;
  }
  EXPECT_GT(line["verified"].get<std::int64_t>(), 0);
  EXPECT_EQ(line.contains("cold_ns_per_element"), table);
}

TEST_F(BenchCommand, one_shape_by_flags_is_one_line) {
  const std::vector<Json> all =
      lines({"--op",       "backward", "--dtype",      "f16", "--pairing",      "interleaved", "--layout",   "tbhd",
             "--batch",    "2",        "--tokens",     "7",   "--heads",        "3",           "--kv-heads", "0",
             "--head-dim", "14",       "--rotary-dim", "6",   "--out-of-place", "--threads",   "2",          "--target",
             "scalar"});
  ASSERT_EQ(all.size(), 1U);
  expect_keys(all[0]);
  const Json expected = {{"op", "backward"},  {"dtype", "f16"},    {"pairing", "interleaved"},
                         {"layout", "tbhd"},  {"batch", 2},        {"tokens", 7},
                         {"heads", 3},        {"kv_heads", 0},     {"head_dim", 14},
                         {"rotary_dim", 6},   {"in_place", false}, {"threads", 2},
                         {"target", "scalar"}};
  for (const auto& item : expected.items()) EXPECT_EQ(all[0][item.key()], item.value()) << item.key();
}

TEST_F(BenchCommand, every_op_has_all_keys) {
  for (const std::string op : {"rotate", "backward", "table", "fused"}) {
    const std::vector<Json> all = lines({"--op", op, "--tokens", "3"});
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0]["op"], op);
    expect_keys(all[0]);
  }
}

TEST_F(BenchCommand, a_filter_takes_from_the_full_grid) {
  const std::vector<Json> all = lines({"--filter", "op=rotate,tokens=1,dtype=f16,head_dim=80,threads=1,layout=bhtd"});
  EXPECT_EQ(all.size(), 4U) << "pairing and place are open";
  for (const Json& line : all) EXPECT_EQ(line["head_dim"], 80);
}

TEST_F(BenchCommand, a_flag_beside_a_filter_sets_its_key) {
  const std::vector<Json> all =
      lines({"--tokens", "5", "--filter", "op=fused,in_place=true,dtype=f32,threads=1", "--kv-heads", "2"});
  ASSERT_EQ(all.size(), 2U) << "pairings";
  for (const Json& line : all) EXPECT_TRUE(line["tokens"] == 5 && line["kv_heads"] == 2) << line.dump();
}

TEST_F(BenchCommand, rows_stand_under_their_header) {
  const Result result = expect_success({"bench", "--tokens", "5", "--seconds", "0.001"});
  EXPECT_NE(result.out.find("\nop "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nrotate   bf16  half        bthd [1, 5, 32+8, 128]"), std::string::npos) << result.out;
}

TEST_F(BenchCommand, the_plot_is_written_whole) {
  lines({"--tokens", "2", "--plot", path("p.svg")});
  EXPECT_NO_THROW(plot_tests::parse_xml(read_text(path("p.svg"))));
}

TEST_F(BenchCommand, what_cannot_be_is_refused_before_anything_is_measured) {
  expect_error({"bench", "--rotary-dim", "7"}, "SHAPE");
  expect_error({"bench", "--head-dim", "64", "--rotary-dim", "128"}, "SHAPE");
  expect_error({"bench", "--layout", "thd", "--batch", "2"}, "SHAPE");
  expect_error({"bench", "--tokens", "1000000000000"}, "MEMORY");
  expect_error({"bench", "--target", "abacus"}, "TARGET");
  expect_error({"bench", "--plot", path("p.png")}, "FORMAT");
  expect_error({"bench", "--growth", path("no/such/folder/g.svg")}, "FILE");
  for (const Words& words :
       std::vector<Words>{{"--tokens", "0"},
                          {"--grid", "huge"},
                          {"--filter", "tokens=77"},
                          {"--filter", "colour=red"},
                          {"--in-place", "--out-of-place"},
                          {"--growth", path("g.svg"), "--tokens", "3"},
                          {"--op", "table", "--heads", "3"},
                          {"--op", "append"},
                          {"--op", "norm_append", "--device", "cpu"},
                          {"--no-table"},
                          {"--cache", "f8"},
                          {"--device", "abacus"},
                          {"--device", "cuda", "--threads", "2"},
                          {"--device", "cuda", "--target", "scalar"},
                          {"--device", "cuda", "--growth", path("g.svg")},
                          {"--device", "cuda", "--op", "fused", "--cache", "f8"},
                          {"--device", "cuda", "--op", "append", "--kv-heads", "0"},
                          {"--device", "cuda", "--op", "table", "--no-table"},
                          {"--device", "cuda", "--op", "norm_append", "--pairing", "interleaved_to_half", "--in-place"},
                          {"--device", "cuda", "--filter", "colour=red"},
                          {"--device", "cuda", "--filter", "threads=1"}}) {
    Words all = words;
    all.insert(all.begin(), "bench");
    expect_usage(all);
  }
}

TEST_F(BenchCommand, cuda_without_a_device_is_one_error) {
  if (gpu::devices() > 0) GTEST_SKIP() << "there is a device: tests/cli/bench_cuda_test.cpp";
  for (const Words& words : std::vector<Words>{{}, {"--op", "append"}, {"--grid", "full"}}) {
    Words all = words;
    all.insert(all.begin(), {"bench", "--device", "cuda"});
    expect_error(all, "CUDA");
  }
  const Result as_json = run({"bench", "--device", "cuda", "--json"});
  EXPECT_EQ(as_json.exit, 1);
  EXPECT_EQ(as_json.out, "");
  EXPECT_TRUE(as_json.err.starts_with("error: CUDA: "));
  EXPECT_EQ(Json::parse(as_json.err.substr(as_json.err.find('\n'))).at("error").at("code"), "CUDA");
}

}  // namespace
}  // namespace rotary::cli_tests
