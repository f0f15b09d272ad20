// Checkpoints that hold what base and scaling cannot say: a learned multiplier, and frequencies. The numbers are
// mpmath's, and those of transformers 5.23.0 with torch 2.15.0.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "files/tests/config_helpers.h"

namespace rotary {
namespace {

using config_test::noted;
using config_test::only;
using test::expect_error;
using test::make_tensor;

const std::string large4 = R"({"model_type": "mistral_large4_text", "hidden_size": 64, "num_attention_heads": 2,
  "num_key_value_heads": 2, "num_hidden_layers": 4, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16,
  "head_dim": 16, "max_position_embeddings": 1048576, "no_rope_layers": [1, 1, 1, 0],
  "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2048.0,
    "original_max_position_embeddings": 512, "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.0}})";
const std::vector<float> alpha = {-0.5F, 0.125F, -0.25F, 0.375F, 0, -0.375F, 0.25F, -0.125F};
const std::string alpha_name = "model.language_model.rotary_emb.alpha";

class LearnedFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::vector<Tensor>& tensors) const {
    write_safetensors(folder_ / name, test::pointers_to(tensors));
    return (folder_ / name).string();
  }
  static Tensor floats(const std::string& name, const std::vector<float>& values) {
    return make_tensor<float>(name, ElementType::f32, {static_cast<std::int64_t>(values.size())}, values);
  }
  static Model read_large4() { return parse_config(large4); }
  void expect_refused(const std::string& code, const std::string& words, const std::vector<Tensor>& tensors) const {
    const std::string file = write("model.safetensors", tensors);
    Model m = read_large4();
    expect_error(code, words, [&] { apply_weights(m, file); });
  }
  test::ScratchFolder folder_;
};

TEST_F(LearnedFiles, AtItsStartTheModelTurnsByYarnAloneAndTheNotesSaySo) {
  const Model m = read_large4();
  EXPECT_TRUE(only(m).rope.multiplier.empty());
  EXPECT_TRUE(awaits_weights(m, ""));
  EXPECT_TRUE(noted(m, "exp(rotary_emb.alpha)"));
  EXPECT_TRUE(noted(m, "until apply_weights() reads the checkpoint"));
  EXPECT_EQ(frequencies(only(m).rope, 0).inv_freq[4], 4.8828125e-06);
}

TEST_F(LearnedFiles, ACheckpointGivesItsMultiplier) {
  Model m = read_large4();
  apply_weights(m, write("model.safetensors", {floats("lm_head.weight", {1}), floats(alpha_name, alpha)}));
  const std::vector<double> exact = {
      0.6065306597126334236, 0.26879349473083120336,   0.038959052844563197633,  0.01151956679873441433,
      4.8828125e-6,          1.0612302404267229018e-6, 6.2696553549206127152e-7, 1.3626466016655549519e-7};
  const std::vector<double> got = frequencies(only(m).rope, 0).inv_freq;
  ASSERT_EQ(got.size(), exact.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], exact[i], 4.5e-16 * exact[i]) << i;
  EXPECT_FALSE(noted(m, "until apply_weights() reads the checkpoint"));
  EXPECT_TRUE(noted(m, "multiplied by exp(" + alpha_name + ")"));
  EXPECT_EQ(only(m).origins.back().value, "multiplier");
  EXPECT_EQ(only(m).origins.back().origin.kind, OriginKind::weights);
  EXPECT_FALSE(awaits_weights(m, ""));

  EXPECT_EQ(only(m).first, 16);
  const std::vector<float> wanted = {-0.313773394F, -1.01690733F, -1.73314095F,   0.476208031F,
                                     0.500168145F,  1.12501729F,  1.74999881F,    -1.62500274F,
                                     1.99980068F,   -1.31735742F, -0.0113284588F, -1.75328469F,
                                     -1.18742919F,  -0.56246537F, 0.0625318214F,  0.687493563F};
  Rope block = only(m).rope;
  block.head_dim = block.rotary_dim;
  std::vector<float> x(16);  // the input of the sweep's vectors: exact in every dtype
  for (int d = 0; d < 16; ++d) x[static_cast<std::size_t>(d)] = static_cast<float>(d * 37 % 64 - 32) / 16;
  rotate(heads(x, thd(1, 1, 16)), Table(frequencies(block), 29, Angles::float32));
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(x[i], wanted[i], 5e-7F) << i;
}

