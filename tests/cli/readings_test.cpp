// rotary apply: tensors of doubles and long ones. (How dimensions are read: commands_test.cpp)
#include <cmath>

#include "rotary/rotary.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

class Readings : public Cli {
 protected:
  // heads 8, kv_heads 2, head_dim 4.
  std::string config() const {
    return write_config("c.json", R"("model_type": "llama", "hidden_size": 32, "num_attention_heads": 8,)"
                                  R"("num_key_value_heads": 2, "num_hidden_layers": 1, "rope_theta": 100.0)");
  }
  Strings words(const Strings& more = {}) const {
    return Strings{"apply", config(), "--input", path("in.safetensors"), "--output", path("out.safetensors")} + more;
  }
};

TEST_F(Readings, doubles_are_rotated_in_double) {
  const std::vector<double> values = {0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8};
  write_tensors("in.safetensors", {make_tensor<double>("q", ElementType::f64, {1, 2, 1, 4}, values)});
  for (const bool backward : {false, true}) {
    const Strings more = backward ? Strings{"--backward"} : Strings();
    const std::string text = expect_success(words(Strings{"--positions", "7:"} + more)).out;
    EXPECT_NE(text.find("  q  F64 [1, 2, 1, 4]: batch 1, tokens 2, heads 1"), std::string::npos) << text;
    const Tensor out = read_tensor("out.safetensors", "q");
    ASSERT_EQ(out.type, ElementType::f64);
    const std::vector<double> got = values_of<double>(out);
    for (std::size_t t = 0; t < 2; ++t) {
      for (std::size_t i = 0; i < 2; ++i) {
        const long double angle = (7.0L + static_cast<long double>(t)) * (i == 0 ? 1.0L : 0.1);
        const double c = static_cast<double>(std::cos(angle));
        const double s = static_cast<double>(backward ? -std::sin(angle) : std::sin(angle));
        const double a = values[4 * t + i];
        const double b = values[4 * t + i + 2];
        EXPECT_NEAR(got[4 * t + i], a * c - b * s, 1e-15);
        EXPECT_NEAR(got[4 * t + i + 2], b * c + a * s, 1e-15);
      }
    }
  }
}

TEST_F(Readings, doubles_follow_every_option) {
  const std::vector<float> values = some_values(2 * 3 * 2 * 8);
  Tensor wide =
      make_tensor<double>("q", ElementType::f64, {2, 3, 2, 8}, std::vector<double>(values.begin(), values.end()));
  const Tensor narrow = make_tensor<float>("q", ElementType::f32, {2, 3, 2, 8}, values);
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {2, 3}, {5, 6, -7, 100, 0, 1}));
  const auto rotated = [&](const Tensor& tensor, const Strings& more) {
    write_tensors("in.safetensors", {tensor});
    expect_success(
        Strings{"apply", "--base", "100", "--input", path("in.safetensors"), "--output", path("out.safetensors")} +
        more);
    return read_tensor("out.safetensors", "q");
  };
  for (const char* pairing : {"half", "interleaved", "interleaved_to_half"}) {
    for (const Strings& more : {Strings{"--backward"}, Strings{"--layout", "bhtd", "--positions", "0:2"},
                                Strings{"--positions", path("p.npy")}, Strings{"--first", "2", "--rotary-dim", "4"},
                                Strings{"--angles", "float32"}, Strings{"--rounding", "bf16"}}) {
      const Strings all = Strings{"--pairing", pairing} + more;
      const std::vector<double> got = values_of<double>(rotated(wide, all));
      const std::vector<float> near = values_of(rotated(narrow, all));
      for (std::size_t i = 0; i < near.size(); ++i) EXPECT_NEAR(got[i], near[i], 1e-6) << pairing << more[0] << i;
    }
  }
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {3, 3}, std::vector<std::int64_t>(9, 1)));
  write_tensors("in.safetensors", {wide});
  expect_error({"apply", "--base", "100", "--pairing", "half", "--input", path("in.safetensors"), "--output",
                path("out.safetensors"), "--positions", path("p.npy")},
               "SHAPE");
}

// More elements than one piece has; each layout, whole and rounded at each step.
TEST_F(Readings, long_tensors_rotate_as_a_whole) {
  constexpr int tokens = 5000, heads = 2, head_dim = 128;
  const std::vector<float> values = some_values(std::size_t{tokens} * heads * head_dim);
  const Rope rope{.head_dim = head_dim, .base = 10000, .pairing = Pairing::half};
  const Table table(frequencies(rope), positions(0, tokens));
  for (const char* layout : {"thd", "htd"}) {
    const bool outside = std::string(layout) == "thd";
    write_npy(path("q.npy"), make_tensor<float>("", ElementType::f32,
                                                outside ? std::vector<std::int64_t>{tokens, heads, head_dim}
                                                        : std::vector<std::int64_t>{heads, tokens, head_dim},
                                                values));
    expect_success({"apply", "--base", "10000", "--pairing", "half", "--layout", layout, "--input", path("q.npy"),
                    "--output", path("r.npy")});
    std::vector<float> wanted = values;
    rotate(rotary::heads(wanted, outside ? thd(tokens, heads, head_dim) : bhtd(1, heads, tokens, head_dim)), table);
    EXPECT_EQ(values_of(read_npy(path("r.npy"))), wanted) << layout;
    expect_success({"apply", "--base", "10000", "--pairing", "half", "--layout", layout, "--each-step", "--input",
                    path("q.npy"), "--output", path("s.npy")});
    EXPECT_EQ(values_of(read_npy(path("s.npy"))), wanted) << layout << ": f32 has no steps to round";
  }
}

}  // namespace
}  // namespace rotary::cli_tests
