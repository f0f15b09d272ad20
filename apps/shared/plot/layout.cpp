#include "layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "apps/shared/displayable.h"
#include "scene.h"

namespace rotary::cli {

namespace {

constexpr double legend_size = 13;
constexpr double row_height = 14;  // of names
constexpr std::array<std::string_view, 4> dashes = {"", "8 3", "2.5 2.5", "10 3 2.5 3"};
constexpr std::size_t most_named = 9;  // names at lines; more are a legend

// ---- names of lines ----

std::string shown_name(const std::string& name) {
  const bool joined = name.find(" = ") != std::string::npos;  // of equal lines
  return shorten_middle(displayable(name), joined ? 2 * longest_name - 6 : longest_name);
}

struct Named {
  std::size_t curve = 0;
  std::string text;
};

std::vector<Named> named_curves(const Plot& plot, const PlotView& view) {
  std::vector<Named> all;
  const auto add = [&all](std::size_t curve, const std::string& name, bool empty) {
    if (!empty && !name.empty()) all.push_back({curve, shown_name(name)});
  };
  for (std::size_t i = 0; i < plot.lines.size(); ++i)
    if (!plot.lines[i].guide) add(i, plot.lines[i].name, view.lines[i].empty());
  for (std::size_t i = 0; i < plot.bands.size(); ++i)
    add(plot.lines.size() + i, plot.bands[i].name, view.bands[i].empty());
  return all;
}

// Moves heights, rising, as little as needed until they are row_height apart: those that touch stand around their mean.
std::vector<double> spread(const std::vector<double>& wanted) {
  struct Group {
    double sum = 0;
    std::size_t count = 0;
    double first() const { return sum / static_cast<double>(count) - row_height * static_cast<double>(count - 1) / 2; }
    double end() const { return first() + row_height * static_cast<double>(count); }
  };
  std::vector<Group> groups;
  for (const double height : wanted) {
    groups.push_back({height, 1});
    while (groups.size() > 1 && groups[groups.size() - 2].end() > groups.back().first()) {
      groups[groups.size() - 2].sum += groups.back().sum;
      groups[groups.size() - 2].count += groups.back().count;
      groups.pop_back();
    }
  }
  std::vector<double> heights;
  for (const Group& group : groups)
    for (std::size_t i = 0; i < group.count; ++i)
      heights.push_back(group.first() + row_height * static_cast<double>(i));
  return heights;
}

// Right of the lines, which all must end at the right edge of the frame and well apart.
std::optional<std::vector<NamePlace>> names_at_ends(const std::vector<Named>& named, const Scene& scene) {
  constexpr double far = 9;  // a name does not stand further from the end of its line
  std::vector<std::pair<double, std::size_t>> ends;
  for (std::size_t i = 0; i < named.size(); ++i) {
    const PlotPoint& end = scene.curves[named[i].curve].back();
    if (end.x < scene.frame.right - 3) return std::nullopt;
    ends.emplace_back(end.y, i);
  }
  std::sort(ends.begin(), ends.end());
  std::vector<double> wanted;
  for (const auto& [y, index] : ends) wanted.push_back(y);
  const std::vector<double> heights = spread(wanted);
  std::vector<NamePlace> places;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (std::abs(heights[i] - wanted[i]) > far) return std::nullopt;
    const Named& name = named[ends[i].second];
    places.push_back({scene.frame.right + 8, heights[i] + 4, name.text, name.curve});
  }
  return places;
}

// The place along its curve that is furthest from all others.
std::optional<NamePlace> place_along(const Named& name, const Scene& scene) {
  constexpr double gap = 5, ascent = 0.8 * name_size, far = 28;
  const Points& curve = scene.curves[name.curve];
  const double width = name_width(name.text);
  std::optional<NamePlace> best;
  double best_score = 0;
  for (std::size_t i = 0; i < curve.size(); i += std::max<std::size_t>(1, curve.size() / 200)) {
    const PlotPoint& on = curve[i];
    for (const auto& [x, y] :
         {std::pair(on.x - width / 2, on.y - gap - 3), std::pair(on.x - width / 2, on.y + gap + ascent),
          std::pair(on.x + gap + 2, on.y + 4), std::pair(on.x - gap - 2 - width, on.y + 4),
          std::pair(on.x + gap, on.y + gap + ascent), std::pair(on.x - gap - width, on.y - gap - 3),
          std::pair(on.x + gap, on.y - gap - 3), std::pair(on.x - gap - width, on.y + gap + ascent)}) {
      const Box box = box_of_name(x, y, name.text);
      if (!scene.has_room(box) || distance(box, curve) < 2) continue;
      double others = far;
      for (std::size_t other = 0; other < scene.curves.size(); ++other)
        if (other != name.curve) others = std::min(others, distance(box, scene.curves[other]));
      const bool is_own = others >= distance(box, curve) + 2;  // the nearest curve is the one that it names
      const bool on_guide = std::any_of(scene.guides.begin(), scene.guides.end(),
                                        [&box](const Points& guide) { return distance(box, guide) < 2; });
      if (others < 4 || !is_own || on_guide) continue;
      const double along = (on.x - scene.frame.left) / (scene.frame.right - scene.frame.left);
      const double score = others + 8 * along - (box.right > scene.frame.right ? 20 : 0);
      if (score > best_score) {
        best_score = score;
        best = {x, y, name.text, name.curve};
      }
    }
  }
  return best;
}

std::optional<std::vector<NamePlace>> names_along(const std::vector<Named>& named, Scene scene) {
  std::vector<NamePlace> places;
  for (const Named& name : named) {
    const std::optional<NamePlace> place = place_along(name, scene);
    if (!place) return std::nullopt;
    scene.taken.push_back(box_of_name(place->x, place->y, name.text));
    places.push_back(*place);
  }
  return places;
}

// ---- the legend ----

// In rows as long as they fit.
void flow(std::vector<LegendItem>& items, const std::vector<double>& widths, double gap, double available) {
  double x = 0;
  for (std::size_t i = 0, row = 0; i < items.size(); ++i) {
    if (i > 0 && x + widths[i] > available) {
      x = 0;
      ++row;
    }
    items[i].x = x;
    items[i].row = static_cast<int>(row);
    x += widths[i] + gap;
  }
}

// In one row if it fits, otherwise in columns of equal width, or in rows where names are too long for two columns.
std::vector<LegendItem> lay_out_legend(const Plot& plot, double available) {
  constexpr double gap = 22;
  std::vector<LegendItem> items;
  std::vector<double> widths;
  double together = -gap;
  const auto add = [&](const std::string& name, std::size_t line) {
    items.push_back({together + gap, 0, shown_name(name), line});
    widths.push_back(legend_sample + text_width(items.back().text, legend_size));
    together += widths.back() + gap;
  };
  for (std::size_t i = 0; i < plot.lines.size(); ++i)
    if (!plot.lines[i].guide && !(plot.names_on_lines && plot.lines[i].name.empty())) add(plot.lines[i].name, i);
  for (std::size_t i = 0; i < plot.bands.size(); ++i)
    if (!plot.bands[i].name.empty()) add(plot.bands[i].name, plot.lines.size() + i);
  if (together <= available) return items;
  const double column = std::min(*std::max_element(widths.begin(), widths.end()) + gap, available);
  const auto per_row = static_cast<std::size_t>((available + gap) / column);
  if (per_row == 1) flow(items, widths, gap, available);
  if (per_row == 1) return items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].x = static_cast<double>(i % per_row) * column;
    items[i].row = static_cast<int>(i / per_row);
  }
  return items;
}

