// The plots, read back as a person would: what stands where, by the labels of the axes.
#include "apps/shared/plot/figure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <limits>
#include <locale>
#include <set>
#include <sstream>

#include "apps/shared/displayable.h"
#include "picture.h"
#include "picture_judge.h"

namespace rotary::plot_tests {
namespace {

// Inside the canvas, and no text of a number that is none. A single value across has one tick.
void expect_fit_to_be_seen(const std::string& text, std::size_t least_x_ticks = 2) {
  const Picture picture = read_picture(text);
  for (const Curve& curve : picture.curves) {
    EXPECT_FALSE(curve.pixels.empty());
    for (const auto& [x, y] : curve.pixels) {
      EXPECT_TRUE(x >= 0 && x <= picture.width && y >= 0 && y <= picture.height) << x << ' ' << y;
    }
  }
  EXPECT_GE(picture.x_ticks.size(), least_x_ticks) << text;
  EXPECT_GE(picture.y_ticks.size(), 2U) << text;
  for (const char* wrong : {"nan", "inf", "-0\"", "--"}) EXPECT_EQ(text.find(wrong), std::string::npos) << text;
}

// ---- where things stand ----

TEST(Svg, points_stand_where_the_labels_of_the_axes_say) {
  const Figure losses{"losses", "step", "loss", false, false, {{"a", {{0, 4.17}, {250, 2.58}, {2000, 1.80}}}}};
  for (const Figure& plot :
       {losses, plot_of({{-3, -0.001}, {4, 0.002}}), plot_of({{1e9, 1e-9}, {3e9, 3e-9}}),
        plot_of({{1e300, -1e300}, {-1e300, 1e300}}), plot_of({{64, 6}, {128, 8}, {2048, 900}}, true, true),
        plot_of({{1e-12, 1}, {1e12, 1.5}}, true, true), plot_of({{100, 2.1}, {120, 2.3}}, true, false),
        plot_of({{1e-250, 3}, {1e250, 4}}, true, false)})
    expect_points_where_the_labels_say(plot);
}

TEST(Svg, ticks_are_1_2_or_5_times_a_power_of_ten_apart) {
  for (const auto& [low, high] :
       Points{{0, 1}, {0, 2000}, {1.79, 4.21}, {-7, 13}, {99.5, 100.5}, {1e-6, 4e-6}, {3, 1e7}}) {
    const Picture picture = read_picture(svg(plot_of({{low, low}, {high, high}})));
    for (const Points& ticks : {picture.x_ticks, picture.y_ticks}) {
      EXPECT_GE(ticks.size(), 3U);
      EXPECT_LE(ticks.size(), 12U);
      const double step = ticks[1].second - ticks[0].second;
      const double mantissa = step / std::pow(10, std::floor(std::log10(step) + 1e-6));
      const double nearest = mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : 5;
      EXPECT_NEAR(mantissa, nearest, 1e-6) << low << ' ' << high;
      for (std::size_t i = 1; i < ticks.size(); ++i) {
        EXPECT_NEAR(ticks[i].second - ticks[i - 1].second, step, 1e-6 * step);
      }
    }
  }
}

// ---- what it says ----

TEST(Svg, the_legend_names_every_line_in_order) {
  const Picture picture =
      read_picture(svg({"t", "x", "y", false, false, {{"second best", {}, false}, {"best", {{1, 2}}, false}}}));
  const auto first = std::find(picture.texts.begin(), picture.texts.end(), "second best");
  ASSERT_NE(first, picture.texts.end());
  EXPECT_NE(std::find(first, picture.texts.end(), "best"), picture.texts.end());
}

TEST(Svg, no_two_of_many_lines_look_alike_and_a_faint_one_has_its_successors_colour) {
  for (const int points : {3, 100}) {  // with marks, and without
    Figure plot{"t", "x", "y", false, false, {}};
    for (int i = 0; i < 21; ++i) {
      plot.lines.push_back({"line " + std::to_string(i), {}});
      for (int x = 0; x < points; ++x) plot.lines.back().points.emplace_back(x, i);
    }
    std::set<std::string> looks, colours;
    for (const Element& element : parse_xml(svg(plot))) {
      if (element.name != "polyline") continue;
      const auto dash = element.attributes.find("stroke-dasharray");
      colours.insert(element.attributes.at("stroke"));
      looks.insert(element.attributes.at("stroke") + (dash == element.attributes.end() ? "" : dash->second));
    }
    EXPECT_EQ(looks.size(), 21U) << points;
    EXPECT_EQ(colours.size(), 7U) << points;
  }
  const std::vector<Curve> curves =
      read_picture(svg({"", "", "", false, false, {{"raw", {{0, 1}, {1, 1}}, true}, {"mean", {{0, 2}, {1, 2}}}}}))
          .curves;
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[0].name, "raw") << "what is faint is drawn first";
  EXPECT_TRUE(curves[0].faint);
  EXPECT_EQ(curves[0].colour, curves[1].colour);
}

TEST(Svg, many_lines_make_the_picture_taller_and_not_the_plot_smaller) {
  Figure plot{"t", "x", "y", false, false, {}};
  for (int i = 0; i < 40; ++i)
    plot.lines.push_back({"a run with a name " + std::to_string(i), {{0, i}, {9, i}}, false});
  const Picture picture = read_picture(svg(plot));
  EXPECT_EQ(picture.width, 800);
  EXPECT_GT(picture.height, 600);
  EXPECT_GT(picture.y_ticks.front().first - picture.y_ticks.back().first, 250);
}

TEST(Svg, hostile_names_come_through_as_text) {
  const std::string bad = "</title><script>alert(1)</script> & \"quoted\" 'too' ]]>";
  const Picture picture = read_picture(svg({bad, bad, bad, false, false, {{bad, {{1, 2}, {3, 4}}, false}}}));
  ASSERT_EQ(picture.curves.size(), 1U);
  EXPECT_EQ(picture.curves[0].name, bad);
  const auto shown = std::count_if(picture.texts.begin(), picture.texts.end(), [](const std::string& text) {
    return text.starts_with("</title><script>alert(1)");
  });
  EXPECT_EQ(shown, 4);
}

TEST(Svg, control_characters_and_broken_utf8_become_visible) {
  for (const auto& [name, shown] : std::vector<std::pair<std::string, std::string>>{
           {std::string("a\0b\n\x1b[31m\x7f", 10), "a\\x00b\\x0a\\x1b[31m\\x7f"},
           {"größe 日本 \xF0\x9F\x8C\x80", "größe 日本 \xF0\x9F\x8C\x80"},
           {"\xC0\x80|\xED\xA0\x80|\xF4\x90\x80\x80|\xFF|\xE2\x82",
            "\\xc0\\x80|\\xed\\xa0\\x80|\\xf4\\x90\\x80\\x80|\\xff|\\xe2\\x82"},
           {"\xC1\x81|\xE0\x81\x81|\xF0\x80\x81\x81", "\\xc1\\x81|\\xe0\\x81\\x81|\\xf0\\x80\\x81\\x81"},  // overlong
           {"\xC2\x9B|\xEF\xBF\xBF|\xE2\x80\xAE", "\\xc2\\x9b|\\xef\\xbf\\xbf|\\xe2\\x80\\xae"}})
    EXPECT_EQ(read_picture(svg({"", "", "", false, false, {{name, {{1, 2}}}}})).curves.at(0).name, shown);
}

TEST(Svg, equal_lines_are_both_seen) {
  const Points points = {{0, 1}, {9, 2}};
  const std::string text = svg({"t", "x", "y", false, false, {{"first", points}, {"same", points}}});
  const std::vector<Curve> curves = read_picture(text).curves;
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[0].name, "first") << "solid, behind";
  EXPECT_EQ(text.find("stroke-dasharray"), text.rfind("stroke-dasharray", text.find("<polyline"))) << "the legend";
  EXPECT_GT(text.rfind("stroke-dasharray"), text.rfind("<polyline")) << "dashed, in front";
}

