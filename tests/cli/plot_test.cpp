// The plots, read back as a person would: what stands where, by the labels of the axes.
#include "apps/shared/plot/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <locale>
#include <sstream>

#include "picture.h"

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
  expect_points_where_the_labels_say(
      {"losses",
       "step",
       "loss",
       false,
       false,
       {{"a", {{0, 4.17}, {250, 2.58}, {500, 2.19}, {2000, 1.80}}, false}, {"b", {{0, 4.17}, {1000, 2.4}}, true}}});
  expect_points_where_the_labels_say(plot_of({{-3, -0.001}, {4, 0.002}}));
  expect_points_where_the_labels_say(plot_of({{1e9, 1e-9}, {3e9, 3e-9}}));
}

TEST(Svg, logarithmic_axes_too) {
  expect_points_where_the_labels_say(plot_of({{64, 6}, {128, 8}, {2048, 900}}, true, true));
  expect_points_where_the_labels_say(plot_of({{1e-12, 1}, {1e12, 1.5}}, true, true));
  expect_points_where_the_labels_say(plot_of({{100, 2.1}, {120, 2.3}}, true, false));
  expect_points_where_the_labels_say(plot_of({{1e-250, 3}, {1e250, 4}}, true, false));
}

TEST(Svg, ticks_are_1_2_or_5_times_a_power_of_ten_apart) {
  for (const auto& [low, high] :
       Points{{0, 1}, {0, 2000}, {1.79, 4.21}, {-7, 13}, {99.5, 100.5}, {1e-6, 4e-6}, {3, 1e7}}) {
    for (const Points& ticks : {read_picture(svg(plot_of({{low, low}, {high, high}}))).x_ticks,
                                read_picture(svg(plot_of({{low, low}, {high, high}}))).y_ticks}) {
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

TEST(Svg, an_axis_that_begins_near_zero_begins_at_zero) {
  EXPECT_EQ(read_picture(svg(plot_of({{100, 3}, {2000, 2}}))).x_ticks.front().second, 0);
  EXPECT_EQ(read_picture(svg(plot_of({{1000, 3}, {2000, 2}}))).x_ticks.front().second, 1000);
}

TEST(Svg, a_single_value_has_a_tick_of_its_own) {
  const auto values = [](const Points& ticks) {
    std::vector<double> all;
    for (const auto& [pixel, value] : ticks) all.push_back(value);
    return all;
  };
  for (const bool log : {false, true}) {
    const Picture picture = read_picture(svg(plot_of({{7, 6.2831853}}, log, log)));
    EXPECT_EQ(values(picture.x_ticks), std::vector<double>{7}) << "of an axis of steps or pairs no others";
    const std::vector<double> heights = values(picture.y_ticks);
    EXPECT_EQ(std::count(heights.begin(), heights.end(), 6.283), 1);
    EXPECT_GE(heights.size(), 3U);
    EXPECT_TRUE(std::is_sorted(heights.begin(), heights.end()));
    for (std::size_t i = 1; i < picture.y_ticks.size(); ++i)
      EXPECT_GT(std::abs(picture.y_ticks[i].first - picture.y_ticks[i - 1].first), 14) << "labels do not touch";
  }
  EXPECT_EQ(values(read_picture(svg(plot_of({{9007199254740993, 1}}))).x_ticks), std::vector<double>{9.007e15});
}

// ---- what it says ----

TEST(Svg, the_legend_names_every_line_in_order) {
  const Picture picture =
      read_picture(svg({"t", "x", "y", false, false, {{"second best", {}, false}, {"best", {{1, 2}}, false}}}));
  const auto first = std::find(picture.texts.begin(), picture.texts.end(), "second best");
  ASSERT_NE(first, picture.texts.end());
  EXPECT_NE(std::find(first, picture.texts.end(), "best"), picture.texts.end());
}

TEST(Svg, lines_have_colours_of_their_own_and_a_faint_one_has_its_successors) {
  Plot plot{"", "", "", false, false, {}};
  for (int i = 0; i < 7; ++i) plot.lines.push_back({std::to_string(i), {{0, i}, {1, i}}, false});
  std::set<std::string> colours;
  for (const Curve& curve : read_picture(svg(plot)).curves) colours.insert(curve.colour);
  EXPECT_EQ(colours.size(), 7U);

  plot.lines = {{"raw", {{0, 1}, {1, 1}}, true}, {"mean", {{0, 2}, {1, 2}}, false}, {"other", {{0, 3}, {1, 3}}, false}};
  const std::vector<Curve> curves = read_picture(svg(plot)).curves;
  ASSERT_EQ(curves.size(), 3U);
  EXPECT_EQ(curves[0].name, "raw") << "what is faint is drawn first";
  EXPECT_TRUE(curves[0].faint);
  EXPECT_EQ(curves[2].name, "mean") << "the first strong line is drawn last";
  EXPECT_EQ(curves[0].colour, curves[2].colour);
  EXPECT_NE(curves[1].colour, curves[2].colour);
}

TEST(Svg, many_lines_make_the_picture_taller_and_not_the_plot_smaller) {
  Plot plot{"t", "x", "y", false, false, {}};
  for (int i = 0; i < 40; ++i)
    plot.lines.push_back({"a run with a name " + std::to_string(i), {{0, i}, {9, i}}, false});
  const Picture picture = read_picture(svg(plot));
  EXPECT_EQ(picture.width, 800);
  EXPECT_GT(picture.height, 600);
  EXPECT_GT(picture.y_ticks.front().first - picture.y_ticks.back().first, 250);
  EXPECT_EQ(read_picture(svg(plot_of({{0, 1}, {1, 2}}))).height, 500);
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
  const auto shown = [](const std::string& name) {
    return read_picture(svg({"", "", "", false, false, {{name, {{1, 2}}, false}}})).curves.at(0).name;
  };
  EXPECT_EQ(shown(std::string("a\0b\n\x1b[31m\x7f", 10)), "a\\x00b\\x0a\\x1b[31m\\x7f");
  EXPECT_EQ(shown("größe 日本 \xF0\x9F\x8C\x80"), "größe 日本 \xF0\x9F\x8C\x80");
  EXPECT_EQ(shown("\xC0\x80|\xED\xA0\x80|\xF4\x90\x80\x80|\xFF|\xE2\x82"),
            "\\xc0\\x80|\\xed\\xa0\\x80|\\xf4\\x90\\x80\\x80|\\xff|\\xe2\\x82");
  EXPECT_EQ(shown("\xC1\x81|\xE0\x81\x81|\xF0\x80\x81\x81"), "\\xc1\\x81|\\xe0\\x81\\x81|\\xf0\\x80\\x81\\x81")
      << "overlong";
  EXPECT_EQ(shown("\xC2\x9B|\xEF\xBF\xBF|\xE2\x80\xAE"), "\\xc2\\x9b|\\xef\\xbf\\xbf|\\xe2\\x80\\xae");
}

// ---- what is not an ordinary plot ----

TEST(Svg, few_points_or_none_are_a_plot_too) {
  for (const bool log : {false, true}) {
    expect_fit_to_be_seen(svg(plot_of({{100, 2.5}}, log, log)), 1);
    expect_fit_to_be_seen(svg(plot_of({{1, 2.5}, {2, 2.5}, {3, 2.5}}, log, log)));
    expect_fit_to_be_seen(svg(plot_of({}, log, log)));
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

TEST(Svg, extreme_values_are_drawn) {
  constexpr double most = std::numeric_limits<double>::max();
  constexpr double least = std::numeric_limits<double>::denorm_min();
  const Points edges = {{1e300, -1e300}, {-1e300, 1e300}};
  expect_points_where_the_labels_say(plot_of(edges));
  for (const bool log : {false, true}) {
    expect_fit_to_be_seen(svg(plot_of({{most, most}, {-most, -most}, {1, 1}}, log, log)), 1);
    expect_fit_to_be_seen(svg(plot_of({{least, least}, {2 * least, 3 * least}, {1e-290, 2e-290}}, log, log)), 1);
    expect_fit_to_be_seen(svg(plot_of({{1e-290, 1e300}, {1e300, 1e-290}}, log, log)));
    expect_fit_to_be_seen(svg(plot_of({{1e15, 1}, {1e15 + 1, 1 + 1e-12}}, log, log)));
    expect_fit_to_be_seen(svg(plot_of({{1, 1}, {1 + 3e-9, 1 + 1e-8}}, log, log)));
  }
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
  std::map<int, std::pair<double, double>> seen;  // by pixel column: the lowest and the highest value
  for (const auto& [x, y] : pixels) {
    auto& [low, high] = seen.try_emplace(static_cast<int>(x), 1e9, -1e9).first->second;
    low = std::min(low, value_at(picture.y_ticks, y, false));
    high = std::max(high, value_at(picture.y_ticks, y, false));
  }
  const double per_pixel = 200000.0 / 700;
  for (const auto& [x, y] : points) {
    if (std::fmod(x, per_pixel) > 1) continue;
    bool covered = false;
    for (const auto& [column, range] : seen) {
      if (std::abs(value_at(picture.x_ticks, column + 0.5, false) - x) > 1.5 * per_pixel) continue;
      covered = covered || (y >= range.first - 0.01 && y <= range.second + 0.01);
    }
    EXPECT_TRUE(covered) << x;
  }
  const auto highest =
      std::min_element(pixels.begin(), pixels.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_NEAR(value_at(picture.x_ticks, highest->first, false), 77777, per_pixel);
}

// ---- the same bytes everywhere ----

struct German : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Plots, the_locale_does_not_matter) {
  const Plot plot = plot_of({{0, 4.5}, {12345.5, 1.25}});
  const std::string picture = svg(plot);
  const std::string terminal = terminal_plot(plot);
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new German));
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is installed
  EXPECT_EQ(svg(plot), picture);
  EXPECT_EQ(terminal_plot(plot), terminal);
  std::locale::global(before);
  std::setlocale(LC_ALL, "C");
}

TEST(Plots, other_xml_parsers_agree) {
  const char* parsers[] = {"xmllint --noout ",
                           "python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' "};
  const char* present[] = {"command -v xmllint >/dev/null", "python3 -c 'import xml.etree.ElementTree' 2>/dev/null"};
  const std::string name = testing::TempDir() + "rotary_plot_test.svg";
  const std::string bad = std::string("<&>\"'\0\x1b\xFF\xEF\xBF\xBE", 11) + "日本";
  std::ofstream(name, std::ios::binary) << svg({bad, bad, bad, false, true, {{bad, {{1, 2}, {3, 4}}, false}}});
  int asked = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    if (std::system(present[i]) != 0) continue;
    EXPECT_EQ(std::system((parsers[i] + ("'" + name + "'")).c_str()), 0) << parsers[i];
    ++asked;
  }
  std::remove(name.c_str());
  if (asked == 0) GTEST_SKIP() << "neither xmllint nor python3 is here";
}

}  // namespace
}  // namespace rotary::plot_tests
