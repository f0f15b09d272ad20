// Checkpoints of many families, read back as the models' own code reshapes them: which rows move, and that all others
// stay.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "folder.h"

namespace rotary::convert_tests {
namespace {

using Starts = std::vector<std::int64_t>;

// A tensor of a family and the first rows of its rotated blocks.
struct FamilyTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  Starts blocks = {};
  std::int64_t rows = 0;  // the rows in which blocks are counted; 0: shape[0]
  ElementType type = ElementType::f32;
};

struct Family {
  std::string name;
  std::string config;
  int pairs = 4;
  std::vector<FamilyTensor> tensors;
  Pairing native = Pairing::half;
};

Starts every(int count, std::int64_t stride, std::int64_t first = 0) {
  Starts starts;
  for (int i = 0; i < count; ++i) starts.push_back(first + i * stride);
  return starts;
}

class Families : public Checkpoint {
 protected:
  static std::vector<Tensor> tensors_of(const std::vector<FamilyTensor>& of_family) {
    std::vector<Tensor> tensors;
    for (const FamilyTensor& tensor : of_family) tensors.push_back(some_tensor(tensor.name, tensor.type, tensor.shape));
    return tensors;
  }

  ConvertResult expect_converts(const Family& family) const {
    SCOPED_TRACE(family.name);
    const fs::path source = make(family.name, family.config, tensors_of(family.tensors));
    const ConvertResult result = there_and_back(family.name, family.native);
    const Tensors before = tensors_in(source), after = tensors_in(path(family.name + "-2"));
    std::size_t moving = 0;
    for (const FamilyTensor& tensor : family.tensors) {
      moving += tensor.blocks.empty() ? 0 : 1;
      expect_rows(family, tensor, before.at(tensor.name), after.at(tensor.name));
    }
    EXPECT_EQ(result.tensors.size(), moving);
    for (const ConvertedTensor& tensor : result.tensors) {
      const std::string& name = tensor.info.name;
      const bool of_norm = name.find("norm") != std::string::npos || name.find("_ln") != std::string::npos;
      EXPECT_EQ(tensor.what.ends_with("norm"), of_norm) << name << " is reported as " << tensor.what;
    }
    return result;
  }

 private:
  static void expect_rows(const Family& family, const FamilyTensor& tensor, const Tensor& before, const Tensor& after) {
    const auto rows = static_cast<std::size_t>(tensor.rows != 0 ? tensor.rows : tensor.shape[0]);
    std::vector<std::size_t> source(rows);
    for (std::size_t i = 0; i < rows; ++i) source[i] = i;
    for (const std::int64_t block : tensor.blocks) {
      for (int j = 0; j < 2 * family.pairs; ++j) {
        const auto interleaved = static_cast<std::size_t>(block + j);
        const auto half = static_cast<std::size_t>(block + j / 2 + j % 2 * family.pairs);
        const bool to_half = family.native == Pairing::interleaved;
        source[to_half ? half : interleaved] = to_half ? interleaved : half;
      }
    }
    ASSERT_EQ(after.data.size(), before.data.size());
    const std::size_t bytes = before.data.size() / rows;
    for (std::size_t i = 0; i < rows; ++i)
      EXPECT_TRUE(std::ranges::equal(std::span(after.data).subspan(i * bytes, bytes),
                                     std::span(before.data).subspan(source[i] * bytes, bytes)))
          << tensor.name << ' ' << i;
  }
};

const std::string llama =
    R"("hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 1,
 "intermediate_size": 16, "max_position_embeddings": 64, "rope_theta": 10000.0, "vocab_size": 8)";
const std::string all_keys =  // as many keys as queries
    R"("hidden_size": 32, "num_attention_heads": 4, "head_dim": 8, "num_hidden_layers": 1,
 "intermediate_size": 16, "max_position_embeddings": 64, "rope_theta": 10000.0, "vocab_size": 8)";

std::string typed(const std::string& type, const std::string& rest) {
  return R"({"model_type": ")" + type + R"(", )" + rest + "}";
}

// q, k, v and o of heads of 8, 4 and 2 of them.
std::vector<FamilyTensor> projections(const std::string& at) {
  return {{at + "q_proj.weight", {32, 12}, every(4, 8)},
          {at + "k_proj.weight", {16, 12}, every(2, 8)},
          {at + "v_proj.weight", {16, 12}},
          {at + "o_proj.weight", {12, 32}}};
}
std::vector<FamilyTensor> with(std::vector<FamilyTensor> tensors, const std::vector<FamilyTensor>& more) {
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}