TEST(Svg, a_logarithmic_axis_across_has_ticks_at_powers_of_two) {
  const auto ticks = [](double first, double last) {
    std::vector<double> values;
    for (const auto& [pixel, value] : read_picture(svg(plot_of({{first, 2}, {last, 3}}, true))).x_ticks)
      values.push_back(value);
    return values;
  };
  EXPECT_EQ(ticks(32, 512), (std::vector<double>{32, 64, 128, 256, 512}));
  EXPECT_EQ(ticks(1, 0x1p20), (std::vector<double>{1, 8, 64, 512, 4096, 32768, 262144}));
  EXPECT_EQ(ticks(96, 100), (std::vector<double>{96, 96.5, 97, 97.5, 98, 98.5, 99, 99.5, 100})) << "no two powers";
}

TEST(Svg, names_of_points_are_tooltips) {
  for (const bool dots : {false, true}) {
    Figure plot = plot_of({{0, 1}, {1, 2}, {2, 4}});
    plot.lines[0].dots = dots;
    plot.lines[0].names = {"one", "two", "<four>"};
    std::vector<std::string> tips;
    const std::vector<Element> document = parse_xml(svg(plot));
    for (const Element& element : document)
      if (element.name == "title" && document[element.parent].name == "circle") tips.push_back(element.text);
    EXPECT_EQ(tips, plot.lines[0].names);
    EXPECT_EQ(read_picture(svg(plot)).curves.size(), dots ? 0U : 1U);
  }
}

