// The SVG writer: presentation attributes only, so that every viewer shows the same.
#include "plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "apps/shared/displayable.h"
#include "axis.h"
#include "values/number_text.h"

namespace rotary::cli {

namespace {

constexpr double width = 800;
constexpr double least_height = 500;
constexpr double tick_size = 12;  // of the letters, in pixels
constexpr double legend_size = 13;
constexpr double legend_row = 20;
constexpr double legend_sample = 29;      // the stroke and the gap behind it
constexpr std::size_t longest_name = 48;  // columns

// The palette of Okabe and Ito, safe for colour-blind readers, without its yellow, which is too pale on white.
constexpr std::array<std::string_view, 7> colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                     "#e69f00", "#56b4e9", "#333333"};
constexpr std::array<std::string_view, 4> dashes = {"", "7 3", "2 3", "9 3 2 3"};  // for lines after the last colour

struct Style {
  std::string_view colour;
  std::string_view dash;
  bool faint = false;
  bool dots = false;
};

struct LegendItem {
  double x = 0;  // of the sample, from the left edge of the legend
  int row = 0;
  std::string text;
  std::size_t line = 0;  // its index in Plot::lines
};

// Everything in pixels; y grows downwards.
struct Frame {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  double height = least_height;

  double x(double fraction) const { return left + fraction * (right - left); }
  double y(double fraction) const { return bottom - fraction * (bottom - top); }
};

// At most two decimals, without trailing zeros: "12.5".
std::string pixels(double value) {
  std::string text = detail::fixed(value, 2);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char character : displayable(text)) {
    switch (character) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&apos;";
        break;
      default:
        result += character;
    }
  }
  return result;
}

// Estimated width in a sans-serif font; too wide rather than too narrow.
double text_width(std::string_view text, double size) {
  constexpr std::string_view narrow = "iljtfrI.,:;'|!()[] ";
  double sum = 0;
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t code = next_character(text);
    const std::string_view bytes = before.substr(0, before.size() - text.size());
    if (columns(bytes) != 1) {
      sum += static_cast<double>(columns(bytes)) / 2;
    } else if (code < 0x80 && narrow.find(bytes) != std::string_view::npos) {
      sum += 0.34;
    } else if (code == 'm' || code == 'w' || code == '@' || code == '%' || (code >= 'A' && code <= 'Z')) {
      sum += code == 'M' || code == 'W' || code == '@' ? 1 : 0.8;
    } else {
      sum += 0.58;
    }
  }
  return sum * size;
}

// A faint line has the colour of the next strong one.
std::vector<Style> styles_of(const std::vector<Line>& lines) {
  std::vector<Style> styles;
  std::size_t strong = 0;
  for (const Line& line : lines) {
    if (line.guide) {
      styles.push_back({"#777777", "4 3", true, false});
      continue;
    }
    const std::size_t cycle = strong / colours.size();
    styles.push_back({colours[strong % colours.size()], dashes[cycle % dashes.size()], line.faint, line.dots});
    if (!line.faint) ++strong;
  }
  return styles;
}

// In one row if it fits, otherwise in columns of equal width.
std::vector<LegendItem> lay_out_legend(const std::vector<Line>& lines, double available) {
  constexpr double gap = 22;
  std::vector<LegendItem> items;
  std::vector<double> widths;
  double together = -gap;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].guide) continue;
    items.push_back({together + gap, 0, shorten(displayable(lines[i].name), longest_name), i});
    widths.push_back(legend_sample + text_width(items.back().text, legend_size));
    together += widths.back() + gap;
  }
  if (together <= available) return items;
  const double column = std::min(*std::max_element(widths.begin(), widths.end()) + gap, available);
  const auto per_row = static_cast<std::size_t>((available + gap) / column);
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].x = static_cast<double>(i % per_row) * column;
    items[i].row = static_cast<int>(i / per_row);
  }
  return items;
}

std::string stroke_of(const Style& style) {
  std::string text =
      "stroke=\"" + std::string(style.colour) + "\" stroke-width=\"" + (style.faint ? "1" : "2.25") + "\"";
  if (style.faint) text += " stroke-opacity=\"0.4\"";
  if (!style.dash.empty()) text += " stroke-dasharray=\"" + std::string(style.dash) + "\"";
  return text;
}

