// rotary table: the forms and types that engines hold, and open positions.
#include "run.h"

namespace rotary::cli_tests {
namespace {

using Shape = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

class CliTable : public Cli {
 protected:
  Result table(const std::string& config, const Strings& more, const std::string& output = "t.safetensors") const {
    Strings all = {"table", config, "--output", path(output)};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  Tensor made(const std::string& name, const Strings& more) const { return made_at("0:3", name, more); }
  Tensor made_at(const std::string& positions, const std::string& name, const Strings& more) const {
    Strings all = {"--positions", positions};
    all.insert(all.end(), more.begin(), more.end());
    const Result result = table(small_llama(), all);
    EXPECT_EQ(result.exit, 0) << result.err;
    return read_tensor("t.safetensors", name);
  }
};

TEST_F(CliTable, doubled_is_what_hugging_face_holds) {
  const std::vector<float> cos = values_of(made("cos", {}));
  ASSERT_EQ(cos.size(), 6U);
  for (const char* name : {"cos", "sin"}) {
    const std::vector<float> pairs = values_of(made(name, {"--form", "pairs"}));
    const Tensor half = made(name, {"--form", "doubled"});
    const Tensor interleaved = made(name, {"--form", "doubled", "--pairing", "interleaved"});
    const Tensor to_half = made(name, {"--form", "doubled", "--pairing", "interleaved_to_half"});
    EXPECT_EQ(half.shape, (Shape{3, 4}));
    for (std::size_t t = 0; t < 3; ++t) {
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(values_of(half)[4 * t + i], pairs[2 * t + i % 2]) << name;
        EXPECT_EQ(values_of(interleaved)[4 * t + i], pairs[2 * t + i / 2]) << name;
      }
    }
    EXPECT_EQ(to_half.data, half.data) << "the output is in halves";
  }
}

TEST_F(CliTable, joined_and_complex_are_one_tensor) {
  const std::vector<float> cos = values_of(made("cos", {}));
  const std::vector<float> sin = values_of(made("sin", {}));
  const Tensor joined = made("cos_sin", {"--form", "joined"});
  const Tensor complex = made("freqs_cis", {"--form", "complex"});
  EXPECT_EQ(joined.shape, (Shape{3, 4}));
  EXPECT_EQ(complex.shape, (Shape{3, 2, 2}));
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(values_of(joined)[4 * t + i], cos[2 * t + i]);
      EXPECT_EQ(values_of(joined)[4 * t + 2 + i], sin[2 * t + i]);
      EXPECT_EQ(values_of(complex)[4 * t + 2 * i], cos[2 * t + i]);
      EXPECT_EQ(values_of(complex)[4 * t + 2 * i + 1], sin[2 * t + i]);
    }
  }
  for (const char* form : {"joined", "complex"}) {
    const Result result = table(small_llama(), {"--positions", "0:3", "--form", form}, "t.npy");
    EXPECT_EQ(result.exit, 0) << result.err;
    EXPECT_EQ(values_of(read_npy(path("t.npy"))), values_of(std::string(form) == "joined" ? joined : complex));
  }
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {2, 3}, {0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(made_at(path("p.npy"), "cos_sin", {"--form", "joined"}).shape, (Shape{2, 3, 4}));
}

// Rounded once: at some position rounding to f32 first would give another value.
TEST_F(CliTable, types_are_rounded_once_from_the_exact_value) {
  const std::string positions = "0:20000";
  const auto values = [&](const Strings& more) {
    Strings all = {"--positions", positions};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(table(small_llama("", "500000.0"), all).exit, 0);
    return read_tensor("t.safetensors", "cos");
  };
  for (const std::string type : {"f16", "bf16"}) {
    const Tensor narrow = values({"--dtype", type});
    EXPECT_EQ(narrow.type, type == "f16" ? ElementType::f16 : ElementType::bf16);
    const std::vector<std::uint16_t> bits = values_of<std::uint16_t>(narrow);
    const std::vector<float> rounded = values_of(values({"--rounding", type}));
    const std::vector<float> wide = values_of(values({}));
    ASSERT_EQ(bits.size(), rounded.size());
    int twice = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const std::uint16_t once = type == "f16" ? to_f16(rounded[i]).bits : to_bf16(rounded[i]).bits;
      ASSERT_EQ(bits[i], once) << i;
      twice += bits[i] != (type == "f16" ? to_f16(wide[i]).bits : to_bf16(wide[i]).bits) ? 1 : 0;
    }
    EXPECT_LT(twice, 10) << "roundings by way of f32 differ rarely";
    expect_usage({"table", small_llama(), "--positions", "0:3", "--output", path("t.safetensors"), "--dtype", type,
                  "--rounding", type == "f16" ? "bf16" : "f16"});
  }
  expect_usage({"table", small_llama(), "--positions", "0:3", "--output", path("t.safetensors"), "--dtype", "f64"});
}

TEST_F(CliTable, apply_counts_the_tokens_of_open_positions) {
  write_tensors("q.safetensors", {make_tensor<float>("q", ElementType::f32, {1, 3, 2, 4}, some_values(24)),
                                  make_tensor<float>("k", ElementType::f32, {1, 2, 1, 4}, some_values(8))});
  const auto rotated = [&](const std::string& name, const std::string& positions) {
    expect_success({"apply", small_llama(), "--tensor", name, "--input", path("q.safetensors"), "--output",
                    path("r.safetensors"), "--positions", positions});
    return values_of(read_tensor("r.safetensors", name));
  };
  for (const char* open : {"100:", "+100", "100,101:"}) {
    EXPECT_EQ(rotated("q", open), rotated("q", "100:103"));
    EXPECT_EQ(rotated("k", open), rotated("k", "100:102"));
  }
  EXPECT_EQ(rotated("q", "+0"), rotated("q", "0:3"));
  expect_error({"apply", small_llama(), "--input", path("q.safetensors"), "--output", path("r.safetensors"),
                "--positions", "0:3,100:"},
               "POSITION");
}

}  // namespace
}  // namespace rotary::cli_tests
