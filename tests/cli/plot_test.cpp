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
  EXPECT_EQ(curves[1].name, "mean");
  EXPECT_EQ(curves[0].colour, curves[1].colour);
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

TEST(Svg, no_two_of_many_lines_look_alike) {
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

TEST(Svg, equal_lines_are_both_seen) {
  const Points points = {{0, 1}, {9, 2}};
  const std::string text = svg({"t", "x", "y", false, false, {{"first", points}, {"same", points}}});
  const std::vector<Curve> curves = read_picture(text).curves;
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[0].name, "first") << "solid, behind";
  EXPECT_EQ(text.find("stroke-dasharray"), text.rfind("stroke-dasharray", text.find("<polyline"))) << "the legend";
  EXPECT_GT(text.rfind("stroke-dasharray"), text.rfind("<polyline")) << "dashed, in front";
}

TEST(Svg, an_axis_of_lengths_has_ticks_where_its_powers_of_two_are) {
  Plot plot = plot_of({{32, 2}, {64, 1}, {128, 1.5}, {256, 2}, {512, 3}}, true);
  const auto ticks = [&plot] {
    std::vector<double> values;
    for (const auto& [pixel, value] : read_picture(svg(plot)).x_ticks) values.push_back(value);
    return values;
  };
  EXPECT_NE(ticks(), (std::vector<double>{32, 64, 128, 256, 512}));
  plot.x_is_length = true;
  EXPECT_EQ(ticks(), (std::vector<double>{32, 64, 128, 256, 512}));
  expect_points_where_the_labels_say(plot);
  plot.lines[0].points.clear();
  for (double length = 1; length <= 0x1p20; length *= 2) plot.lines[0].points.emplace_back(length, 1);
  EXPECT_EQ(ticks(), (std::vector<double>{1, 8, 64, 512, 4096, 32768, 262144}));
}

TEST(Svg, names_of_points_are_tooltips) {
  for (const bool dots : {false, true}) {
    Plot plot = plot_of({{0, 1}, {1, 2}, {2, 4}});
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

TEST(Svg, guides_are_straight_grey_and_named_once_wherever_they_stand) {
  Plot plot{"t", "x", "y", false, false, {{"line", {{0, 0}, {9, 100}}}}};
  for (const double height : {50.0, 51.0, 52.0, 100.0})
    plot.lines.push_back({"level " + std::to_string(height), {{0, height}, {9, height}}, false, false, true});
  for (const double x : {0.0, 0.1, 5.0, 9.0})
    plot.lines.push_back({"upright " + std::to_string(x), {{x, 0}, {x, 100}}, false, false, true});
  const std::string text = svg(plot);
  expect_readable(text);
  const Picture picture = read_picture(text);
  EXPECT_EQ(picture.curves.size(), 1U);
  for (std::size_t i = 1; i < plot.lines.size(); ++i)
    EXPECT_EQ(std::count(picture.texts.begin(), picture.texts.end(), plot.lines[i].name), 1) << plot.lines[i].name;
}

TEST(Svg, a_band_reaches_from_its_lower_to_its_upper_end) {
  Plot plot{"t", "x", "y", false, false, {{"middle", {{0, 1}, {5, 1}, {10, 1}}}}};
  plot.bands = {{"band", {{0, 0, 2}, {5, -1, 3}, {10, 0, 2}}}};
  const std::string text = svg(plot);
  const Picture picture = read_picture(text);
  Points corners;
  for (const Element& element : parse_xml(text))
    if (element.name == "polygon") corners = points_of(element.attributes.at("points"));
  const std::vector<double> wanted = {2, 3, 2, 0, -1, 0};
  ASSERT_EQ(corners.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(value_at(picture.y_ticks, corners[i].second, false), wanted[i], 0.01);
  EXPECT_EQ(std::count(picture.texts.begin(), picture.texts.end(), "band"), 1) << "in the legend";
  EXPECT_NE(terminal_plot(plot).find(". band"), std::string::npos);
}

TEST(Svg, long_names_keep_their_ends) {
  const std::string begin = "a-run-with-a-very-long-name-of-many-words-and-numbers-seed-";
  Plot plot{"t", "x", "y", false, false, {{begin + "1", {{0, 1}, {9, 2}}}, {begin + "2", {{0, 3}, {9, 1}}}}};
  std::set<std::string> shown;
  for (const std::string& text : read_picture(svg(plot)).texts)
    if (text.starts_with("a-run") && text.find("…") != std::string::npos) shown.insert(text.substr(text.size() - 6));
  EXPECT_EQ(shown, (std::set<std::string>{"seed-1", "seed-2"}));
  const std::string terminal = terminal_plot(plot, 40);
  for (const char* end : {"seed-1\n", "seed-2\n"}) EXPECT_NE(terminal.find(end), std::string::npos) << terminal;
  EXPECT_EQ(cli::shorten_middle("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(cli::shorten_middle("abcdefghijk", 10), "abcde…hijk");
  EXPECT_LE(cli::columns(cli::shorten_middle("日本語日本語日本語", 10)), 10U);
}

// ---- places without a number ----

TEST(Svg, each_run_of_lost_places_is_crossed_out) {
  Plot plot{"t",   "step", "y",
            false, false,  {{"run", {{0, 4}, {100, 3}, {300, 1}, {400, 1.5}}}, {"other", {{0, 4}, {400, 2}}}}};
  plot.lines[0].lost = {200, 250, 500, 600};
  const std::string text = svg(plot), terminal = terminal_plot(plot, 72, 18);
  expect_readable(text);
  EXPECT_NE(text.find("× NaN or infinite: run at 2 steps and from step 500 on"), std::string::npos);
  EXPECT_NE(terminal.find("  # NaN or infinite: run at 2 steps and from step 500 on"), std::string::npos) << terminal;
  EXPECT_EQ(std::count(terminal.begin(), terminal.end(), '#'), 2 + 1) << terminal;
  const Picture picture = read_picture(text);
  EXPECT_EQ(picture.x_ticks.back().second, 600) << "the axis shows them all";
  Points centres;
  for (const Element& element : parse_xml(text)) {
    const auto place = [&](const char* key) { return number(element.attributes.at(key)); };
    if (element.name != "line" || std::abs(place("x2") - place("x1") - 11) > 0.02 || place("y2") < place("y1"))
      continue;
    centres.emplace_back(value_at(picture.x_ticks, (place("x1") + place("x2")) / 2, false),
                         value_at(picture.y_ticks, (place("y1") + place("y2")) / 2, false));
    EXPECT_EQ(element.attributes.at("stroke"), "#0072b2") << "the colour of its line";
  }
  ASSERT_EQ(centres.size(), 2U);
  EXPECT_NEAR(centres[0].first, 200, 2);
  EXPECT_NEAR(centres[0].second, 3, 0.02) << "as high as the point before";
  EXPECT_NEAR(centres[1].first, 500, 2);
  EXPECT_NEAR(centres[1].second, 1.5, 0.02);
  plot.lines[0].points.clear();
  EXPECT_NE(svg(plot).find("× NaN or infinite: run everywhere"), std::string::npos);
  EXPECT_NE(terminal_plot(plot).find("# NaN or infinite: run everywhere"), std::string::npos);
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

TEST(Svg, several_dense_lines_are_means_of_near_points) {
  Plot plot{"t", "x", "y", false, false, {{"a", {}}, {"b", {}}}};
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
