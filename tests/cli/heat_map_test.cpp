// Heat maps: which rows and columns are drawn, and whether a person can read them.
#include <cmath>
#include <sstream>

#include "apps/shared/displayable.h"
#include "picture.h"
#include "picture_judge.h"

namespace rotary::plot_tests {
namespace {

TEST(HeatMaps, large_ones_are_sampled_and_say_so) {
  cli::HeatMap map;
  map.x_things = "columns";
  map.y_things = "rows";
  map.x = {0, 1, 2, 3, 4};
  map.y = {7, 8, 9};
  for (int i = 0; i < 15; ++i) map.values.push_back(i);
  const cli::HeatMap small = sampled(map, 3, 2);
  EXPECT_EQ(small.x, (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_EQ(small.y, (std::vector<std::int64_t>{7, 9}));
  EXPECT_EQ(small.values, (std::vector<double>{0, 2, 4, 10, 12, 14})) << "every number is one of the map";
  EXPECT_EQ(small.note, "every 2nd of the columns; every 2nd of the rows");
  EXPECT_EQ(sampled(map, 5, 3).values, map.values);
  EXPECT_EQ(sampled(map, 5, 3).note, "");
}

// Sampled in steps of 40, a row that turns within 6 shows the pattern of the steps.
TEST(HeatMaps, rows_that_turn_too_fast_for_the_columns_are_grey) {
  cli::HeatMap map;
  map.x_things = "positions";
  map.y_things = "pairs";
  map.y = {0, 1, 2};
  map.turns = {6.28, 159.9, 160};
  for (std::int64_t i = 0; i < 400; ++i) map.x.push_back(i);
  for (const double turn : map.turns)
    for (int i = 0; i < 400; ++i) map.values.push_back(std::cos(6.283185307179586 * i / turn));
  const cli::HeatMap small = sampled(map, 10, 128);
  EXPECT_EQ(small.hidden, (std::vector<bool>{true, true, false})) << "four columns a turn";
  const std::string picture = svg(small);
  EXPECT_NE(picture.find("every 40th of the positions; grey: pairs too fast for this step (2 of 3)"),
            std::string::npos);
  EXPECT_NE(picture.find("fill-opacity=\"0.55\""), std::string::npos);
  expect_readable(picture);
  const std::string text = terminal_map(map, 32);
  EXPECT_NE(text.find("\n~: pairs too fast for this step\n(1 of 3)\n"), std::string::npos) << "wrapped, not cut\n"
                                                                                           << text;
  EXPECT_NE(text.find("\n0 |~~~~~~~~~~"), std::string::npos) << text;
  const cli::HeatMap whole = sampled(map, 400, 2);
  EXPECT_EQ(whole.hidden, (std::vector<bool>{false, false})) << "of all columns every row can be seen";
}

// As of a table whose attention factor is 0.
TEST(HeatMaps, of_zeros_have_the_middle_colour) {
  cli::HeatMap map;
  map.x = map.y = {0, 1};
  map.values = {0, 0, 0, 0};
  map.limit = 0;
  EXPECT_NE(terminal_map(map).find("0 |\n1 |\n"), std::string::npos) << terminal_map(map);
  EXPECT_NE(svg(map).find("fill=\"#f7f7f7\" d="), std::string::npos);
}

TEST(HeatMaps, can_be_read_whatever_their_size_and_names) {
  for (const std::size_t columns : {1U, 2U, 100U, 256U}) {
    for (const std::size_t rows : {1U, 3U, 128U}) {
      cli::HeatMap map;
      map.title = std::string(300, 'T');
      map.note = "a <note> & more " + std::string(300, 'n');
      map.x_label = std::string(200, 'x');
      map.y_label = std::string(200, 'y');
      map.value_label = "cos";
      map.limit = 1.346;
      for (std::size_t i = 0; i < columns; ++i) map.x.push_back(1000000000000 + static_cast<std::int64_t>(i));
      for (std::size_t i = 0; i < rows; ++i) map.y.push_back(static_cast<std::int64_t>(i));
      for (std::size_t i = 0; i < rows * columns; ++i) map.values.push_back(i % 3 == 0 ? 5 : -0.3);
      expect_readable(svg(map));
      std::istringstream lines(terminal_map(map, 60, 10));
      for (std::string line; std::getline(lines, line);) EXPECT_LE(cli::columns(line), 60U) << line;
    }
  }
}

}  // namespace
}  // namespace rotary::plot_tests
