// The SVG writer of line plots.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "apps/shared/displayable.h"
#include "coinciding.h"
#include "layout.h"
#include "many_points.h"
#include "plot.h"

namespace rotary::cli {

namespace {

std::string stroke_of(const Style& style) {
  std::string text = paint(std::nullopt, style.ink) + " stroke-width=\"" +
                     (style.faint                      ? "1"
                      : style.dense && !style.averaged ? "1.25"
                                                       : "2.25") +
                     "\"";
  if (style.faint) text += std::string(" stroke-opacity=\"") + (style.ink == Ink::guide ? "0.8" : "0.45") + "\"";
  if (!style.dash.empty()) text += " stroke-dasharray=\"" + std::string(style.dash) + "\"";
  return text;
}

// Grid, tick labels, the line at the bottom.
std::string axes_elements(const PlotView& view, const Frame& frame) {
  std::string grid = "<g " + paint(std::nullopt, Ink::grid) + " stroke-width=\"1\">\n";
  std::string labels = "<g font-size=\"" + pixels(tick_size) + "\" " + paint(Ink::soft_text) + ">\n";
  for (const Tick& tick : view.y.ticks) {
    const double y = frame.y(view.y.at(tick.value));
    grid += line_element(frame.left, y, frame.right, y);
    labels += text_element(frame.left - 9, y + 4, tick.label, "text-anchor=\"end\"");
  }
  for (const Tick& tick : view.x.ticks) {
    const double x = frame.x(view.x.at(tick.value));
    grid += line_element(x, frame.top, x, frame.bottom);
    labels += text_element(x, frame.bottom + 19, tick.label, "text-anchor=\"middle\"");
  }
  const std::string base =
      line_element(frame.left, frame.bottom, frame.right, frame.bottom, paint(std::nullopt, Ink::base));
  return grid + base + "</g>\n" + labels + "</g>\n";
}

// Dots with their names as tooltips, which a plot of few dots shows next to them too (name_elements).
std::string dots_element(const Line& line, const std::vector<PlotPoint>& fractions, const Style& style,
                         const Frame& frame) {
  std::string dots = "<g>" + title_element(line.name) + "\n";
  for (std::size_t i = 0; i < fractions.size(); ++i)
    dots += mark_element(style.shape, frame.at(fractions[i]), 3.25, style.ink, line.names[i]);
  return dots + "</g>\n";
}

bool has_names(const Line& line, const std::vector<PlotPoint>& fractions) {
  return line.dots && !line.names.empty() && line.names.size() == fractions.size();
}

// Text that stays legible where lines pass below it: it has an edge in the colour of the paper.
std::string edged_text(const NamePlace& name, Ink ink, double size, std::string more = "") {
  if (name.ends) more += " text-anchor=\"end\"";
  if (name.upwards)
    more += " text-anchor=\"middle\" transform=\"rotate(-90 " + pixels(name.x) + " " + pixels(name.y) + ")\"";
  return text_element(name.x, name.y, name.text,
                      paint(ink, Ink::paper) + " font-size=\"" + pixels(size) +
                          "\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"" + more);
}

// The names of all dots, beside their dots or, where another name is, as far below as needed; none where they are many.
std::string name_elements(const Plot& plot, const PlotView& view, const std::vector<Style>& styles,
                          const Frame& frame) {
  constexpr std::size_t most = 24;
  constexpr double size = 10, row = 12;
  struct Named {
    PlotPoint dot;
    std::string text;
    Ink ink = Ink::text;
  };
  std::vector<Named> all;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    if (!has_names(plot.lines[i], view.lines[i])) continue;
    for (std::size_t j = 0; j < view.lines[i].size(); ++j)
      all.push_back(
          {frame.at(view.lines[i][j]), shorten(displayable(plot.lines[i].names[j]), longest_name), styles[i].ink});
  }
  if (all.empty() || all.size() > most) return "";
  std::sort(all.begin(), all.end(), [](const Named& a, const Named& b) { return a.dot.y < b.dot.y; });
  std::vector<Box> taken;
  std::string text;
  for (const Named& named : all) {
    const double length = 1.15 * text_width(named.text, size);  // some fonts are wide
    const bool before = named.dot.x + 7 + length > frame.right;
    Box box{before ? named.dot.x - 7 - length : named.dot.x + 7, named.dot.y - row / 2, 0, named.dot.y + row / 2};
    box.right = box.left + length;
    while (std::any_of(taken.begin(), taken.end(), [&box](const Box& other) { return overlap(box, other); })) {
      box.top += 1;
      box.bottom += 1;
    }
    taken.push_back(box);
    text += edged_text({box.left, box.top + row - 2.5, named.text, 0}, named.ink, size);
  }
  return text;
}

std::string marks_of(const Line& line, const std::vector<PlotPoint>& points, const Style& style) {
  const bool tipped = line.tips.size() == points.size() && !line.tips.empty();
  const bool dotted = style.dots || tipped || points.size() == 1 || (points.size() <= max_marked && !style.faint);
  if (!dotted) return "";
  std::string marks;
  for (std::size_t i = 0; i < points.size(); ++i) {
    marks += mark_element(style.shape, points[i], points.size() > max_marked ? 2.25 : 3.25, style.ink,
                          tipped ? line.tips[i] : "");
  }
  return marks;
}

// Between two edges that run alike.
std::string area_element(std::vector<PlotPoint> lower, const std::vector<PlotPoint>& upper, Ink ink,
                         const char* opacity) {
  std::reverse(lower.begin(), lower.end());
  std::string path;
  for (const auto* edge : {&upper, static_cast<const std::vector<PlotPoint>*>(&lower)})
    for (const PlotPoint& point : *edge) path += (path.empty() ? "M" : "L") + pixels(point.x) + " " + pixels(point.y);
  return "<path d=\"" + path + "z\" " + paint(ink) + " fill-opacity=\"" + opacity + "\"/>\n";
}

// Of a line that is averaged the mean, before the range; of a faint one the upper end.
std::string curve_element(const Line& line, const std::vector<PlotPoint>& fractions, const Style& style,
                          const Frame& frame) {
  if (fractions.empty()) return "";
  std::vector<PlotPoint> points;
  for (const PlotPoint& point : fractions) points.push_back(frame.at(point));
  std::string begin = "<g><title>" + escaped(line.name) + "</title>\n";
  if (style.averaged) {
    const Ranges ranges = ranges_of(points);
    points = style.faint ? ranges.upper : ranges.mean;
    if (!style.faint) begin += area_element(ranges.lower, ranges.upper, style.ink, "0.22");
  }
  points = thinned(points);
  std::string list;
  for (const PlotPoint& point : points) list += (list.empty() ? "" : " ") + pixels(point.x) + "," + pixels(point.y);
  const std::string marks = marks_of(line, points, style);
  if (style.dots) return begin + marks + "</g>\n";
  return begin + "<polyline points=\"" + list + "\" fill=\"none\" " + stroke_of(style) +
         " stroke-linejoin=\"round\" stroke-linecap=\"" + (style.dash.empty() ? "round" : "butt") + "\"/>\n" + marks +
         "</g>\n";
}

std::string cross_elements(const std::vector<PlotPoint>& fractions, const Style& style, const Frame& frame) {
  constexpr double arm = 5.5;
  std::string crosses;
  for (const PlotPoint& fraction : fractions) {
    const PlotPoint at = frame.at(fraction);
    const auto stroke = [&](double x, double y) {
      return "M" + pixels(at.x - x) + " " + pixels(at.y - y) + "L" + pixels(at.x + x) + " " + pixels(at.y + y);
    };
    crosses += "<path d=\"" + stroke(arm, arm) + stroke(arm, -arm) + "\" fill=\"none\" " +
               paint(std::nullopt, style.ink) + " stroke-width=\"2.5\" stroke-linecap=\"round\"/>\n";
  }
  return crosses;
}

// The edges are thinned like lines, so that both have the same columns of pixels.
std::string band_element(const Band& band, const std::vector<BandPoint>& fractions, const Style& style,
                         const Frame& frame) {
  if (fractions.empty()) return "";
  std::vector<PlotPoint> lower, upper;
  for (const BandPoint& point : fractions) {
    lower.push_back(frame.at({point.x, point.low}));
    upper.push_back(frame.at({point.x, point.high}));
  }
  return "<g>" + title_element(band.name) + "\n" + area_element(thinned(lower), thinned(upper), style.ink, "0.16") +
         "</g>\n";
}

// A straight line from its first to its last point.
std::string guide_element(const std::vector<PlotPoint>& fractions, const Style& style, const Frame& frame) {
  if (fractions.empty()) return "";
  return line_element(frame.x(fractions.front().x), frame.y(fractions.front().y), frame.x(fractions.back().x),
                      frame.y(fractions.back().y), stroke_of(style));
}

// Drawn from back to front: bands, guides, faint lines, strong lines, names.
std::string curve_elements(const Plot& plot, const PlotView& view, const std::vector<Style>& styles,
                           const Layout& layout) {
  const Frame& frame = layout.frame;
  std::string bands, behind, front, guides, names;
  for (std::size_t i = plot.bands.size(); i-- > 0;)
    bands += band_element(plot.bands[i], view.bands[i], styles.empty() ? Style{} : styles.front(), frame);
  for (const std::size_t i : drawing_order(plot.lines)) {
    const Line& line = plot.lines[i];
    if (line.guide) {
      guides += guide_element(view.lines[i], styles[i], frame);
      continue;
    }
    (line.faint ? behind : front) += has_names(line, view.lines[i])
                                         ? dots_element(line, view.lines[i], styles[i], frame)
                                         : curve_element(line, view.lines[i], styles[i], frame);
  }
  for (std::size_t i = 0; i < plot.lines.size(); ++i) front += cross_elements(view.crosses[i], styles[i], frame);
  for (const NamePlace& name : layout.guides) names += edged_text(name, Ink::soft_text, guide_size);
  for (const NamePlace& name : layout.names) {
    const bool of_line = name.line < styles.size();
    names += edged_text(name, of_line ? styles[name.line].ink : Ink::soft_text, name_size,
                        of_line && !styles[name.line].faint ? " font-weight=\"bold\"" : "");
  }
  return bands + guides + behind + front + names + name_elements(plot, view, styles, frame);
}

std::string legend_elements(const std::vector<LegendItem>& items, const std::vector<Style>& styles, double left,
                            double top) {
  constexpr double radius = 3.25;
  std::string text = "<g font-size=\"13\" " + paint(Ink::text) + ">\n";
  for (const LegendItem& item : items) {
    const double x = left + item.x;
    const double y = top + legend_row * item.row;
    if (item.line >= styles.size()) {
      text += "<rect x=\"" + pixels(x) + "\" y=\"" + pixels(y - 6) + "\" width=\"" + pixels(legend_stroke) +
              "\" height=\"12\" " + paint(styles.empty() ? Ink::guide : styles.front().ink) +
              " fill-opacity=\"0.16\"/>\n";
    } else {
      const Style& style = styles[item.line];
      if (!style.dots) text += line_element(x, y, x + legend_stroke, y, stroke_of(style));
      if (style.marked) text += mark_element(style.shape, {x + legend_stroke / 2, y}, radius, style.ink);
    }
    text += text_element(x + legend_sample, y + 4.5, item.text);
  }
  return text + "</g>\n";
}

PlotView view_for_svg(const Plot& plot) { return view_of(plot, plot.log_x ? 7 : 9, 8); }

// With more room on the axis whose units are longer, so that a circle is round.
Plot scaled_alike(Plot plot) {
  plot.same_scale = false;
  const PlotView view = view_for_svg(plot);
  const Frame frame = lay_out(plot, view).frame;
  const double per_x = (view.x.high - view.x.low) / (frame.right - frame.left);
  const double per_y = (view.y.high - view.y.low) / (frame.bottom - frame.top);
  const auto widen = [](std::vector<double>& holds, const Axis& axis, double factor) {
    const double middle = (axis.low + axis.high) / 2, half = (axis.high - axis.low) / 2 * factor;
    holds.insert(holds.end(), {middle - half, middle + half});
  };
  if (per_x < per_y) widen(plot.x_holds, view.x, per_y / per_x);
  if (per_y < per_x) widen(plot.y_holds, view.y, per_x / per_y / 1.08);  // the axis is padded
  return plot;
}

}  // namespace

std::string svg(const Plot& given) {
  if (given.same_scale) return svg(scaled_alike(given));
  Plot plot = with_equal_lines_joined(given);
  std::string lost;
  for (const std::string& text : lost_texts(plot)) lost += (lost.empty() ? "\u00d7 NaN or infinite: " : ", ") + text;
  if (!lost.empty()) plot.note += (plot.note.empty() ? "" : "; ") + lost;
  const PlotView view = view_for_svg(plot);
  const std::vector<Style> styles = styles_of(plot.lines);
  const Layout layout = lay_out(plot, view);
  const Frame& frame = layout.frame;
  std::string text = document_start(picture_width, frame.height, plot.title);
  const double heading = heading_elements(text, plot.title, plot.note, picture_width);
  if (!layout.legend.empty())
    text += legend_elements(layout.legend, styles, picture_margin,
                            plot.title.empty() && plot.note.empty() ? 20 : heading + 22);
  text += axes_elements(view, frame);
  const std::string label_style = paint(Ink::text) + " font-size=\"13\" text-anchor=\"middle\"";
  const double middle_x = (frame.left + frame.right) / 2;
  const double middle_y = (frame.top + frame.bottom) / 2;
  if (!plot.x_label.empty()) {
    text += text_element(middle_x, frame.bottom + 43, fitted(plot.x_label, 13, picture_width - 2 * picture_margin),
                         label_style);
  }
  if (!plot.y_label.empty()) {
    text += text_element(24, middle_y, fitted(plot.y_label, 13, frame.bottom - frame.top),
                         label_style + " transform=\"rotate(-90 24 " + pixels(middle_y) + ")\"");
  }
  if (view.empty()) text += text_element(middle_x, middle_y, "no points", label_style);
  return text + curve_elements(plot, view, styles, layout) + "</svg>\n";
}

}  // namespace rotary::cli
