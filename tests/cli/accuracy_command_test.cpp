// rotary accuracy: its JSON. The numbers are judged in tests/accuracy; its sentences: commands_test.cpp.
#include <nlohmann/json.hpp>
#include <sstream>

#include "run.h"

namespace rotary::cli_tests {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

const std::string configs = ROTARY_SOURCE_DIR "/tests/golden/configs/";

class CliAccuracy : public Cli {
 protected:
  Json json(const Strings& words) const {
    Strings all{"accuracy", "--json"};
    all.insert(all.end(), words.begin(), words.end());
    return Json::parse(expect_success(all).out);
  }
  static const Json& way(const Json& study, const std::string& name) {
    for (const Json& one : study.at("ways")) {
      if (one.at("way") == name) return one;
    }
    ADD_FAILURE() << name;
    return study;
  }
};

TEST_F(CliAccuracy, the_json_is_that_of_mpmath) {
  const Json golden = Json::parse(read_text(ROTARY_SOURCE_DIR "/tests/golden/accuracy.json")).at("ropes").at(0);
  const Json study = json({"--positions", "0:1000"});
  EXPECT_EQ(study.at("rope").at("base"), 10000);
  EXPECT_EQ(study.at("rope").at("head_dim"), 128);
  EXPECT_EQ(study.at("rope").at("inv_freq").size(), 64U);
  EXPECT_TRUE(study.at("rope").at("context").is_null());
  ASSERT_EQ(study.at("decades").size(), 3U);
  EXPECT_EQ(study.at("decades")[2], (Json{{"first", 100}, {"last", 999}, {"positions", 900}}));
  ASSERT_EQ(study.at("ways").size(), golden.at("decades").size());
  for (const auto& [name, errors] : golden.at("decades").items()) {
    const Json& one = way(study, name);
    for (std::size_t k = 0; k < 3; ++k) {
      const double wanted = std::stod(errors[k].get<std::string>());
      EXPECT_NEAR(one.at("cos_sin")[k].get<double>(), wanted, 1e-15 * wanted) << name;
    }
    EXPECT_NEAR(one.at("scores")[0].get<double>(), std::stod(golden.at("scores").at(name)[0].get<std::string>()),
                1e-14);
    EXPECT_EQ(one.at("scores").size(), 3U);
    EXPECT_EQ(one.at("scores_rms").size(), 3U);
  }
}

TEST_F(CliAccuracy, all_ways_that_people_use_are_there_in_order) {
  const Json study = json({"--positions", "9"});
  Strings names;
  for (const Json& one : study.at("ways")) names.push_back(one.at("way"));
  EXPECT_EQ(names, (Strings{"exact", "float32 product", "float32 inv_freq", "bf16 inv_freq", "bf16 table", "f16 table",
                            "bf16 positions", "TF32", "running product", "running rotation", "fast sine"}));
  EXPECT_TRUE(way(study, "exact").at("scores")[0].is_null()) << "one position has no score with another";
  const Json at = way(study, "bf16 inv_freq").at("cos_sin_at")[0];
  EXPECT_EQ(at.at("position"), 9);
  EXPECT_EQ(at.at("pair"), 1);
  EXPECT_EQ(at.at("of"), "cos");
}

TEST_F(CliAccuracy, the_usual_rope_to_ten_million) {
  const Json study = json({});
  EXPECT_EQ(study.at("decades").back().at("last"), 9999999);
  EXPECT_EQ(study.at("decades").size(), 7U);
  EXPECT_TRUE(way(study, "running rotation").at("cos_sin")[6].is_null());
  const Json exact = way(study, "exact").at("cos_sin");
  for (const Json& error : exact) EXPECT_LE(error.get<double>(), 0x1p-25);
  // What accuracy-and-bugs of this project's reference measured with MPFR, worst of eight ropes.
  EXPECT_NEAR(way(study, "float32 product").at("cos_sin")[3].get<double>(), 7.6e-4, 0.2e-4);
  EXPECT_NEAR(way(study, "TF32").at("cos_sin")[2].get<double>(), 0.24, 0.005);
  EXPECT_NEAR(way(study, "running product").at("cos_sin")[5].get<double>(), 0.15, 0.02);
  EXPECT_NE(study.at("sampling").get<std::string>().find("every position to 9999;"), std::string::npos);
}

TEST_F(CliAccuracy, the_table_holds_the_attention_factor) {
  const Strings words = {"--scaling", "yarn", "--factor", "4", "--trained-length", "4096", "--positions", "5000:5100"};
  Strings all{"accuracy"};
  all.insert(all.end(), words.begin(), words.end());
  EXPECT_NE(expect_success(all).out.find("(the table holds the attention factor)"), std::string::npos);
  const Json study = json(words);
  EXPECT_GT(study.at("rope").at("attention_factor").get<double>(), 1.1);
  EXPECT_GT(way(study, "exact").at("cos_sin")[0].get<double>(), 0x1p-25) << "values above 1 have a coarser float32";
}

TEST_F(CliAccuracy, positions_of_a_file_and_negative_ones) {
  write_npy(path("p.npy"), make_tensor<double>("", ElementType::f64, {2}, {0.5, 1234.25}));
  const Json reals = json({"--positions", path("p.npy")});
  EXPECT_TRUE(way(reals, "running rotation").at("cos_sin")[0].is_null());
  EXPECT_EQ(way(reals, "exact").at("cos_sin_at")[1].at("position"), 1234.25);
  EXPECT_EQ(json({"--positions", "-5:5"}).at("decades")[0].at("positions"), 10);
}

TEST_F(CliAccuracy, rows_of_heads_and_axes_are_measured_each_and_scores_are_those_of_a_head) {
  write_npy(path("one.npy"), make_tensor<double>("", ElementType::f64, {2}, {1, 0.3}));
  write_npy(path("four.npy"), make_tensor<double>("", ElementType::f64, {2, 2, 2}, {1, 0.3, 1, 0.3, 1, 0.3, 1, 0.3}));
  Json one = json({"--inv-freq", path("one.npy"), "--positions", "0:200"}),
       four = json({"--inv-freq", path("four.npy"), "--positions", "0:200"});
  EXPECT_NE(four["sampling"].get<std::string>().find("each axis alone"), std::string::npos);
  for (std::size_t way = 0; way < one["ways"].size(); ++way) {
    if (one["ways"][way]["way"] == "running product") continue;  // of a series, which four rows are not
    for (const char* key : {"cos_sin", "cos_sin_at", "scores"})
      EXPECT_EQ(one["ways"][way][key], four["ways"][way][key]);
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(one["ways"][way]["scores_rms"][k], four["ways"][way]["scores_rms"][k],
                  1e-9 * one["ways"][way]["scores_rms"][k].get<double>());
  }
  expect_error({"accuracy", "--inv-freq", path("one.npy"), "--xpos-scale", "512"}, "ROPE");
}

TEST_F(CliAccuracy, the_threads_change_no_bit) {
  for (const Strings& words : {Strings{"--positions", "0:20000"}, Strings{"--positions", "-70:70"}}) {
    Strings one = words, three = words;
    one.insert(one.end(), {"--threads", "1"});
    three.insert(three.end(), {"--threads", "3"});
    EXPECT_EQ(json(one), json(three));
  }
}

TEST_F(CliAccuracy, the_text_has_a_row_for_each_way_and_fits_a_page) {
  const std::string text = expect_success({"accuracy", configs + "llama-3.1-8b.json"}).out;
  std::size_t rows = 0, at = 0;
  while ((at = text.find("\n  running rotation ", at)) != std::string::npos) ++rows, ++at;
  EXPECT_EQ(rows, 3U);
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) EXPECT_LE(line.size(), 100U) << line;
}

}  // namespace
}  // namespace rotary::cli_tests