const std::string at0 = "model.layers.0.self_attn.", at1 = "model.layers.1.self_attn.";

std::vector<Family> families_of_the_file() {
  std::vector<Family> families;
  for (const auto& one :
       nlohmann::ordered_json::parse(read_text(ROTARY_SOURCE_DIR "/tools/tests/golden/families.json"))) {
    Family family{.name = one.at("name"), .config = one.at("config").dump(), .pairs = one.at("pairs"), .tensors = {}};
    family.native = parse_pairing(one.at("native").get<std::string>());
    for (const auto& [name, tensor] : one.at("tensors").items())
      family.tensors.push_back({name, tensor.at("shape"), tensor.value("blocks", Starts()),
                                tensor.value("rows", std::int64_t{0}),
                                parse_element_type(tensor.value("type", "F32"))});
    families.push_back(family);
  }
  return families;
}

// tools/tests/golden/families.json: the shape of each tensor, and the first rows of its rotated blocks.
TEST_F(Families, of_the_file_are_converted) {
  const std::vector<Family> families = families_of_the_file();
  EXPECT_GT(families.size(), 45U);
  for (const Family& family : families) expect_converts(family);
}

// tools/tests/golden/convert_refusals.json. Some of these were written with damage, ended the program, or took the
// memory that a header or the heads of a config claim.
TEST_F(Families, that_cannot_be_converted_are_refused) {
  const auto rows = nlohmann::json::parse(read_text(ROTARY_SOURCE_DIR "/tools/tests/golden/convert_refusals.json"));
  ASSERT_EQ(rows.size(), 60U);
  for (const auto& row : rows) {
    SCOPED_TRACE(row.dump());
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : row.at("tensors").items())
      tensors.push_back(some_tensor(name, parse_element_type(tensor.at(0).get<std::string>()), tensor.at(1)));
    const Pairing to = row.contains("to") ? Pairing::half : Pairing::interleaved;
    expect_refused(make("input", row.at("config").dump(), tensors), row.at("code"), row.at("words"), to);
  }
}

// ---- latent attention, and keys of the config ----------------------------------------------------

const std::string mla_keys = R"("hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4,
  "num_hidden_layers": 1, "kv_lora_rank": 6, "q_lora_rank": 10, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
  "v_head_dim": 8, "max_position_embeddings": 64, "num_nextn_predict_layers": 1, "rope_theta": 10000)";
// Without its last brace.
std::string mla(const std::string& type) { return R"({"model_type": ")" + type + R"(", )" + mla_keys; }

// As a config that changes is written.
std::string indented(const std::string& config) { return nlohmann::ordered_json::parse(config).dump(2) + "\n"; }

std::vector<FamilyTensor> latent(const std::string& at) {
  return {{at + "q_a_proj.weight", {10, 12}},
          {at + "q_a_layernorm.weight", {10}},
          {at + "q_b_proj.weight", {48, 10}, every(4, 12, 8)},
          {at + "kv_a_proj_with_mqa.weight", {10, 12}, {6}},
          {at + "kv_a_layernorm.weight", {6}},
          {at + "kv_b_proj.weight", {64, 6}},
          {at + "o_proj.weight", {32, 12}}};
}
std::vector<FamilyTensor> indexer(const std::string& at, bool moves) {
  const auto blocks = [moves](const Starts& starts) { return moves ? starts : Starts(); };
  return {{at + "indexer.wq_b.weight", {12, 10}, blocks({0, 6})},
          {at + "indexer.wk.weight", {6, 12}, blocks({0})},
          {at + "indexer.k_norm.weight", {6}, blocks({0})},
          {at + "indexer.k_norm.bias", {6}, blocks({0})},
          {at + "indexer.weights_proj.weight", {2, 12}}};
}

