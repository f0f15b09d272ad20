// The logs that rotary compare reads, and the names it gives. (What it prints: commands_test.cpp)
#include <cstdlib>

#include "apps/rotary/runs.h"
#include "apps/shared/loss_log.h"
#include "rotary/error.h"
#include "run.h"
#include "xml_judge.h"

namespace rotary::cli_tests {
namespace {

using Losses = std::vector<std::pair<std::int64_t, double>>;

class LogFile : public Cli {
 protected:
  cli::LossLog read(const std::string& text) const {
    write_text(path("loss.jsonl"), text);
    return cli::read_loss_log(path("loss.jsonl"));
  }
  // Refused with this code, naming the file and the line.
  void expect_refused(const std::string& text, const std::string& code, int line) const {
    try {
      read(text);
      ADD_FAILURE() << "read: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(rotary::name(error.code())), code) << error.what();
      const std::string where = path("loss.jsonl") + ", line " + std::to_string(line) + ": ";
      EXPECT_EQ(std::string(error.what()).find("[read_loss_log] " + where), 0U) << error.what();
    }
  }
};

const std::string first_line = R"({"step": 0, "validation_loss": 4.25})"
                               "\n";
const std::string second_line = R"({"step": 10, "train_loss": 3.5, "tokens_per_second": 1e5})"
                                "\n";

TEST_F(LogFile, losses_are_read_by_step) {
  const cli::LossLog log =
      read(first_line + second_line + R"({"step": 20, "train_loss": 3, "validation_loss": 2.5})" + "\n");
  EXPECT_EQ(log.train, (Losses{{10, 3.5}, {20, 3}}));
  EXPECT_EQ(log.validation, (Losses{{0, 4.25}, {20, 2.5}}));
  EXPECT_EQ(log.steps, 20);
}

TEST_F(LogFile, other_lines_and_blank_ones_mean_nothing) {
  const cli::LossLog log = read("\n" + first_line + "  \r\n{}\n{\"event\": \"resumed\", \"step\": 5}\n" + second_line);
  EXPECT_EQ(log.train, (Losses{{10, 3.5}}));
  EXPECT_EQ(log.validation, (Losses{{0, 4.25}}));
}

TEST_F(LogFile, an_empty_log_is_a_log) {
  const cli::LossLog log = read("");
  EXPECT_TRUE(log.train.empty() && log.validation.empty());
  EXPECT_EQ(log.steps, 0);
}

TEST_F(LogFile, a_loss_that_is_no_number_is_missing) {
  const cli::LossLog log = read(first_line +
                                "{\"step\": 1, \"train_loss\": NaN}\n{\"step\": 2, \"train_loss\": -Infinity}\n"
                                "{\"step\": 3, \"validation_loss\": null}\n{\"step\": 4, \"train_loss\": Infinity}\n");
  EXPECT_TRUE(log.train.empty());
  EXPECT_EQ(log.validation, (Losses{{0, 4.25}}));
  EXPECT_EQ(log.steps, 4);
}

TEST_F(LogFile, a_last_line_that_was_cut_off_is_left_out) {
  const std::string last = R"({"step": 20, "train_loss": 3.25})";
  for (std::size_t length = 1; length < last.size(); ++length) {
    EXPECT_EQ(read(first_line + second_line + last.substr(0, length)).train, (Losses{{10, 3.5}})) << length;
  }
  EXPECT_EQ(read(first_line + second_line + last).train, (Losses{{10, 3.5}, {20, 3.25}}))
      << "whole, only the line's end is missing";
}

TEST_F(LogFile, a_resumed_run_replaces_what_it_did_again) {
  const auto line = [](int step, const std::string& loss) {
    return "{\"step\": " + std::to_string(step) + ", \"train_loss\": " + loss + "}\n";
  };
  const cli::LossLog log =
      read(line(10, "3.0") + line(20, "2.0") + line(30, "NaN") + line(20, "2.5") + line(30, "1.5"));
  EXPECT_EQ(log.train, (Losses{{10, 3.0}, {20, 2.5}, {30, 1.5}}));
}

TEST_F(LogFile, anything_else_is_refused_with_its_line) {
  expect_refused(first_line + "{\"step\": 1, \"train_loss\": \n" + second_line, "JSON", 2);
  expect_refused(first_line + "\n" + second_line + "garbage\n", "JSON", 4);
  expect_refused(first_line + "garbage", "JSON", 2);
  expect_refused(first_line + std::string("{\"step\": 1\0}\n", 13) + second_line, "JSON", 2);
  expect_refused("{\"step\": 1, \"train_loss\": 1, \"train_loss\": 2}\n", "JSON", 1);
  expect_refused("[1, 2]\n", "FORMAT", 1);
  expect_refused("17\n", "FORMAT", 1);
  expect_refused(first_line + "{\"train_loss\": 2.0}\n", "FORMAT", 2);
  for (const char* step : {"-1", "1.5", "\"1\"", "null", "NaN", "9007199254740993", "99999999999999999999"}) {
    expect_refused("{\"step\": " + std::string(step) + ", \"train_loss\": 2.0}\n", "FORMAT", 1);
  }
  for (const char* loss : {"\"2.0\"", "[2.0]", "true", "{}"}) {
    expect_refused("{\"step\": 1, \"validation_loss\": " + std::string(loss) + "}\n", "FORMAT", 1);
  }
}

TEST_F(LogFile, its_plot_has_the_training_loss_faint_behind_the_validation_loss) {
  const cli::Figure plot = cli::loss_plot(read(first_line + second_line), "a run");
  EXPECT_EQ(plot.title, "a run");
  ASSERT_EQ(plot.lines.size(), 2U);
  EXPECT_TRUE(plot.lines[0].faint);
  EXPECT_EQ(plot.lines[0].points, (std::vector<std::pair<double, double>>{{10, 3.5}}));
  EXPECT_FALSE(plot.lines[1].faint);
  EXPECT_EQ(plot.lines[1].points, (std::vector<std::pair<double, double>>{{0, 4.25}}));
  const cli::Figure alone = cli::loss_plot(read(second_line), "");
  ASSERT_EQ(alone.lines.size(), 1U);
  EXPECT_FALSE(alone.lines[0].faint);
  EXPECT_TRUE(cli::loss_plot({}, "").lines.empty());
}

// ---- names ----

TEST(RunNames, are_as_short_as_they_can_be_and_all_different) {
  EXPECT_EQ(cli::unique_names({"runs/a", "runs/b/", "./c/../d"}), (Strings{"a", "b", "d"}));
  EXPECT_EQ(cli::unique_names({"x/a", "y/a", "y/b"}), (Strings{"x/a", "y/a", "b"}));
  EXPECT_EQ(cli::unique_names({"/1/x/a", "/2/x/a", "/2/y/a"}), (Strings{"1/x/a", "2/x/a", "y/a"}));
  EXPECT_EQ(cli::unique_names({"/a", "/b/a"}), (Strings{"a", "b/a"}));
  EXPECT_EQ(cli::unique_names({"a", "./a", "a/"}), (Strings{"a", "a (2)", "a (3)"}));
  EXPECT_EQ(cli::unique_names({"x/a", "x/a", "x/a (2)"}), (Strings{"a", "a (3)", "a (2)"}));
  EXPECT_EQ(cli::unique_names({"/"}), (Strings{"/"}));
  EXPECT_EQ(cli::unique_names({"."}), (Strings{std::filesystem::current_path().filename().string()}));
}

// ---- the command ----

class Compare : public Cli {
 protected:
  std::string write_run(const std::string& name, const std::string& log, const std::string& config = "") const {
    std::filesystem::create_directories(path(name));
    write_text(path(name + "/loss.jsonl"), log);
    if (!config.empty()) write_text(path(name + "/config.json"), config);
    return path(name);
  }
  static std::string validation(const Losses& losses) {
    std::string log;
    for (const auto& [step, loss] : losses) log += Json{{"step", step}, {"validation_loss", loss}}.dump() + "\n";
    return log;
  }
  Strings words(const Strings& folders) const { return Strings{"compare", "--output", path("plot.svg")} + folders; }
  std::vector<plot_tests::Element> picture() const { return plot_tests::parse_xml(read_text(path("plot.svg"))); }
  Strings titles() const {
    Strings found;
    for (const plot_tests::Element& element : picture()) {
      if (element.name == "title") found.push_back(element.text);
    }
    return found;
  }
};

TEST_F(Compare, a_hostile_name_stays_one_name) {
  const std::string log = validation({{0, 4.0}, {1, 3.0}});
  const std::string name = "<&>\"\n\x1b[2J\xC3\xA9";
  const std::string run = write_run(name, log, Json{{"position_embedding_type", "a\nb\x1b[0m"}}.dump());
  const std::string out = expect_success(words({run})).out;
  EXPECT_NE(out.find("\n<&>\"\\x0a\\x1b[2J\xC3\xA9  a\\x0ab\\x1b[0m "), std::string::npos) << out;
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_EQ(titles().at(1), "<&>\"\\x0a\\x1b[2J\xC3\xA9");
  EXPECT_EQ(json_of(words({run})).at("runs").at(0).at("name"), name);
}

// The bundled runs (tools/golden/make_example_runs.py); docs/cli.md shows this picture. ROTARY_UPDATE_DOCS=1 writes it
// anew.
TEST_F(Compare, the_picture_of_the_bundled_runs_is_the_committed_one) {
  const Json json = json_of(words({runs + "none", runs + "rope"})).at("runs");
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0].at("position"), "rope");
  EXPECT_EQ(json[1].at("position"), "none");
  if (std::getenv("ROTARY_UPDATE_DOCS") != nullptr) write_text(runs + "compare.svg", read_text(path("plot.svg")));
  EXPECT_EQ(read_text(path("plot.svg")), read_text(runs + "compare.svg"));
}

}  // namespace
}  // namespace rotary::cli_tests
