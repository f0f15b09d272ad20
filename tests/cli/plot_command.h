// Runs `rotary plot` and reads what it drew.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "run.h"

namespace rotary::cli_tests {

class PlotCommand : public Cli {
 protected:
  std::string print(Strings words) const {
    words.insert(words.begin(), "plot");
    return expect_success(words).out;
  }
  Json json(Strings words) const {
    words.emplace_back("--json");
    return Json::parse(print(words));
  }
  // y by x of the line of that name.
  static std::map<double, double> line(const Json& plot, const std::string& name) {
    std::map<double, double> points;
    for (const Json& line : plot.at("lines")) {
      if (line.at("name") != name) continue;
      for (const Json& point : line.at("points")) points[point[0].get<double>()] = point[1].get<double>();
    }
    EXPECT_FALSE(points.empty()) << name << plot.at("lines").size();
    return points;
  }
};

}  // namespace rotary::cli_tests