// The drawing area that labels, title and legend leave free.
Frame frame_of(const Plot& plot, const PlotView& view, int legend_rows) {
  double widest = 0;
  for (const Tick& tick : view.y.ticks) widest = std::max(widest, text_width(tick.label, tick_size));
  Frame frame;
  frame.left = std::ceil(widest) + (plot.y_label.empty() ? 26 : 44);
  frame.right = picture_width - 30;
  frame.top = (plot.title.empty() ? 22 : 54) + legend_row * legend_rows +
              note_row * static_cast<double>(note_lines(plot.note, picture_width - 2 * picture_margin).size());
  const double title_rows = static_cast<double>(title_lines(plot.title, picture_width - 2 * picture_margin).size());
  frame.top += title_row * std::max(0.0, title_rows - 1);
  frame.height += legend_row * std::max(0, legend_rows - 2);
  frame.bottom = frame.height - (plot.x_label.empty() ? 36 : 56);
  return frame;
}

std::optional<Layout> without_legend(const Plot& plot, const PlotView& view) {
  constexpr double widest_name = 190;
  const std::vector<Named> named = named_curves(plot, view);
  if (named.empty() || named.size() > most_named) return std::nullopt;
  double widest = 0;
  for (const Named& name : named) widest = std::max(widest, name_width(name.text));
  Layout layout{frame_of(plot, view, 0), {}, {}, {}};
  if (widest <= widest_name) {
    layout.frame.right = picture_width - picture_margin - 8 - std::ceil(widest);
    if (auto places = names_at_ends(named, scene_of(plot, view, layout.frame))) {
      layout.names = std::move(*places);
      return layout;
    }
    layout.frame = frame_of(plot, view, 0);
  }
  Scene scene = scene_of(plot, view, layout.frame);
  layout.guides = place_guides(plot, view, scene);
  auto places = names_along(named, scene);
  if (!places) return std::nullopt;
  layout.names = std::move(*places);
  return layout;
}

}  // namespace

