// rotary apply: the elements that it rotates and copies; the values of rotary table. (Refusals: commands_test.cpp)
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "rotary/reference.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

class Apply : public Cli {
 protected:
  // Runs apply from in.safetensors to out.safetensors.
  Strings words(const Strings& source, const Strings& more = {}) const {
    return Strings{"apply"} + source + Strings{"--input", path("in.safetensors"), "--output", path("out.safetensors")} +
           more;
  }
  std::vector<float> rotated(const Strings& source, const Strings& more = {}, const std::string& name = "q") const {
    expect_success(words(source, more));
    return values_of(read_tensor("out.safetensors", name));
  }
  void write_input(const std::vector<Tensor>& tensors, const std::map<std::string, std::string>& metadata = {}) const {
    write_tensors("in.safetensors", tensors, metadata);
  }
  static Tensor floats(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    return make_tensor<float>(name, ElementType::f32, shape, values);
  }
};

const Strings base100 = {"--base", "100", "--pairing", "half"};

// Pair (a, b) at a position, in double.
void expect_rotated(float got_a, float got_b, double a, double b, double angle) {
  EXPECT_NEAR(got_a, a * std::cos(angle) - b * std::sin(angle), 1e-5);
  EXPECT_NEAR(got_b, b * std::cos(angle) + a * std::sin(angle), 1e-5);
}

// ---- the rotation ----

// The options of a call, and what they mean to the reference.
struct Call {
  Strings options;
  Shape shape = {1, 5, 3, 8};
  Layout layout = bthd(1, 5, 3, 8);
  std::vector<std::int64_t> positions = {0, 1, 2, 3, 4};
  Pairing pairing = Pairing::half;
  int first = 0, rotary_dim = 8;
  Direction direction = Direction::forward;
  reference::Arithmetic arithmetic = reference::Arithmetic::f32;
};

TEST_F(Apply, every_option_is_what_the_reference_makes_of_it) {
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {2, 2}, {5, 6, -7, 100}));
  const std::vector<std::int64_t> three = {0, 1, 2};
  constexpr auto each_step = reference::Arithmetic::each_step;
  const std::vector<Call> calls = {
      {.options = {}},
      {.options = {}, .pairing = Pairing::interleaved},
      {.options = {}, .pairing = Pairing::interleaved_to_half},
      {.options = {"--backward"}, .direction = Direction::backward},
      {.options = {"--each-step"}, .arithmetic = each_step},
      {.options = {"--each-step", "--backward"}, .direction = Direction::backward, .arithmetic = each_step},
      {.options = {"--positions", "-2:3"}, .positions = {-2, -1, 0, 1, 2}},
      {.options = {"--positions", path("p.npy")},
       .shape = {2, 2, 1, 8},
       .layout = bthd(2, 2, 1, 8),
       .positions = {5, 6, -7, 100}},
      {.options = {"--rotary-dim", "4"}, .rotary_dim = 4},
      {.options = {"--rotary-dim", "2", "--first", "3"}, .first = 3, .rotary_dim = 2},
      {.options = {"--first", "6"}, .first = 6, .rotary_dim = 2},
      {.options = {"--target", "scalar"}},
      {.options = {"--threads", "3"}},
      {.options = {"--threads", "0"}},
      {.options = {"--layout", "bthd"}, .shape = {2, 3, 5, 8}, .layout = bthd(2, 3, 5, 8), .positions = three},
      {.options = {"--layout", "bhtd"}, .shape = {2, 5, 3, 8}, .layout = bhtd(2, 5, 3, 8), .positions = three},
      {.options = {"--layout", "tbhd"}, .shape = {3, 2, 5, 8}, .layout = tbhd(3, 2, 5, 8), .positions = three},
      {.options = {}, .shape = {3, 5, 8}, .layout = thd(3, 5, 8), .positions = three},
      {.options = {"--layout", "htd"}, .shape = {5, 3, 8}, .layout = bhtd(1, 5, 3, 8), .positions = three},
  };
  for (const Call& call : calls) {
    const Rope rope{.head_dim = 8, .rotary_dim = call.rotary_dim, .base = 100, .pairing = call.pairing};
    const int batch = static_cast<int>(static_cast<std::int64_t>(call.positions.size()) / call.layout.tokens);
    const Table table(frequencies(rope), Positions(std::span(call.positions), 1, batch));
    for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
      Tensor q = make_tensor<std::uint16_t>("q", type, call.shape, {});
      q.bytes = static_cast<std::size_t>(q.elements()) * (type == ElementType::f32 ? 4 : 2);
      q.data.resize(q.bytes);
      const std::vector<float> random = some_values(q.bytes / 2);
      for (std::size_t i = 0; i < random.size(); ++i) {  // exponents near 1, so that every word is a number
        const auto word = static_cast<std::uint16_t>(0x3C00 + static_cast<int>(random[i] * 500));
        std::memcpy(&q.data[2 * i], &word, 2);
      }
      write_input({q});
      Tensor expected = q;
      const ConstHeads x(q.data.data(), *dtype_of(type), call.layout);
      const Heads out{expected.data.data(), *dtype_of(type), call.layout};
      const int width = 8 - call.first;
      reference::rotate(slice(x, call.first, width), slice(out, call.first, width), table, call.direction,
                        call.arithmetic);
      expect_success(words({"--base", "100", "--pairing", name(call.pairing)}, call.options));
      EXPECT_EQ(read_tensor("out.safetensors", "q").data, expected.data)
          << name(type) << " " << name(call.pairing) << testing::PrintToString(call.options);
    }
  }
}

