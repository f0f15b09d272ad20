// Runs `rotary plot` and reads what it drew.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run.h"

namespace rotary::cli_tests {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

inline const std::string golden_configs = ROTARY_SOURCE_DIR "/tests/golden/configs/";
inline const std::string golden_runs = ROTARY_SOURCE_DIR "/tests/golden/runs/";

class PlotCommand : public Cli {
 protected:
  std::string print(Words words) const {
    words.insert(words.begin(), "plot");
    return expect_success(words).out;
  }
  Json json(Words words) const {
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