// pos_frequencies of Mochi is [axes, heads, pairs], freqs_cis_golden of Falcon [heads, half of the pairs, (height,
// width)]; a rope's inv_freq is [heads, axes, pairs].
TEST_F(LearnedFiles, DirectionsAreThoseOfTheCheckpointByHeadAxisAndPair) {
  std::vector<float> directions;
  for (int i = 0; i < 3 * 2 * 4; ++i) directions.push_back(static_cast<float>(i));
  Model mochi = parse_config(R"({"_class_name": "MochiTransformer3DModel", "num_attention_heads": 2,
                                 "attention_head_dim": 8})");
  const auto origin = std::ranges::find(only(mochi).origins, "inv_freq", &ValueOrigin::value);
  ASSERT_NE(origin, only(mochi).origins.end());
  EXPECT_EQ(origin->origin.key, "0 until pos_frequencies is read");
  apply_weights(mochi, write("m.safetensors",
                             {make_tensor<float>("pos_frequencies", ElementType::f32, {3, 2, 4}, directions)}));
  EXPECT_EQ(only(mochi).rope.inv_freq, (std::vector<double>{0, 1, 2, 3, 8,  9,  10, 11, 16, 17, 18, 19,  //
                                                            4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23}));
  EXPECT_FALSE(awaits_weights(mochi, ""));

  directions.resize(2 * 2 * 2);
  Model falcon = parse_config(R"({"model_type": "falcon_ocr", "dim": 16, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1,
                                  "head_dim": 8, "rope_theta": 100.0})");
  apply_weights(falcon, write("f.safetensors",
                              {make_tensor<float>("freqs_cis_golden", ElementType::f32, {2, 2, 2}, directions)}));
  const double slow = only(falcon).rope.inv_freq.at(1);
  EXPECT_NEAR(slow, 0.1, 1e-7);  // 100^(-1/2)
  EXPECT_EQ(only(falcon).rope.inv_freq, (std::vector<double>{1, slow, 0, 0, 0, 0, 0, 2, 0, 0, 1, 3,  //
                                                             1, slow, 0, 0, 0, 0, 4, 6, 0, 0, 5, 7}));
  EXPECT_EQ(only(falcon).rope.summed_axes, 3);
  EXPECT_EQ(only(falcon).rope.head_rows, 2);
  EXPECT_FALSE(awaits_weights(falcon, ""));
}

TEST_F(LearnedFiles, ThePairingOfConvertedRowsIsTakenAndNotedWhereItDiffers) {
  const std::vector<Tensor> weights = {floats("lm_head.weight", {1})};
  const std::string path = (folder_ / "model.safetensors").string();
  const std::string config = R"({"model_type":"llama","hidden_size":8,"num_attention_heads":2,"num_hidden_layers":1})";
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    Model m = parse_config(config);
    write_safetensors(path, test::pointers_to(weights), {{"rotary.pairing", name(pairing)}});
    apply_weights(m, path);
    EXPECT_EQ(only(m).rope.pairing, pairing);
    EXPECT_EQ(noted(m, "q and k were converted: the pairing is interleaved"), pairing == Pairing::interleaved);
  }
  Model chosen = parse_config(config, {.pairing = Pairing::half});
  apply_weights(chosen, path);
  EXPECT_EQ(only(chosen).rope.pairing, Pairing::half) << "the caller's word decides";
  write_safetensors(path, test::pointers_to(weights), {{"rotary.pairing", "foo"}});
  Model m = parse_config(config);
  test::expect_error("PAIRING",
                     "[weights] rotary.pairing of \"model.safetensors\": the name must be half, interleaved or "
                     "interleaved_to_half but got \"foo\"",
                     [&] { apply_weights(m, path); });
}

TEST_F(LearnedFiles, AnIndexOrAFolderLeadsToTheTensor) {
  write("model-00001-of-00002.safetensors", {floats("model.embed.weight", {1, 2})});
  write("model-00002-of-00002.safetensors", {floats(alpha_name, alpha)});
  test::write_text(folder_ / "model.safetensors.index.json",
                   R"({"metadata": {"total_size": 1}, "weight_map": {
                       "model.embed.weight": "absent.safetensors",
                       ")" +
                       alpha_name + R"(": "model-00002-of-00002.safetensors"}})");
  for (const std::filesystem::path& weights : {folder_ / "model.safetensors.index.json", folder_.path()}) {
    Model m = read_large4();
    apply_weights(m, weights);  // the file that is absent holds nothing that is needed
    EXPECT_EQ(only(m).rope.multiplier.at(0), std::exp(-0.5));
  }
}

