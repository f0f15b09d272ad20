// Where lines have no numbers.
#include <algorithm>

#include "apps/shared/text.h"
#include "plot.h"
#include "values/number_text.h"

namespace rotary::cli {

std::vector<std::pair<double, double>> crosses_of(const Line& line) {
  std::vector<std::pair<double, double>> crosses;
  if (line.points.empty()) return crosses;
  const auto is_before = [](const std::pair<double, double>& point, double x) { return point.first < x; };
  auto last_run = line.points.end();
  for (const double x : line.lost) {
    const auto behind = std::lower_bound(line.points.begin(), line.points.end(), x, is_before);
    const bool goes_on = !crosses.empty() && behind == last_run;
    last_run = behind;
    if (goes_on) continue;
    if (behind == line.points.begin() || behind == line.points.end()) {
      crosses.emplace_back(x, behind == line.points.end() ? line.points.back().second : behind->second);
    } else {
      const auto& [x0, y0] = *(behind - 1);
      crosses.emplace_back(x, y0 + (behind->second - y0) * (x - x0) / (behind->first - x0));
    }
  }
  return crosses;
}

std::vector<std::string> lost_texts(const Plot& plot) {
  const std::string place = plot.x_label.empty() ? "place" : plot.x_label;
  std::vector<std::string> texts;
  for (const Line& line : plot.lines) {
    if (line.lost.empty()) continue;
    const bool none = line.points.empty();
    const auto at_end =
        none ? line.lost.begin() : std::upper_bound(line.lost.begin(), line.lost.end(), line.points.back().first);
    const auto between = static_cast<std::size_t>(at_end - line.lost.begin());
    std::string text = line.name;
    if (between > 0) text += " at " + counted(between, place.c_str());
    if (at_end != line.lost.end()) {
      text += between > 0 ? " and" : "";
      text += none ? " everywhere" : " from " + place + " " + detail::spelled(*at_end) + " on";
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace rotary::cli