std::vector<Style> styles_of(const std::vector<Line>& lines) {
  constexpr std::array shapes = {Shape::circle, Shape::square, Shape::triangle, Shape::diamond};
  const auto is_dense = [](const Line& line) { return line.points.size() > max_points && !line.dots && !line.guide; };
  const auto is_strong_and_dense = [&](const Line& line) { return is_dense(line) && !line.faint; };
  const bool averaged = std::count_if(lines.begin(), lines.end(), is_strong_and_dense) > 1;
  std::vector<Style> styles;
  std::size_t strong = 0;
  for (const Line& line : lines) {
    if (line.guide) {
      styles.push_back({.ink = Ink::guide, .dash = "4 3", .faint = true});
      continue;
    }
    Style style{.ink = series_ink(strong), .dash = "", .faint = line.faint, .dots = line.dots};
    style.dense = is_dense(line);
    style.averaged = style.dense && averaged;
    const bool few = line.points.size() <= max_marked && !line.faint;
    const bool marked = style.marked = line.dots || !line.tips.empty() || few;
    const std::size_t cycle = strong / series_count;
    if (marked) style.shape = shapes.at((strong + cycle) % shapes.size());
    if (!line.faint && (style.averaged || !style.dense))
      style.dash = dashes.at((marked ? cycle : strong % series_count + cycle) % dashes.size());
    styles.push_back(style);
    if (!line.faint) ++strong;
  }
  return styles;
}

Layout lay_out(const Plot& plot, const PlotView& view) {
  if (plot.names_on_lines) {
    if (std::optional<Layout> layout = without_legend(plot, view)) {
      if (layout->guides.empty()) {
        Scene scene = scene_of(plot, view, layout->frame);
        layout->guides = place_guides(plot, view, scene);
      }
      return *layout;
    }
  }
  Layout layout;
  layout.legend = lay_out_legend(plot, picture_width - 2 * picture_margin);
  layout.frame = frame_of(plot, view, layout.legend.empty() ? 0 : layout.legend.back().row + 1);
  Scene scene = scene_of(plot, view, layout.frame);
  layout.guides = place_guides(plot, view, scene);
  return layout;
}

}  // namespace rotary::cli