// ---- doubles, and long tensors ----

TEST_F(Apply, doubles_are_rotated_in_double) {
  const std::vector<double> values = {0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8};
  write_tensors("in.safetensors", {make_tensor<double>("q", ElementType::f64, {1, 2, 1, 4}, values)});
  for (const bool backward : {false, true}) {
    const Strings more = backward ? Strings{"--backward"} : Strings();
    const std::string text = expect_success(words(base100, Strings{"--positions", "7:"} + more)).out;
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

TEST_F(Apply, doubles_follow_every_option) {
  const std::vector<float> values = some_values(2 * 3 * 2 * 8);
  Tensor wide =
      make_tensor<double>("q", ElementType::f64, {2, 3, 2, 8}, std::vector<double>(values.begin(), values.end()));
  const Tensor narrow = make_tensor<float>("q", ElementType::f32, {2, 3, 2, 8}, values);
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {2, 3}, {5, 6, -7, 100, 0, 1}));
  const auto rotated = [&](const Tensor& tensor, const Strings& more) {
    write_tensors("in.safetensors", {tensor});
    expect_success(words({"--base", "100"}, more));
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
  expect_error(words(base100, {"--positions", path("p.npy")}), "SHAPE");
}

// More elements than one piece has; each layout, whole and rounded at each step.
TEST_F(Apply, long_tensors_rotate_as_a_whole) {
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

// ---- models of diffusers ----

// Rotations that diffusers' own modules made (files/golden/make_diffusers_rotation.py): Mochi turns each head by
// directions of the checkpoint, Allegro three blocks of a head, by a rope each.
class OfDiffusers : public Apply {
 protected:
  OfDiffusers() : all_(Json::parse(read_text(ROTARY_SOURCE_DIR "/cli/tests/golden/diffusers_rotation.json"))) {}
  // Writes q, k = q and the positions of a model of 2 heads.
  Strings config(const char* model, const std::string& class_name) {
    const Json& g = all_.at(model);
    before_ = g["x"].get<std::vector<float>>();
    after_ = g["rotated"].get<std::vector<float>>();
    std::vector<double> positions;
    for (const auto& axis : g["positions"]) positions.insert(positions.end(), axis.begin(), axis.end());
    const auto tokens = static_cast<std::int64_t>(positions.size() / 3);
    const std::int64_t width = std::ssize(before_) / tokens / 2;
    write_npy(path("p.npy"), make_tensor<double>("", ElementType::f64, {3, tokens}, positions));
    const Shape shape = {1, tokens, 2, width};
    write_input({floats("q", shape, before_), floats("k", shape, before_)});
    return {write_config(class_name + ".json", R"("_class_name": ")" + class_name +
                                                   R"(", "num_attention_heads": 2, "attention_head_dim": )" +
                                                   std::to_string(width)),
            "--positions", path("p.npy")};
  }
  void expect_after(const std::vector<float>& got) const {
    ASSERT_EQ(got.size(), after_.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], after_[i], 2e-5) << i;
  }
  int checked(const Strings& words, const std::string& against) const {
    return run(Strings{"check"} + words + Strings{"--before", path("in.safetensors"), "--after", against}).exit;
  }
  Json all_;
  std::vector<float> before_, after_;
};

