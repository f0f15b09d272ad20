// rotary bench: what the command prints. Nothing here is about speed.
#include <sstream>

#include "rotary/gpu.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

// ---- the command ----

class BenchCommand : public Cli {
 protected:
  std::vector<Json> lines(const Strings& words) const {
    std::vector<Json> all;
    const Strings bench = Strings{"bench"} + words + Strings{"--seconds", "0.001", "--json"};
    for (const std::string& line : lines_of(expect_success(bench).out)) all.push_back(Json::parse(line));
    return all;
  }
};

// The first keys and their types, as in "op string, tokens number".
std::string keys_of(const Json& line, std::size_t count) {
  std::string text;
  for (const auto& item : line.items()) {
    if (count-- == 0) break;
    text += (text.empty() ? "" : ", ") + item.key() + " " + item.value().type_name();
  }
  return text;
}

TEST_F(BenchCommand, every_op_has_all_keys) {
  const std::string shape = "head_dim number, rotary_dim number, ",
                    figures =
                        "threads number, target string, device string, ns_per_element number, gb_per_s number, "
                        "ceiling_gb_per_s number, percent_of_ceiling number";
  for (const std::string op : {"rotate", "backward", "table", "fused"}) {
    const std::vector<Json> all = lines({"--op", op, "--tokens", "3"});
    ASSERT_EQ(all.size(), 1U);
    const std::string of_heads = op == "table" ? " null, " : " number, ",
                      word = op == "table" ? " null, " : " string, ";
    EXPECT_EQ(keys_of(all[0], 19), "version number, op string, dtype string, pairing" + word + "layout" + word +
                                       "batch" + of_heads + "tokens number, heads" + of_heads + "kv_heads" + of_heads +
                                       shape + "in_place " + (op == "table" ? "null, " : "boolean, ") + figures);
    EXPECT_TRUE(all[0]["op"] == op && all[0]["device"] == "cpu") << all[0].dump();
    for (const char* key : {"ns_per_element", "gb_per_s", "ceiling_gb_per_s", "percent_of_ceiling", "verified"})
      EXPECT_GT(all[0][key].get<double>(), 0) << key;
    EXPECT_EQ(all[0].contains("cold_ns_per_element"), op == "table");
  }
}

TEST_F(BenchCommand, one_shape_by_flags_is_one_line) {
  const std::vector<Json> all =
      lines({"--op",       "backward", "--dtype",      "f16", "--pairing",      "interleaved", "--layout",   "tbhd",
             "--batch",    "2",        "--tokens",     "7",   "--heads",        "3",           "--kv-heads", "0",
             "--head-dim", "14",       "--rotary-dim", "6",   "--out-of-place", "--threads",   "2",          "--target",
             "scalar"});
  ASSERT_EQ(all.size(), 1U);
  Json expected = Json::parse(R"({"op": "backward", "dtype": "f16", "pairing": "interleaved", "layout": "tbhd",
      "batch": 2, "tokens": 7, "heads": 3, "kv_heads": 0, "head_dim": 14, "rotary_dim": 6, "in_place": false,
      "threads": 2, "target": "scalar"})");
  for (const auto& item : expected.items()) EXPECT_EQ(all[0][item.key()], item.value()) << item.key();
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

TEST_F(BenchCommand, cuda_without_a_device_is_one_error) {
  if (gpu::devices() > 0) GTEST_SKIP() << "there is a device: tests/cli/bench_cuda_test.cpp";
  for (const Strings& words : std::vector<Strings>{{}, {"--op", "append"}, {"--grid", "full"}}) {
    Strings all = words;
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