std::string line_element(double x1, double y1, double x2, double y2, const std::string& attributes = "") {
  return "<line x1=\"" + pixels(x1) + "\" y1=\"" + pixels(y1) + "\" x2=\"" + pixels(x2) + "\" y2=\"" + pixels(y2) +
         "\"" + (attributes.empty() ? "" : " " + attributes) + "/>\n";
}

// text must be displayable.
std::string text_element(double x, double y, std::string_view text, const std::string& attributes = "") {
  return "<text x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\"" + (attributes.empty() ? "" : " " + attributes) + ">" +
         escaped(text) + "</text>\n";
}

// Grid, tick labels, the line at the bottom.
std::string axes_elements(const PlotView& view, const Frame& frame) {
  std::string grid = "<g stroke=\"#e5e5e5\" stroke-width=\"1\">\n";
  std::string labels = "<g font-size=\"" + pixels(tick_size) + "\" fill=\"#555555\">\n";
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
  const std::string base = line_element(frame.left, frame.bottom, frame.right, frame.bottom, "stroke=\"#888888\"");
  return grid + base + "</g>\n" + labels + "</g>\n";
}

// Leaves out points that cannot be seen: of many points in one column of pixels the first, lowest, highest and last are
// kept. Lines whose x decreases are kept whole. points are in pixels.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points) {
  constexpr std::size_t few = 2000;
  const auto falls = [](const PlotPoint& a, const PlotPoint& b) { return b.x < a.x; };
  if (points.size() <= few || std::adjacent_find(points.begin(), points.end(), falls) != points.end()) return points;
  std::vector<PlotPoint> kept;
  for (auto begin = points.begin(); begin != points.end();) {
    const double column = std::floor(begin->x);
    const auto end = std::find_if(begin, points.end(), [column](const PlotPoint& p) { return p.x >= column + 1; });
    const auto [low, high] =
        std::minmax_element(begin, end, [](const PlotPoint& a, const PlotPoint& b) { return a.y < b.y; });
    std::array chosen = {begin, low, high, end - 1};
    std::sort(chosen.begin(), chosen.end());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (i == 0 || chosen[i] != chosen[i - 1]) kept.push_back(*chosen[i]);
    }
    begin = end;
  }
  return kept;
}

std::string circle_element(const PlotPoint& centre, double radius, const Style& style, const std::string& name = "") {
  const std::string end = name.empty() ? "/>\n" : "><title>" + escaped(name) + "</title></circle>\n";
  return "<circle cx=\"" + pixels(centre.x) + "\" cy=\"" + pixels(centre.y) + "\" r=\"" + pixels(radius) +
         "\" fill=\"" + std::string(style.colour) + "\" stroke=\"#ffffff\" stroke-width=\"" +
         (radius < 3 ? "0.5" : "1") + "\"" + end;
}

// Dots with their names as tooltips, which a plot of few dots shows next to them too (name_elements).
std::string dots_element(const Line& line, const std::vector<PlotPoint>& fractions, const Style& style,
                         const Frame& frame) {
  std::string dots = "<g><title>" + escaped(line.name) + "</title>\n";
  for (std::size_t i = 0; i < fractions.size(); ++i)
    dots += circle_element({frame.x(fractions[i].x), frame.y(fractions[i].y)}, 3.25, style, line.names[i]);
  return dots + "</g>\n";
}

bool has_names(const Line& line, const std::vector<PlotPoint>& fractions) {
  return line.dots && !line.names.empty() && line.names.size() == fractions.size();
}

