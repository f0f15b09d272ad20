// The terminal plot, read back dot by dot.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "apps/shared/plot/plot.h"

namespace rotary::plot_tests {
namespace {

using cli::Plot;
using cli::terminal_plot;
using Points = std::vector<std::pair<double, double>>;

Plot plot_of(const Points& points, bool log_x = false, bool log_y = false) {
  return {"title", "x", "y", log_x, log_y, {{"line", points, false}}};
}

struct Screen {
  std::vector<std::u32string> rows;  // right of the axis
  std::vector<std::string> lines;    // all
};

std::u32string characters_of(const std::string& text) {
  std::u32string result;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if ((value & 0xC0) == 0x80) {
      result.back() = result.back() << 6 | (value & 0x3F);
    } else {
      result += value < 0x80 ? value : value & (value < 0xE0 ? 0x1F : value < 0xF0 ? 0x0F : 0x07);
    }
  }
  return result;
}

Screen read_screen(const std::string& text) {
  Screen screen;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    screen.lines.push_back(line);
    const std::u32string characters = characters_of(line);
    const std::size_t axis = characters.find_first_of(U"│┤");
    if (axis != std::u32string::npos) screen.rows.push_back(characters.substr(axis + 1));
  }
  return screen;
}

// Rows of dots from the top, in the column of dots x.
std::vector<int> dots_in_column(const Screen& screen, int x) {
  static const int bit[4][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}};
  std::vector<int> found;
  for (std::size_t row = 0; row < screen.rows.size(); ++row) {
    const auto column = static_cast<std::size_t>(x / 2);
    if (column >= screen.rows[row].size()) continue;
    const char32_t character = screen.rows[row][column];
    if (character < 0x2800 || character > 0x28FF) continue;
    for (int y = 0; y < 4; ++y) {
      if ((character - 0x2800) >> bit[y][x % 2] & 1) found.push_back(4 * static_cast<int>(row) + y);
    }
  }
  return found;
}

TEST(TerminalPlot, a_straight_line_is_straight) {
  const Screen screen = read_screen(terminal_plot(plot_of({{0, 0}, {10, 100}}), 60, 15));
  ASSERT_EQ(screen.rows.size(), 15U);
  const int dots = 2 * static_cast<int>(screen.rows[0].size());  // the line ends in the last column, in the first row
  for (int x = 0; x < dots; ++x) {
    // 0 to 100 with 4 % around it, on 60 rows of dots from the top
    const double wanted = 59 * (1 - (4 + 100.0 * x / (dots - 1)) / 108);
    const std::vector<int> found = dots_in_column(screen, x);
    ASSERT_FALSE(found.empty()) << x;
    for (const int y : found) EXPECT_NEAR(y, wanted, 1.0) << x;
  }
}

TEST(TerminalPlot, labels_stand_on_the_rows_of_their_values) {
  const Screen screen = read_screen(terminal_plot(plot_of({{0, 1}, {1, 2}, {2, 3}}), 60, 25));
  for (const std::string& line : screen.lines) {
    if (line.find("┤") == std::string::npos) continue;
    const auto row =
        static_cast<double>(std::find(screen.lines.begin(), screen.lines.end(), line) - screen.lines.begin());
    const double value = std::stod(line);
    EXPECT_NEAR(row - 2, 24 * (1 - (value - 0.92) / 2.16), 0.51) << line;  // behind the title and the label of y
  }
}

TEST(TerminalPlot, letters_on_the_lines_lead_to_the_legend) {
  Plot plot{"t", "x", "y", false, false, {}};
  for (int i = 0; i < 5; ++i) plot.lines.push_back({"line " + std::to_string(i), {{0, i}, {9, i}}, false});
  const Screen screen = read_screen(terminal_plot(plot));
  std::map<char32_t, std::set<std::size_t>> rows;
  for (std::size_t row = 0; row < screen.rows.size(); ++row) {
    for (const char32_t character : screen.rows[row]) {
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

TEST(TerminalPlot, lines_that_lie_on_each_other_show_three_letters_each) {
  const Points points = {{0, 4}, {3, 2}, {9, 1}};
  const std::string text =
      terminal_plot({"", "", "", false, false, {{"", points, false}, {"", points, false}, {"", points, false}}});
  for (const char letter : {'a', 'b', 'c'}) EXPECT_EQ(std::count(text.begin(), text.end(), letter), 3 + 1) << letter;
}

TEST(TerminalPlot, no_line_is_wider_than_asked_and_none_ends_in_spaces) {
  Plot plot{std::string(200, 'T'), std::string(200, 'x'), std::string(200, 'y'), false, false, {}};
  for (int i = 0; i < 70; ++i) {
    plot.lines.push_back({std::string(static_cast<std::size_t>(3 * i), 'n'), {{0, i * 1e-9}, {1e7, 3e5}}, i % 2 == 0});
  }
  for (const int width : {32, 40, 72, 133}) {
    for (const int height : {4, 9, 30}) {
      for (const std::string& line : read_screen(terminal_plot(plot, width, height)).lines) {
        EXPECT_LE(characters_of(line).size(), static_cast<std::size_t>(width)) << line;
        EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
      }
    }
  }
}

TEST(TerminalPlot, hostile_names_write_no_lines_of_their_own) {
  const std::string bad = "a\nb\x1b[2J\xFF";
  const std::string text = terminal_plot({bad, bad, bad, false, false, {{bad, {{1, 2}}, false}, {bad, {}, true}}});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("a\\x0ab\\x1b[2J\\xff"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 + 18 + 3 + 1);
}

TEST(TerminalPlot, extreme_values_and_nothing_at_all_are_drawn) {
  constexpr double most = std::numeric_limits<double>::max();
  for (const bool log : {false, true}) {
    for (const Points& points : {Points{}, Points{{1, 1}}, Points{{most, 1}, {1, most}},
                                 Points{{1e-290, 1e300}, {1e300, 1e-290}}, Points{{1, 2}, {1, 3}}}) {
      const Screen screen = read_screen(terminal_plot(plot_of(points, log, log), 50, 10));
      EXPECT_EQ(screen.rows.size(), 10U);
    }
  }
  EXPECT_NE(terminal_plot(plot_of({})).find("no points"), std::string::npos);
}

}  // namespace
}  // namespace rotary::plot_tests
