// rope_parameters writes a text that is read back as the same rope, value for value; what it cannot say it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "files/tests/config_helpers.h"
#include "rotary/config.h"
#include "values/scaling_fields.h"

namespace rotary {
namespace {

using config_test::only;
using scalings::Need;
using Json = nlohmann::ordered_json;

// A config of a model_type that is not known, which turns as the rope does.
std::string config_of(const Rope& rope, const std::string& parameters) {
  return R"({"num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": )" + std::to_string(rope.head_dim) +
         R"(, "max_position_embeddings": 777, "rope_parameters": )" + parameters + "}";
}

Rope read_back(const Rope& rope) {
  return only(parse_config(config_of(rope, rope_parameters(rope)), {.pairing = rope.pairing})).rope;
}

void expect_same(Rope rope) {
  const std::string text = rope_parameters(rope);
  const Rope read = read_back(rope);
  if (rope.rotary_dim == 0) rope.rotary_dim = rope.head_dim;  // reading fills it in
  EXPECT_EQ(read, rope) << text;
  for (const std::int64_t length : {0, 100, 1 << 20}) {
    const Frequencies a = frequencies(rope, length);
    const Frequencies b = frequencies(read, length);
    EXPECT_EQ(a.inv_freq, b.inv_freq) << text;
    EXPECT_EQ(a.inv_freq_float32, b.inv_freq_float32) << text;
    EXPECT_EQ(a.attention_factor, b.attention_factor) << text;
  }
}

Rope rope_with(const Scaling& scaling) {
  return Rope{.head_dim = 16, .rotary_dim = 16, .pairing = Pairing::half, .scaling = scaling};
}

// Random values that the rows of scaling_fields.h allow.
class Values {
 public:
  double number(Need need) {
    switch (need) {
      case Need::factor:
        return std::uniform_real_distribution(1.0, 64.0)(random_);
      case Need::share:
        return std::uniform_real_distribution(0.0, 1.0)(random_);
      case Need::share_above_zero:
        return std::uniform_real_distribution(0.25, 1.0)(random_);
      default:
        return std::uniform_real_distribution(0.01, 40.0)(random_);
    }
  }
  bool flip() { return random_() % 2 == 0; }
  std::int64_t length() { return static_cast<std::int64_t>(2 + random_() % 100000); }

  // Returns the scaling with changed values: with all of them changed, or each with a chance of a half.
  template <class S>
  S changed(S scaling, bool all) {
    scalings::for_each_field(scaling, [&](const auto& field, auto& value) {
      using Value = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<Value, std::int64_t>) {
        value = length();
      } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
        value.resize(8);
        for (double& v : value) v = number(Need::factor);
      } else if (all || flip()) {
        if constexpr (std::is_same_v<Value, bool>) {
          value = !value;
        } else if constexpr (std::is_same_v<Value, double>) {
          value = number(field.need);
        } else {
          value = std::string_view(field.name) == "mixed_b" ? number(Need::share) : number(field.need);
        }
      }
    });
    return mended(scaling);
  }

 private:
  template <class S>
  static S mended(S scaling) {
    if constexpr (std::is_same_v<S, Llama3>) scaling.high += scaling.low;
    if constexpr (requires { scaling.beta_slow; }) scaling.beta_slow = std::min(scaling.beta_slow, scaling.beta_fast);
    if constexpr (std::is_same_v<S, LongRope>) {  // given for both lengths or for none
      if (scaling.short_mscale || scaling.long_mscale) {
        scaling.short_mscale = scaling.short_mscale.value_or(1.25);
        scaling.long_mscale = scaling.long_mscale.value_or(1.5);
      }
    }
    return scaling;
  }

  std::mt19937_64 random_{20261122};
};

// A scaling with the lists and lengths that it needs; everything else keeps its default.
template <class S>
S plain(S scaling) {
  scalings::for_each_field(scaling, [](const auto&, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, std::int64_t>) value = 4096;
    if constexpr (std::is_same_v<Value, std::vector<double>>) value = {1, 1, 1.5, 2, 3, 5, 8, 13};
  });
  return scaling;
}

TEST(ConfigWrite, EveryScalingWithItsDefaultsAndEachValueAloneComesBack) {
  int values = 0;
  Values choose;
  scalings::for_each_scaling([&](const auto& scaling) {
    using S = std::decay_t<decltype(scaling)>;
    expect_same(rope_with(plain(scaling)));
    const S other = choose.changed(plain(scaling), true);
    scalings::for_each_field(other, [&](const auto& field, const auto&) {
      S one = plain(scaling);
      one.*field.member = other.*field.member;
      if constexpr (std::is_same_v<S, LongRope>) {
        if (one.short_mscale || one.long_mscale) one.short_mscale = other.short_mscale, one.long_mscale = 1.125;
      }
      if constexpr (std::is_same_v<S, Llama3>) one.high = std::max(one.high, one.low);
      if constexpr (requires { one.beta_slow; }) one.beta_fast = std::max(one.beta_fast, one.beta_slow);
      expect_same(rope_with(one));
      ++values;
    });
  });
  EXPECT_EQ(values, 38);
}

