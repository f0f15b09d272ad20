#include "many_points.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "layout.h"

namespace rotary::cli {

namespace {

using Points = std::vector<PlotPoint>;

// Calls use(first, end) for the points of each column of that many pixels.
template <class Use>
void for_each_column(const Points& points, double width, const Use& use) {
  for (auto begin = points.begin(); begin != points.end();) {
    const double next = (std::floor(begin->x / width) + 1) * width;
    const auto end = std::find_if(begin, points.end(), [next](const PlotPoint& point) { return point.x >= next; });
    use(begin, end);
    begin = end;
  }
}

bool has_less_y(const PlotPoint& a, const PlotPoint& b) { return a.y < b.y; }

}  // namespace

Points thinned(const Points& points) {
  const auto falls = [](const PlotPoint& a, const PlotPoint& b) { return b.x < a.x; };
  if (points.size() <= max_points || std::adjacent_find(points.begin(), points.end(), falls) != points.end())
    return points;
  Points kept;
  for_each_column(points, 1, [&kept](auto begin, auto end) {
    const auto [low, high] = std::minmax_element(begin, end, has_less_y);
    std::array chosen = {begin, low, high, end - 1};
    std::sort(chosen.begin(), chosen.end());
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (i == 0 || chosen[i] != chosen[i - 1]) kept.push_back(*chosen[i]);
  });
  return kept;
}

Ranges ranges_of(const Points& points) {
  constexpr double column = 4;
  Ranges ranges;
  for_each_column(points, column, [&ranges](auto begin, auto end) {
    const auto [highest, lowest] = std::minmax_element(begin, end, has_less_y);
    PlotPoint mean;
    for (auto point = begin; point != end; ++point) {
      mean.x += point->x / static_cast<double>(end - begin);
      mean.y += point->y / static_cast<double>(end - begin);
    }
    ranges.mean.push_back(mean);
    ranges.lower.push_back({mean.x, lowest->y});
    ranges.upper.push_back({mean.x, highest->y});
  });
  return ranges;
}

}  // namespace rotary::cli