TEST(Svg, guides_are_grey_and_in_the_legend) {
  Figure plot{"t", "x", "y", false, false, {{"line", {{0, 0}, {9, 100}}}}};
  for (const double height : {50.0, 51.0, 100.0})
    plot.lines.push_back({"level " + std::to_string(height), {{0, height}, {9, height}}, false, false, true});
  plot.lines.push_back({"upright", {{5, 0}, {5, 100}}, false, false, true});
  const std::string text = svg(plot);
  expect_readable(text);
  const Picture picture = read_picture(text);
  EXPECT_EQ(picture.curves.size(), 1U) << "the others are grey";
  for (const Line& line : plot.lines)
    EXPECT_EQ(std::count(picture.texts.begin(), picture.texts.end(), line.name), 1) << line.name;
}

TEST(Svg, an_area_reaches_from_its_lower_to_its_upper_end) {
  Figure plot{"t", "x", "y", false, false, {{"middle", {{0, 1}, {5, 1}, {10, 1}}}}};
  plot.lines.push_back({.name = "area", .points = {{0, 2}, {5, 3}, {10, 2}}, .lower = {0, -1, 0}});
  const std::string text = svg(plot);
  const Picture picture = read_picture(text);
  Points corners;
  for (const Element& element : parse_xml(text))
    if (element.name == "polygon") corners = points_of(element.attributes.at("points"));
  const std::vector<double> wanted = {2, 3, 2, 0, -1, 0};
  ASSERT_EQ(corners.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(value_at(picture.y_ticks, corners[i].second, false), wanted[i], 0.01);
  EXPECT_EQ(std::count(picture.texts.begin(), picture.texts.end(), "area"), 1) << "in the legend";
  EXPECT_NE(terminal(plot).find(". area"), std::string::npos);
}

TEST(Svg, long_names_keep_their_ends) {
  const std::string begin = "a-run-with-a-very-long-name-of-many-words-and-numbers-seed-";
  Figure plot{"t", "x", "y", false, false, {{begin + "1", {{0, 1}, {9, 2}}}, {begin + "2", {{0, 3}, {9, 1}}}}};
  std::set<std::string> shown;
  for (const std::string& text : read_picture(svg(plot)).texts)
    if (text.starts_with("a-run") && text.find("…") != std::string::npos) shown.insert(text.substr(text.size() - 6));
  EXPECT_EQ(shown, (std::set<std::string>{"seed-1", "seed-2"}));
  const std::string text = terminal(plot, 40);
  for (const char* end : {"seed-1\n", "seed-2\n"}) EXPECT_NE(text.find(end), std::string::npos) << text;
  EXPECT_EQ(cli::shorten_middle("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(cli::shorten_middle("abcdefghijk", 10), "abcde…hijk");
  EXPECT_LE(cli::columns(cli::shorten_middle("日本語日本語日本語", 10)), 10U);
}

// ---- places without a number ----

TEST(Svg, lost_places_are_told_and_crossed_out_on_the_axis) {
  Figure plot{"t",   "step", "y",
              false, false,  {{"run", {{0, 4}, {100, 3}, {300, 1}, {400, 1.5}}}, {"other", {{0, 4}, {400, 2}}}}};
  plot.lines[0].lost = {200, 200.1, 500, 600};
  const std::string text = svg(plot), screen = terminal(plot);
  expect_readable(text);
  EXPECT_NE(text.find("NaN or infinite: run at 2 steps and from step 500 on"), std::string::npos);
  EXPECT_NE(screen.find("NaN or infinite: run at 2 steps and from step 500 on"), std::string::npos) << screen;
  EXPECT_EQ(std::count(screen.begin(), screen.end(), '#'), 3) << screen;
  const Picture picture = read_picture(text);
  EXPECT_EQ(picture.x_ticks.back().second, 600) << "the axis shows them all";
  std::vector<double> crosses;
  for (const Element& element : parse_xml(text)) {
    if (element.name != "text" || element.text != "×") continue;
    crosses.push_back(value_at(picture.x_ticks, number(element.attributes.at("x")), false));
    EXPECT_EQ(element.attributes.at("fill"), "#0072b2") << "the colour of its line";
  }
  ASSERT_EQ(crosses.size(), 3U) << "one for places side by side";
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(crosses[i], std::vector({200, 500, 600})[i], 2);
  plot.lines[0].points.clear();
  EXPECT_NE(svg(plot).find("NaN or infinite: run everywhere"), std::string::npos);
}

// ---- what is not an ordinary plot ----

TEST(Svg, few_points_none_and_extreme_ones_are_a_plot_too) {
  constexpr double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
  for (const bool log : {false, true}) {
    for (const Points& points : {Points{{100, 2.5}}, Points{{most, most}, {-most, -most}, {1, 1}},
                                 Points{{least, least}, {2 * least, 3 * least}, {1e-290, 2e-290}}})
      expect_fit_to_be_seen(svg(plot_of(points, log, log)), 1);
    for (const Points& points :
         {Points{}, Points{{1, 2.5}, {2, 2.5}, {3, 2.5}}, Points{{1e-290, 1e300}, {1e300, 1e-290}},
          Points{{1e15, 1}, {1e15 + 1, 1 + 1e-12}}, Points{{1, 1}, {1 + 3e-9, 1 + 1e-8}}})
      expect_fit_to_be_seen(svg(plot_of(points, log, log)));
    expect_fit_to_be_seen(svg({"", "", "", log, log, {}}));
  }
  expect_fit_to_be_seen(svg(plot_of({{0, 0}})), 1);
  EXPECT_NE(svg(plot_of({})).find("no points"), std::string::npos);
  EXPECT_NE(svg(plot_of({{100, 2.5}})).find("<circle"), std::string::npos) << "one point is seen as a dot";
}

TEST(Svg, what_cannot_be_shown_is_left_out) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Points points = {{0, 1}, {1, nan}, {nan, 1}, {2, infinity}, {3, -infinity}, {infinity, 3}, {4, 2}};
  EXPECT_EQ(svg(plot_of(points)), svg(plot_of({{0, 1}, {4, 2}})));
  EXPECT_EQ(svg(plot_of({{1, 1}, {2, 0}, {3, -1}, {0, 5}, {-1, 5}, {4, 2}}, true, true)),
            svg(plot_of({{1, 1}, {4, 2}}, true, true)));
}

TEST(Svg, of_many_points_what_is_seen_stays) {
  Points points;
  std::uint32_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 1664525U + 1013904223U;
    points.emplace_back(i, 2 + static_cast<double>(state >> 8) / (1 << 24) + (i == 77777 ? 3 : 0));
  }
  const Picture picture = read_picture(svg(plot_of(points)));
  const Points& pixels = picture.curves.at(0).pixels;
  EXPECT_LT(pixels.size(), 4000U);
  std::map<int, std::pair<double, double>> seen, drawn;  // by pixel column: the lowest and the highest value
  const auto add = [](auto& ranges, double x, double y) {
    auto& [low, high] = ranges.try_emplace(static_cast<int>(x), 1e9, -1e9).first->second;
    low = std::min(low, y);
    high = std::max(high, y);
  };
  const auto [left, right] = std::pair(pixels.front().first, pixels.back().first);
  for (const auto& [x, y] : points) add(drawn, left + x / 199999 * (right - left) + 1e-6, y);
  for (const auto& [x, y] : pixels) add(seen, x + 1e-6, value_at(picture.y_ticks, y, false));
  for (const auto& [column, range] : drawn) {  // a point near the edge of a column may be rounded into the next
    const auto& [low, high] = range;
    const auto before = seen.find(column - 1), here = seen.find(column), behind = seen.find(column + 1);
    double least = 1e9, most = -1e9;
    for (const auto& at : {before, here, behind}) {
      if (at == seen.end()) continue;
      least = std::min(least, at->second.first);
      most = std::max(most, at->second.second);
    }
    EXPECT_TRUE(least < low + 0.02 && most > high - 0.02) << column;
  }
}

TEST(Svg, several_dense_lines_are_means_of_near_points) {
  Figure plot{"t", "x", "y", false, false, {{"a", {}}, {"b", {}}}};
  for (int x = 1; x <= 5000; ++x) {
    plot.lines[0].points.emplace_back(x, std::sin(0.9 * x));
    plot.lines[1].points.emplace_back(x, 0.3 + std::sin(0.57 * x));
  }
  const Picture picture = read_picture(svg(plot));
  for (const Curve& curve : picture.curves) {
    EXPECT_LT(curve.pixels.size(), 400U);
    for (const auto& [x, y] : curve.pixels)
      EXPECT_NEAR(value_at(picture.y_ticks, y, false), curve.name == "a" ? 0 : 0.3, 0.3);
  }
  plot.lines.pop_back();
  EXPECT_GT(read_picture(svg(plot)).curves.at(0).pixels.size(), 1000U) << "one hides nothing";
}

// ---- grids ----

TEST(Grids, large_ones_are_sampled_and_say_so) {
  Figure figure;
  cli::Grid& grid = figure.grid;
  grid.x = {0, 1, 2, 3, 4};
  grid.y = {7, 8, 9};
  for (int i = 0; i < 15; ++i) grid.values.push_back(i);
  const Figure small = sampled(figure, 3, 2);
  EXPECT_EQ(small.grid.x, (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_EQ(small.grid.y, (std::vector<std::int64_t>{7, 9}));
  EXPECT_EQ(small.grid.values, (std::vector<double>{0, 2, 4, 10, 12, 14})) << "every number is one of the grid";
  EXPECT_EQ(small.note, "1 of 2 columns is drawn; 1 of 2 rows is drawn");
  EXPECT_EQ(sampled(figure, 5, 3).grid.values, grid.values);
  EXPECT_EQ(sampled(figure, 5, 3).note, "");
}

// Sampled in steps of 40, a row that turns within 6 shows the pattern of the steps.
TEST(Grids, rows_that_turn_too_fast_for_the_columns_are_empty) {
  Figure figure;
  cli::Grid& grid = figure.grid;
  grid.y = {0, 1, 2};
  grid.turns = {6.28, 159.9, 160};
  for (std::int64_t i = 0; i < 400; ++i) grid.x.push_back(i);
  for (const double turn : grid.turns)
    for (int i = 0; i < 400; ++i) grid.values.push_back(std::cos(6.283185307179586 * i / turn));
  const Figure small = sampled(figure, 10, 128);
  EXPECT_EQ(small.note, "1 of 40 columns is drawn; rows too fast for this step are empty (2 of 3)");
  for (std::size_t row = 0; row < 3; ++row) EXPECT_EQ(std::isnan(small.grid.at(row, 5)), row < 2) << "4 columns a turn";
  expect_readable(svg(small));
  const std::string text = terminal(figure, 32);
  EXPECT_NE(text.find("(1 of 3)"), std::string::npos) << text;
  EXPECT_NE(text.find("\n0 +\n"), std::string::npos) << text;
  EXPECT_EQ(sampled(figure, 400, 2).note, "1 of 2 rows is drawn") << "of all columns every row can be seen";
}

// As of a table whose attention factor is 0.
TEST(Grids, of_zeros_have_the_middle_colour) {
  Figure figure;
  figure.grid = {"cos", 0, {0, 1}, {0, 1}, {0, 0, 0, 0}};
  EXPECT_NE(terminal(figure).find("0 +..\n1 +..\n"), std::string::npos) << terminal(figure);
  EXPECT_NE(svg(figure).find("fill=\"#f7f7f7\" d="), std::string::npos);
}

TEST(Grids, can_be_read_whatever_their_size_and_names) {
  for (const std::size_t columns : {1U, 2U, 100U, 256U}) {
    for (const std::size_t rows : {1U, 3U, 128U}) {
      Figure figure;
      figure.title = std::string(300, 'T');
      figure.note = "a <note> & more " + std::string(300, 'n');
      figure.x_label = std::string(200, 'x');
      figure.y_label = std::string(200, 'y');
      cli::Grid& grid = figure.grid = {"cos", 1.346, {}, {}, {}};
      for (std::size_t i = 0; i < columns; ++i) grid.x.push_back(1000000000000 + static_cast<std::int64_t>(i));
      for (std::size_t i = 0; i < rows; ++i) grid.y.push_back(static_cast<std::int64_t>(i));
      for (std::size_t i = 0; i < rows * columns; ++i) grid.values.push_back(i % 3 == 0 ? 5 : -0.3);
      expect_readable(svg(figure));
      std::istringstream lines(terminal(figure, 60, 10));
      for (std::string line; std::getline(lines, line);) EXPECT_LE(cli::columns(line), 60U) << line;
    }
  }
}

// ---- the same bytes everywhere ----

struct German : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Plots, the_locale_does_not_matter) {
  const Figure plot = plot_of({{0, 4.5}, {12345.5, 1.25}});
  const std::string picture = svg(plot);
  const std::string screen = terminal(plot);
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new German));
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is installed
  EXPECT_EQ(svg(plot), picture);
  EXPECT_EQ(terminal(plot), screen);
  std::locale::global(before);
  std::setlocale(LC_ALL, "C");
}

}  // namespace
}  // namespace rotary::plot_tests
