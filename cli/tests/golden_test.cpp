// rotary golden: both files have the same numbers, a right implementation is within the tolerances, a wrong one is not.
// (Refusals: cli/tests/transcripts/golden.txt)
#include <cmath>

#include "run.h"

namespace rotary::cli_tests {
namespace {

class CliGolden : public Cli {
 protected:
  Json golden(const std::string& config, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"golden", config, "--output", path("g.json")};
    words.insert(words.end(), more.begin(), more.end());
    expect_success(words);
    return Json::parse(read_text(path("g.json")));
  }
};

// The element that is paired with element d of a block of n pairs, its pair, and whether it is the first of the two.
struct Partner {
  std::size_t other, pair;
  bool first;
};
Partner partner_of(const std::string& pairing, std::size_t d, std::size_t n) {
  if (pairing == "interleaved") return {d ^ 1U, d / 2, d % 2 == 0};
  return {(d + n) % (2 * n), d % n, d < n};
}

// The largest error of an implementation of the textbook: the angle by angle_of(position, inv_freq), the rest exact.
template <class AngleOf>
double error_at(const Json& g, std::size_t t, const std::string& pairing, AngleOf angle_of) {
  const std::size_t n = g["inv_freq"].size(), first = std::stoul(g["golden"]["first"].get<std::string>());
  const double factor = g["attention_factor"], sign = g["golden"]["rotated"] == "backward" ? -1 : 1;
  const Json& positions = g["positions"];
  double worst = 0;
  for (std::size_t h = 0; h < g["x"][t].size(); ++h) {
    const std::vector<double> x = g["x"][t][h], got = g["rotated"][t][h];
    for (std::size_t d = 0; d < x.size(); ++d) {
      double wanted = x[d];
      if (d >= first && d < first + 2 * n) {
        const auto [other, pair, is_first] = partner_of(pairing, d - first, n);
        const std::size_t axis = g["axis"][pair];
        const auto angle = angle_of(positions[axis][t].get<double>(), g["inv_freq"][pair].get<double>());
        const double swap = x[first + other] * (is_first ? -sign : sign);
        wanted = factor * static_cast<double>(x[d] * std::cos(angle) + swap * std::sin(angle));
      }
      worst = std::max(worst, std::abs(wanted - got[d]));
    }
  }
  return worst;
}

long double exact(double position, double w) { return static_cast<long double>(position) * w; }
float float32(double position, double w) { return static_cast<float>(position) * static_cast<float>(w); }

TEST_F(CliGolden, the_textbook_is_within_the_tolerances_and_another_pairing_is_not) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> cases = {
      {"llama-3.1-8b", {"--backward"}},
      {"deepseek-v2", {"--heads", "1"}},
      {"glm-4-9b-0414", {}},
      {"gpt-oss-20b", {"--positions", "-3:3,100000"}},
      {"qwen2.5-vl-7b", {}},
      {"qwen2.5-vl-7b", {"--rope", "1"}}};
  for (const auto& [name, more] : cases) {
    SCOPED_TRACE(name);
    const Json g = golden(configs + std::string(name) + ".json", more);
    const std::string pairing = g["golden"]["pairing"];
    ASSERT_TRUE(pairing == "half" || pairing == "interleaved");
    const std::string other = pairing == "half" ? "interleaved" : "half";
    bool seen = false;
    for (std::size_t t = 0; t < g["x"].size(); ++t) {
      EXPECT_LE(error_at(g, t, pairing, exact), g["tolerance_f32"].get<double>()) << t;
      const double allowed = g["tolerance_float32_angles"][t];
      EXPECT_LE(error_at(g, t, pairing, float32), allowed) << t;
      seen = seen || error_at(g, t, other, float32) > allowed;
    }
    EXPECT_TRUE(seen);
  }
}

// The numbers of nested lists, in order.
void collect(const Json& value, std::vector<double>& numbers) {
  if (!value.is_array()) return numbers.push_back(value.get<double>());
  for (const Json& item : value) collect(item, numbers);
}

// The numbers of "TYPE g_NAME[N] = {1, 2};" or "TYPE g_NAME = 1;", as a C compiler reads them.
std::vector<double> numbers_in(const std::string& header, const std::string& name) {
  const std::size_t begin = header.find(" g_" + name), from = header.find("= ", begin), end = header.find(';', from);
  std::string list = header.substr(from + 2, end - from - 2);
  std::vector<double> numbers;
  static const std::regex number("-?[0-9][-+.e0-9]*(f?)");
  for (std::sregex_iterator at(list.begin(), list.end(), number), last; at != last; ++at)
    numbers.push_back((*at)[1].length() == 1 ? std::stof(at->str()) : std::stod(at->str()));
  return numbers;
}

TEST_F(CliGolden, json_and_header_hold_the_same) {
  const std::string config = small_llama();
  const Json g = golden(config);
  EXPECT_EQ(g["positions"], Json::array({{0, 1, 2, 3, 10, 63}}));
  expect_success({"golden", config, "--output", path("g.h")});
  const std::string header = read_text(path("g.h"));
  int compared = 0;
  for (const auto& [name, value] : g.items()) {
    if (name == "version" || name == "golden") continue;
    std::vector<double> numbers;
    collect(value, numbers);
    EXPECT_EQ(numbers, numbers_in(header, name)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 12);
}

// Heads 2, axes 2, pairs 2: each head turns by the sum over its axes.
TEST_F(CliGolden, ropes_of_heads_and_axes_have_their_shapes) {
  write_npy(path("f.npy"), make_tensor<double>("", ElementType::f64, {2, 2, 2}, {1, 0.5, 0.25, -0.1, 2, 0, 0.3, 0.7}));
  const Json g = golden("--inv-freq=" + path("f.npy"),
                        {"--pairing", "interleaved", "--head-dim", "4"});
  ASSERT_EQ(g["rotated"][0].size(), 2U);
  for (std::size_t t = 0; t < g["x"].size(); ++t) {
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 2; ++i) {
        double angle = 0;
        for (std::size_t a = 0; a < 2; ++a)
          angle += g["positions"][a][t].get<double>() * g["inv_freq"][h][a][i].get<double>();
        const double x = g["x"][t][h][2 * i], y = g["x"][t][h][2 * i + 1], got = g["rotated"][t][h][2 * i];
        EXPECT_NEAR(g["cos"][t][h][i].get<double>(), std::cos(angle), 3e-8);
        EXPECT_NEAR(got, x * std::cos(angle) - y * std::sin(angle), g["tolerance_f32"].get<double>());
        EXPECT_GT(g["tolerance_float32_angles"][t].get<double>(), g["tolerance_f32"].get<double>());
      }
    }
  }
  EXPECT_FALSE(g.contains("axis"));
}

}  // namespace
}  // namespace rotary::cli_tests
