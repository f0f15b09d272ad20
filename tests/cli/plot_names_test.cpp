// Ticks of an axis of lengths, and names of dots.
#include <cmath>

#include "picture.h"

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
  plot.lines[0].points = {{100, 1}, {1000, 2}, {10000, 3}};  // no powers of two: as on any other axis
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

}  // namespace
}  // namespace rotary::plot_tests