TEST_F(LearnedFiles, AnIndexMustNameFilesBesideIt) {
  const auto refused = [&](const std::string& code, const std::string& words, const std::string& index) {
    test::write_text(folder_ / "model.safetensors.index.json", index);
    Model m = read_large4();
    expect_error(code, words, [&] { apply_weights(m, folder_.path()); });
  };
  refused("FORMAT", "files beside the index", R"({"weight_map": {"rotary_emb.alpha": "../other.safetensors"}})");
  refused("FORMAT", "files beside the index", R"({"weight_map": {"rotary_emb.alpha": ".."}})");
  refused("FORMAT", "files beside the index", R"({"weight_map": {"rotary_emb.alpha": 7}})");
  refused("FORMAT", "files beside the index", R"({"weight_map": {"rotary_emb.alpha": "."}})");
  refused("FORMAT", "must have the object weight_map", "[]");
  refused("FORMAT", "must have the object weight_map", R"({"weight_map": {}})");
  refused("FILE", "absent.safetensors", R"({"weight_map": {"rotary_emb.alpha": "absent.safetensors"}})");
  refused("JSON", "", "{");
  refused("JSON", "at most 16 MB", std::string((16u << 20) + 1, ' '));
  write("shard.safetensors", {floats("other", {1})});
  refused("TENSOR", "no tensor is named", R"({"weight_map": {"rotary_emb.alpha": "shard.safetensors"}})");
}

TEST_F(LearnedFiles, ATensorThatIsMissingOrMisshapenIsRefused) {
  std::vector<float> broken = alpha;
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  expect_refused("TENSOR", "but has none", {floats("lm_head.weight", {1}), floats("other_rotary_emb.alpha", alpha)});
  expect_refused("TENSOR", "but has 2", {floats(alpha_name, alpha), floats("lerope.alpha", alpha)});
  expect_refused("SHAPE", "the rope's 8 pairs but got 3", {floats(alpha_name, {1, 2, 3})});
  expect_refused("SHAPE", "one axis", {make_tensor<float>(alpha_name, ElementType::f32, {2, 4}, alpha)});
  expect_refused("DTYPE", "but got I32", {make_tensor<float>(alpha_name, ElementType::i32, {8}, alpha)});
  expect_refused("TENSOR", "finite numbers but got nan at 3", {floats(alpha_name, broken)});
  Model m = read_large4();
  const std::filesystem::path of_diffusers = folder_ / "diffusion_pytorch_model.safetensors";
  std::filesystem::rename(folder_ / "model.safetensors", of_diffusers);
  expect_error("TENSOR", "finite numbers but got nan at 3", [&] { apply_weights(m, folder_.path()); });
  std::filesystem::remove(of_diffusers);
  expect_error("FILE", "holds neither", [&] { apply_weights(m, folder_.path()); });
}

// ---- buffers of older checkpoints ----

Model small_llama(const std::string& scaling = "") {
  return parse_config(R"({"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2,
                          "max_position_embeddings": 2048, "rope_theta": 10000.0)" +
                      scaling + "}");
}

TEST_F(LearnedFiles, ABufferThatAgreesIsNotedAndChangesNothing) {
  const std::vector<float> buffer = {1, 0.1F, 0.01F, 0.001F};
  const auto f16 = [](const std::string& name) {  // 1, 0.1, 0.01, 0.001 to nearest
    return make_tensor<std::uint16_t>(name, ElementType::f16, {4}, {0x3C00, 0x2E66, 0x211F, 0x1419});
  };
  const std::string name = "model.layers.0.self_attn.rotary_emb.inv_freq";
  const std::string other = "model.layers.1.self_attn.rotary_emb.inv_freq";
  const std::vector<std::vector<Tensor>> files = {{floats(name, buffer), floats(other, buffer)},
                                                  {f16(name), f16(other)}};
  for (const auto& tensors : files) {
    Model m = small_llama();
    apply_weights(m, write("model.safetensors", tensors));
    EXPECT_TRUE(noted(m, name + " and 1 more like it: the frequencies of rope 0.")) << m.notes.back().text;
    EXPECT_TRUE(only(m).rope.inv_freq.empty());
    Model scaled = small_llama(R"(, "rope_scaling": {"type": "linear", "factor": 4.0})");
    apply_weights(scaled, folder_ / "model.safetensors");
    EXPECT_TRUE(noted(scaled, "the frequencies of rope 0 before scaling: not used")) << scaled.notes.back().text;
  }
}