// Latent attention, and the key of the config: it is turned over in its place, or added; a config without changes keeps
// its bytes.
TEST_F(Families, keys_of_the_config) {
  const std::string glm = mla("glm_moe_dsa") + R"(, "index_n_heads": 2, "index_head_dim": 6)";
  struct Case {
    std::string name, before, after;
    std::vector<FamilyTensor> tensors;
    Pairing native = Pairing::interleaved;
    int pairs = 2;
  };
  const std::string nomic = typed("nomic_bert", all_keys);
  const std::vector<FamilyTensor> joined = {{"encoder.layers.0.attn.Wqkv.weight", {96, 12}, every(8, 8)}};
  const std::string v3 = mla("deepseek_v3");
  for (const Case& row : std::vector<Case>{
           {"absent", v3 + "\n}\n", v3 + R"(, "rope_interleave": false})", with(latent(at0), latent(at1))},
           {"there", v3 + R"(, "rope_interleave": true, "x": false})",
            v3 + R"(, "rope_interleave": false, "x": false})", latent(at0)},
           {"null means half", v3 + R"(, "rope_interleave": null})", v3 + R"(, "rope_interleave": true})", latent(at0),
            Pairing::half},
           {"the indexer as its attention", glm + R"(, "rope_interleave": true, "indexer_rope_interleave": true})",
            glm + R"(, "rope_interleave": true, "indexer_rope_interleave": false})",
            with(latent(at0), indexer(at0, true))},
           {"an indexer of another pairing stays", glm + R"(, "indexer_rope_interleave": false})",
            glm + R"(, "indexer_rope_interleave": false})", with(latent(at0), indexer(at0, false))},
           {"a key of remote code", typed("nomic_bert", all_keys + R"(, "rotary_emb_interleaved": false)"),
            typed("nomic_bert", all_keys + R"(, "rotary_emb_interleaved": true)"), joined, Pairing::half, 4},
           {"no key of remote code", nomic, nomic, joined, Pairing::half, 4}}) {
    expect_converts({row.name, row.before, row.pairs, row.tensors, row.native});
    const std::string after = read_text(path(row.name + "-2") / "config.json");
    EXPECT_EQ(after, row.after == row.before ? row.before : indented(row.after)) << row.name;
    if (row.after == row.before) continue;
    EXPECT_NE(read_config(path(row.name + "-2")).ropes.front().rope.pairing, row.native) << row.name;
  }
}

TEST_F(Families, a_changed_config_keeps_pythons_numbers_and_its_other_values) {
  const std::string more =
      R"(, "limits": [0.0, Infinity, -Infinity, NaN], "eps": 1e-06, "name": "\u00fc Infinity", "none": {})";
  make("odd", mla("deepseek_v3") + more + "}", tensors_of(latent(at0)));
  convert(path("odd"), Pairing::half, path("odd-2"));
  const std::string text = read_text(path("odd-2") / "config.json");
  EXPECT_NE(text.find("  \"limits\": [\n    0.0,\n    Infinity,\n    -Infinity,\n    NaN\n  ],\n  \"eps\": 1e-06,\n"
                      "  \"name\": \"\\u00fc Infinity\",\n  \"none\": {},\n  \"rope_interleave\": false\n}\n"),
            std::string::npos)
      << text;
}

TEST_F(Families, notes_where_code_may_not_read_the_pairing) {
  const std::string own_code = mla("deepseek_v3") + R"(, "auto_map": {"AutoModelForCausalLM": "a.B"})";
  const auto notes = [&](const std::string& name, const std::string& config, Pairing to) {
    return dry_run(make(name, config, tensors_of(latent(at0))), to).notes;
  };
  ASSERT_EQ(notes("own", own_code + "}", Pairing::half).size(), 1U);
  EXPECT_NE(notes("own", own_code + "}", Pairing::half)[0].find("(auto_map)"), std::string::npos);
  EXPECT_TRUE(notes("said", own_code + ", \"rope_interleave\": true}", Pairing::half).empty());
  EXPECT_TRUE(notes("back", own_code + ", \"rope_interleave\": false}", Pairing::interleaved).empty());
  EXPECT_TRUE(notes("plain", mla("deepseek_v3") + "}", Pairing::half).empty());
  const fs::path source = make("llama", typed("llama", llama), tensors_of(projections(at0)));
  const std::vector<std::string> lines = convert(source, Pairing::interleaved, path("llama-2")).notes;
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("read these weights as half"), std::string::npos) << lines[0];
  EXPECT_TRUE(dry_run(path("llama-2"), Pairing::half).notes.empty());
}

}  // namespace
}  // namespace rotary::convert_tests
