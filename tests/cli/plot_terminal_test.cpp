// The terminal plot, read back character by character.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "apps/shared/displayable.h"
#include "picture.h"

namespace rotary::plot_tests {
namespace {

struct Screen {
  std::vector<std::string> rows;   // right of the axis
  std::vector<std::string> lines;  // all
};

Screen read_screen(const std::string& text) {
  static const std::regex bottom(" *[+][-+]+");
  Screen screen;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) screen.lines.push_back(line);
  const auto end = std::find_if(screen.lines.begin(), screen.lines.end(),
                                [](const std::string& line) { return std::regex_match(line, bottom); });
  if (end == screen.lines.end()) return screen;
  const std::size_t axis = end->find('+');
  for (auto line = screen.lines.begin(); line != end; ++line) {
    if (line->size() > axis && ((*line)[axis] == '|' || (*line)[axis] == '+')) {
      screen.rows.push_back(line->substr(axis + 1));
    }
  }
  return screen;
}

TEST(TerminalPlot, a_straight_line_is_straight) {
  const Screen screen = read_screen(terminal(plot_of({{0, 0}, {10, 100}}), 60, 15));
  ASSERT_EQ(screen.rows.size(), 15U);
  const std::size_t columns = screen.rows[1].size();  // the line ends in the last one
  ASSERT_GT(columns, 40U);
  for (std::size_t column = 0; column < columns; ++column) {
    // 0 to 100 with 4 % around it, on 15 rows from the top
    const double wanted = 14 * (1 - (4 + 100.0 * static_cast<double>(column) / static_cast<double>(columns - 1)) / 108);
    int marks = 0;
    for (std::size_t row = 0; row < screen.rows.size(); ++row) {
      if (column >= screen.rows[row].size() || screen.rows[row][column] == ' ') continue;
      EXPECT_NEAR(static_cast<double>(row), wanted, 1.0) << column;
      ++marks;
    }
    EXPECT_GT(marks, 0) << column;
  }
}

TEST(TerminalPlot, faint_lines_and_guides_are_seen_behind_strong_ones) {
  const Points points = {{0, 1}, {9, 1}};
  const std::string text = terminal({"", "", "", false, false, {{"strong", points}, {"faint", points, true}}});
  EXPECT_NE(text.find("**********"), std::string::npos) << text;
  for (const std::string& row : read_screen(text).rows) EXPECT_EQ(row.find('.'), std::string::npos) << text;
  Figure plot{"", "", "", false, false, {{"strong", {{0, 5}, {9, 5}}}, {"guide", points, false, false, true}}};
  const std::string guided = terminal(plot);
  EXPECT_NE(guided.find("----------\n"), std::string::npos) << guided;
  EXPECT_NE(guided.find("  * strong  - guide\n"), std::string::npos) << guided;
}

TEST(TerminalPlot, letters_on_the_lines_lead_to_the_legend) {
  Figure plot{"t", "x", "y", false, false, {}};
  for (int i = 0; i < 5; ++i) plot.lines.push_back({"line " + std::to_string(i), {{0, i}, {9, i}}, false});
  const Screen screen = read_screen(terminal(plot));
  std::map<char, std::set<std::size_t>> rows;
  for (std::size_t row = 0; row < screen.rows.size(); ++row) {
    for (const char character : screen.rows[row]) {
      if (character >= 'a' && character <= 'e') rows[character].insert(row);
    }
  }
  ASSERT_EQ(rows.size(), 5U);
  std::size_t below = screen.rows.size();
  for (const auto& [letter, where] : rows) {
    EXPECT_EQ(where.size(), 1U) << "the lines are flat";
    EXPECT_LT(*where.begin(), below) << "each is above the one before";
    below = *where.begin();
  }
  EXPECT_NE(screen.lines.back().find("a line 0  b line 1  c line 2"), std::string::npos) << screen.lines.back();
}

TEST(TerminalPlot, lines_that_lie_on_each_other_are_shown_in_turn) {
  const Points points = {{0, 4}, {3, 2}, {9, 1}};
  const std::string text =
      terminal({"", "", "", false, false, {{"", points, false}, {"", points, false}, {"", points, false}}});
  for (const char letter : {'a', 'b', 'c'}) EXPECT_GE(std::count(text.begin(), text.end(), letter), 20) << letter;
  EXPECT_NE(text.find("abcabc"), std::string::npos) << text;
}

TEST(TerminalPlot, no_line_is_wider_than_asked_and_none_ends_in_spaces) {
  Figure plot{std::string(200, 'T'), std::string(200, 'x'), std::string(200, 'y'), false, false, {}};
  for (int i = 0; i < 70; ++i) {
    plot.lines.push_back({std::string(static_cast<std::size_t>(3 * i), 'n'), {{0, i * 1e-9}, {1e7, 3e5}}, i % 2 == 0});
  }
  for (const int width : {32, 40, 72, 133}) {
    for (const int height : {4, 9, 30}) {
      for (const std::string& line : read_screen(terminal(plot, width, height)).lines) {
        EXPECT_LE(cli::columns(line), static_cast<std::size_t>(width)) << line;
        EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
      }
    }
  }
}

TEST(TerminalPlot, hostile_names_write_no_lines_of_their_own) {
  const std::string bad = "a\nb\x1b[2J\xFF";
  const std::string text = terminal({bad, bad, bad, false, false, {{bad, {{1, 2}}, false}, {bad, {}, true}}});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("a\\x0ab\\x1b[2J\\xff"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 + 18 + 3 + 1);
}

TEST(TerminalPlot, extreme_values_and_nothing_at_all_are_drawn) {
  constexpr double most = std::numeric_limits<double>::max();
  for (const bool log : {false, true})
    for (const Points& points : {Points{}, Points{{1, 1}}, Points{{most, 1}, {1, most}},
                                 Points{{1e-290, 1e300}, {1e300, 1e-290}}, Points{{1, 2}, {1, 3}}})
      EXPECT_EQ(read_screen(terminal(plot_of(points, log, log), 50, 10)).rows.size(), 10U);
  EXPECT_NE(terminal(plot_of({})).find("no points"), std::string::npos);
}

}  // namespace
}  // namespace rotary::plot_tests
