// rotary plot: what is drawn is what the formulas say, and a person can read it.
#include <cmath>
#include <complex>
#include <numbers>
#include <sstream>

#include "picture.h"
#include "picture_judge.h"
#include "plot_command.h"

namespace rotary::cli_tests {
namespace {

using plot_tests::expect_readable;
using plot_tests::parse_xml;

double speed(int pair, int head_dim, double base = 10000) { return std::pow(base, -2.0 * pair / head_dim); }

// ---- wavelengths and stretch ----

TEST_F(PlotCommand, wavelengths_are_two_pi_over_the_speed) {
  const Json plot = json({"wavelengths", "--base", "500000", "--head-dim", "128"});
  EXPECT_EQ(plot.at("kind"), "wavelengths");
  const auto points = line(plot, "wavelength");
  ASSERT_EQ(points.size(), 64U);
  for (const auto& [pair, wavelength] : points) {
    const double wanted = 2 * std::numbers::pi / speed(static_cast<int>(pair), 128, 500000);
    EXPECT_NEAR(wavelength, wanted, 1e-12 * wanted) << pair;
  }
}

TEST_F(PlotCommand, wavelengths_and_stretch_are_those_that_inspect_tells) {
  for (const char* name : {"llama-3.1-8b", "gpt-oss-20b", "phi-3-mini-128k", "qwen2.5-vl-7b"}) {
    const std::string config = configs + name + ".json";
    const Json wavelengths = json({"wavelengths", config}), stretch = json({"stretch", config});
    const std::string length = std::string(name).starts_with("phi") ? "131072" : "0";
    Strings words = {"inspect", config, "--rope", "0", "--json"};
    if (length != "0") words.insert(words.end(), {"--length", length});
    const Json rope = Json::parse(expect_success(words).out).at("ropes").at(0);
    for (const auto& [drawn, key] : {std::pair(&wavelengths, "wavelength"), std::pair(&stretch, "stretch")}) {
      const Json& points = drawn->at("lines").at(0).at("points");
      ASSERT_EQ(points.size(), rope.at(key).size()) << name;
      for (std::size_t i = 0; i < points.size(); ++i) {
        EXPECT_EQ(points[i][0], static_cast<double>(i));
        EXPECT_EQ(points[i][1], rope.at(key)[i]) << name << ' ' << key << ' ' << i;
      }
    }
  }
}

TEST_F(PlotCommand, several_scalings_are_stretched_as_their_formulas_say) {
  const Json plot = json(
      {"stretch", "--scalings", "default,linear,ntk", "--factor", "4", "--head-dim", "64", "--trained-length", "2048"});
  const auto none = line(plot, "no scaling"), linear = line(plot, "linear 4"), ntk = line(plot, "ntk 4");
  for (int pair = 0; pair < 32; ++pair) {
    EXPECT_DOUBLE_EQ(none.at(pair), 1);
    EXPECT_NEAR(linear.at(pair), 4, 1e-12);
    EXPECT_NEAR(ntk.at(pair), std::pow(4, pair / 31.0), 1e-9);
  }
  const Json& guides = plot.at("guides");
  ASSERT_EQ(guides.size(), 1U);
  EXPECT_EQ(guides[0].at("name"), "one turn in 2048 tokens");
  const double pair = guides[0].at("points")[0][0];
  EXPECT_NEAR(2 * std::numbers::pi * std::pow(10000, pair / 32), 2048, 1e-6);
}

// ---- the picture ----

TEST_F(PlotCommand, every_kind_can_be_read) {
  const std::string llama = configs + "llama-3.1-8b.json", qwen = configs + "qwen2.5-vl-7b.json";
  const std::vector<Strings> all = {
      {"wavelengths", llama},
      {"wavelengths", llama, qwen, "--length", "1000000"},
      {"wavelengths", llama, qwen, configs + "pythia-1.4b.json", configs + "gpt-oss-20b.json",
       configs + "deepseek-v3.json"},
      {"wavelengths", configs + "gemma-3-4b-v5.json"},
      {"stretch", "--scalings", "linear,ntk,ntk_fixed,yarn,llama3", "--factor", "4", "--trained-length", "4096"},
      {"stretch", "--scaling", "dynamic", "--factor", "4", "--trained-length", "2048"},
      {"stretch", llama, "--scalings", "default,yarn", "--factor", "32"},
      {"stretch", configs + "phi-3-mini-128k.json", configs + "gpt-oss-20b.json"},
      {"stretch"},
      {"table"},
      {"table", llama, "--sin", "--positions", "0:100000"},
      {"table", "--positions", "5", "--pairs", "3"},
      {"table", configs + "gpt-oss-20b.json", "--pairs", "0:8", "--positions", "1000000000000:+64"},
      {"decay"},
      {"decay", llama},
      {"decay", llama, "--envelope", "roformer"},
      {"decay", "--scalings", "default,linear,yarn", "--factor", "8", "--trained-length", "4096"},
      {"accuracy"},
      {"accuracy", llama},
      {"accuracy", llama, configs + "gpt-oss-20b.json"},
      {"accuracy", "--positions", "0:300"},
      {"patches", configs + "qwen2.5-vl-7b.json"},
      {"loss", runs + "rope", runs + "none"},
      {"loss", runs + "rope"},
      {"table", "--title", std::string(200, 'W')}};
  for (const Strings& words : all) {
    std::string command;
    for (const std::string& word : words) command += " " + word;
    SCOPED_TRACE(command);
    const std::string svg = print(words);
    expect_readable(svg);
    EXPECT_EQ(print(words), svg) << "the same bytes";
  }
}

// ---- the table ----

TEST_F(PlotCommand, a_table_holds_cosines_or_sines) {
  for (const bool sine : {false, true}) {
    const Json map = json(
        {"table", "--head-dim", "16", "--positions", "0:20,1000:1004", "--pairs", "1,5:", sine ? "--sin" : "--cos"});
    EXPECT_EQ(map.at("value"), sine ? "sin" : "cos");
    EXPECT_EQ(map.at("pairs"), (Json{1, 5, 6, 7}));
    ASSERT_EQ(map.at("positions").size(), 24U);
    for (std::size_t row = 0; row < 4; ++row) {
      for (std::size_t column = 0; column < 24; ++column) {
        const double angle = map["positions"][column].get<double>() * speed(map["pairs"][row].get<int>(), 16);
        EXPECT_NEAR(map["values"][row][column].get<double>(), sine ? std::sin(angle) : std::cos(angle), 6e-8);
      }
    }
  }
  const Json yarn =
      json({"table", "--scaling", "yarn", "--factor", "4", "--trained-length", "64", "--positions", "0:1"});
  EXPECT_NEAR(yarn.at("limit").get<double>(), 0.1 * std::log(4) + 1, 1e-12);
  EXPECT_NEAR(yarn.at("values")[0][0].get<double>(), 0.1 * std::log(4) + 1, 1e-7);
}

// Cells, as boxes of their path's commands M x y H x V y H x z.
std::vector<std::pair<std::array<double, 4>, std::string>> cells_of(const std::string& svg) {
  std::vector<std::pair<std::array<double, 4>, std::string>> cells;
  const std::regex form("M([0-9.]+) ([0-9.]+)H([0-9.]+)V([0-9.]+)H([0-9.]+)z");
  for (const plot_tests::Element& element : parse_xml(svg)) {
    if (element.name != "path") continue;
    const std::string& path = element.attributes.at("d");
    for (std::sregex_iterator at(path.begin(), path.end(), form), end; at != end; ++at) {
      EXPECT_EQ((*at)[1], (*at)[5]);
      cells.push_back({{std::stod((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3]), std::stod((*at)[4])},
                       element.attributes.at("fill")});
    }
  }
  return cells;
}

TEST_F(PlotCommand, the_cells_of_a_table_cover_its_area_once_and_have_the_colours_of_the_scale) {
  const auto cells = cells_of(print({"table", "--head-dim", "8", "--positions", "0:7"}));
  double left = 1e9, right = 0, top = 1e9, bottom = 0, area = 0;
  for (const auto& [box, colour] : cells) {
    left = std::min(left, box[0]);
    top = std::min(top, box[1]);
    right = std::max(right, box[2]);
    bottom = std::max(bottom, box[3]);
    area += (box[2] - box[0]) * (box[3] - box[1]);
  }
  EXPECT_NEAR(area, (right - left) * (bottom - top), 1e-6 * area);
  for (int position = 0; position < 7; ++position) {
    for (int pair = 0; pair < 4; ++pair) {
      const double x = left + (position + 0.5) * (right - left) / 7, y = top + (pair + 0.5) * (bottom - top) / 4;
      const auto cell = std::find_if(cells.begin(), cells.end(), [&](const auto& candidate) {
        const auto& box = candidate.first;
        return box[0] < x && x < box[2] && box[1] < y && y < box[3];
      });
      ASSERT_NE(cell, cells.end());
      const double cosine = std::cos(position * speed(pair, 8));
      const int red = std::stoi(cell->second.substr(1, 2), nullptr, 16),
                blue = std::stoi(cell->second.substr(5, 2), nullptr, 16);
      if (cosine > 0.1) {
        EXPECT_GT(red, blue) << cosine;
      }
      if (cosine < -0.1) {
        EXPECT_LT(red, blue) << cosine;
      }
    }
  }
}

TEST_F(PlotCommand, a_large_table_is_sampled) {
  const std::string svg = print({"table", "--positions", "0:4096"});
  EXPECT_NE(svg.find("1 of 16 columns is drawn; rows too fast for this step are empty (17 of 64)"), std::string::npos);
  EXPECT_LT(svg.size(), 400000U);
  const std::string slow = cells_of(print({"table", "--positions", "0:1024", "--pairs", "63"})).front().second;
  EXPECT_EQ(cells_of(print({"table", "--positions", "0:4", "--pairs", "63"})).front().second, slow) << "cos near 1";
}

// ---- decay ----

// The mean over all q and k of the score of unit vectors, and of its other part, by turning each of them.
std::complex<double> mean_score(const std::vector<std::vector<double>>& qs, const std::vector<std::vector<double>>& ks,
                                int distance, int dim) {
  std::complex<double> sum = 0;
  for (const auto& q : qs) {
    for (const auto& k : ks) {
      double q_square = 0, k_square = 0;
      for (int i = 0; i < dim; ++i) {
        q_square += q[static_cast<std::size_t>(i)] * q[static_cast<std::size_t>(i)];
        k_square += k[static_cast<std::size_t>(i)] * k[static_cast<std::size_t>(i)];
      }
      for (int i = 0; i < dim / 2; ++i) {
        const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(i + dim / 2);  // half
        const std::complex<double> turned = std::complex(q[a], q[b]) * std::polar(1.0, distance * speed(i, dim));
        sum += turned * std::conj(std::complex(k[a], k[b])) / std::sqrt(q_square * k_square);
      }
    }
  }
  return sum / static_cast<double>(qs.size() * ks.size());
}

TEST_F(PlotCommand, decay_of_given_q_and_k_is_the_mean_over_all_of_them) {
  constexpr int tokens = 3, dim = 8;
  const std::vector<float> q = some_values(tokens * 2 * dim, 3), k = some_values(tokens * 1 * dim, 4);
  write_npy(path("q.npy"), make_tensor<float>("", ElementType::f32, {tokens, 2, dim}, q));
  write_tensors("k.safetensors", {make_tensor<float>("other", ElementType::f32, {1}, {1}),
                                  make_tensor<float>("k", ElementType::f32, {tokens, 1, dim}, k)});
  const Json plot = json({"decay", "--head-dim", "8", "--pairing", "half", "--length", "500", "--queries",
                          path("q.npy"), "--keys", path("k.safetensors")});
  const auto rows = [](const std::vector<float>& values) {
    std::vector<std::vector<double>> all;
    for (std::size_t i = 0; i < values.size(); i += dim)
      all.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(i),
                       values.begin() + static_cast<std::ptrdiff_t>(i + dim));
    return all;
  };
  const auto points = line(plot, "mean score");
  const Json& band = plot.at("bands").at(0).at("points");
  ASSERT_EQ(points.size(), 500U);
  for (const int distance : {1, 2, 7, 100, 499}) {
    const std::complex<double> wanted = mean_score(rows(q), rows(k), distance, dim);
    EXPECT_NEAR(points.at(distance), wanted.real(), 1e-7) << distance;
    const Json& ends = band.at(static_cast<std::size_t>(distance - 1));
    EXPECT_EQ(ends[0], distance);
    EXPECT_NEAR(ends[1].get<double>(), -std::abs(wanted), 1e-7);
    EXPECT_NEAR(ends[2].get<double>(), std::abs(wanted), 1e-7);
  }
}

TEST_F(PlotCommand, decay_of_random_vectors_is_near_the_mean_cosine_and_within_its_envelope) {
  const Json plot = json({"decay", "--length", "3000"});
  const auto points = line(plot, "mean score");
  for (const auto& [distance, score] : points) {
    double mean = 0;
    for (int pair = 0; pair < 64; ++pair) mean += std::cos(distance * speed(pair, 128)) / 64;
    EXPECT_NEAR(score, mean, 0.03) << distance;
  }
  for (const Json& ends : plot.at("bands").at(0).at("points")) {
    const double score = points.at(ends[0].get<double>());
    EXPECT_LE(score, ends[2].get<double>() + 1e-12);
    EXPECT_GE(score, ends[1].get<double>() - 1e-12);
  }
  EXPECT_EQ(json({"decay", "--length", "64"}), json({"decay", "--length", "64", "--seed", "1"}));
  EXPECT_NE(json({"decay", "--length", "64"}), json({"decay", "--length", "64", "--seed", "2"}));
}

TEST_F(PlotCommand, what_does_not_turn_adds_a_constant_and_the_attention_factor_counts_twice) {
  const auto partial = line(json({"decay", "--head-dim", "64", "--rotary-dim", "2", "--length", "50"}), "mean score");
  for (const auto& [distance, score] : partial) EXPECT_NEAR(score, (31 + std::cos(distance)) / 32, 0.01);
  const Strings yarn = {"decay", "--scaling", "yarn", "--factor", "1000", "--trained-length", "4", "--length", "4"};
  Strings table = yarn;
  table[0] = "table";
  table.resize(table.size() - 2);
  table.insert(table.end(), {"--positions", "1"});
  const Json entries = json(table);
  double mean = 0;
  for (const Json& entry : entries.at("values")) mean += entry[0].get<double>() / 64;
  const double factor = entries.at("limit");
  EXPECT_GT(factor, 1.5);
  EXPECT_NEAR(line(json(yarn), "mean score").at(1), factor * mean, 0.03) << "the entries hold the factor once";
}

TEST_F(PlotCommand, roformers_bound_is_the_sum_of_the_partial_sums) {
  const auto bound = line(json({"decay", "--head-dim", "8", "--length", "64", "--envelope", "roformer"}),
                          "RoFormer's bound, relative");
  for (const int distance : {1, 5, 64}) {
    std::complex<double> partial = 0;
    double sum = 0;
    for (int pair = 0; pair < 4; ++pair) sum += std::abs(partial += std::polar(1.0, distance * speed(pair, 8)));
    EXPECT_NEAR(bound.at(distance), sum / 10, 1e-7);
  }
}

// Heads 2, axes 3, pairs 2: the angle of a pair is the sum over the axes, the score the mean over the heads.
TEST_F(PlotCommand, a_pair_that_sums_its_axes_is_drawn_by_axis_by_distance_and_by_patches) {
  const std::vector<double> f = {0.1, 0.2, 1, 0.5, -0.3, 0, 0.4, 0.3, 2, 0.25, 0.6, 0.7};
  write_npy(path("f.npy"), make_tensor<double>("", ElementType::f64, {2, 3, 2}, f));
  write_npy(path("phase.npy"), make_tensor<double>("", ElementType::f64, {2}, {1.0, 2.0}));
  const std::vector<float> q = some_values(8, 3), k = some_values(8, 4);  // one token, heads 2
  write_npy(path("q.npy"), make_tensor<float>("", ElementType::f32, {1, 2, 4}, q));
  write_npy(path("k.npy"), make_tensor<float>("", ElementType::f32, {1, 2, 4}, k));
  const Strings rope = {"--inv-freq", path("f.npy"), "--pairing", "interleaved", "--phase", path("phase.npy")};
  const auto drawn = [&](Strings words) {
    words.insert(words.end(), rope.begin(), rope.end());
    return json(words);
  };
  const auto score = [&](double time, double row, double column) {
    double sum = 0;
    for (std::size_t head = 0; head < 2; ++head) {
      double squares_of_q = 0, squares_of_k = 0, of_head = 0;
      for (std::size_t i = 4 * head; i < 4 * head + 4; ++i) {
        squares_of_q += double{q[i]} * q[i];
        squares_of_k += double{k[i]} * k[i];
      }
      for (std::size_t i = 0; i < 2; ++i) {
        const double* w = &f[head * 6 + i];
        const std::size_t at = 4 * head + 2 * i;
        const std::complex<double> a(q[at], q[at + 1]), b(k[at], k[at + 1]);
        of_head += (a * std::conj(b) * std::polar(1.0, time * w[0] + row * w[2] + column * w[4])).real();
      }
      sum += of_head / std::sqrt(squares_of_q * squares_of_k) / 2;
    }
    return sum;
  };
  const Strings given = {"--queries", path("q.npy"), "--keys", path("k.npy")};
  Strings patches = {"patches", "--positions", "-2:4", "--step", "0.5"}, decay = {"decay", "--length", "9"};
  for (Strings* words : {&patches, &decay}) words->insert(words->end(), given.begin(), given.end());
  const Json map = drawn(patches);
  EXPECT_EQ(map.at("rows"), (Json{-2, -1, 0, 1, 2, 3}));
  EXPECT_EQ(map.at("columns"), map.at("rows"));
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t column = 0; column < 6; ++column) {
      const double y = static_cast<double>(row) - 2, x = static_cast<double>(column) - 2;
      EXPECT_NEAR(map["values"][row][column].get<double>(), score(0, y / 2, x / 2), 1e-7);
    }
  }
  for (const auto& [distance, mean] : line(drawn(decay), "mean score"))
    EXPECT_NEAR(mean, score(distance, distance, distance), 1e-7);
  const auto rows = line(drawn({"wavelengths"}), "axis 1");
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_DOUBLE_EQ(rows.at(static_cast<double>(i)), 2 * std::numbers::pi / f[i / 2 * 6 + 2 + i % 2]);
  EXPECT_EQ(line(drawn({"stretch"}), "axis 2").size(), 3U) << "one stands still";
  const Json table = drawn({"table", "--positions", "3", "--pairs", "3"});
  EXPECT_NEAR(table["values"][0][0].get<double>(), std::cos(3 * (0.3 + 0.25 + 0.7) + 2), 6e-8);
  expect_error({"plot", "accuracy", "--inv-freq", path("f.npy"), "--phase", path("phase.npy")}, "ROPE");
  expect_error({"plot", "patches"}, "ROPE");
  expect_error({"explain", "--inv-freq", path("f.npy"), "--pairing", "half", "--head-dim", "4"}, "ROPE");
  expect_error({"plot", "patches", configs + "qwen2.5-vl-7b.json", "--positions", "0:129"}, "POSITION");
}