// The names of all dots, beside their dots or, where another name is, as far below as needed; none where they are many.
std::string name_elements(const Plot& plot, const PlotView& view, const std::vector<Style>& styles,
                          const Frame& frame) {
  constexpr std::size_t most = 24;
  constexpr double size = 10, row = 12;
  struct Named {
    PlotPoint dot;
    std::string text;
    std::string_view colour;
  };
  std::vector<Named> all;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    if (!has_names(plot.lines[i], view.lines[i])) continue;
    for (std::size_t j = 0; j < view.lines[i].size(); ++j) {
      const PlotPoint dot{frame.x(view.lines[i][j].x), frame.y(view.lines[i][j].y)};
      all.push_back({dot, shorten(displayable(plot.lines[i].names[j]), longest_name), styles[i].colour});
    }
  }
  if (all.empty() || all.size() > most) return "";
  std::sort(all.begin(), all.end(), [](const Named& a, const Named& b) { return a.dot.y < b.dot.y; });
  struct Box {
    double left, right, top;
  };
  std::vector<Box> taken;
  std::string text =
      "<g font-size=\"" + pixels(size) + "\" stroke=\"#ffffff\" stroke-width=\"2\" paint-order=\"stroke\">\n";
  for (const Named& named : all) {
    const double length = text_width(named.text, size);
    const bool before = named.dot.x + 7 + length > frame.right;
    Box box{before ? named.dot.x - 7 - length : named.dot.x + 7, 0, named.dot.y - row / 2};
    box.right = box.left + length;
    const auto lies_on = [&box](const Box& other) {
      return box.left < other.right && other.left < box.right && std::abs(box.top - other.top) < row;
    };
    while (std::any_of(taken.begin(), taken.end(), lies_on)) box.top += 1;
    taken.push_back(box);
    text += text_element(box.left, box.top + row - 2.5, named.text, "fill=\"" + std::string(named.colour) + "\"");
  }
  return text + "</g>\n";
}

std::string curve_element(const std::string& name, const std::vector<PlotPoint>& fractions, const Style& style,
                          const Frame& frame) {
  constexpr std::size_t max_dots = 32;
  if (fractions.empty()) return "";
  std::vector<PlotPoint> points;
  for (const PlotPoint& point : fractions) points.push_back({frame.x(point.x), frame.y(point.y)});
  points = thinned(points);
  std::string list;
  std::string dots;
  const bool dotted = style.dots || points.size() == 1 || (points.size() <= max_dots && !style.faint);
  for (const PlotPoint& point : points) {
    list += (list.empty() ? "" : " ") + pixels(point.x) + "," + pixels(point.y);
    if (dotted) {
      dots += circle_element(point, points.size() > max_dots ? 2.25 : 3.25, style);
    }
  }
  if (style.dots) return "<g><title>" + escaped(name) + "</title>\n" + dots + "</g>\n";
  return "<g><title>" + escaped(name) + "</title>\n<polyline points=\"" + list + "\" fill=\"none\" " +
         stroke_of(style) + " stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n" + dots + "</g>\n";
}

// A straight line from its first to its last point.
std::string guide_element(const std::vector<PlotPoint>& fractions, const Style& style, const Frame& frame) {
  if (fractions.empty()) return "";
  return line_element(frame.x(fractions.front().x), frame.y(fractions.front().y), frame.x(fractions.back().x),
                      frame.y(fractions.back().y), stroke_of(style));
}

// Above the end of a horizontal guide, to the right of the end of a vertical one, below the middle of any other. A
// white edge keeps it legible where lines pass below it.
std::string guide_name_element(const std::string& name, const std::vector<PlotPoint>& fractions, const Frame& frame) {
  if (fractions.empty() || name.empty()) return "";
  const PlotPoint begin{frame.x(fractions.front().x), frame.y(fractions.front().y)};
  const PlotPoint end{frame.x(fractions.back().x), frame.y(fractions.back().y)};
  const bool level = std::abs(end.y - begin.y) < 1;
  const bool upright = std::abs(end.x - begin.x) < 1;
  const std::string shown = shorten(displayable(name), longest_name);
  PlotPoint text{std::min((begin.x + end.x) / 2 + 5, frame.right - text_width(shown, 11)), 0};
  text.y = begin.y + (end.y - begin.y) * (text.x - begin.x) / (end.x - begin.x) + 14;
  if (level) text = {end.x, end.y - 5};
  if (upright) text = {end.x + 4, end.y + 10};
  const std::string letters =
      std::string("font-size=\"11\" fill=\"#555555\" stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\"") +
      (level ? " text-anchor=\"end\"" : "");
  return text_element(text.x, text.y, shown, letters);
}

