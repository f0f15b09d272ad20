// rotary apply: how the dimensions of a tensor are read, by the config's heads and by --layout; tensors of doubles.
#include <cmath>

#include "rotary/rotary.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

using Shape = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

class Readings : public Cli {
 protected:
  // heads 8, kv_heads 2, head_dim 4.
  std::string config() const {
    return write_config("c.json", R"("model_type": "llama", "hidden_size": 32, "num_attention_heads": 8,)"
                                  R"("num_key_value_heads": 2, "num_hidden_layers": 1, "rope_theta": 100.0)");
  }
  static Tensor floats(const std::string& name, const Shape& shape) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    return make_tensor<float>(name, ElementType::f32, shape, some_values(count));
  }
  Strings words(const Strings& more = {}) const {
    Strings all = {"apply", config(), "--input", path("in.safetensors"), "--output", path("out.safetensors")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void write(const Shape& q, const Shape& k = {}) const {
    std::vector<Tensor> tensors;
    if (!q.empty()) tensors.push_back(floats("q", q));
    if (!k.empty()) tensors.push_back(floats("k", k));
    write_tensors("in.safetensors", tensors);
  }
  void expect_refused(const std::string& layout, const Strings& more = {}) const {
    expect_error(words(more), "SHAPE");
    const std::string said = run(words(more)).err;
    EXPECT_NE(said.find("layout " + layout + " fits: say --layout " + layout), std::string::npos) << said;
    EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
  }
  void expect_read(const std::string& sizes, const Strings& more = {}) const {
    const std::string text = expect_success(words(more)).out;
    EXPECT_NE(text.find(": " + sizes + "\n"), std::string::npos) << text;
    std::filesystem::remove(path("out.safetensors"));
  }
};

// ---- a layout that the config's heads contradict -------------------------------------------------

TEST_F(Readings, a_layout_is_refused_where_the_heads_fit_another_one) {
  write({1, 8, 3, 4}, {1, 2, 3, 4});
  expect_refused("bhtd");
  EXPECT_NE(run(words()).err.find("tensor 'q' must have the config's 8 heads and tensor 'k' its 2 but got 3 and 3 in "
                                  "layout bthd"),
            std::string::npos);
  write({8, 3, 4}, {2, 3, 4});
  expect_refused("htd");
  write({1, 8, 4, 4});  // 4 heads would be a shard of 8 tokens, but 8 heads are the config's
  expect_refused("bhtd");
  write({}, {1, 2, 3, 4});
  expect_refused("bhtd");
  write({1, 8, 2, 4}, {1, 2, 2, 4});  // each could be a shard, but not of the same
  expect_refused("bhtd");
  write({1, 8, 1, 4}, {1, 2, 1, 4});  // one token
  expect_refused("bhtd");
  write({1, 4, 6, 4}, {1, 1, 6, 4});  // a shard of two
  expect_refused("bhtd");
}

TEST_F(Readings, names_of_layers_are_q_and_k_too) {
  std::vector<Tensor> tensors;
  Strings names = {"--tensor"};
  for (const char* layer : {"0", "1"}) {
    for (const char* name : {".self_attn.q_proj", ".self_attn.k_proj"}) {
      const bool q = std::string(name).find("q_") != std::string::npos;
      tensors.push_back(floats("layers." + std::string(layer) + name, {1, q ? 8 : 2, 4, 4}));
      names.push_back(tensors.back().name);
    }
  }
  write_tensors("in.safetensors", tensors);
  expect_refused("bhtd", names);
  const std::string said = run(words(names)).err;
  EXPECT_EQ(said.find("layers.1."), std::string::npos) << "those like the first are not listed: " << said;
  write_npy(path("q.npy"), floats("", {1, 8, 3, 4}));
  expect_error({"apply", config(), "--input", path("q.npy"), "--output", path("r.npy")}, "SHAPE");
  EXPECT_FALSE(std::filesystem::exists(path("r.npy")));
}

TEST_F(Readings, fewer_heads_contradict_nothing) {
  write({1, 3, 4, 4}, {1, 3, 1, 4});  // a shard
  expect_read("batch 1, tokens 3, heads 4");
  write({1, 3, 1, 4}, {1, 3, 1, 4});
  expect_read("batch 1, tokens 3, heads 1");
  write({1, 8, 1, 4});
  expect_read("batch 1, tokens 8, heads 1");
  EXPECT_NE(run(words()).out.find("note: tensor 'q' is read as 1 head of 8 tokens; in layout bhtd it would be 8 heads "
                                  "of 1 token"),
            std::string::npos);
  write({8, 4, 4}, {8, 1, 4});
  expect_read("batch 1, tokens 8, heads 4");
}

TEST_F(Readings, the_default_stays_where_it_fits) {
  write({1, 8, 8, 4}, {1, 8, 2, 4});
  expect_read("batch 1, tokens 8, heads 8");
  write({1, 2, 8, 4}, {1, 2, 2, 4});
  expect_read("batch 1, tokens 2, heads 2");
  write({5, 7, 8, 4});
  expect_read("batch 5, tokens 7, heads 8");
}

TEST_F(Readings, heads_that_fit_nothing_are_a_note) {
  write({1, 3, 5, 4}, {1, 3, 2, 4});
  expect_read("batch 1, tokens 3, heads 5");
  EXPECT_NE(run(words()).out.find("note: tensor 'q' must have the config's 8 heads and tensor 'k' its 2 but got 5 and "
                                  "2 in layout bthd; no other layout fits\n"),
            std::string::npos);
}

TEST_F(Readings, a_layout_written_out_is_believed) {
  write({1, 8, 3, 4}, {1, 2, 3, 4});
  const Result wrong = run(words({"--layout", "bthd"}));
  EXPECT_EQ(wrong.exit, 0) << wrong.err;
  EXPECT_EQ(wrong.err,
            "warning: tensor 'q' must have the config's 8 heads and tensor 'k' its 2 but got 3 and 3 in layout bthd; "
            "layout bhtd would fit; --layout bthd is believed\n");
  EXPECT_NE(wrong.out.find("rotated  q  F32 [1, 8, 3, 4]: batch 1, tokens 8, heads 3\n"), std::string::npos);
  expect_read("batch 1, tokens 3, heads 8", {"--layout", "bhtd"});
}

TEST_F(Readings, without_a_config_different_tokens_are_a_note) {
  write({1, 8, 3, 4}, {1, 2, 3, 4});
  const std::string text = expect_success({"apply", "--base", "100", "--pairing", "half", "--input",
                                           path("in.safetensors"), "--output", path("out.safetensors")})
                               .out;
  EXPECT_NE(
      text.find("note: tensor 'k' is read as 3 heads of 2 tokens; in layout bhtd it would be 2 heads of 3 tokens"),
      std::string::npos)
      << text;
}

// ---- other dimensions ----------------------------------------------------------------------------

class SameElements : public Readings {
 protected:
  // What apply makes of q seen with that shape.
  std::vector<float> rotated(const Shape& shape, const Strings& more = {}) const {
    Tensor q = floats("q", {1, 6, 8, 4});
    q.shape = shape;
    write_tensors("in.safetensors", {q});
    expect_success(words(more));
    const Tensor out = read_tensor("out.safetensors", "q");
    EXPECT_EQ(out.shape, shape);
    return values_of(out);
  }
};

TEST_F(SameElements, may_be_flat) {
  const std::vector<float> expected = rotated({1, 6, 8, 4});
  EXPECT_EQ(rotated({1, 6, 32}), expected);
  EXPECT_EQ(rotated({6, 32}), expected);
  EXPECT_EQ(rotated({6, 32}, {"--layout", "flat"}), expected);
  EXPECT_EQ(rotated({6, 8, 4}), expected);
  EXPECT_EQ(rotated({2, 3, 32}, {"--positions", "0:3"}), rotated({2, 3, 8, 4}, {"--positions", "0:3"}));
}

TEST_F(Readings, one_token_has_heads_only) {
  write({8, 4}, {2, 4});
  expect_read("batch 1, tokens 1, heads 8", {"--positions", "3"});
  expect_error(words({"--positions", "0:8"}), "SHAPE");
  write({5, 4});
  expect_error(words(), "SHAPE");
  EXPECT_NE(run(words()).err.find("--layout hd: one token; td: one head"), std::string::npos);
  expect_read("batch 1, tokens 1, heads 5", {"--layout", "hd"});
  expect_read("batch 1, tokens 5, heads 1", {"--layout", "td"});
}

TEST_F(Readings, flat_heads_must_be_the_configs) {
  write({1, 3, 48});  // q, k and v in one
  expect_error(words(), "SHAPE");
  write({1, 3, 30});
  expect_error(words(), "SHAPE");
  expect_error(words({"--layout", "flat"}), "SHAPE");
  write({1, 3, 16});  // a shard
  expect_read("batch 1, tokens 3, heads 4");
  expect_error({"apply", "--base", "100", "--pairing", "half", "--layout", "flat", "--input", path("in.safetensors"),
                "--output", path("out.safetensors")},
               "SHAPE");
}

// k [batch, tokens, head_dim] alone would be [tokens, heads, head_dim].
TEST_F(Readings, one_flat_head_of_k_is_flat_beside_a_flat_q) {
  const std::string config = write_config(
      "mqa.json", R"("model_type": "llama", "hidden_size": 32, "num_attention_heads": 8, "num_key_value_heads": 1,)"
                  R"("num_hidden_layers": 1, "rope_theta": 100.0)");
  write({2, 3, 32}, {2, 3, 4});
  const Strings call = {"apply", config, "--input", path("in.safetensors"), "--output", path("out.safetensors")};
  const std::string text = expect_success(call).out;
  EXPECT_NE(text.find("k  F32 [2, 3, 4]: batch 2, tokens 3, heads 1\n"), std::string::npos) << text;
  write({}, {2, 3, 4});
  expect_error(call, "SHAPE");
  EXPECT_NE(run(call).err.find("in layout thd; layout flat fits: say --layout flat, or --layout thd"),
            std::string::npos)
      << run(call).err;
}

TEST_F(Readings, the_bare_block_of_mla_is_one_head) {
  const std::string mla = write_config(
      "mla.json", R"("model_type": "deepseek_v2", "hidden_size": 24, "num_attention_heads": 8, "num_hidden_layers": 1,)"
                  R"("max_position_embeddings": 64, "rope_theta": 100.0, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,)"
                  R"("v_head_dim": 8, "kv_lora_rank": 16, "q_lora_rank": null)");
  const auto call = [&](const Strings& more) {
    Strings all = {"apply", mla, "--input", path("in.safetensors"), "--output", path("out.safetensors")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  write({1, 8, 3, 12}, {1, 1, 3, 4});
  expect_error(call({}), "SHAPE");
  EXPECT_NE(run(call({})).err.find("layout bhtd fits"), std::string::npos) << run(call({})).err;
  write({1, 3, 8, 12}, {1, 3, 1, 4});
  expect_success(call({}));
  write({}, {2, 4, 4});
  expect_error(call({}), "SHAPE");
  EXPECT_NE(run(call({})).err.find("--layout flat"), std::string::npos) << run(call({})).err;
  expect_success(call({"--layout", "flat"}));
  write({2, 4, 96}, {2, 4, 4});
  expect_success(call({}));
}

// ---- doubles -------------------------------------------------------------------------------------

TEST_F(Readings, doubles_are_rotated_in_double) {
  const std::vector<double> values = {0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8};
  write_tensors("in.safetensors", {make_tensor<double>("q", ElementType::f64, {1, 2, 1, 4}, values)});
  for (const bool backward : {false, true}) {
    Strings call = words({"--positions", "7:"});
    if (backward) call.push_back("--backward");
    const std::string text = expect_success(call).out;
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

// At 10^18 an angle in double would be off by radians. cos and sin of 10^18 and of 10^18 times the double 0.1, in 60
// decimals.
TEST_F(Readings, doubles_are_exact_far_away) {
  write_tensors("in.safetensors", {make_tensor<double>("q", ElementType::f64, {1, 1, 1, 4}, {1, 1, 0, 0})});
  expect_success(words({"--positions", "1000000000000000000"}));
  const std::vector<double> got = values_of<double>(read_tensor("out.safetensors", "q"));
  const std::vector<double> wanted = {0.118371990218710732612, -0.969167653472687360424, -0.992969320740405076210,
                                      0.246402231041532964783};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(got[i], wanted[i]) << i;
}

TEST_F(Readings, doubles_follow_every_option) {
  const std::vector<float> values = some_values(2 * 3 * 2 * 8);
  Tensor wide =
      make_tensor<double>("q", ElementType::f64, {2, 3, 2, 8}, std::vector<double>(values.begin(), values.end()));
  const Tensor narrow = make_tensor<float>("q", ElementType::f32, {2, 3, 2, 8}, values);
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {2, 3}, {5, 6, -7, 100, 0, 1}));
  const auto rotated = [&](const Tensor& tensor, const Strings& more) {
    write_tensors("in.safetensors", {tensor});
    Strings all = {"apply", "--base", "100", "--input", path("in.safetensors"), "--output", path("out.safetensors")};
    all.insert(all.end(), more.begin(), more.end());
    expect_success(all);
    return read_tensor("out.safetensors", "q");
  };
  for (const char* pairing : {"half", "interleaved", "interleaved_to_half"}) {
    for (const Strings& more : {Strings{"--backward"}, Strings{"--layout", "bhtd", "--positions", "0:2"},
                                Strings{"--positions", path("p.npy")}, Strings{"--first", "2", "--rotary-dim", "4"},
                                Strings{"--angles", "float32"}, Strings{"--rounding", "bf16"}}) {
      Strings all = {"--pairing", pairing};
      all.insert(all.end(), more.begin(), more.end());
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