TEST_F(PlotCommand, patches_differ_by_rows_and_columns_in_square_cells) {
  const std::string qwen = configs + "qwen2.5-vl-7b.json";
  const Json map = json({"patches", qwen, "--rope", "1", "--positions", "0:2"});  // axes height and width
  EXPECT_NEAR(map["values"][0][0].get<double>(), 1, 1e-6);
  double mean = 0;
  for (int i = 0; i < 20; ++i) mean += std::cos(std::pow(10000, -i / 20.0)) / 40;
  EXPECT_NEAR(map["values"][0][1].get<double>(), 0.5 + mean, 0.03);
  EXPECT_NEAR(map["values"][1][1].get<double>(), 2 * mean, 0.03);
  for (const auto& [box, colour] : cells_of(print({"patches", qwen, "--rope", "1", "--positions", "-1:1"})))
    EXPECT_NEAR(std::remainder((box[2] - box[0]) / (box[3] - box[1]), 1), 0, 1e-2) << colour;
}

// ---- models of several ropes ----

TEST_F(PlotCommand, pairs_that_stand_still_are_told_and_need_no_room) {
  const std::string gemma = configs + "gemma-4-31b.json";  // 128 pairs that turn, and 64 of 256
  for (const char* kind : {"wavelengths", "stretch"}) {
    const std::string svg = print({kind, gemma});
    EXPECT_NE(svg.find("rope 1 (full_attention): pairs 64 to 255 stand still"), std::string::npos);
    const plot_tests::Picture picture = plot_tests::read_picture(svg);
    EXPECT_EQ(picture.x_ticks.front().second, 0);
    EXPECT_EQ(picture.x_ticks.back().second, 120);
  }
}