TEST(ConfigWrite, RandomRopesComeBack) {
  Values choose;
  for (int i = 0; i < 200; ++i) {
    scalings::for_each_scaling([&](const auto& scaling) {
      Rope rope = rope_with(choose.changed(plain(scaling), i % 2 == 0));
      rope.base = choose.number(Need::positive) + 1;
      rope.pairing = choose.flip() ? Pairing::interleaved : Pairing::interleaved_to_half;
      if (!std::holds_alternative<Proportional>(rope.scaling))
        rope.head_dim = 16 + static_cast<int>(choose.length() % 200);
      expect_same(rope);
    });
  }
}

TEST(ConfigWrite, EveryWidthOfEveryHeadComesBack) {
  for (int head_dim = 2; head_dim <= 256; head_dim += head_dim < 64 ? 1 : 16) {
    for (int rotary_dim = 2; rotary_dim <= head_dim; rotary_dim += 2) {
      const int exponent_dim = rotary_dim % 4 == 0 ? 0 : rotary_dim - 1;
      const Rope rope{
          .head_dim = head_dim, .rotary_dim = rotary_dim, .pairing = Pairing::half, .exponent_dim = exponent_dim};
      EXPECT_EQ(read_back(rope), rope) << rope_parameters(rope);
    }
  }
}

TEST(ConfigWrite, TheKeysAreTransformersOwnWhereItHasSome) {
  EXPECT_EQ(rope_parameters(Rope{.head_dim = 8, .pairing = Pairing::half}),
            R"({"rope_type":"default","rope_theta":10000.0,"partial_rotary_factor":1.0})");
  EXPECT_EQ(rope_parameters(Rope{.head_dim = 8, .rotary_dim = 4, .base = 5e5, .scaling = Llama3{8, 8192, 1, 4}}),
            R"({"rope_type":"llama3","rope_theta":500000.0,"partial_rotary_factor":0.5,"factor":8.0,)"
            R"("original_max_position_embeddings":8192,"low_freq_factor":1.0,"high_freq_factor":4.0})");
  EXPECT_EQ(rope_parameters(Rope{.head_dim = 8, .scaling = Proportional{.fraction = 0.25, .factor = 2}}),
            R"({"rope_type":"proportional","rope_theta":10000.0,"factor":2.0,"partial_rotary_factor":0.25})");
  EXPECT_EQ(
      rope_parameters(Rope{.head_dim = 8, .scaling = Dynamic{2, 2048}}),
      R"({"rope_type":"dynamic","rope_theta":10000.0,"partial_rotary_factor":1.0,"factor":2.0,"trained_length":2048})");
  EXPECT_EQ(
      rope_parameters(Rope{.head_dim = 8, .scaling = Yarn{.factor = 4, .trained_length = 4096, .attn_factor = 2}}),
      R"({"rope_type":"yarn","rope_theta":10000.0,"partial_rotary_factor":1.0,"factor":4.0,)"
      R"("original_max_position_embeddings":4096,"beta_fast":32.0,"beta_slow":1.0,"truncate":true,"attn_factor":2.0})");
  const auto type_of = [](const Scaling& scaling) {
    return Json::parse(rope_parameters(rope_with(scaling)))["rope_type"].get<std::string>();
  };
  EXPECT_EQ(type_of(Ntk{2}), "ntk_aware");
  EXPECT_EQ(type_of(NtkFixed{2, {}}), "ntk");
  EXPECT_EQ(type_of(Yarn{.factor = 4, .trained_length = 4096, .mscale_ratio = true}), "deepseek_yarn");
  EXPECT_EQ(type_of(Yarn{.factor = 4, .trained_length = 4096, .magnitude = 0.07}), "telechat3-yarn");
}

// Every rope of every published config, written into a config of a model_type that is not known.
TEST(ConfigWrite, EveryPublishedRopeComesBackOrHasAnAxisForEachPair) {
  int written = 0;
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden("configs"))) {
    for (const ModelRope& used : read_config(entry.path()).ropes) {
      if (!used.rope.axis.empty() || !used.rope.index.empty()) {
        EXPECT_THROW(rope_parameters(used), Error);
        ++refused;
        continue;
      }
      Rope like = used.rope;
      like.head_dim -= used.first;  // an MLA's block that turns
      like.clockwise = false;       // the model_type's
      const Rope read = only(parse_config(config_of(like, rope_parameters(used)), {.pairing = like.pairing})).rope;
      EXPECT_EQ(read, like) << entry.path() << " " << rope_parameters(used);
      ++written;
    }
  }
  EXPECT_GT(written, 80);
  EXPECT_GT(refused, 5);
}

