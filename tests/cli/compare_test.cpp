// rotary compare, the logs that it reads, and the names it gives.
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/rotary/runs.h"
#include "apps/shared/loss_log.h"
#include "rotary/error.h"
#include "run.h"
#include "xml_judge.h"

namespace rotary::cli_tests {
namespace {

using Json = nlohmann::json;
using Losses = std::vector<std::pair<std::int64_t, double>>;
using Strings = std::vector<std::string>;

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

const std::string first = R"({"step": 0, "validation_loss": 4.25})"
                          "\n";
const std::string second = R"({"step": 10, "train_loss": 3.5, "tokens_per_second": 1e5})"
                           "\n";

TEST_F(LogFile, losses_are_read_by_step) {
  const cli::LossLog log = read(first + second + R"({"step": 20, "train_loss": 3, "validation_loss": 2.5})" + "\n");
  EXPECT_EQ(log.train, (Losses{{10, 3.5}, {20, 3}}));
  EXPECT_EQ(log.validation, (Losses{{0, 4.25}, {20, 2.5}}));
  EXPECT_EQ(log.steps, 20);
}

TEST_F(LogFile, other_lines_and_blank_ones_mean_nothing) {
  const cli::LossLog log = read("\n" + first + "  \r\n{}\n{\"event\": \"resumed\", \"step\": 5}\n" + second);
  EXPECT_EQ(log.train, (Losses{{10, 3.5}}));
  EXPECT_EQ(log.validation, (Losses{{0, 4.25}}));
}

TEST_F(LogFile, an_empty_log_is_a_log) {
  const cli::LossLog log = read("");
  EXPECT_TRUE(log.train.empty() && log.validation.empty());
  EXPECT_EQ(log.steps, 0);
}

TEST_F(LogFile, a_loss_that_is_no_number_is_missing) {
  const cli::LossLog log = read(first +
                                "{\"step\": 1, \"train_loss\": NaN}\n{\"step\": 2, \"train_loss\": -Infinity}\n"
                                "{\"step\": 3, \"validation_loss\": null}\n{\"step\": 4, \"train_loss\": Infinity}\n");
  EXPECT_TRUE(log.train.empty());
  EXPECT_EQ(log.validation, (Losses{{0, 4.25}}));
  EXPECT_EQ(log.steps, 4);
}

TEST_F(LogFile, a_last_line_that_was_cut_off_is_left_out) {
  const std::string last = R"({"step": 20, "train_loss": 3.25})";
  for (std::size_t length = 1; length < last.size(); ++length) {
    EXPECT_EQ(read(first + second + last.substr(0, length)).train, (Losses{{10, 3.5}})) << length;
  }
  EXPECT_EQ(read(first + second + last).train, (Losses{{10, 3.5}, {20, 3.25}}))
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
  expect_refused(first + "{\"step\": 1, \"train_loss\": \n" + second, "JSON", 2);
  expect_refused(first + "\n" + second + "garbage\n", "JSON", 4);
  expect_refused(first + "garbage", "JSON", 2);
  expect_refused(first + std::string("{\"step\": 1\0}\n", 13) + second, "JSON", 2);
  expect_refused("{\"step\": 1, \"train_loss\": 1, \"train_loss\": 2}\n", "JSON", 1);
  expect_refused("[1, 2]\n", "FORMAT", 1);
  expect_refused("17\n", "FORMAT", 1);
  expect_refused(first + "{\"train_loss\": 2.0}\n", "FORMAT", 2);
  for (const char* step : {"-1", "1.5", "\"1\"", "null", "NaN", "9007199254740993", "99999999999999999999"}) {
    expect_refused("{\"step\": " + std::string(step) + ", \"train_loss\": 2.0}\n", "FORMAT", 1);
  }
  for (const char* loss : {"\"2.0\"", "[2.0]", "true", "{}"}) {
    expect_refused("{\"step\": 1, \"validation_loss\": " + std::string(loss) + "}\n", "FORMAT", 1);
  }
}

TEST_F(LogFile, its_plot_has_the_training_loss_faint_behind_the_validation_loss) {
  const cli::Figure plot = cli::loss_plot(read(first + second), "a run");
  EXPECT_EQ(plot.title, "a run");
  ASSERT_EQ(plot.lines.size(), 2U);
  EXPECT_TRUE(plot.lines[0].faint);
  EXPECT_EQ(plot.lines[0].points, (std::vector<std::pair<double, double>>{{10, 3.5}}));
  EXPECT_FALSE(plot.lines[1].faint);
  EXPECT_EQ(plot.lines[1].points, (std::vector<std::pair<double, double>>{{0, 4.25}}));
  const cli::Figure alone = cli::loss_plot(read(second), "");
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
  Strings words(Strings folders) const {
    folders.insert(folders.begin(), {"compare", "--output", path("plot.svg")});
    return folders;
  }
  Json json_of(Strings folders) const {
    folders.emplace_back("--json");
    return Json::parse(expect_success(words(std::move(folders))).out);
  }
  std::vector<plot_tests::Element> picture() const { return plot_tests::parse_xml(read_text(path("plot.svg"))); }
  Strings titles() const {
    Strings found;
    for (const plot_tests::Element& element : picture()) {
      if (element.name == "title") found.push_back(element.text);
    }
    return found;
  }
};

TEST_F(Compare, json_is_that_of_the_contract_the_best_first) {
  const std::string a = write_run("a", validation({{0, 4.0}, {100, 2.5}, {200, 2.25}, {300, 2.375}}),
                                  R"({"position_embedding_type": "learned", "parameters": 802944, "layers": 4})");
  const std::string b = write_run("b", validation({{0, 4.0}, {250, 2.0}}), R"({"position_embedding_type": "rope"})");
  const Json json = json_of({a, b});
  EXPECT_EQ(json.at("plot"), path("plot.svg"));
  const Json runs = json.at("runs");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0], Json({{"name", "b"},
                           {"directory", b},
                           {"position", "rope"},
                           {"parameters", nullptr},
                           {"steps", 250},
                           {"validation_loss", 2.0},
                           {"best_validation_loss", 2.0},
                           {"best_step", 250}}));
  EXPECT_EQ(runs[1], Json({{"name", "a"},
                           {"directory", a},
                           {"position", "learned"},
                           {"parameters", 802944},
                           {"steps", 300},
                           {"validation_loss", 2.375},
                           {"best_validation_loss", 2.25},
                           {"best_step", 200}}));
  EXPECT_EQ(titles(), (Strings{"Validation loss", "b", "a"}));
}

