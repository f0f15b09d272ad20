// A plot's SVG, read back as a person would: what stands where, by the labels of the axes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/shared/plot/figure.h"
#include "xml_judge.h"

namespace rotary::plot_tests {

using cli::Figure;
using cli::Line;
using cli::svg;
using cli::terminal;
using Points = std::vector<std::pair<double, double>>;

inline double number(const std::string& text) {
  std::size_t used = 0;
  const double value = std::stod(text, &used);
  EXPECT_EQ(used, text.size()) << text;
  return value;
}

struct Curve {
  std::string name;
  Points pixels;
  std::string colour;
  bool faint = false;
};

// What a reader takes from the picture.
struct Picture {
  double width = 0;
  double height = 0;
  Points x_ticks;  // (pixel, value)
  Points y_ticks;
  std::vector<Curve> curves;
  std::vector<std::string> texts;
};

inline Points points_of(const std::string& list) {
  Points points;
  std::istringstream stream(list);
  for (std::string word; stream >> word;) {
    const std::size_t comma = word.find(',');
    points.emplace_back(number(word.substr(0, comma)), number(word.substr(comma + 1)));
  }
  return points;
}

inline Picture read_picture(const std::string& text) {
  const std::vector<Element> document = parse_xml(text);
  Picture picture;
  picture.width = number(document[0].attributes.at("width"));
  picture.height = number(document[0].attributes.at("height"));
  std::string title;
  for (const Element& element : document) {
    const auto& attributes = element.attributes;
    if (element.name == "title") title = element.text;
    if (element.name == "polyline" && attributes.at("stroke") != "#777777") {  // which guides have
      picture.curves.push_back({title, points_of(attributes.at("points")), attributes.at("stroke"),
                                attributes.count("stroke-opacity") != 0});
    }
    if (element.name != "text") continue;
    picture.texts.push_back(element.text);
    const auto& around = document[element.parent].attributes;
    if (around.count("class") == 0 || around.at("class") != "ticks") continue;
    if (attributes.at("text-anchor") == "end") {
      picture.y_ticks.emplace_back(number(attributes.at("y")) - 4, number(element.text));
    } else {
      picture.x_ticks.emplace_back(number(attributes.at("x")), number(element.text));
    }
  }
  return picture;
}

// The value at a pixel, by the first and the last tick.
inline double value_at(const Points& ticks, double pixel, bool log) {
  const auto scale = [log](double value) { return log ? std::log(value) : value; };
  const auto [pixel0, value0] = ticks.front();
  const auto [pixel1, value1] = ticks.back();
  const double part = (pixel - pixel0) / (pixel1 - pixel0);
  const double value = scale(value0) + part * (scale(value1) - scale(value0));
  return log ? std::exp(value) : value;
}

inline Figure plot_of(const Points& points, bool log_x = false, bool log_y = false) {
  return {"title", "x", "y", log_x, log_y, {{"line", points, false}}};
}

// Every point of every line, in order, within half a pixel of where the labels say.
inline void expect_points_where_the_labels_say(const Figure& plot) {
  const Picture picture = read_picture(svg(plot));
  ASSERT_GE(picture.x_ticks.size(), 2U);
  ASSERT_GE(picture.y_ticks.size(), 2U);
  ASSERT_EQ(picture.curves.size(), plot.lines.size());
  for (const Curve& curve : picture.curves) {
    const auto line = std::find_if(plot.lines.begin(), plot.lines.end(),
                                   [&curve](const Line& candidate) { return candidate.name == curve.name; });
    ASSERT_NE(line, plot.lines.end()) << curve.name;
    ASSERT_EQ(curve.pixels.size(), line->points.size());
    for (std::size_t i = 0; i < curve.pixels.size(); ++i) {
      const auto near = [](const Points& ticks, bool log, double pixel, double value) {
        const double a = value_at(ticks, pixel - 0.5, log);
        const double b = value_at(ticks, pixel + 0.5, log);
        return value >= std::min(a, b) && value <= std::max(a, b);
      };
      EXPECT_TRUE(near(picture.x_ticks, plot.log_x, curve.pixels[i].first, line->points[i].first)) << i;
      EXPECT_TRUE(near(picture.y_ticks, plot.log_y, curve.pixels[i].second, line->points[i].second)) << i;
    }
  }
}

}  // namespace rotary::plot_tests