TEST_F(OfDiffusers, mochi_turns_by_the_directions_of_its_checkpoint) {
  Strings mochi = config("mochi", "MochiTransformer3DModel");
  expect_error(words(mochi), "ROPE");  // they are not read
  write_tensors("w.safetensors", {make_tensor<float>("pos_frequencies", ElementType::f32, {3, 2, 4},
                                                     all_["mochi"]["pos_frequencies"].get<std::vector<float>>())});
  mochi.insert(mochi.end(), {"--weights", path("w.safetensors")});
  expect_after(rotated(mochi));
  EXPECT_EQ(checked(mochi, path("out.safetensors")), 0);
  EXPECT_EQ(checked(mochi, path("in.safetensors")), 1);
  expect_success(Strings{"table"} + mochi + Strings{"--output", path("t.safetensors")});
  EXPECT_EQ(read_tensor("t.safetensors", "cos").shape, (std::vector<std::int64_t>{12, 2, 4}));
  const std::string rows = path("t.safetensors");
  expect_error(words({"--cos", rows, "--sin", rows, "--pairing", "interleaved"}), "SHAPE");  // rows of one head alone
}

TEST_F(OfDiffusers, a_whole_head_of_allegro_turns_block_by_block_and_back) {
  const Strings allegro = config("allegro", "AllegroTransformer3DModel");
  expect_after(rotated(allegro));
  EXPECT_EQ(checked(allegro, path("out.safetensors")), 0);
  const Strings first = allegro + Strings{"--rope", "0"};
  const Json back =
      run_json(Strings{"apply"} + allegro +
               Strings{"--backward", "--input", path("out.safetensors"), "--output", path("back.safetensors")});
  EXPECT_EQ(checked(first, path("out.safetensors")), 0) << "its block";
  const Strings wrong =
      Strings{"diagnose"} + allegro + Strings{"--before", path("in.safetensors"), "--after", path("in.safetensors")};
  EXPECT_NE(run(wrong).out.find("in elements 0 to "), std::string::npos);
  EXPECT_TRUE(back.at("undoes").get<bool>());
  for (const char* rope : {"0", "1", "2"}) {  // one block alone is not all
    rotated(allegro, {"--rope", rope});
    EXPECT_EQ(checked(allegro, path("out.safetensors")), 1) << rope;
  }
}

// ---- which tensors, which layout ----

