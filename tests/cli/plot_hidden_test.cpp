// What one line could hide of another, and where a line has no numbers.
#include <cmath>

#include "apps/shared/displayable.h"
#include "picture.h"
#include "picture_judge.h"

namespace rotary::plot_tests {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// ---- lines on lines ----

TEST(HiddenLines, equal_lines_are_one_with_both_names) {
  Plot plot{"t",   "x",   "y",
            false, false, {{"first", {{0, 1}, {9, 2}}}, {"other", {{0, 1}, {9, 5}}}, {"same", {{0, 1}, {9, 2}}}}};
  for (const bool on_lines : {false, true}) {
    plot.names_on_lines = on_lines;
    const std::string text = svg(plot);
    const Picture picture = read_picture(text);
    ASSERT_EQ(picture.curves.size(), 2U);
    EXPECT_EQ(picture.curves[1].name, "first = same");
    EXPECT_EQ(std::count(picture.texts.begin(), picture.texts.end(), "first = same"), 1);
    expect_readable(text);
  }
  plot.lines[2].points[1].second = std::nextafter(2.0, 3.0);
  EXPECT_EQ(read_picture(svg(plot)).curves.size(), 3U) << "equal, not similar";
}

TEST(HiddenLines, a_part_of_another_line_lies_in_front_of_it) {
  Points level, part;
  for (int i = 0; i < 20; ++i) level.emplace_back(i, 1);
  part.assign(level.begin(), level.begin() + 8);
  for (const bool part_first : {false, true}) {
    Plot plot{"t", "x", "y", false, false, {{"whole", level}, {"rising", {{0, 0}, {19, 2}}}, {"part", part}}};
    if (part_first) std::swap(plot.lines[0], plot.lines[2]);
    EXPECT_EQ(read_picture(svg(plot)).curves.back().name, "part") << "drawn last";
  }
}

TEST(HiddenLines, no_two_of_many_lines_look_alike) {
  for (const int points : {3, 100}) {  // with marks, and without
    Plot plot{"t", "x", "y", false, false, {}};
    for (int i = 0; i < 21; ++i) {
      Points curve;
      for (int x = 0; x < points; ++x) curve.emplace_back(x, i);
      plot.lines.push_back({"line " + std::to_string(i), curve});
    }
    std::set<std::string> looks;
    for (const Element& element : parse_xml(svg(plot))) {
      if (element.name != "polyline") continue;
      const auto dash = element.attributes.find("stroke-dasharray");
      looks.insert(element.attributes.at("stroke") + (dash == element.attributes.end() ? "" : dash->second));
    }
    EXPECT_EQ(looks.size(), 21U) << points;
  }
}

Points waves(double level, double period) {
  Points points;
  for (int x = 1; x <= 5000; ++x) points.emplace_back(x, level + std::sin(x * 6.283185307179586 / period));
  return points;
}

TEST(HiddenLines, several_dense_ones_are_means_with_their_ranges) {
  Plot plot{"t", "x", "y", false, false, {{"a", waves(0, 7)}, {"b", waves(0.3, 11)}}};
  const std::string text = svg(plot);
  expect_readable(text);
  EXPECT_EQ(count_of(text, "fill-opacity=\"0.22\""), 2U);
  const Picture picture = read_picture(text);
  for (const Curve& curve : picture.curves) {
    EXPECT_LT(curve.pixels.size(), 400U);
    for (const auto& [x, y] : curve.pixels)
      EXPECT_NEAR(value_at(picture.y_ticks, y, false), curve.name == "a" ? 0 : 0.3, 0.3)
          << "of some 30 points a column";
  }
  double low = 1e9, high = -1e9;  // the ranges hold every point
  for (const Element& element : parse_xml(text)) {
    if (element.name != "path" || element.attributes.count("fill-opacity") == 0) continue;
    std::istringstream numbers(std::regex_replace(element.attributes.at("d"), std::regex("[MLz]"), " "));
    for (double x = 0, y = 0; numbers >> x >> y;) {
      low = std::min(low, value_at(picture.y_ticks, y, false));
      high = std::max(high, value_at(picture.y_ticks, y, false));
    }
  }
  EXPECT_NEAR(low, -1, 0.03);
  EXPECT_NEAR(high, 1.3, 0.03);

  plot.lines.pop_back();
  const std::string alone = svg(plot);
  EXPECT_EQ(count_of(alone, "fill-opacity=\"0.22\""), 0U) << "one hides nothing";
  EXPECT_GT(read_picture(alone).curves.at(0).pixels.size(), 1000U);
}

TEST(HiddenLines, of_a_faint_dense_line_the_upper_end_is_drawn) {
  Plot plot{"t", "x", "y", false, false, {{"a", waves(0, 7)}, {"b", waves(5, 11)}, {"", waves(1, 13), true}}};
  const Picture picture = read_picture(svg(plot));
  for (const Curve& curve : picture.curves) {
    if (!curve.faint) continue;
    for (const auto& [x, y] : curve.pixels) EXPECT_NEAR(value_at(picture.y_ticks, y, false), 2, 0.1);
  }
}

// ---- names ----

TEST(HiddenLines, long_names_keep_their_ends) {
  const std::string begin = "a-run-with-a-very-long-name-of-many-words-and-numbers-seed-";
  Plot plot{"t", "x", "y", false, false, {{begin + "1", {{0, 1}, {9, 2}}}, {begin + "2", {{0, 3}, {9, 1}}}}};
  for (const bool on_lines : {false, true}) {
    plot.names_on_lines = on_lines;
    std::set<std::string> shown;
    for (const std::string& text : read_picture(svg(plot)).texts)
      if (text.starts_with("a-run") && text.find("…") != std::string::npos) shown.insert(text.substr(text.size() - 6));
    EXPECT_EQ(shown, (std::set<std::string>{"seed-1", "seed-2"}));
  }
  const std::string terminal = terminal_plot(plot, 40);
  for (const char* end : {"seed-1\n", "seed-2\n"}) EXPECT_NE(terminal.find(end), std::string::npos) << terminal;
  EXPECT_EQ(cli::shorten_middle("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(cli::shorten_middle("abcdefghijk", 10), "abcde…hijk");
  EXPECT_LE(cli::columns(cli::shorten_middle("日本語日本語日本語", 10)), 10U);
}

// ---- lost places ----

Plot lost_plot() {
  Plot plot{"t",   "step", "y",
            false, false,  {{"run", {{0, 4}, {100, 3}, {300, 1}, {400, 1.5}}}, {"other", {{0, 4}, {400, 2}}}}};
  plot.lines[0].lost = {200, 500, 600};
  return plot;
}

TEST(Lost, each_run_of_places_without_numbers_is_crossed_out) {
  EXPECT_EQ(crosses_of(lost_plot().lines[0]), (Points{{200, 2}, {500, 1.5}}))
      << "between neighbours, and behind the last";
  Line begin{"run", {{200, 4}, {300, 3}}};
  begin.lost = {0, 100, 240, 250};
  EXPECT_EQ(crosses_of(begin), (Points{{0, 4}, {240, 3.6}}));
  begin.points.clear();
  EXPECT_TRUE(crosses_of(begin).empty());

  const std::string text = svg(lost_plot());
  expect_readable(text);
  EXPECT_NE(text.find("× NaN or infinite: run at 1 step and from step 500 on"), std::string::npos);
  const Picture picture = read_picture(text);
  EXPECT_EQ(picture.x_ticks.back().second, 600) << "the axis shows them all";
  Points centres;
  const std::regex form("M([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)M.*");
  for (const Element& element : parse_xml(text)) {
    std::smatch found;
    const auto path = element.attributes.find("d");
    if (path == element.attributes.end() || !std::regex_match(path->second, found, form)) continue;
    centres.emplace_back(value_at(picture.x_ticks, (std::stod(found[1]) + std::stod(found[3])) / 2, false),
                         value_at(picture.y_ticks, (std::stod(found[2]) + std::stod(found[4])) / 2, false));
    EXPECT_EQ(element.attributes.at("stroke"), "#0072b2") << "the colour of its line";
  }
  ASSERT_EQ(centres.size(), 2U);
  EXPECT_NEAR(centres[0].first, 200, 2);
  EXPECT_NEAR(centres[0].second, 2, 0.02);
  EXPECT_NEAR(centres[1].first, 500, 2);
  EXPECT_NEAR(centres[1].second, 1.5, 0.02);
}

TEST(Lost, a_terminal_shows_them_too) {
  const std::string text = terminal_plot(lost_plot(), 72, 18);
  EXPECT_EQ(count_of(text, "#"), 2U + 1) << text;
  EXPECT_NE(text.find("  # NaN or infinite: run at 1 step and from step 500 on"), std::string::npos) << text;
}

TEST(Lost, a_line_of_nothing_else_is_named) {
  Plot plot = lost_plot();
  plot.lines[0].points.clear();
  EXPECT_NE(svg(plot).find("× NaN or infinite: run everywhere"), std::string::npos);
  EXPECT_NE(terminal_plot(plot).find("# NaN or infinite: run everywhere"), std::string::npos);
}

}  // namespace
}  // namespace rotary::plot_tests
