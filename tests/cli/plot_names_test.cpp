// Ticks of an axis of lengths; names of dots, lines and guides; bands and heat maps.
#include <cmath>
#include <sstream>

#include "apps/shared/displayable.h"
#include "picture.h"
#include "picture_judge.h"

namespace rotary::plot_tests {
namespace {

Points x_values(const Plot& plot) { return read_picture(svg(plot)).x_ticks; }

TEST(Svg, an_axis_of_lengths_has_ticks_where_its_powers_of_two_are) {
  Plot plot = plot_of({{32, 2}, {64, 1}, {128, 1.5}, {256, 2}, {512, 3}}, true);
  const auto ticks = [&plot] {
    std::vector<double> values;
    for (const auto& [pixel, value] : x_values(plot)) values.push_back(value);
    return values;
  };
  EXPECT_NE(ticks(), (std::vector<double>{32, 64, 128, 256, 512}));
  plot.x_is_length = true;
  EXPECT_EQ(ticks(), (std::vector<double>{32, 64, 128, 256, 512}));
  expect_points_where_the_labels_say(plot);
  plot.lines.push_back({"trained length 100", {{100, 1}, {100, 3}}, false, false, true});
  EXPECT_EQ(ticks(), (std::vector<double>{32, 64, 128, 256, 512}));
  plot.lines[0].points.clear();
  for (double length = 1; length <= 0x1p20; length *= 2) plot.lines[0].points.emplace_back(length, 1);
  EXPECT_EQ(ticks(), (std::vector<double>{1, 8, 64, 512, 4096, 32768, 262144}));
  plot.lines[0].points = {{5, 1}, {1000, 2}, {100000, 3}};  // a few others
  EXPECT_EQ(ticks(), (std::vector<double>{5, 1000, 100000}));
  plot.lines[0].points = {{100, 1}, {101, 2}, {10000, 3}};  // too near: as on any other axis
  EXPECT_EQ(ticks(), (std::vector<double>{100, 200, 500, 1000, 2000, 5000, 10000}));
}

TEST(Svg, dots_have_their_names_beside_them_where_they_are_few) {
  Plot plot = plot_of({{1, 1}, {1, 1.001}, {2, 3}});
  plot.lines[0].dots = true;
  plot.lines[0].names = {"first", "second", "third <&>"};
  const std::vector<Element> document = parse_xml(svg(plot));
  std::vector<double> heights;
  for (const char* name : {"first", "second", "third <&>"}) {
    int tooltips = 0, labels = 0;
    for (const Element& element : document) {
      if (element.text != name) continue;
      tooltips += element.name == "title" ? 1 : 0;
      if (element.name != "text") continue;
      ++labels;
      heights.push_back(number(element.attributes.at("y")));
    }
    EXPECT_EQ(tooltips, 1) << name;
    EXPECT_EQ(labels, 1) << name;
  }
  ASSERT_EQ(heights.size(), 3U);
  EXPECT_GE(std::abs(heights[0] - heights[1]), 11) << "one name under the other";
  for (const Element& element : document) {  // no dot is cut by the frame
    if (element.name == "circle") {
      EXPECT_GT(number(element.attributes.at("cx")), 15);
    }
  }
  for (int i = 0; i < 30; ++i) {
    plot.lines[0].points.emplace_back(3 + i, 1);
    plot.lines[0].names.push_back("many");
  }
  const std::vector<Element> full = parse_xml(svg(plot));
  EXPECT_TRUE(std::none_of(full.begin(), full.end(),
                           [](const Element& element) { return element.name == "text" && element.text == "many"; }));
  EXPECT_EQ(std::count_if(full.begin(), full.end(),
                          [](const Element& element) { return element.name == "title" && element.text == "many"; }),
            30);
}

// ---- names on lines ----

std::vector<TextBox> boxes_named(const std::string& text, const std::string& name) {
  std::vector<TextBox> found;
  for (const TextBox& box : text_boxes(parse_xml(text)))
    if (box.text == name) found.push_back(box);
  return found;
}

TEST(Svg, names_stand_at_the_ends_of_lines_that_end_apart) {
  Plot plot{"t", "x", "y", false, false, {{"low", {{0, 0}, {9, 1}}}, {"high", {{0, 0}, {9, 5}}}}};
  plot.names_on_lines = true;
  const std::string text = svg(plot);
  expect_readable(text);
  const Picture picture = read_picture(text);
  for (const Curve& curve : picture.curves) {
    const std::vector<TextBox> names = boxes_named(text, curve.name);
    ASSERT_EQ(names.size(), 1U) << "no legend";
    EXPECT_GT(names[0].left, curve.pixels.back().first);
    EXPECT_LT(names[0].top, curve.pixels.back().second);
    EXPECT_GT(names[0].bottom, curve.pixels.back().second);
  }
}

TEST(Svg, names_stand_along_lines_that_end_together_and_in_a_legend_where_there_is_no_room) {
  Plot plot{
      "t",   "x",
      "y",   false,
      false, {{"straight", {{0, 0}, {9, 9}}}, {"bent", {{0, 0}, {8, 1}, {9, 9}}}, {"up", {{0, 0}, {1, 8}, {9, 9}}}}};
  plot.names_on_lines = true;
  const std::string along = svg(plot);
  expect_readable(along);
  const Picture picture = read_picture(along);
  for (const Curve& curve : picture.curves) {
    const std::vector<TextBox> names = boxes_named(along, curve.name);
    ASSERT_EQ(names.size(), 1U);
    EXPECT_LT(names[0].right, curve.pixels.back().first + 20) << "in the drawing area";
    EXPECT_GT(names[0].top, 50) << "not in a legend";
  }
  for (int i = 0; i < 12; ++i) plot.lines.push_back({"line " + std::to_string(i), {{0, i}, {9, i}}});
  const std::string legend = svg(plot);
  expect_readable(legend);
  for (const Line& line : plot.lines) {
    const std::vector<TextBox> names = boxes_named(legend, line.name);
    ASSERT_EQ(names.size(), 1U) << line.name;
    EXPECT_LT(names[0].top, read_picture(legend).curves[0].pixels[0].second) << "above the drawing area";
  }
}

TEST(Svg, names_of_guides_lie_on_no_other_names) {
  Plot plot{"t", "x", "y", false, false, {{"line", {{0, 0}, {9, 9}}}}};
  for (int i = 0; i < 5; ++i) {
    const double at = 4 + 0.05 * i;
    plot.lines.push_back({"level " + std::to_string(i), {{0, at}, {9, at}}, false, false, true});
    plot.lines.push_back({"upright " + std::to_string(i), {{at, 9}, {at, 0}}, false, false, true});
  }
  plot.names_on_lines = true;
  expect_readable(svg(plot));
}

// As of a cache's speed over the few sizes that it holds.
TEST(Svg, a_name_that_is_longer_than_its_level_guide_reaches_beyond_upright_ones) {
  Plot plot{"t", "x", "y", false, false, {{"line", {{0, 0}, {50, 1}, {100, 0}}}}};
  plot.lines.push_back({"upright", {{85, 8}, {85, 0}}, false, false, true});
  plot.lines.push_back({"memory 46.6 GB/s by 1 thread", {{85, 4}, {100, 4}}, false, false, true});
  const std::string text = svg(plot);
  EXPECT_EQ(boxes_named(text, "memory 46.6 GB/s by 1 thread").size(), 1U);
  expect_readable(text);
}

TEST(Svg, dots_differ_in_their_shapes) {
  Plot plot{"t", "x", "y", false, false, {{"a", {{0, 0}, {9, 1}}, false, true}, {"b", {{0, 1}, {9, 0}}, false, true}}};
  std::set<std::string> elements;
  for (const Element& element : parse_xml(svg(plot)))
    if (element.name == "circle" || (element.name == "rect" && element.attributes.count("stroke-width") != 0))
      elements.insert(element.name);
  EXPECT_EQ(elements, (std::set<std::string>{"circle", "rect"}));
}

// ---- bands, equal scales, tips ----

TEST(Svg, a_band_reaches_from_its_lower_to_its_upper_end) {
  Plot plot{"t", "x", "y", false, false, {{"middle", {{0, 1}, {5, 1}, {10, 1}}}}};
  plot.bands = {{"band", {{0, 0, 2}, {5, -1, 3}, {10, 0, 2}}}};
  const std::string text = svg(plot);
  const Picture picture = read_picture(text);
  std::string path;
  for (const Element& element : parse_xml(text))
    if (element.name == "path" && element.attributes.count("fill-opacity") != 0) path = element.attributes.at("d");
  std::vector<double> heights;
  for (std::size_t at = 0; at + 1 < path.size(); at = path.find_first_of("ML", at + 1)) {
    if (path[at] == 'z') break;
    heights.push_back(value_at(picture.y_ticks, std::stod(path.substr(path.find(' ', at))), false));
    if (path.find_first_of("ML", at + 1) == std::string::npos) break;
  }
  const std::vector<double> wanted = {2, 3, 2, 0, -1, 0};
  ASSERT_EQ(heights.size(), wanted.size()) << path;
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(heights[i], wanted[i], 0.01);
  EXPECT_EQ(boxes_named(text, "band").size(), 1U) << "in the legend";
  const std::string terminal = terminal_plot(plot);
  EXPECT_NE(terminal.find(". band"), std::string::npos) << terminal;
}

TEST(Svg, with_one_scale_a_unit_is_as_long_on_both_axes) {
  for (const Points& points : {Points{{0, 0}, {3, 1}}, Points{{0, 0}, {1, 30}}, Points{{0, 0}, {50, 1}}}) {
    Plot plot = plot_of(points);
    plot.same_scale = true;
    const Picture picture = read_picture(svg(plot));
    const Points& pixels = picture.curves.at(0).pixels;
    const double per_x = (pixels[1].first - pixels[0].first) / points[1].first;
    const double per_y = (pixels[0].second - pixels[1].second) / points[1].second;
    EXPECT_NEAR(per_x / per_y, 1, 0.03);
  }
}

TEST(Svg, tips_are_tooltips_of_their_points) {
  Plot plot = plot_of({{0, 1}, {1, 2}, {2, 4}});
  plot.lines[0].tips = {"one", "two", "<four>"};
  std::vector<std::string> tips;
  const std::vector<Element> document = parse_xml(svg(plot));
  for (const Element& element : document)
    if (element.name == "title" && document[element.parent].name == "circle") tips.push_back(element.text);
  EXPECT_EQ(tips, plot.lines[0].tips);
}

// ---- heat maps ----

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

TEST(HeatMaps, columns_that_are_no_neighbours_stand_apart) {
  cli::HeatMap map;
  map.y = {0};
  for (const std::int64_t first : {0, 1000, 2000})
    for (std::int64_t i = 0; i < 30; ++i) map.x.push_back(first + i);
  map.values.assign(map.x.size(), 0.5);
  const std::string gaps = " stroke-width=\"3\">\n<line ";
  const std::string picture = svg(map);
  EXPECT_NE(picture.find(gaps), std::string::npos);
  for (const char* begin : {">0<", ">1000<", ">2000<"}) EXPECT_NE(picture.find(begin), std::string::npos) << begin;
  expect_readable(picture);
  map.x.clear();
  for (std::int64_t i = 0; i < 90; ++i) map.x.push_back(7 * i);
  EXPECT_EQ(svg(map).find(gaps), std::string::npos) << "even steps";
  std::reverse(map.x.begin(), map.x.end());
  EXPECT_EQ(svg(map).find(gaps), std::string::npos) << "even steps down";
}

// As of a table whose attention factor is 0.
TEST(HeatMaps, of_zeros_have_the_middle_colour) {
  cli::HeatMap map;
  map.x = map.y = {0, 1};
  map.values = {0, 0, 0, 0};
  map.limit = 0;
  EXPECT_NE(terminal_map(map).find("0 |\n1 |\n"), std::string::npos) << terminal_map(map);
  EXPECT_NE(svg(map).find("class=\"h20\""), std::string::npos);
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