// The written keys replace a published config's own: the same rope again, or a note or an error of the reader.
TEST(ConfigWrite, PublishedConfigsTakeTheWrittenKeysForTheirOwn) {
  int same = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden("configs"))) {
    const Model model = read_config(entry.path());
    if (model.ropes.size() != 1 || !model.ropes[0].rope.axis.empty()) continue;
    const ModelRope& used = model.ropes[0];
    Json config = config_test::json_in<Json>(entry.path());
    Json& part = used.part.empty() ? config : config.at(used.part);
    for (const char* key : {"rope_scaling", "rope_parameters", "rope_theta"}) part.erase(key);
    part["rope_parameters"] = Json::parse(rope_parameters(used));
    const std::string code = config_test::code_of(config.dump());
    if (code != "none") {
      EXPECT_EQ(code, "CONFIG_KEY") << entry.path();  // a model_type that has no such object
      continue;
    }
    const Model read = parse_config(config.dump());
    if (only(read).rope == used.rope) {
      ++same;
    } else {
      EXPECT_TRUE(config_test::noted(read, "partial_rotary_factor 0.5 has no effect")) << entry.path();
    }
  }
  EXPECT_GT(same, 60);
}

std::string sentence_of(const ModelRope& used) {
  return tests::outcome_of([&] { rope_parameters(used); }).text();
}
std::string sentence_of(const Rope& rope) {
  ModelRope used;
  used.rope = rope;
  return sentence_of(used);
}

TEST(ConfigWrite, WhatHasNoKeyIsRefused) {
  EXPECT_EQ(sentence_of(Rope{}), "ROPE: [rope_parameters] head_dim must be above 0 but got 0");
  const std::string computed =
      "ROPE: [rope_parameters] a rope must be computed from its base and scaling along one axis but has ";
  Rope rope = rope_with(Unscaled{});
  rope.inv_freq.assign(8, 0.5);
  EXPECT_EQ(sentence_of(rope), computed + "inv_freq of its own");
  rope = rope_with(Unscaled{}), rope.multiplier.assign(8, 2);
  EXPECT_EQ(sentence_of(rope), computed + "multipliers of its frequencies");
  rope = rope_with(Unscaled{}), rope.axis.assign(8, 0);
  EXPECT_EQ(sentence_of(rope), computed + "an axis for each pair");
  rope = rope_with(Unscaled{}), rope.index = {0, 1, 2, 3, 4, 5, 6, 8};
  EXPECT_EQ(sentence_of(rope), computed + "an index for each pair");
  rope = rope_with(Unscaled{}), rope.exponent_dim = 8;
  EXPECT_EQ(sentence_of(rope), "ROPE: [rope_parameters] exponent_dim must be rotary_dim, 16, or one less but got 8");
  rope = rope_with(Proportional{.fraction = 0.5}), rope.rotary_dim = 8;
  EXPECT_EQ(sentence_of(rope),
            "ROPE: [rope_parameters] a scaling proportional must turn 16 elements of a head of 16 but turns 8");
  ModelRope middle;
  middle.rope = rope_with(Unscaled{});
  middle.rope.rotary_dim = 8;
  middle.first = 4;
  EXPECT_EQ(
      sentence_of(middle),
      "ROPE: [rope_parameters] a rotated block that does not begin the head must end it but elements 4 to 12 of 16 "
      "turn");
  middle.first = 8;
  EXPECT_EQ(sentence_of(middle), "none");
}

TEST(ConfigWrite, NumbersThatCannotBeReadBackAreRefused) {
  const std::string prefix = "ROPE: [rope_parameters] a rope must be one that read_config takes but it says: ";
  for (const double number : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(sentence_of(rope_with(Linear{number})).starts_with(prefix)) << sentence_of(rope_with(Linear{number}));
    Rope rope = rope_with(Linear{2});
    rope.base = number;
    EXPECT_TRUE(sentence_of(rope).starts_with("ROPE: [rope_parameters] ")) << sentence_of(rope);
    const Yarn yarn{.factor = 2, .trained_length = 4096, .attention_factor = number};
    EXPECT_TRUE(sentence_of(rope_with(yarn)).starts_with("ROPE: [rope_parameters] ")) << sentence_of(rope_with(yarn));
  }
  EXPECT_TRUE(sentence_of(rope_with(Dynamic{2, 0})).starts_with(prefix));
  EXPECT_TRUE(sentence_of(rope_with(Linear{1e16})).starts_with(prefix + "rope_parameters.factor must be at most"));
  LongRope one_only = plain(LongRope{});
  one_only.short_mscale = 1.5;
  EXPECT_EQ(sentence_of(rope_with(one_only)),
            prefix + "rope_type longrope must have long_mscale (short_mscale is given) but rope_parameters has none");
  EXPECT_TRUE(sentence_of(rope_with(Yarn{.factor = 2, .trained_length = 64, .beta_fast = 1, .beta_slow = 2}))
                  .starts_with(prefix + "rope_parameters.beta_fast must not be below beta_slow"));
}

}  // namespace
}  // namespace rotary