TEST_F(Compare, the_table_shows_the_distance_to_the_best) {
  const std::string a = write_run("a", validation({{0, 4.0}, {300, 2.375}, {400, 2.5}}));
  const std::string b = write_run("b", validation({{0, 4.0}, {250, 2.0}}), R"({"position_embedding_type": "rope"})");
  const std::string out = expect_success(words({a, b})).out;
  EXPECT_TRUE(std::regex_search(out, std::regex("run +position +parameters +steps .*\n"
                                                "b +rope +- +250 +2\\.0000 +2\\.0000 +250\n"
                                                "a +- +- +400 +2\\.5000 +2\\.3750 +300 +\\+0\\.3750\n")))
      << out;
  EXPECT_TRUE(out.ends_with("\nwrote " + path("plot.svg") + "\n")) << out;
  EXPECT_EQ(read_text(path("plot.svg")).substr(0, 5), "<svg ");
}

TEST_F(Compare, a_run_without_validation_falls_back_on_its_training_loss_and_says_so) {
  std::string log;
  for (int step = 1; step <= 50; ++step) {
    log += Json{{"step", step}, {"train_loss", step <= 30 ? 100.0 : step % 2 == 0 ? 1.0 : 1.5}}.dump() + "\n";
  }
  const std::string trained = write_run("trained", log);
  const std::string empty = write_run("empty", "");
  const std::string both = write_run("both", log + validation({{50, 3.0}}));
  const Json runs = json_of({empty, trained, both}).at("runs");
  EXPECT_EQ(runs[0].at("name"), "both");
  EXPECT_EQ(runs[1].at("name"), "trained") << "behind: a training loss is no validation loss";
  EXPECT_EQ(runs[1].at("validation_loss"), nullptr);
  EXPECT_EQ(runs[1].at("train_loss"), 1.25) << "the mean of the last 20 lines";
  EXPECT_EQ(runs[1].at("steps"), 50);
  EXPECT_EQ(runs[2].at("name"), "empty");
  EXPECT_EQ(runs[2].at("best_validation_loss"), nullptr);
  EXPECT_EQ(titles(), (Strings{"Loss", "both", "trained (training)"}));
  const std::string out = expect_success(words({empty, trained, both})).out;
  EXPECT_NE(out.find("1.2500*"), std::string::npos) << out;
  EXPECT_NE(out.find("* no validation lines: the training loss, mean of the last 20 lines\n"), std::string::npos);
}

TEST_F(Compare, any_folder_with_a_log_may_be_compared) {
  const std::string log = validation({{0, 4.0}, {1, 3.0}});
  const std::string other = R"({"position_embedding_type": ["absolute"], "parameters": "7B", "x": NaN})";
  const Json run = json_of({write_run("other", log, other)}).at("runs").at(0);
  EXPECT_EQ(run.at("position"), nullptr);
  EXPECT_EQ(run.at("parameters"), nullptr);
}

TEST_F(Compare, a_hostile_name_stays_one_name) {
  const std::string log = validation({{0, 4.0}, {1, 3.0}});
  const std::string name = "<&>\"\n\x1b[2J\xC3\xA9";
  const std::string run = write_run(name, log, Json{{"position_embedding_type", "a\nb\x1b[0m"}}.dump());
  const std::string out = expect_success(words({run})).out;
  EXPECT_NE(out.find("\n<&>\"\\x0a\\x1b[2J\xC3\xA9  a\\x0ab\\x1b[0m "), std::string::npos) << out;
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_EQ(titles().at(1), "<&>\"\\x0a\\x1b[2J\xC3\xA9");
  EXPECT_EQ(json_of({run}).at("runs").at(0).at("name"), name);
}