TEST_F(LearnedFiles, ABufferThatDiffersIsToldAndNotUsed) {
  Model m = small_llama();
  apply_weights(m, write("model.safetensors", {floats("rope.freqs", {1, 0.25F, 0.01F, 0.001F}),
                                               floats("encoder.rotary_emb.inv_freq", {1, 0.5F})}));
  EXPECT_TRUE(noted(m, "rope.freqs: not the frequencies of rope 0, pair 1 has 0.25 there and 0.1 here; not used"));
  EXPECT_TRUE(noted(m, "encoder.rotary_emb.inv_freq: 2 values, which fit no rope of the model: not used"));
  EXPECT_EQ(frequencies(only(m).rope, 0).inv_freq[1], 0.1);
  Model none = small_llama();
  apply_weights(none, write("other.safetensors", {floats("lm_head.weight", {1})}));
  EXPECT_TRUE(noted(none, "holds no tensor of frequencies: nothing changed"));
}

// ---- --inv-freq files ----

TEST_F(LearnedFiles, InvFreqIsReadFromEveryFloatType) {
  const std::vector<double> wanted = {1, 0.25, -0.5, 0};
  const std::vector<Tensor> tensors = {
      make_tensor<double>("x", ElementType::f64, {4}, wanted), floats("x", {1, 0.25F, -0.5F, 0}),
      make_tensor<std::uint16_t>("x", ElementType::f16, {4}, {0x3C00, 0x3400, 0xB800, 0}),
      make_tensor<std::uint16_t>("x", ElementType::bf16, {4}, {0x3F80, 0x3E80, 0xBF00, 0})};
  for (const Tensor& tensor : tensors) {
    EXPECT_EQ(read_pair_rows(write("x.safetensors", {tensor})).values, wanted) << name(tensor.type);
    if (tensor.type == ElementType::bf16) continue;  // numpy has none
    write_npy(folder_ / "x.npy", tensor);
    EXPECT_EQ(read_pair_rows(folder_ / "x.npy").values, wanted) << name(tensor.type);
  }
  const Tensor two = make_tensor<double>("x", ElementType::f64, {2, 2}, wanted);
  const PairRows sums = read_pair_rows(write("x.safetensors", {two}));
  EXPECT_EQ(std::pair(sums.pairs, sums.summed_axes), std::pair(2, 2));
}

TEST_F(LearnedFiles, InvFreqIsTheOnlyTensorOrTheOneOfThatName) {
  const auto read = [&](const std::vector<Tensor>& tensors) {
    return read_pair_rows(write("x.safetensors", tensors)).values;
  };
  const Tensor other = floats("weight", {9});
  EXPECT_EQ(read({other}), std::vector<double>{9});
  EXPECT_EQ(read({other, floats("model.rotary_emb.inv_freq", {1})}), std::vector<double>{1});
  EXPECT_EQ(read({floats("inv_freq", {2}), floats("model.rotary_emb.inv_freq", {1})}), std::vector<double>{2});
  expect_error("TENSOR", "must hold one tensor", [&] { read({other, floats("bias", {1})}); });
  expect_error("TENSOR", "2 of that name", [&] { read({floats("a.inv_freq", {1}), floats("b.inv_freq", {1})}); });
  expect_error("SHAPE", "[heads, axes, pairs]", [&] {
    read({make_tensor<float>("x", ElementType::f32, {1, 1, 1, 1}, {1})});
  });
  expect_error("DTYPE", "but got I64", [&] { read({make_tensor<double>("x", ElementType::i64, {1}, {1})}); });
  expect_error("TENSOR", "finite", [&] { read({floats("x", {HUGE_VALF})}); });
}

TEST_F(LearnedFiles, SetInvFreqReplacesWhatTheModelLearns) {
  Model m = read_large4();
  set_inv_freq(m, 0, PairRows{.values = {8, 7, 6, 5, 4, 3, 2, 1}, .pairs = 8}, "mine.npy");
  EXPECT_EQ(frequencies(only(m).rope, 0).inv_freq[0], 8);
  EXPECT_FALSE(noted(m, "until apply_weights() reads the checkpoint"));
  EXPECT_TRUE(noted(m, "turns by the frequencies of mine.npy"));
  EXPECT_EQ(only(m).origins.back().value, "inv_freq");
  EXPECT_EQ(only(m).origins.back().origin.key, "mine.npy");
  expect_error("SHAPE", "the rope's 8 pairs but got 2", [&] {
    set_inv_freq(m, 0, PairRows{.values = {1, 2}, .pairs = 2}, "mine.npy");
  });
}

}  // namespace
}  // namespace rotary
