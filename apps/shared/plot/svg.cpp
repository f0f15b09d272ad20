// Line plots as SVG: title and note, legend, axes, curves, guides with their names.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "apps/shared/displayable.h"
#include "axis.h"
#include "drawing.h"
#include "plot.h"

namespace rotary::cli {

namespace {

constexpr std::size_t max_marked = 32;  // lines of more points have no marks, unless the points have names
constexpr std::size_t longest_name = 48;
constexpr const char* see_through = " fill-opacity=\"0.16\"";

// ---- styles ----

struct Style {
  Ink ink = Ink::guide;
  std::string_view dash;
  bool faint = false;
  bool joined = true;     // by a line
  bool marked = false;    // every point has a mark
  bool dense = false;     // more than max_points
  bool averaged = false;  // one of several dense ones
};

// Strong lines differ in colour and dashes; the first is solid and the others lie in front of it, so that two equal
// lines are both seen. A faint line has the colour of the next strong one.
std::vector<Style> styles_of(const std::vector<Line>& lines) {
  constexpr std::array<std::string_view, 4> dashes = {"", "8 3", "2.5 2.5", "10 3 2.5 3"};
  const auto is_dense = [](const Line& line) { return line.points.size() > max_points && !line.dots && !line.guide; };
  const bool averaged =
      std::count_if(lines.begin(), lines.end(), [&](const Line& line) { return is_dense(line) && !line.faint; }) > 1;
  std::vector<Style> styles;
  std::size_t strong = 0;
  for (const Line& line : lines) {
    Style style{.ink = series_ink(strong), .dash = "", .faint = line.faint || line.guide, .joined = !line.dots};
    const std::size_t look = strong % series_count + strong / series_count;  // differs where the colour is used again
    style.dense = is_dense(line);
    style.averaged = style.dense && averaged;
    style.marked = line.dots || !line.names.empty() || line.points.size() == 1 ||
                   (line.points.size() <= max_marked && !line.faint);
    if (!line.faint && (style.averaged || !style.dense)) style.dash = dashes.at(look % dashes.size());
    if (line.guide) style = {.ink = Ink::guide, .dash = "4 3", .faint = true};
    if (!style.faint) ++strong;
    styles.push_back(style);
  }
  return styles;
}

std::string stroke_of(const Style& style) {
  const bool thin = style.dense && !style.averaged;
  std::string text = paint(std::nullopt, style.ink) + " stroke-width=\"";
  text += style.faint ? "1" : thin ? "1.25" : "2.25";
  if (style.faint) text += std::string("\" stroke-opacity=\"") + (style.ink == Ink::guide ? "0.8" : "0.45");
  return text + "\"" + (style.dash.empty() ? "" : " stroke-dasharray=\"" + std::string(style.dash) + "\"");
}

std::string mark_element(const PlotPoint& at, double radius, Ink ink, const std::string& tip = "") {
  return element("circle", {{"cx", at.x}, {"cy", at.y}, {"r", radius}},
                 paint(ink, Ink::paper) + (radius < 3 ? " stroke-width=\"0.5\"" : " stroke-width=\"1\""),
                 title_element(tip));
}

// ---- the frame of the drawing area, in pixels; y grows downwards ----

struct Frame {
  double left = 0, top = 0, right = picture_width - 30, bottom = 0;

