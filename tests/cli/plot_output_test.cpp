// rotary plot: PNG, text, and the pictures of docs. (Wrong usage and outputs: commands_test.cpp)
#include <cstdlib>
#include <set>
#include <sstream>

#include "apps/shared/displayable.h"
#include "picture_judge.h"
#include "plot_command.h"

namespace rotary::cli_tests {
namespace {

using plot_tests::expect_readable;

// ---- where it goes ----

TEST_F(PlotCommand, png_comes_from_rsvg_convert) {
  expect_error({"plot", "table", "--output", path("t.png")}, "FILE", "PATH=/nowhere");
  EXPECT_NE(read_text(path("stderr")).find("rsvg-convert"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("t.png")));
  if (std::system("command -v rsvg-convert >/dev/null 2>&1") != 0) GTEST_SKIP() << "rsvg-convert is not here";
  EXPECT_EQ(print({"table", "--output", path("a picture.png")}), "wrote " + path("a picture.png") + "\n");
  const std::string png = read_text(path("a picture.png"));
  EXPECT_TRUE(png.starts_with("\x89PNG\r\n\x1a\n"));
  EXPECT_GT(png.size(), 5000U);
  for (const auto& entry : std::filesystem::directory_iterator(path("")))
    EXPECT_EQ(entry.path().string().find(".rotary.svg"), std::string::npos) << "the SVG on the way is removed";
}

TEST_F(PlotCommand, text_names_lines_and_guides) {
  const std::string text = print({"wavelengths", configs + "llama-3.1-8b.json", "--terminal"});
  EXPECT_NE(text.find("* llama3  . without scaling"), std::string::npos) << text;
  EXPECT_NE(text.find("- trained length 8192  - context 131072"), std::string::npos) << text;
  for (const char* columns : {"40", "57", "100"}) {
    std::istringstream narrow(run({"plot", "table", "--terminal"}, "COLUMNS=" + std::string(columns)).out +
                              run({"plot", "decay", "--terminal"}, "COLUMNS=" + std::string(columns)).out);
    for (std::string line; std::getline(narrow, line);) EXPECT_LE(cli::columns(line), std::stoul(columns)) << line;
  }
  std::istringstream lines(text + print({"table", "--terminal", "--positions", "0:1000"}) +
                           print({"decay", "--terminal"}));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; })) << line;
  }
}

// ---- the pictures of docs ----

// docs/pictures, made by these commands; ROTARY_UPDATE_DOCS=1 writes them anew.
TEST_F(PlotCommand, the_pictures_of_docs_are_what_the_program_draws) {
  const std::string folder = ROTARY_SOURCE_DIR "/docs/pictures/";
  const auto config = [](const char* name) { return configs + name + ".json"; };
  const std::vector<std::pair<std::string, Strings>> pictures = {
      {"wavelengths.svg",
       {"wavelengths", config("llama-2-7b"), config("llama-3.1-8b"), config("qwen2.5-vl-7b"), config("gpt-oss-20b")}},
      {"stretch.svg",
       {"stretch", config("llama-3.1-8b"), config("gpt-oss-20b"), config("deepseek-v3"), config("phi-3-mini-128k")}},
      {"scalings.svg",
       {"stretch", "--scalings", "linear,ntk,yarn,llama3", "--factor", "4", "--trained-length", "4096"}},
      {"llama.svg", {"wavelengths", config("llama-3.1-8b")}},
      {"table.svg", {"table"}},
      {"decay.svg", {"decay", "--length", "65536"}},
      {"patches.svg", {"patches", config("qwen2.5-vl-7b"), "--rope", "1"}},
      {"accuracy.svg", {"accuracy", config("llama-3.1-8b")}}};
  std::set<std::string> names = {"windows.svg"};  // of a model that was trained (docs/long-context.md)
  expect_readable(read_text(folder + "windows.svg"));
  for (const auto& [name, words] : pictures) {
    const std::string svg = print(words);
    expect_readable(svg);
    if (std::getenv("ROTARY_UPDATE_DOCS") != nullptr) {
      std::filesystem::create_directories(folder);
      write_text(folder + name, svg);
    }
    EXPECT_EQ(read_text(folder + name), svg) << name;
    names.insert(name);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    EXPECT_EQ(names.count(entry.path().filename().string()), 1U) << entry.path();
}

TEST_F(PlotCommand, the_pictures_of_the_chapters_can_be_read) {
  std::filesystem::create_directory(path("pictures"));
  expect_success({"explain", "--pictures", path("pictures")});
  for (const auto& entry : std::filesystem::directory_iterator(path("pictures"))) {
    SCOPED_TRACE(entry.path().string());
    expect_readable(read_text(entry.path()));
  }
  expect_readable(read_text(runs + "compare.svg"));
}

}  // namespace
}  // namespace rotary::cli_tests