TEST_F(Compare, what_is_wrong_is_said_by_name) {
  const std::string good = write_run("good", validation({{0, 4.0}}));
  std::filesystem::create_directory(path("bare"));
  expect_usage({"compare"});
  for (const char* folder : {"bare", "missing", "good/loss.jsonl"}) {
    expect_error(words({good, path(folder)}), "FILE");
    EXPECT_NE(read_text(path("stderr")).find(path(folder)), std::string::npos) << folder;
  }
  expect_error(words({good, write_run("broken", "{\n{}\n")}), "JSON");
  EXPECT_NE(read_text(path("stderr")).find("broken/loss.jsonl, line 1: "), std::string::npos);
  expect_error(words({write_run("torn", validation({{0, 4.0}}), "{\"parameters\": ")}), "JSON");
  EXPECT_NE(read_text(path("stderr")).find("torn/config.json: "), std::string::npos);
  expect_error(words({write_run("list", validation({{0, 4.0}}), "[]")}), "FORMAT");
  EXPECT_FALSE(std::filesystem::exists(path("plot.svg")));
}

TEST_F(Compare, a_plot_that_cannot_be_written_is_an_error_and_leaves_what_was_there) {
  const std::string run = write_run("run", validation({{0, 4.0}}));
  write_text(path("plot.svg"), "old");
  expect_error({"compare", run, "--output", path("nowhere/plot.svg")}, "FILE");
  expect_error({"compare", run, "--output", path("run/loss.jsonl")}, "FORMAT");
  std::filesystem::create_directory(path("folder.svg"));
  expect_error({"compare", run, "--output", path("folder.svg")}, "FILE");
  const std::string limited =
      "ulimit -f 0; '" ROTARY_PROGRAM "' compare '" + run + "' --output '" + path("plot.svg") + "'";
  EXPECT_NE(std::system(("( " + limited + " ) >/dev/null 2>&1").c_str()), 0);
  EXPECT_EQ(read_text(path("plot.svg")), "old");
  for (const auto& entry : std::filesystem::directory_iterator(path(""))) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

TEST_F(Compare, without_output_nothing_is_written) {
  const std::string run_folder = write_run("run", validation({{0, 4.0}, {10, 3.0}}));
  const auto files_here = [this] {
    const std::filesystem::directory_iterator all(path(""));
    return std::count_if(begin(all), end(all), [](const auto& entry) { return entry.path().filename() != "stderr"; });
  };
  EXPECT_EQ(files_here(), 1);
  const Result table = expect_success({"compare", run_folder});
  EXPECT_EQ(table.out.find("wrote"), std::string::npos);
  EXPECT_TRUE(Json::parse(expect_success({"compare", run_folder, "--json"}).out).at("plot").is_null());
  EXPECT_EQ(files_here(), 1);
}

TEST_F(Compare, the_table_is_ascii_where_the_locale_is_not_utf8) {
  const std::string run_folder = write_run(std::string(60, 'n'), validation({{0, 4.0}, {10, 3.0}}));
  const auto is_ascii = [](const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  };
  const std::string c_locale = run({"compare", run_folder}, "LC_ALL=C").out;
  EXPECT_TRUE(is_ascii(c_locale)) << c_locale;
  EXPECT_NE(c_locale.find(std::string(37, 'n') + "... "), std::string::npos) << c_locale;
  EXPECT_NE(run({"compare", run_folder}, "LC_ALL=C.UTF-8").out.find(std::string(39, 'n') + "\u2026 "),
            std::string::npos);
}

TEST_F(Compare, a_model_is_no_run) {
  std::filesystem::create_directory(path("model"));
  const std::string config = write_config("model/config.json", R"("model_type": "llama")");
  for (const std::string& folder : {path("model"), config}) {
    expect_error({"compare", folder}, "FILE");
    EXPECT_NE(read_text(path("stderr")).find("'rotary inspect' shows its rope"), std::string::npos) << folder;
  }
}

// The bundled runs (tools/golden/make_example_runs.py); docs/cli.md shows this picture. ROTARY_UPDATE_DOCS=1 writes it
// anew.
TEST_F(Compare, the_picture_of_the_bundled_runs_is_the_committed_one) {
  const std::string runs = ROTARY_SOURCE_DIR "/tests/golden/runs/";
  const Json json = json_of({runs + "none", runs + "rope"}).at("runs");
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0].at("position"), "rope");
  EXPECT_EQ(json[1].at("position"), "none");
  if (std::getenv("ROTARY_UPDATE_DOCS") != nullptr) write_text(runs + "compare.svg", read_text(path("plot.svg")));
  EXPECT_EQ(read_text(path("plot.svg")), read_text(runs + "compare.svg"));
}

}  // namespace
}  // namespace rotary::cli_tests
