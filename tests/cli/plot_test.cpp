// The plots, read back as a person would: what stands where, by the labels of the axes.
#include "apps/shared/plot/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <limits>
#include <locale>
#include <set>

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
  const Plot losses{"losses", "step", "loss", false, false, {{"a", {{0, 4.17}, {250, 2.58}, {2000, 1.80}}}}};
  for (const Plot& plot :
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
    Plot plot{"t", "x", "y", false, false, {}};
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

}  // namespace
}  // namespace rotary::plot_tests
