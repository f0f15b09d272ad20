#include "scene.h"

#include <algorithm>
#include <cmath>

#include "apps/shared/displayable.h"
#include "many_points.h"

namespace rotary::cli {

namespace {

// A curve as points that are at most 3 pixels apart.
Points dense(const Points& fractions, const Frame& frame) {
  Points points;
  for (const PlotPoint& fraction : fractions) {
    const PlotPoint to = frame.at(fraction);
    const PlotPoint from = points.empty() ? to : points.back();
    const double length = std::max(std::abs(to.x - from.x), std::abs(to.y - from.y));
    const int steps = std::max(1, static_cast<int>(std::ceil(length / 3)));
    for (int step = 1; step <= steps; ++step) {
      const double part = static_cast<double>(step) / steps;
      points.push_back({from.x + part * (to.x - from.x), from.y + part * (to.y - from.y)});
    }
  }
  return points;
}

double distance(const Box& box, const PlotPoint& point) {
  const double x = std::max({box.left - point.x, 0.0, point.x - box.right});
  const double y = std::max({box.top - point.y, 0.0, point.y - box.bottom});
  return std::max(x, y);
}

Points curve_of(const Line& line, const Style& style, const Points& fractions, const Frame& frame) {
  if (line.guide) return {};
  if (!line.dots && !style.averaged) return dense(fractions, frame);
  Points points;
  for (const PlotPoint& fraction : fractions) points.push_back(frame.at(fraction));
  if (!style.averaged) return points;
  const Ranges ranges = ranges_of(points);
  return line.faint ? ranges.upper : ranges.mean;
}

}  // namespace

double name_width(std::string_view text) {
  return std::max(1.18 * text_width(text, name_size), 0.63 * name_size * static_cast<double>(columns(text)));
}

Box box_of_name(double x, double y, std::string_view text) {
  return {x, y - 0.8 * name_size, x + name_width(text), y + 0.25 * name_size};
}

double distance(const Box& box, const Points& curve) {
  double least = 1e9;
  for (const PlotPoint& point : curve) least = std::min(least, distance(box, point));
  return least;
}

std::vector<PlotPoint> upper_edge(const std::vector<BandPoint>& band) {
  std::vector<PlotPoint> edge;
  for (const BandPoint& point : band) edge.push_back({point.x, point.high});
  return edge;
}

bool Scene::has_room(const Box& box) const {
  const bool inside = box.left >= frame.left + 2 && box.right <= frame.right + 8 && box.top >= frame.top &&
                      box.bottom <= frame.bottom - 2;
  return inside && std::none_of(taken.begin(), taken.end(), [&](const Box& other) { return overlap(box, other); });
}

double Scene::clearance(const Box& box) const {
  double least = 1e9;
  for (const Points& curve : curves) least = std::min(least, distance(box, curve));
  return least;
}

Scene scene_of(const Plot& plot, const PlotView& view, const Frame& frame) {
  Scene scene{frame, {}, {}, {}};
  const std::vector<Style> styles = styles_of(plot.lines);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    scene.curves.push_back(curve_of(plot.lines[i], styles[i], view.lines[i], frame));
    const bool straight = plot.lines[i].guide && !view.lines[i].empty();
    scene.guides.push_back(straight ? dense({view.lines[i].front(), view.lines[i].back()}, frame) : Points{});
  }
  for (const auto& band : view.bands) scene.curves.push_back(dense(upper_edge(band), frame));
  return scene;
}

}  // namespace rotary::cli