// Drawn from back to front: guides, faint lines, strong lines, names; of each the first in front.
std::string curve_elements(const Plot& plot, const PlotView& view, const std::vector<Style>& styles,
                           const Frame& frame) {
  std::string behind;
  std::string front;
  std::string guides;
  std::string guide_names;
  for (std::size_t i = plot.lines.size(); i-- > 0;) {
    if (plot.lines[i].guide) {
      guides += guide_element(view.lines[i], styles[i], frame);
      guide_names += guide_name_element(plot.lines[i].name, view.lines[i], frame);
      continue;
    }
    const Line& line = plot.lines[i];
    (line.faint ? behind : front) += has_names(line, view.lines[i])
                                         ? dots_element(line, view.lines[i], styles[i], frame)
                                         : curve_element(line.name, view.lines[i], styles[i], frame);
  }
  return guides + behind + front + guide_names + name_elements(plot, view, styles, frame);
}

std::string legend_elements(const std::vector<LegendItem>& items, const std::vector<Style>& styles, double left,
                            double top) {
  std::string text = "<g font-size=\"" + pixels(legend_size) + "\" fill=\"#222222\">\n";
  for (std::size_t i = 0; i < items.size(); ++i) {
    const double x = left + items[i].x;
    const double y = top + legend_row * items[i].row;
    const Style& style = styles[items[i].line];
    text += style.dots ? circle_element({x + 11, y}, 3.25, style) : line_element(x, y, x + 22, y, stroke_of(style));
    text += text_element(x + legend_sample, y + 4.5, items[i].text);
  }
  return text + "</g>\n";
}

// The drawing area that labels, title and legend leave free.
Frame frame_of(const Plot& plot, const PlotView& view, int legend_rows) {
  double widest = 0;
  for (const Tick& tick : view.y.ticks) widest = std::max(widest, text_width(tick.label, tick_size));
  Frame frame;
  frame.left = std::ceil(widest) + (plot.y_label.empty() ? 26 : 44);
  frame.right = width - 30;
  frame.top = (plot.title.empty() ? 22 : 54) + legend_row * legend_rows;
  frame.height = least_height + legend_row * std::max(0, legend_rows - 2);
  frame.bottom = frame.height - (plot.x_label.empty() ? 36 : 56);
  return frame;
}

}  // namespace

std::string svg(const Plot& plot) {
  constexpr double margin = 20;
  const PlotView view = view_of(plot, plot.log_x ? 7 : 9, 8);
  const std::vector<Style> styles = styles_of(plot.lines);
  const std::vector<LegendItem> legend = lay_out_legend(plot.lines, width - 2 * margin);
  const Frame frame = frame_of(plot, view, legend.empty() ? 0 : legend.back().row + 1);
  const std::string size = "width=\"" + pixels(width) + "\" height=\"" + pixels(frame.height) + "\"";
  const std::string title = shorten(displayable(plot.title), 80);

  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " viewBox=\"0 0 " + pixels(width) + " " +
                     pixels(frame.height) +
                     "\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n";
  text += "<title>" + escaped(plot.title) + "</title>\n<rect " + size + " fill=\"#ffffff\"/>\n";
  if (!title.empty()) {
    text += text_element(margin, 32, title, "font-size=\"17\" font-weight=\"bold\" fill=\"#222222\"");
  }
  if (!legend.empty()) text += legend_elements(legend, styles, margin, title.empty() ? 20 : 54);
  text += axes_elements(view, frame);
  const std::string label_style = "font-size=\"13\" fill=\"#222222\" text-anchor=\"middle\"";
  const double middle_x = (frame.left + frame.right) / 2;
  const double middle_y = (frame.top + frame.bottom) / 2;
  if (!plot.x_label.empty()) {
    text += text_element(middle_x, frame.bottom + 43, shorten(displayable(plot.x_label), 80), label_style);
  }
  if (!plot.y_label.empty()) {
    text += text_element(24, middle_y, shorten(displayable(plot.y_label), 48),
                         label_style + " transform=\"rotate(-90 24 " + pixels(middle_y) + ")\"");
  }
  if (view.empty()) text += text_element(middle_x, middle_y, "no points", label_style);
  return text + curve_elements(plot, view, styles, frame) + "</svg>\n";
}

}  // namespace rotary::cli
