// The SVG writer of line plots: title and note, legend, axes, curves, names of guides.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "apps/shared/displayable.h"
#include "drawing.h"
#include "plot.h"

namespace rotary::cli {

namespace {

using Points = std::vector<PlotPoint>;

constexpr double width = 800, margin = 20;
constexpr std::size_t max_marked = 32;  // lines of more points have no marks, unless the points have names
constexpr std::size_t longest_name = 48;

// ---- styles ----

struct Style {
  Ink ink = Ink::guide;
  std::string_view dash;
  bool faint = false;
  bool marked = false;    // every point has a mark
  bool dense = false;     // more than max_points
  bool averaged = false;  // one of several dense ones
  Shape shape = Shape::circle;
};

// Strong lines differ in colour, dashes and the shape of their marks; the first is solid and the others lie in front of
// it, so that two equal lines are both seen. A faint line has the colour of the next strong one.
std::vector<Style> styles_of(const std::vector<Line>& lines) {
  constexpr std::array<std::string_view, 4> dashes = {"", "8 3", "2.5 2.5", "10 3 2.5 3"};
  constexpr std::array shapes = {Shape::circle, Shape::square, Shape::triangle, Shape::diamond};
  const auto is_dense = [](const Line& line) { return line.points.size() > max_points && !line.dots && !line.guide; };
  const bool averaged =
      std::count_if(lines.begin(), lines.end(), [&](const Line& line) { return is_dense(line) && !line.faint; }) > 1;
  std::vector<Style> styles;
  std::size_t strong = 0;
  for (const Line& line : lines) {
    Style style{.ink = series_ink(strong), .dash = "", .faint = line.faint || line.guide};
    const std::size_t look = strong % series_count + strong / series_count;  // differs where the colour is used again
    style.dense = is_dense(line);
    style.averaged = style.dense && averaged;
    style.marked = line.dots || !line.names.empty() || line.points.size() == 1 ||
                   (line.points.size() <= max_marked && !line.faint);
    style.shape = shapes.at(look % shapes.size());
    if (!line.faint && (style.averaged || !style.dense)) style.dash = dashes.at(look % dashes.size());
    if (line.guide) style = {.ink = Ink::guide, .dash = "4 3", .faint = true};
    if (!style.faint) ++strong;
    styles.push_back(style);
  }
  return styles;
}

std::string stroke_of(const Style& style) {
  const bool thin = style.dense && !style.averaged;
  std::string text = paint(std::nullopt, style.ink) + " stroke-width=\"" +
                     (style.faint ? "1"
                      : thin      ? "1.25"
                                  : "2.25") +
                     "\"";
  if (style.faint) text += std::string(" stroke-opacity=\"") + (style.ink == Ink::guide ? "0.8" : "0.45") + "\"";
  return text + (style.dash.empty() ? "" : " stroke-dasharray=\"" + std::string(style.dash) + "\"");
}

// ---- where things stand, in pixels; y grows downwards ----

struct Frame {
  double left = 0, top = 0, right = width - 30, bottom = 0;

