// Small configs, and helpers for the tests of read_config.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/tests/support/outcome.h"
#include "files/tests/file_helpers.h"
#include "rotary/config.h"

namespace rotary::config_test {

// A Llama-like config with additional keys: head_dim 128, 32 heads, 8 kv heads.
inline std::string model(const std::string& type, const std::string& more, int layers = 4) {
  return R"({"model_type": ")" + type + R"(", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "max_position_embeddings": 131072, "num_hidden_layers": )" +
         std::to_string(layers) + (more.empty() ? "" : ", " + more) + "}";
}

inline Model read(const std::string& type, const std::string& more, int layers = 4) {
  return parse_config(model(type, more, layers));
}

inline const ModelRope& only(const Model& m) {
  EXPECT_EQ(m.ropes.size(), 1u);
  return m.ropes.at(0);
}

// The JSON of a file, with 1e30 for the Infinity that Python writes.
template <class Json = nlohmann::json>
Json json_in(const std::filesystem::path& path) {
  std::string text = test::read_text(path);
  for (std::size_t at; (at = text.find("Infinity")) != text.npos;) text.replace(at, 8, "1e30");
  return Json::parse(text);
}

inline std::string code_of(const std::string& json, const ConfigOptions& options = {}) {
  const tests::Outcome read = tests::outcome_of([&] { parse_config(json, options); });
  return read.refused ? rotary::name(read.code) : "none";
}

inline std::string sentence_of(const std::string& json, const ConfigOptions& options = {}) {
  return tests::outcome_of([&] { parse_config(json, options); }).sentence;
}

inline bool noted(const Model& m, const std::string& words) {
  const auto has = [&](const Note& note) { return sentence_of(note).find(words) != std::string::npos; };
  return std::any_of(m.notes.begin(), m.notes.end(), has);
}

// The facts that golden data have of a rope, by their keys.
inline nlohmann::json facts_of(const Model& model, const ModelRope& used) {
  const Rope& rope = used.rope;
  return {{"layers", used.layers},
          {"layers_without_rope", layers_without_rope(model, used.part)},
          {"heads", used.heads},
          {"kv_heads", used.kv_heads},
          {"head_dim", rope.head_dim},
          {"first", used.first},
          {"rotary_dim", rope.rotary_dim},
          {"context", part_of(model, used.part).context},
          {"base", rope.base},
          {"pairing", name(rope.pairing)},
          {"clockwise", rope.clockwise},
          {"scaling", name(rope.scaling)}};
}

inline void expect_near_relative(double value, double expected, double tolerance = 1e-8) {
  EXPECT_NEAR(value, expected, std::fabs(expected) * tolerance);
}

}  // namespace rotary::config_test