TEST_F(Apply, q_and_k_turn_and_the_rest_is_copied_bit_for_bit) {
  const std::vector<std::uint32_t> noise = {0x7FA00001, 0xFFFFFFFF, 0x00000001, 0x80000000};
  const Tensor v = make_tensor("v", ElementType::f32, {1, 1, 1, 4}, noise);
  const Tensor ids = make_tensor<std::int64_t>("ids", ElementType::i64, {3}, {1, -2, 3});
  const Tensor flags = make_tensor<std::uint8_t>("flags", ElementType::boolean, {0}, {});
  const Tensor model_q = floats("model.q", {1, 1, 1, 4}, {1, 2, 3, 4});
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"note", "a \"quoted\" \u00e9\n"}};
  write_input(
      {v, floats("q", {1, 2, 2, 4}, some_values(16)), ids, floats("k", {1, 3, 1, 4}, some_values(12)), flags, model_q},
      metadata);
  expect_success(words(base100));
  const SafetensorsFile out(path("out.safetensors"));
  for (const auto& [key, value] : metadata) EXPECT_EQ(out.metadata().at(key), value);
  for (const auto& [key, value] : out.metadata()) {
    EXPECT_TRUE(metadata.contains(key) || key.starts_with("rotary.1.")) << key;
  }
  ASSERT_EQ(out.tensors().size(), 6U);
  for (const Tensor* tensor : {&v, &ids, &flags, &model_q}) {
    const Tensor copy = out.read(tensor->name);
    EXPECT_EQ(copy.data, tensor->data) << tensor->name;
    EXPECT_EQ(copy.shape, tensor->shape);
    EXPECT_EQ(copy.type, tensor->type);
  }
  const std::vector<float> k = some_values(12);
  const std::vector<float> rotated = values_of(out.read("k"));
  expect_rotated(rotated[8], rotated[10], k[8], k[10], 2);
  EXPECT_NE(values_of(out.read("q")), some_values(16));
}

// A product after the rotation, or before the backward one, by a factor of the tensor's type, as in transformers'
// modeling_ministral3.py.
TEST_F(Apply, queries_are_multiplied_as_hf_in_a_step_of_its_own) {
  const std::string config = write_config(
      "m.json",
      R"("model_type": "ministral3", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,)"
      R"("head_dim": 4, "num_hidden_layers": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 9.0,)"
      R"("llama_4_scaling_beta": 0.3, "original_max_position_embeddings": 2})");
  const auto scaled = [](const std::vector<std::uint16_t>& x) {  // at positions 3, 4, 5
    std::vector<std::uint16_t> y;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double formula = 1 + 0.3 * std::log(1 + static_cast<double>((3 + i / 8) / 2));
      const float factor = to_float(to_bf16(static_cast<float>(formula)));
      y.push_back(to_bf16(to_float(bf16{x[i]}) * factor).bits);
    }
    return y;
  };
  const auto applied = [&](const std::vector<std::uint16_t>& x, const Strings& more) {
    write_input({make_tensor("q", ElementType::bf16, {3, 2, 4}, x)});
    expect_success(words({config}, Strings{"--as", "hf", "--positions", "3:"} + more));
    return values_of<std::uint16_t>(read_tensor("out.safetensors", "q"));
  };
  std::vector<std::uint16_t> q;
  for (const float value : some_values(24)) q.push_back(to_bf16(value).bits);
  EXPECT_EQ(applied(q, {"--query-scale"}), scaled(applied(q, {})));
  EXPECT_NE(applied(q, {"--query-scale"}), applied(q, {}));
  EXPECT_EQ(applied(q, {"--query-scale", "--backward"}), applied(scaled(q), {"--backward"}));
}

// Rounded once: at some position rounding to f32 first would give another value.
TEST_F(Cli, table_rounds_once_from_the_exact_value) {
  const auto values = [&](const Strings& more) {
    expect_success(
        Strings{"table", small_llama("", "500000.0"), "--output", path("t.safetensors"), "--positions", "0:20000"} +
        more);
    return read_tensor("t.safetensors", "cos");
  };
  const std::vector<float> wide = values_of(values({}));
  for (const std::string type : {"f16", "bf16"}) {
    const auto narrow = [&](float value) { return type == "f16" ? to_f16(value).bits : to_bf16(value).bits; };
    const std::vector<std::uint16_t> bits = values_of<std::uint16_t>(values({"--dtype", type}));
    const std::vector<float> rounded = values_of(values({"--rounding", type}));
    ASSERT_EQ(bits.size(), rounded.size());
    int twice = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      ASSERT_EQ(bits[i], narrow(rounded[i])) << i;
      twice += bits[i] != narrow(wide[i]) ? 1 : 0;
    }
    EXPECT_LT(twice, 10) << "roundings by way of f32 differ rarely";
  }
}

}  // namespace
}  // namespace rotary::cli_tests