  PlotPoints at(PlotPoints fractions) const {
    for (PlotPoint& point : fractions) point = {left + point.x * (right - left), bottom - point.y * (bottom - top)};
    return fractions;
  }
};

// In columns of equal width, from `top` on, which becomes the height below.
std::string legend_elements(const Plot& plot, const std::vector<Style>& styles, double& top) {
  constexpr double sample = 36, row = 20, size = 13;
  std::vector<std::pair<std::string, const Style*>> entries;  // a band has no style
  for (std::size_t i = 0; i < plot.lines.size(); ++i)
    if (!plot.lines[i].guide) entries.emplace_back(plot.lines[i].name, &styles[i]);
  for (const Band& band : plot.bands) entries.emplace_back(band.name, nullptr);
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  if (entries.empty()) return "";
  double widest = 0;
  for (auto& [name, style] : entries) {
    name = shorten_middle(displayable(name), longest_name);
    widest = std::max(widest, sample + 29 + text_width(name, size));
  }
  const auto per_row = static_cast<std::size_t>(std::max(1.0, (picture_width - 2 * picture_margin + 22) / widest));
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [name, style] = entries[i];
    const double x = picture_margin + static_cast<double>(i % per_row) * widest;
    const double y = top + row * static_cast<double>(i / per_row);
    if (style == nullptr) {
      text += element("rect", {{"x", x}, {"y", y - 6}, {"width", sample}, {"height", 12}},
                      paint(styles.empty() ? Ink::guide : styles.front().ink) + see_through);
    } else {
      if (style->joined) text += line_element(x, y, x + sample, y, stroke_of(*style));
      if (style->marked) text += mark_element({x + sample / 2, y}, 3.25, style->ink);
    }
    text += text_element(x + sample + 7, y + 4.5, name);
  }
  top += row * static_cast<double>((entries.size() - 1) / per_row + 1);
  return "<g font-size=\"13\" " + paint(Ink::text) + ">\n" + text + "</g>\n";
}

// Grid, tick labels, the line at the bottom, the labels of both axes.
std::string axes_elements(const Plot& plot, const PlotAxes& axes, const Frame& frame) {
  std::string grid, labels;
  for (const Tick& tick : axes.y.ticks) {
    const double y = frame.bottom - axes.y.at(tick.value) * (frame.bottom - frame.top);
    grid += line_element(frame.left, y, frame.right, y);
    labels += text_element(frame.left - 9, y + 4, tick.label, "text-anchor=\"end\"");
  }
  for (const Tick& tick : axes.x.ticks) {
    const double x = frame.left + axes.x.at(tick.value) * (frame.right - frame.left);
    grid += line_element(x, frame.top, x, frame.bottom);
    labels += text_element(x, frame.bottom + 19, tick.label, "text-anchor=\"middle\"");
  }
  grid += line_element(frame.left, frame.bottom, frame.right, frame.bottom, paint(std::nullopt, Ink::base));
  return "<g " + paint(std::nullopt, Ink::grid) + " stroke-width=\"1\">\n" + grid + "</g>\n<g font-size=\"12\" " +
         paint(Ink::soft_text) + ">\n" + labels + "</g>\n" +
         axis_labels(plot.x_label, plot.y_label, frame.left, frame.top, frame.right, frame.bottom);
}

// ---- curves ----

// Of points that rise in x, each column of `column` pixels: the first, lowest, highest and last, or the mean.
PlotPoints thinned(const PlotPoints& points, double column, bool mean) {
  const auto falls = [](const PlotPoint& a, const PlotPoint& b) { return b.x < a.x; };
  if (points.size() <= max_points || std::adjacent_find(points.begin(), points.end(), falls) != points.end())
    return points;
  PlotPoints kept;
  for (auto begin = points.begin(); begin != points.end();) {
    const double next = (std::floor(begin->x / column) + 1) * column;
    const auto end = std::find_if(begin, points.end(), [next](const PlotPoint& point) { return point.x >= next; });
    if (mean) {
      PlotPoint sum;
      for (auto point = begin; point != end; ++point) sum = {sum.x + point->x, sum.y + point->y};
      const auto count = static_cast<double>(end - begin);
      kept.push_back({sum.x / count, sum.y / count});
    } else {
      const auto less = [](const PlotPoint& a, const PlotPoint& b) { return a.y < b.y; };
      const auto [low, high] = std::minmax_element(begin, end, less);
      std::array chosen = {begin, low, high, end - 1};
      std::sort(chosen.begin(), chosen.end());
      for (std::size_t i = 0; i < chosen.size(); ++i)
        if (i == 0 || chosen[i] != chosen[i - 1]) kept.push_back(*chosen[i]);
    }
    begin = end;
  }
  return kept;
}

// `<name points="x,y x,y ..." more/>`
std::string path_element(const char* name, const PlotPoints& points, const std::string& more) {
  std::string list;
  for (const PlotPoint& point : points) list += (list.empty() ? "" : " ") + pixels(point.x) + "," + pixels(point.y);
  return element(name, {}, "points=\"" + list + "\" " + more);
}

std::string group(const std::string& name, const std::string& elements) {
  return "<g>" + title_element(name) + "\n" + elements + "</g>\n";
}

std::string curve_element(const Line& line, const PlotPoints& all, const PlotPoints& crosses, const Style& style) {
  const PlotPoints points = thinned(all, style.averaged ? 4 : 1, style.averaged);
  const bool named = line.names.size() == points.size();
  std::string text;
  if (style.joined && !points.empty())
    text += path_element("polyline", points, "fill=\"none\" " + stroke_of(style) + " stroke-linejoin=\"round\"");
  for (std::size_t i = 0; i < points.size() && (style.marked || named); ++i)
    text += mark_element(points[i], points.size() > max_marked ? 2.25 : 3.25, style.ink, named ? line.names[i] : "");
  for (const auto& [x, y] : crosses) {
    constexpr double arm = 5.5;
    const std::string look = paint(std::nullopt, style.ink) + " stroke-width=\"2.5\" stroke-linecap=\"round\"";
    text +=
        line_element(x - arm, y - arm, x + arm, y + arm, look) + line_element(x - arm, y + arm, x + arm, y - arm, look);
  }
  return group(line.name, text);
}

// Both edges are thinned alike.
std::string band_element(const Band& band, const PlotAxes& axes, const Frame& frame, Ink ink) {
  const auto [low, high] = edges_of(band, axes);
  PlotPoints outline = thinned(frame.at(high), 1, false);
  const PlotPoints lower = thinned(frame.at(low), 1, false);
  outline.insert(outline.end(), lower.rbegin(), lower.rend());
  return outline.empty() ? "" : group(band.name, path_element("polygon", outline, paint(ink) + see_through));
}

// ---- guides: straight from the first to the last point ----

bool is_upright(const Line& guide) { return guide.points.front().first == guide.points.back().first; }

// Their names: at the right end of a level one, beside the name before where the two are close; above the frame for an
// upright one, each a row below the name before.
class GuideNames {
 public:
  // uprights: how many upright guides have a name.
  GuideNames(const Frame& frame, int uprights) : frame_(frame), uprights_(uprights) {}