TEST_F(PlotCommand, decay_ends_at_the_context) {
  const Strings models = {configs + "llama-3.1-8b.json", configs + "llama-2-7b.json", "--length", "64"};
  Strings words = {"decay"};
  words.insert(words.end(), models.begin(), models.end());
  const Json guides = json(words).at("guides");
  for (const Json& guide : guides) EXPECT_LE(guide.at("points")[1][0].get<double>(), 64) << guide;
  EXPECT_EQ(print(words).find("means"), std::string::npos) << "few distances are drawn as they are";
}

// ---- accuracy, loss ----

TEST_F(PlotCommand, accuracy_draws_the_errors_of_float32) {
  const Json plot = json({"accuracy", "--head-dim", "4", "--positions", "1000:1100,99990:100000"});
  const auto float32 = line(plot, "float32 product"), exact = line(plot, "exact");
  ASSERT_EQ(float32.size(), 110U);
  for (const auto& [position, error] : float32) {
    const double truth = position * 0.01, angle = static_cast<double>(static_cast<float>(position) * 0.01F);
    const double wanted =
        std::max(std::abs(std::cos(angle) - std::cos(truth)), std::abs(std::sin(angle) - std::sin(truth)));
    EXPECT_NEAR(error, wanted, 1e-7) << position;
    EXPECT_LE(exact.at(position), 3.1e-8);
  }
  const auto bf16 = line(plot, "bf16 inv_freq");
  EXPECT_NEAR(bf16.at(1000), std::abs(std::sin(1000 * 0.01001) - std::sin(10.0)), 0.002) << "bf16 of 0.01 is 0.01001";
}

TEST_F(PlotCommand, loss_draws_what_compare_draws) {
  expect_success({"compare", runs + "none", runs + "rope", "--output", path("compare.svg")});
  EXPECT_EQ(print({"loss", runs + "none", runs + "rope"}), read_text(path("compare.svg")));
  expect_error({"plot", "loss", path("nowhere")}, "FILE");
  expect_error({"plot", "loss", configs}, "FILE");
}

}  // namespace
}  // namespace rotary::cli_tests
