// rotary apply: what it turns and what it copies. (What it refuses: commands_test.cpp)
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "rotary/reference.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

using Shape = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

class Apply : public Cli {
 protected:
  // Runs apply from in.safetensors to out.safetensors.
  Strings words(const Strings& source, const Strings& more = {}) const {
    Strings all = {"apply"};
    all.insert(all.end(), source.begin(), source.end());
    all.insert(all.end(), {"--input", path("in.safetensors"), "--output", path("out.safetensors")});
    all.insert(all.end(), more.begin(), more.end());
    return all;
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

// ---- what it computes ----

TEST_F(Apply, the_labml_rows_come_out) {
  write_input({floats("q", {3, 1, 4}, {1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10})});
  const std::vector<float> expected = {1,         2,         3,           4,         -2.887617F, 4.929751F,
                                       6.607697F, 7.049649F, -11.096704F, 7.798414F, 2.619761F,  10.157990F};
  for (const Strings& source : {Strings{"--base", "10000", "--pairing", "half"}, Strings{small_llama("", "10000.0")}}) {
    const std::vector<float> got = rotated(source);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-6) << i;
  }
}

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

TEST_F(Apply, backward_undoes_a_rotation_without_attention_factor) {
  const std::vector<float> values = some_values(8 * 4);
  write_input({floats("q", {8, 1, 4}, values)});
  expect_success(words(base100));
  std::filesystem::rename(path("out.safetensors"), path("in.safetensors"));
  const std::vector<float> back = rotated(base100, {"--backward"});
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(back[i], values[i], 1e-6);
}

// What diffusers' own modules made (tools/golden/make_diffusers_rotation.py): Mochi turns each head by directions of
// the checkpoint, Allegro three blocks of a head, by a rope each.
class OfDiffusers : public Apply {
 protected:
  OfDiffusers() : all_(nlohmann::json::parse(read_text(ROTARY_SOURCE_DIR "/tests/golden/diffusers_rotation.json"))) {}
  // Writes q, k = q and the positions of a model of 2 heads.
  Strings config(const char* model, const std::string& class_name) {
    const nlohmann::json& g = all_.at(model);
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
  int checked(Strings words, const std::string& against) const {
    words.insert(words.begin(), "check");
    words.insert(words.end(), {"--input", path("in.safetensors"), "--against", against});
    return run(words).exit;
  }
  nlohmann::json all_;
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
  // The same by rows of cos and sin for each head.
  Strings table = mochi;
  table.insert(table.begin(), "table");
  table.insert(table.end(), {"--output", path("t.safetensors")});
  expect_success(table);
  const Strings rows = {"--cos", path("t.safetensors"), "--sin", path("t.safetensors"), "--pairing", "interleaved"};
  const std::vector<float> by_rope = rotated(mochi);
  EXPECT_EQ(rotated(rows), by_rope);
  write_input({floats("q", {1, 4, 3, 8}, some_values(96))});
  expect_error(words(rows), "SHAPE");
}

TEST_F(OfDiffusers, a_whole_head_of_allegro_turns_block_by_block_and_back) {
  const Strings allegro = config("allegro", "AllegroTransformer3DModel");
  expect_after(rotated(allegro));
  EXPECT_EQ(checked(allegro, path("out.safetensors")), 0);
  Strings first = allegro, back = allegro;
  first.insert(first.end(), {"--rope", "0"});
  back.insert(back.begin(), "apply");
  back.insert(back.end(),
              {"--backward", "--json", "--input", path("out.safetensors"), "--output", path("back.safetensors")});
  EXPECT_EQ(checked(first, path("out.safetensors")), 0) << "its block";
  Strings wrong = allegro;
  wrong.insert(wrong.begin(), "diagnose");
  wrong.insert(wrong.end(), {"--input", path("in.safetensors"), "--against", path("in.safetensors")});
  EXPECT_NE(run(wrong).out.find("in elements 0 to "), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(expect_success(back).out).at("undoes").get<bool>());
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

// A step behind the rotation, or before the backward one, by a factor of the tensor's type, as in transformers'
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
    Strings all = {"--as", "hf", "--positions", "3:"};
    all.insert(all.end(), more.begin(), more.end());
    write_input({make_tensor("q", ElementType::bf16, {3, 2, 4}, x)});
    expect_success(words({config}, all));
    return values_of<std::uint16_t>(read_tensor("out.safetensors", "q"));
  };
  std::vector<std::uint16_t> q;
  for (const float value : some_values(24)) q.push_back(to_bf16(value).bits);
  EXPECT_EQ(applied(q, {"--query-scale"}), scaled(applied(q, {})));
  EXPECT_NE(applied(q, {"--query-scale"}), applied(q, {}));
  EXPECT_EQ(applied(q, {"--query-scale", "--backward"}), applied(scaled(q), {"--backward"}));
}

TEST_F(Apply, tensors_can_be_named) {
  write_input({floats("query", {1, 1, 4}, {1, 2, 3, 4}), floats("key", {1, 1, 4}, {1, 2, 3, 4})});
  const Strings at3 = {"--base", "100", "--pairing", "half", "--positions", "3"};
  expect_error(words(at3), "TENSOR");
  EXPECT_NE(run(words(at3)).err.find("query"), std::string::npos);
  expect_error(words(at3, {"--tensor", "q"}), "TENSOR");
  EXPECT_NE(run(words(at3, {"--tensor", "query,key"})).err.find("(separate names by spaces)"), std::string::npos);
  EXPECT_NE(rotated(at3, {"--tensor", "query"}, "query"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(rotated(at3, {"--tensor", "query"}, "key"), (std::vector<float>{1, 2, 3, 4}));
  const std::vector<float> both = rotated(at3, {"--tensor", "query", "--tensor", "key"}, "key");
  EXPECT_EQ(both, rotated(at3, {"--tensor", "query", "key", "query"}, "query"));
  EXPECT_NE(both, (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(Apply, one_of_q_and_k_is_enough) {
  write_input({floats("k", {2, 1, 4}, some_values(8))});
  EXPECT_NE(rotated(base100, {}, "k"), some_values(8));
}

TEST_F(Apply, a_tensor_without_tokens_is_copied) {
  write_input({floats("q", {1, 0, 2, 4}, {}), floats("k", {1, 2, 1, 4}, some_values(8))});
  EXPECT_TRUE(rotated(base100).empty());
}

// ---- part of the head ----

TEST_F(Apply, mla_heads_may_be_whole_or_the_bare_rotary_block) {
  const std::string config = write_config(
      "mla.json", R"("model_type": "deepseek_v2", "hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 1,)"
                  R"("max_position_embeddings": 64, "rope_theta": 100.0, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,)"
                  R"("v_head_dim": 8, "kv_lora_rank": 16, "q_lora_rank": null)");
  const std::vector<float> q = some_values(12);
  write_input({floats("q", {1, 1, 1, 12}, q), floats("k", {1, 1, 1, 4}, {q[8], q[9], q[10], q[11]})});
  const std::vector<float> whole = rotated({config, "--pairing", "half"}, {"--positions", "3"});
  EXPECT_EQ(std::memcmp(whole.data(), q.data(), 32), 0);
  expect_rotated(whole[8], whole[10], q[8], q[10], 3);
  expect_rotated(whole[9], whole[11], q[9], q[11], 0.3);
  const std::vector<float> bare = values_of(read_tensor("out.safetensors", "k"));
  EXPECT_TRUE(std::equal(bare.begin(), bare.end(), whole.begin() + 8));
  write_input({floats("q", {1, 1, 1, 8}, some_values(8))});
  expect_error(words({config}), "SHAPE");
}

// ---- positions ----

TEST_F(Apply, dynamic_scaling_sees_the_largest_position) {
  const std::string config = small_llama(R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0})");
  write_input({floats("q", {1, 1, 4}, {0, 1, 0, 0})});
  EXPECT_NEAR(rotated({config}, {"--positions", "127"})[1], std::cos(127 / 30.0), 1e-5);
  EXPECT_NEAR(rotated({config}, {"--positions", "127", "--length", "64"})[1], std::cos(12.7), 1e-5);
}

// ---- the caller's own cos and sin ----

TEST_F(Apply, rows_of_cos_and_sin_can_be_given) {
  write_npy(path("cos.npy"), floats("", {3, 1}, {1, 0, -1}));
  write_npy(path("sin.npy"), floats("", {3, 1}, {0, 1, 0}));
  const Strings source = {"--cos", path("cos.npy"), "--sin", path("sin.npy"), "--pairing", "half"};
  write_input({floats("q", {3, 1, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(rotated(source), (std::vector<float>{1, 2, -4, 3, -5, -6}));
  EXPECT_EQ(rotated(source, {"--positions", "2,0,1"}), (std::vector<float>{-1, -2, 3, 4, -6, 5}));
  for (const char* spec : {"1:4", "-1:2", "0:2,9223372036854775807"}) {
    expect_error(words(source, {"--positions", spec}), "POSITION");
  }
  write_npy(path("p.npy"), make_tensor<double>("", ElementType::f64, {3}, {2, 0, 1}));
  EXPECT_EQ(rotated(source, {"--positions", path("p.npy")}), (std::vector<float>{-1, -2, 3, 4, -6, 5}));
  for (const double row : {0.5, -1.0, 1e300}) {
    write_npy(path("p.npy"), make_tensor<double>("", ElementType::f64, {3}, {0, 1, row}));
    expect_error(words(source, {"--positions", path("p.npy")}), "POSITION");
  }
  write_input({floats("q", {1, 1, 4}, {9, 1, 2, 9})});
  EXPECT_EQ(rotated(source, {"--first", "1", "--positions", "1"}), (std::vector<float>{9, -2, 1, 9}));
  expect_error(words(source, {"--first", "3"}), "SHAPE");
  write_input({floats("q", {4, 1, 2}, some_values(8))});
  expect_error(words(source), "POSITION");
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    write_npy(path("sin.npy"), floats("", {3, 1}, {0, bad, 0}));
    expect_error(words(source), "VALUE");
  }
  write_npy(path("sin.npy"), floats("", {2, 1}, {0, 1}));
  expect_error(words(source), "SHAPE");
  write_npy(path("sin.npy"), make_tensor<double>("", ElementType::f64, {3, 1}, {0, 1, 0}));
  expect_error(words(source), "DTYPE");
}

TEST_F(Apply, the_output_of_table_is_a_valid_cos_and_sin) {
  write_input({floats("q", {5, 2, 4}, some_values(40))});
  expect_success({"table", small_llama(), "--positions", "0:5", "--output", path("t.safetensors")});
  EXPECT_EQ(rotated({small_llama()}),
            rotated({"--cos", path("t.safetensors"), "--sin", path("t.safetensors"), "--pairing", "half"}));
  expect_error(words({"--cos", path("in.safetensors"), "--sin", path("in.safetensors"), "--pairing", "half"}),
               "TENSOR");
}

}  // namespace
}  // namespace rotary::cli_tests