  // at: a point of the guide.
  std::string element(const Line& guide, const PlotPoint& at) {
    const std::string name = shorten_middle(displayable(guide.name), longest_name);
    const double wide = text_width(name, 11);
    if (is_upright(guide)) {
      const double x = std::clamp(at.x, frame_.left + wide / 2, picture_width - picture_margin - wide / 2);
      return element(x, frame_.top - 5 - 14 * --uprights_, name, "middle");
    }
    shift_ = std::abs(at.y - level_) < 14 ? shift_ + wide_ + 14 : 0;
    level_ = at.y;
    wide_ = wide;
    return element(frame_.right - 4 - shift_, at.y - 4, name, "end");
  }

 private:
  // With an edge in the colour of the paper, so that it stays legible on lines.
  static std::string element(double x, double y, const std::string& name, const char* anchor) {
    return text_element(x, y, name,
                        paint(Ink::soft_text, Ink::paper) +
                            " font-size=\"11\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"" +
                            " text-anchor=\"" + anchor + "\"");
  }

  const Frame& frame_;
  int uprights_;
  double level_ = -1e9, wide_ = 0, shift_ = 0;  // of the name of the last level guide
};

// From back to front: bands, guides, faint lines, strong lines, names of guides.
std::string curve_elements(const Plot& plot, const PlotAxes& axes, const std::vector<Style>& styles, const Frame& frame,
                           int uprights) {
  std::string bands, guides, behind, front, names;
  GuideNames guide_names(frame, uprights);
  for (const Band& band : plot.bands)
    bands += band_element(band, axes, frame, styles.empty() ? Ink::guide : styles.front().ink);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const Line& line = plot.lines[i];
    const PlotPoints points = frame.at(axes.shown(line.points)), crosses = frame.at(axes.shown(crosses_of(line)));
    if (points.empty()) continue;
    if (line.guide) {
      const PlotPoint &a = points.front(), &b = points.back();
      guides += line_element(a.x, a.y, b.x, b.y, stroke_of(styles[i]));
      if (!line.name.empty()) names += guide_names.element(line, a);
    } else {
      (line.faint ? behind : front) += curve_element(line, points, crosses, styles[i]);
    }
  }
  const std::string curves = bands + guides + behind + front + names;
  if (!curves.empty()) return curves;
  return text_element((frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2, "no points",
                      paint(Ink::text) + " font-size=\"13\" text-anchor=\"middle\"");
}

}  // namespace

std::string svg(const Plot& plot) {
  std::string note = plot.note, lost;
  for (const std::string& text : lost_texts(plot)) lost += (lost.empty() ? "\u00d7 NaN or infinite: " : ", ") + text;
  if (!lost.empty()) note += (note.empty() ? "" : "; ") + lost;
  const PlotAxes axes = axes_of(plot, plot.log_x ? 7 : 9, 8);
  const std::vector<Style> styles = styles_of(plot.lines);
  std::string elements;
  const double begin = add_heading(elements, plot.title, note) + 22;
  double below = begin;
  elements += legend_elements(plot, styles, below);
  const auto has_upright_name = [](const Line& line) { return line.guide && !line.name.empty() && is_upright(line); };
  const auto uprights = static_cast<int>(std::count_if(plot.lines.begin(), plot.lines.end(), has_upright_name));
  double widest = 0;
  for (const Tick& tick : axes.y.ticks) widest = std::max(widest, text_width(tick.label, 12));
  Frame frame;
  frame.left = std::ceil(widest) + (plot.y_label.empty() ? 26 : 44);
  frame.top = below + 14 * uprights;
  const double height = 500 + std::max(0.0, below - begin - 40);
  frame.bottom = height - (plot.x_label.empty() ? 36 : 56);
  elements += axes_elements(plot, axes, frame) + curve_elements(plot, axes, styles, frame, uprights);
  return document(height, plot.title, elements);
}

}  // namespace rotary::cli
