// Small configs, and helpers for the tests of read_config.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

inline std::string code_of(const std::string& json, const ConfigOptions& options = {}) {
  try {
    parse_config(json, options);
  } catch (const Error& e) {
    return std::string(rotary::name(e.code()));
  }
  return "none";
}

inline std::string sentence_of(const std::string& json, const ConfigOptions& options = {}) {
  try {
    parse_config(json, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline bool noted(const Model& m, const std::string& words) {
  for (const std::string& note : m.notes) {
    if (note.find(words) != std::string::npos) return true;
  }
  return false;
}

inline std::vector<double> inv_freq(const ModelRope& rope, std::int64_t length = 0) {
  return frequencies(rope.rope, length).inv_freq;
}

inline void expect_near_relative(double value, double expected, double tolerance = 1e-8) {
  EXPECT_NEAR(value, expected, std::fabs(expected) * tolerance);
}

// The expected values of a rope, computed elsewhere.
struct Numbers {
  int rotary_dim;
  Pairing pairing;
  std::vector<std::pair<std::size_t, double>> inv_freq;  // pair, radians per position
  double attention_factor = 1;
  std::int64_t length = 0;
};

inline void expect_numbers(const ModelRope& rope, const Numbers& want, const std::string& where) {
  EXPECT_EQ(rope.rope.rotary_dim, want.rotary_dim) << where;
  EXPECT_EQ(rope.rope.pairing, want.pairing) << where;
  const Frequencies f = frequencies(rope.rope, want.length);
  for (const auto& [pair, expected] : want.inv_freq) {
    ASSERT_LT(pair, f.inv_freq.size()) << where;
    EXPECT_NEAR(f.inv_freq[pair], expected, 4e-16 * expected) << where << " pair " << pair;
  }
  EXPECT_NEAR(f.attention_factor, want.attention_factor, 4e-16 * want.attention_factor) << where;
}

// Expects the same rope from every file, or every spelling.
inline void expect_each(const std::vector<std::string>& files, const Numbers& want) {
  for (const std::string& file : files) expect_numbers(only(parse_config(file)), want, file);
}
inline void expect_each(const std::string& type, const std::vector<std::string>& spellings, const Numbers& want) {
  for (const std::string& more : spellings) expect_numbers(only(read(type, more)), want, type + ": " + more);
}

inline constexpr Pairing half = Pairing::half, interleaved = Pairing::interleaved;

using Layers = std::vector<int>;

}  // namespace rotary::config_test
