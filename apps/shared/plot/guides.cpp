// The names of guides.
#include <algorithm>
#include <cmath>
#include <optional>

#include "apps/shared/displayable.h"
#include "scene.h"

namespace rotary::cli {

namespace {

constexpr double size = guide_size, ascent = 0.8 * size, descent = 0.25 * size, height = ascent + descent;
constexpr double gap = 1.25;  // between a guide and a name above, below or beside it that runs along

enum class Run : unsigned char { level, upright, other };

// Guides that share a name.
struct Group {
  Run run = Run::other;
  std::string text;
  std::vector<std::size_t> lines;
  PlotPoint begin, end;        // of the first, in the order of sorting
  double first = 0, last = 0;  // the heights of level guides, from the top; the places of upright ones, from the left
};

// A guide's name may be wider than thought: one that ends at its guide must not cross it.
double guide_width(std::string_view text) {
  return std::max(1.1 * text_width(text, size), 0.57 * size * static_cast<double>(columns(text)));
}

Box box_of(const NamePlace& place) {
  const double width = guide_width(place.text);
  if (place.upwards) return {place.x - ascent, place.y - width / 2, place.x + descent, place.y + width / 2};
  const double left = place.ends ? place.x - width : place.x;
  return {left, place.y - ascent, left + width, place.y + descent};
}

// "context 4096" and "context 8192" as "contexts 4096 and 8192"; names that differ in more are joined.
std::string shared_name(const std::vector<std::string>& names) {
  if (names.size() == 1) return names[0];
  const auto kind = [](const std::string& name) { return name.substr(0, std::min(name.rfind(' '), name.size())); };
  const std::string first = kind(names[0]);
  const bool same = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return kind(name) == first && name.size() > first.size();
  });
  std::string text = same ? first + "s " : "";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " and ";
    text += same ? names[i].substr(first.size() + 1) : names[i];
  }
  return text;
}

Group group_of(std::size_t line, const Points& fractions, const Frame& frame) {
  Group group{Run::other, "", {line}, frame.at(fractions.front()), frame.at(fractions.back()), 0, 0};
  if (std::abs(group.end.y - group.begin.y) < 1) {
    group.run = Run::level;
    group.first = group.last = group.end.y;
  } else if (std::abs(group.end.x - group.begin.x) < 1) {
    group.run = Run::upright;
    group.first = group.last = group.end.x;
  }
  return group;
}

// Level ones from the top, then upright ones from the left, then others.
std::vector<Group> groups_of(const Plot& plot, const PlotView& view, const Frame& frame) {
  std::vector<Group> single, groups;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    if (!plot.lines[i].guide || plot.lines[i].name.empty() || view.lines[i].empty()) continue;
    single.push_back(group_of(i, view.lines[i], frame));
  }
  std::stable_sort(single.begin(), single.end(),
                   [](const Group& a, const Group& b) { return a.run != b.run ? a.run < b.run : a.first < b.first; });
  for (Group& group : single) {
    const bool joins = group.run != Run::other && !groups.empty() && groups.back().run == group.run &&
                       group.first - groups.back().last < height;
    if (joins) {
      groups.back().lines.push_back(group.lines[0]);
      groups.back().last = group.last;
    } else {
      groups.push_back(std::move(group));
    }
  }
  for (Group& group : groups) {
    if (group.run == Run::level) std::reverse(group.lines.begin(), group.lines.end());  // the lower value first
    std::vector<std::string> names;
    for (const std::size_t line : group.lines) names.push_back(displayable(plot.lines[line].name));
    group.text = shorten(shared_name(names), longest_name);
  }
  return groups;
}

// ---- where a name may stand, in the order of preference ----

// Above or below the right end, then elsewhere along; else on the guide, which the edge of the text covers.
std::vector<PlotPoint> level_places(const Group& group, const Frame& frame, double width) {
  std::vector<PlotPoint> places;
  const auto x = [&](double part) {
    const double left = std::min(group.begin.x, group.end.x), right = std::max(group.begin.x, group.end.x);
    const double at = left + part * (right - left - width) + (part == 0 ? 4 : 0);
    return std::clamp(at, frame.left + 3, std::max(frame.left + 3, frame.right - width));
  };
  std::vector<double> parts = {1, 0, 0.5, 0.75, 0.25};
  for (int i = 1; i < 24; ++i) parts.push_back(1 - i / 24.0);
  for (const double part : parts) {
    places.push_back({x(part), group.first - gap - descent});
    places.push_back({x(part), group.last + gap + ascent});
  }
  for (const double part : parts) places.push_back({x(part), (group.first + group.last + ascent - descent) / 2});
  return places;
}

