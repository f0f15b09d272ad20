#include "coinciding.h"

#include <algorithm>

#include "layout.h"

namespace rotary::cli {

namespace {

bool can_join(const Line& line) {
  return !line.faint && !line.dots && !line.guide && !line.name.empty() && !line.points.empty();
}

// Lines of more points are told apart by their oscillations.
bool is_part_of(const Line& line, const Line& whole) {
  if (!can_join(line) || !can_join(whole)) return false;
  if (line.points.size() >= whole.points.size() || line.points.size() > max_points) return false;
  auto sorted = line.points, of = whole.points;
  std::sort(sorted.begin(), sorted.end());
  std::sort(of.begin(), of.end());
  return std::includes(of.begin(), of.end(), sorted.begin(), sorted.end());
}

}  // namespace

Plot with_equal_lines_joined(Plot plot) {
  std::vector<Line> kept;
  for (Line& line : plot.lines) {
    const auto same = std::find_if(kept.begin(), kept.end(), [&line](const Line& other) {
      return can_join(line) && can_join(other) && line.points == other.points && line.lost == other.lost;
    });
    if (same == kept.end()) {
      kept.push_back(std::move(line));
    } else {
      same->name += " = " + line.name;
    }
  }
  plot.lines = std::move(kept);
  return plot;
}

std::vector<std::size_t> drawing_order(const std::vector<Line>& lines) {
  std::vector<std::size_t> order;
  for (std::size_t i = lines.size(); i-- > 0;) order.push_back(i);
  const auto is_behind = [&lines](std::size_t i) {
    return std::none_of(lines.begin(), lines.end(), [&](const Line& other) { return is_part_of(lines[i], other); });
  };
  std::stable_partition(order.begin(), order.end(), is_behind);
  return order;
}

}  // namespace rotary::cli