  PlotPoint at(const PlotPoint& fractions) const {
    return {left + fractions.x * (right - left), bottom - fractions.y * (bottom - top)};
  }
  Points at(const Points& fractions) const {
    Points points;
    for (const PlotPoint& point : fractions) points.push_back(at(point));
    return points;
  }
};

// An entry of the legend: of a line, or behind all lines of a band.
struct Entry {
  std::string name;
  std::size_t line = 0;  // its index in Plot::lines; from there on in Plot::bands
};

std::vector<Entry> entries_of(const Plot& plot) {
  std::vector<Entry> entries;
  const auto add = [&entries](const std::string& name, std::size_t line) {
    if (!name.empty()) entries.push_back({shorten_middle(displayable(name), longest_name), line});
  };
  for (std::size_t i = 0; i < plot.lines.size(); ++i)
    if (!plot.lines[i].guide) add(plot.lines[i].name, i);
  for (std::size_t i = 0; i < plot.bands.size(); ++i) add(plot.bands[i].name, plot.lines.size() + i);
  return entries;
}

// In columns of equal width, from `top` on, which becomes the height below.
std::string legend_elements(const Plot& plot, const std::vector<Style>& styles, double& top) {
  constexpr double stroke = 36, row = 20, size = 13;
  const std::vector<Entry> entries = entries_of(plot);
  if (entries.empty()) return "";
  double widest = 0;
  for (const Entry& entry : entries) widest = std::max(widest, stroke + 29 + text_width(entry.name, size));
  const auto per_row = static_cast<std::size_t>(std::max(1.0, (width - 2 * margin + 22) / widest));
  std::string text = "<g font-size=\"13\" " + paint(Ink::text) + ">\n";
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const double x = margin + static_cast<double>(i % per_row) * widest,
                 y = top + row * static_cast<double>(i / per_row);
    if (entries[i].line >= styles.size()) {
      text += "<rect x=\"" + pixels(x) + "\" y=\"" + pixels(y - 6) + "\" width=\"36\" height=\"12\" " +
              paint(styles.empty() ? Ink::guide : styles.front().ink) + " fill-opacity=\"0.16\"/>\n";
    } else {
      const Style& style = styles[entries[i].line];
      if (!plot.lines[entries[i].line].dots) text += line_element(x, y, x + stroke, y, stroke_of(style));
      if (style.marked) text += mark_element(style.shape, {x + stroke / 2, y}, 3.25, style.ink);
    }
    text += text_element(x + stroke + 7, y + 4.5, entries[i].name);
  }
  top += row * static_cast<double>((entries.size() - 1) / per_row + 1);
  return text + "</g>\n";
}

// Grid, tick labels, the line at the bottom, the labels of both axes.
std::string axes_elements(const Plot& plot, const PlotView& view, const Frame& frame) {
  std::string grid = "<g " + paint(std::nullopt, Ink::grid) + " stroke-width=\"1\">\n";
  std::string labels = "<g font-size=\"12\" " + paint(Ink::soft_text) + ">\n";
  for (const Tick& tick : view.y.ticks) {
    const double y = frame.at({0, view.y.at(tick.value)}).y;
    grid += line_element(frame.left, y, frame.right, y);
    labels += text_element(frame.left - 9, y + 4, tick.label, "text-anchor=\"end\"");
  }
  for (const Tick& tick : view.x.ticks) {
    const double x = frame.at({view.x.at(tick.value), 0}).x;
    grid += line_element(x, frame.top, x, frame.bottom);
    labels += text_element(x, frame.bottom + 19, tick.label, "text-anchor=\"middle\"");
  }
  grid += line_element(frame.left, frame.bottom, frame.right, frame.bottom, paint(std::nullopt, Ink::base));
  const std::string style = paint(Ink::text) + " font-size=\"13\" text-anchor=\"middle\"";
  const PlotPoint middle = frame.at({0.5, 0.5});
  std::string text = grid + "</g>\n" + labels + "</g>\n";
  if (!plot.x_label.empty())
    text += text_element(middle.x, frame.bottom + 43, fitted(plot.x_label, 13, width - 2 * margin), style);
  if (!plot.y_label.empty())
    text += text_element(24, middle.y, fitted(plot.y_label, 13, frame.bottom - frame.top),
                         style + " transform=\"rotate(-90 24 " + pixels(middle.y) + ")\"");
  return text + (view.empty() ? text_element(middle.x, middle.y, "no points", style) : "");
}

// ---- curves ----

// Of points that rise in x, each column of `column` pixels: the first, lowest, highest and last, or the mean.
Points thinned(const Points& points, double column, bool mean) {
  const auto falls = [](const PlotPoint& a, const PlotPoint& b) { return b.x < a.x; };
  if (points.size() <= max_points || std::adjacent_find(points.begin(), points.end(), falls) != points.end())
    return points;
  Points kept;
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

std::string list_of(const Points& points) {
  std::string list;
  for (const PlotPoint& point : points) list += (list.empty() ? "" : " ") + pixels(point.x) + "," + pixels(point.y);
  return list;
}

std::string curve_element(const Line& line, const Points& all, const Points& crosses, const Style& style) {
  std::string text = "<g>" + title_element(line.name) + "\n";
  const Points points = thinned(all, style.averaged ? 4 : 1, style.averaged);
  if (!line.dots && !points.empty())
    text += "<polyline points=\"" + list_of(points) + "\" fill=\"none\" " + stroke_of(style) +
            " stroke-linejoin=\"round\"/>\n";
  const bool named = line.names.size() == points.size();
  for (std::size_t i = 0; i < points.size() && (style.marked || named); ++i)
    text += mark_element(style.shape, points[i], points.size() > max_marked ? 2.25 : 3.25, style.ink,
                         named ? line.names[i] : "");
  for (const PlotPoint& at : crosses) {
    constexpr double arm = 5.5;
    const std::string left = pixels(at.x - arm), right = pixels(at.x + arm), up = pixels(at.y - arm),
                      down = pixels(at.y + arm);
    text += "<path d=\"M" + left + " " + up + "L" + right + " " + down + "M" + left + " " + down + "L" + right + " " +
            up + "\" fill=\"none\" " + paint(std::nullopt, style.ink) +
            " stroke-width=\"2.5\" stroke-linecap=\"round\"/>\n";
  }
  return text + "</g>\n";
}

// Both edges are thinned alike.
std::string band_element(const Band& band, const std::vector<BandPoint>& fractions, Ink ink, const Frame& frame) {
  Points lower, upper;
  for (const BandPoint& point : fractions) {
    lower.push_back(frame.at(PlotPoint{point.x, point.low}));
    upper.push_back(frame.at(PlotPoint{point.x, point.high}));
  }
  lower = thinned(lower, 1, false);
  std::reverse(lower.begin(), lower.end());
  return "<g>" + title_element(band.name) + "\n<polygon points=\"" + list_of(thinned(upper, 1, false)) + " " +
         list_of(lower) + "\" " + paint(ink) + " fill-opacity=\"0.16\"/>\n</g>\n";
}

// ---- guides: straight from the first to the last point, with their names at the right or above the upper end ----

// Names in the colour of the guides, with an edge in the colour of the paper, so that they stay legible on lines.
class GuideNames {
 public:
  GuideNames(const Frame& frame, int uprights) : frame_(frame), uprights_(uprights) {}

  void add(const std::string& name, const PlotPoint& a, const PlotPoint& b) {
    if (name.empty()) return;
    const std::string shown = shorten_middle(displayable(name), longest_name);
    if (std::abs(a.y - b.y) <=
        0.002 * (frame_.bottom - frame_.top)) {  // level: beside the name before where the two are close
      shift_ = std::abs(a.y - last_level_) < 14 ? shift_ + last_width_ + 14 : 0;
      last_level_ = a.y;
      last_width_ = 1.15 * text_width(shown, 11);
      put(frame_.right - 4 - shift_, a.y - 4, shown, true);
    } else {  // upright: above the frame, each a row below the name before
      const double x = (a.x + b.x) / 2, half = 0.58 * text_width(shown, 11);
      put(std::clamp(x, frame_.left + half, width - margin - half), frame_.top - 5 - 14 * --uprights_, shown, false);
    }
  }
  const std::string& text() const { return text_; }

 private:
  void put(double x, double y, const std::string& name, bool ends) {
    text_ += text_element(x, y, name,
                          paint(Ink::soft_text, Ink::paper) +
                              " font-size=\"11\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"" +
                              " text-anchor=\"" + (ends ? "end" : "middle") + "\"");
  }

  const Frame& frame_;
  double last_level_ = -1e9, last_width_ = 0, shift_ = 0;
  int uprights_;  // that have no name yet
  std::string text_;
};

int named_uprights(const Plot& plot, const PlotView& view) {
  int count = 0;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const bool named = plot.lines[i].guide && !plot.lines[i].name.empty() && !view.lines[i].empty();
    count += named && std::abs(view.lines[i].front().y - view.lines[i].back().y) > 0.002 ? 1 : 0;
  }
  return count;
}

// From back to front: bands, guides, faint lines, strong lines, names of guides.
std::string curve_elements(const Plot& plot, const PlotView& view, const std::vector<Style>& styles,
                           const Frame& frame) {
  std::string bands, guides, behind, front;
  GuideNames names(frame, named_uprights(plot, view));
  for (std::size_t i = 0; i < plot.bands.size(); ++i)
    if (!view.bands[i].empty())
      bands += band_element(plot.bands[i], view.bands[i], styles.empty() ? Ink::guide : styles.front().ink, frame);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const Points points = frame.at(view.lines[i]), crosses = frame.at(view.crosses[i]);
    if (points.empty() && crosses.empty()) continue;
    if (plot.lines[i].guide) {
      guides +=
          line_element(points.front().x, points.front().y, points.back().x, points.back().y, stroke_of(styles[i]));
      names.add(plot.lines[i].name, points.front(), points.back());
    } else {
      (plot.lines[i].faint ? behind : front) += curve_element(plot.lines[i], points, crosses, styles[i]);
    }
  }
  return bands + guides + behind + front + names.text();
}

}  // namespace

std::string svg(const Plot& plot) {
  std::string note = plot.note, lost;
  for (const std::string& text : lost_texts(plot)) lost += (lost.empty() ? "\u00d7 NaN or infinite: " : ", ") + text;
  if (!lost.empty()) note += (note.empty() ? "" : "; ") + lost;
  const PlotView view = view_of(plot, plot.log_x ? 7 : 9, 8);
  const std::vector<Style> styles = styles_of(plot.lines);
  std::string heading;
  const double begin = heading_elements(heading, plot.title, note, width) + 22;
  double below = begin;
  const std::string legend = legend_elements(plot, styles, below);
  double widest = 0;
  for (const Tick& tick : view.y.ticks) widest = std::max(widest, text_width(tick.label, 12));
  Frame frame;
  frame.left = std::ceil(widest) + (plot.y_label.empty() ? 26 : 44);
  frame.top = below + 14 * named_uprights(plot, view);
  const double height = 500 + std::max(0.0, below - begin - 40);
  frame.bottom = height - (plot.x_label.empty() ? 36 : 56);
  return document_start(width, height, plot.title) + heading + legend + axes_elements(plot, view, frame) +
         curve_elements(plot, view, styles, frame) + "</svg>\n";
}

}  // namespace rotary::cli
