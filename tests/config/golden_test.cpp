// Published configs against golden/expected.json (tools/golden/make_golden.py): the ropes that read_config finds and
// the frequencies that follow, judged by mpmath to 1 ulp.
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "rotary/config.h"

namespace rotary {
namespace {

using Json = nlohmann::json;

const std::string golden = std::string(ROTARY_SOURCE_DIR) + "/tests/golden/";

const Json& expected_models() {
  static const Json models = [] {
    std::ifstream file(golden + "expected.json");
    return Json::parse(file).at("models");
  }();
  return models;
}

std::vector<std::string> config_names() {
  std::vector<std::string> names;
  for (const auto& [name, model] : expected_models().items()) names.push_back(name);
  return names;
}

// The real number that the 22 digits stand for, in units of the last place of the double nearest to it.
double ulps_apart(double got, const std::string& digits) {
  const long double real = std::strtold(digits.c_str(), nullptr);
  if (real == 0) return got == 0 ? 0 : std::numeric_limits<double>::infinity();
  const long double ulp = std::ldexp(1.0L, std::ilogb(real) - 52);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - real) / ulp);
}

void expect_frequencies(const Frequencies& got, const Json& want, const std::string& where) {
  EXPECT_LE(ulps_apart(got.attention_factor, want.at("attention_factor")), 1) << where;
  const std::vector<std::string> inv_freq = want.at("inv_freq");
  ASSERT_EQ(got.inv_freq.size(), inv_freq.size()) << where;
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    EXPECT_LE(ulps_apart(got.inv_freq[i], inv_freq[i]), 1)
        << where << " pair " << i << ": " << got.inv_freq[i] << " for " << inv_freq[i];
  }
}

std::string axis_string(const Frequencies& f) {
  std::string text(f.inv_freq.size(), '0');
  for (std::size_t i = 0; i < f.axis.size() && i < text.size(); ++i) text[i] = static_cast<char>('0' + f.axis[i]);
  return text;
}

void expect_rope(const Model& model, const ModelRope& got, const Json& want, const std::string& where) {
  EXPECT_EQ(Json(got.layers), want.at("layers")) << where;
  EXPECT_EQ(Json(layers_without_rope(model, got.part)), want.at("layers_without_rope")) << where;
  EXPECT_EQ(got.heads, want.at("heads").get<int>()) << where;
  EXPECT_EQ(got.kv_heads, want.at("kv_heads").get<int>()) << where;
  EXPECT_EQ(got.rope.head_dim, want.at("head_dim").get<int>()) << where;
  EXPECT_EQ(got.rope.rotary_dim, want.at("rotary_dim").get<int>()) << where;
  EXPECT_EQ(name(got.rope.pairing), want.at("pairing").get<std::string>()) << where;
  EXPECT_EQ(name(got.rope.scaling), want.at("scaling").get<std::string>()) << where;
  EXPECT_EQ(got.rope.base, want.at("base").get<double>()) << where;

  const Frequencies trained = frequencies(got.rope, 0);
  EXPECT_EQ(axis_string(trained), want.at("axis").get<std::string>()) << where;
  expect_frequencies(trained, want, where);

  const Json lengths = want.value("long", Json::array());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t length = lengths[i].at("length");
    expect_frequencies(frequencies(got.rope, length), lengths[i], where + " at length " + std::to_string(length));
  }
}

// The ropes of one part that begin at the same element, in the order of the model.
std::vector<const ModelRope*> ropes_of(const Model& model, const std::string& part, int first) {
  std::vector<const ModelRope*> found;
  for (const ModelRope& rope : model.ropes) {
    if (rope.part == part && rope.first == first) found.push_back(&rope);
  }
  return found;
}

struct PublishedConfig : testing::TestWithParam<std::string> {};

TEST_P(PublishedConfig, has_the_ropes_that_its_publisher_meant) {
  const Json& expected = expected_models().at(GetParam());
  const Model model = read_config(golden + "configs/" + GetParam() + ".json");
  const std::string type = expected.at("model_type");
  if (!type.empty()) {
    EXPECT_EQ(model.model_type, type);
  }

  EXPECT_EQ(model.ropes.size(), expected.at("ropes").size());
  std::map<std::pair<std::string, int>, std::size_t> taken;
  for (const Json& want : expected.at("ropes")) {
    const std::string part = want.at("part");
    const int first = want.at("first");
    const std::size_t nth = taken[{part, first}]++;
    const std::string where =
        GetParam() + " part \"" + part + "\" first " + std::to_string(first) + " rope " + std::to_string(nth);
    const std::vector<const ModelRope*> found = ropes_of(model, part, first);
    ASSERT_LT(nth, found.size()) << where << " is missing";
    expect_rope(model, *found[nth], want, where);
  }
}

std::string as_test_name(const testing::TestParamInfo<std::string>& info) {
  std::string text = info.param;
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return text;
}

INSTANTIATE_TEST_SUITE_P(Golden, PublishedConfig, testing::ValuesIn(config_names()), as_test_name);

TEST(Golden, covers_every_config_of_the_folder) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden + "configs")) {
    files += entry.path().extension() == ".json";
  }
  EXPECT_EQ(files, expected_models().size());
  EXPECT_GE(files, 45u);
}

}  // namespace
}  // namespace rotary
