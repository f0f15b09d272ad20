// Published configs against golden/expected.json (files/golden/make_golden.py): the ropes that read_config finds and
// the frequencies that follow, judged by mpmath to 1 ulp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "files/tests/config_helpers.h"

namespace rotary::golden_tests {
namespace {

using Json = nlohmann::json;

// The distance of a double from the real number of these 22 digits, in units of the last place of the double nearest to
// that number.
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
  const Json facts = config_test::facts_of(model, got);
  for (const char* key :
       {"layers", "layers_without_rope", "heads", "kv_heads", "head_dim", "rotary_dim", "pairing", "scaling", "base"})
    EXPECT_EQ(facts.at(key), want.at(key)) << where << " " << key;

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

void expect_model(const std::string& name, const Json& expected) {
  const Model model = read_config(test::golden("configs/" + name + ".json"));
  const std::string type = expected.at("model_type");
  EXPECT_TRUE(type.empty() || model.model_type == type) << name;
  EXPECT_EQ(model.ropes.size(), expected.at("ropes").size()) << name;
  std::map<std::pair<std::string, int>, std::size_t> seen;
  for (const Json& want : expected.at("ropes")) {
    const std::string part = want.at("part");
    const int first = want.at("first");
    const std::size_t nth = seen[{part, first}]++;
    const std::string where =
        name + " part \"" + part + "\" first " + std::to_string(first) + " rope " + std::to_string(nth);
    const std::vector<const ModelRope*> found = ropes_of(model, part, first);
    ASSERT_LT(nth, found.size()) << where << " is missing";
    expect_rope(model, *found[nth], want, where);
  }
}

TEST(Golden, every_config_of_the_folder_has_the_ropes_that_its_publisher_meant) {
  const Json expected = config_test::json_in(test::golden("expected.json")).at("models");
  for (const auto& [name, model] : expected.items()) expect_model(name, model);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden("configs"))) {
    files += entry.path().extension() == ".json";
  }
  EXPECT_EQ(files, expected.size());
  EXPECT_GE(files, 45u);
}

}  // namespace
}  // namespace rotary::golden_tests