// Right of the upper end, then left, where the name ends, and further down.
std::vector<PlotPoint> upright_places(const Group& group) {
  std::vector<PlotPoint> places;
  const double top = std::min(group.begin.y, group.end.y), bottom = std::max(group.begin.y, group.end.y);
  for (const double part : {0.0, 0.08, 0.16, 0.3, 0.5, 0.7, 0.85}) {
    const double y = top + 10 + part * (bottom - top);
    places.push_back({group.last + 4, y});
    places.push_back({group.first - 4, y});
  }
  return places;
}

// Written upwards along the guide; the places are those of the middle.
std::vector<PlotPoint> upward_places(const Group& group, double width) {
  std::vector<PlotPoint> places;
  const double top = std::min(group.begin.y, group.end.y), bottom = std::max(group.begin.y, group.end.y);
  const double middle = (group.first + group.last + ascent - descent) / 2;
  for (const double x : {group.last + gap + ascent, group.first - gap - descent, middle})
    for (int i = 0; i <= 12; ++i)
      places.push_back({x, top + 4 + width / 2 + i / 12.0 * std::max(0.0, bottom - top - width - 8)});
  return places;
}

// Below the middle of a guide that is neither level nor upright.
std::vector<PlotPoint> other_places(const Group& group) {
  std::vector<PlotPoint> places;
  const PlotPoint &begin = group.begin, &end = group.end;
  for (const double part : {0.5, 0.25, 0.75}) {
    const double x = begin.x + part * (end.x - begin.x) + 5;
    places.push_back({x, begin.y + (end.y - begin.y) * (x - begin.x) / (end.x - begin.x) + 14});
  }
  return places;
}

bool is_level(const Points& guide) { return guide.empty() || std::abs(guide.front().y - guide.back().y) < 1; }

// across: of all guides; else of those that run as its own.
bool is_nearest(const Box& box, const Group& group, const Scene& scene, bool across) {
  double own = 1e9, others = 1e9;
  for (std::size_t i = 0; i < scene.guides.size(); ++i) {
    if (!across && is_level(scene.guides[i]) != (group.run == Run::level)) continue;
    const bool mine = std::find(group.lines.begin(), group.lines.end(), i) != group.lines.end();
    double& least = mine ? own : others;
    least = std::min(least, distance(box, scene.guides[i]));
  }
  return own + 1 <= others;
}

// The first that is free, in order behind the last one, and 2 pixels from all curves; else the free one that is
// furthest from them; empty where none is free. across: as of is_nearest.
std::optional<NamePlace> place_of(const Group& group, const Scene& scene, const NamePlace* last, bool upwards,
                                  bool across) {
  const double width = guide_width(group.text);
  const std::vector<PlotPoint> places = group.run == Run::level   ? level_places(group, scene.frame, width)
                                        : group.run == Run::other ? other_places(group)
                                        : upwards                 ? upward_places(group, width)
                                                                  : upright_places(group);
  const auto middle = [&](const Box& box) {
    return group.run == Run::level ? box.top + box.bottom : box.left + box.right;
  };
  std::optional<NamePlace> chosen;
  double most = -1;
  for (const PlotPoint& at : places) {
    const bool upright = group.run == Run::upright;
    const NamePlace place{
        at.x, at.y, group.text, group.lines[0], upright && upwards, upright && !upwards && at.x < group.first};
    const Box box = box_of(place);
    const bool ordered = last == nullptr || group.run == Run::other || middle(box) > middle(box_of(*last)) + 1;
    if (!ordered || !scene.has_room(box) || !is_nearest(box, group, scene, across)) continue;
    const double room = std::min(scene.clearance(box), 2.0);
    if (room <= most) continue;
    most = room;
    chosen = place;
  }
  return chosen;
}

// The names of all groups that run alike. Level ones for which there is no place stay without; empty where an upright
// one has none.
std::optional<std::vector<NamePlace>> place_alike(const std::vector<Group>& groups, Run run, Scene scene,
                                                  bool upwards) {
  std::vector<NamePlace> places;
  for (const Group& group : groups) {
    if (group.run != run) continue;
    const NamePlace* last = places.empty() ? nullptr : &places.back();
    auto place = place_of(group, scene, last, upwards, true);
    if (!place && run == Run::level) place = place_of(group, scene, last, upwards, false);  // longer than its guide
    if (!place && run == Run::upright && !upwards) return std::nullopt;
    if (!place) continue;
    scene.taken.push_back(box_of(*place));
    places.push_back(*place);
  }
  return places;
}

}  // namespace

std::vector<NamePlace> place_guides(const Plot& plot, const PlotView& view, Scene& scene) {
  const std::vector<Group> groups = groups_of(plot, view, scene.frame);
  std::vector<NamePlace> all;
  for (const Run run : {Run::level, Run::upright, Run::other}) {
    auto places = place_alike(groups, run, scene, false);
    if (!places) places = place_alike(groups, run, scene, true);
    for (const NamePlace& place : *places) scene.taken.push_back(box_of(place));
    all.insert(all.end(), places->begin(), places->end());
  }
  return all;
}

}  // namespace rotary::cli
