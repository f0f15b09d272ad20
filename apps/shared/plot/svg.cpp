// A figure as SVG: title and note, legend, axes, then areas, marks and curves, or cells.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "apps/shared/displayable.h"
#include "apps/shared/text.h"
#include "figure.h"

namespace rotary::cli {

namespace {

// In pixels, as all lengths here.
constexpr double picture_width = 800, margin = 20, area_height = 384, text_size = 12;
constexpr std::size_t max_marked = 32;    // lines of more points have no marks, unless the points have tooltips
constexpr std::size_t max_points = 2000;  // of lines with more only what can be seen is drawn

// The palette of Okabe and Ito, which the colour-blind tell apart, without its yellow, which is too pale on white.
constexpr std::array colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333"};
constexpr std::array dashes = {"", "8 3", "2.5 2.5", "10 3 2.5 3"};

// ---- elements ----

// At most two decimals, without zeros at the end: "12.5".
std::string pixels(double value) {
  std::string text = fixed(value, 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// ` key="12.5"`
std::string attribute(const char* key, double value) { return std::string(" ") + key + "=\"" + pixels(value) + "\""; }

std::string escaped(std::string_view text) {
  constexpr std::string_view special = "&<>\"'";
  constexpr std::array entities = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
  std::string result;
  for (const char character : displayable(text)) {
    const std::size_t entity = special.find(character);
    result += entity == std::string_view::npos ? std::string(1, character) : entities.at(entity);
  }
  return result;
}

std::string line_element(double x1, double y1, double x2, double y2, const std::string& look = "") {
  return "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) + look +
         "/>\n";
}

std::string text_element(double x, double y, std::string_view text, const std::string& look = "") {
  return "<text" + attribute("x", x) + attribute("y", y) + look + ">" + escaped(text) + "</text>\n";
}

// A colour sample in the legend.
std::string box_element(const std::string& look) {
  return "<rect x=\"0\" y=\"-6\" width=\"36\" height=\"12\"" + look + "/>\n";
}

std::string mark_element(double x, double y, double radius, const std::string& look, const std::string& tip = "") {
  const std::string title = tip.empty() ? "" : "<title>" + escaped(tip) + "</title>";
  return "<circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", radius) + look + " stroke=\"#ffffff\">" +
         title + "</circle>\n";
}

// How wide a letter is at most, nearly: a little more than the mean of Helvetica's and DejaVu's.
constexpr double letter_width(double size) { return 0.6 * size; }
double text_width(std::string_view text) { return letter_width(text_size) * static_cast<double>(columns(text)); }

// Lines that begin below y, which moves down to the last.
std::string paragraph(const std::string& text, double size, const std::string& look, double& y) {
  const auto most = static_cast<std::size_t>((picture_width - 2 * margin) / letter_width(size));
  std::string elements;
  for (const std::string& line : wrapped(displayable(text), most))
    if (!line.empty())
      elements += text_element(margin, y += size + 4, shorten(line, most), attribute("font-size", size) + look);
  return elements;
}

// ---- styles ----

enum class Layer { area, guide, faint, strong };  // from back to front

struct Style {
  Layer layer = Layer::strong;
  std::string stroke, fill;
  bool marked = false;  // every point has a mark
};

// Strong lines differ in colour and dashes; the first is solid and the others lie in front of it, so that two equal
// lines are both seen. Areas and faint lines have the colour of the next strong one, guides are grey.
std::vector<Style> styles_of(const std::vector<Line>& lines) {
  std::vector<Style> styles;
  std::size_t strong = 0, guides = 0;
  for (const Line& line : lines) {
    Style& style = styles.emplace_back();
    style.layer = !line.lower.empty() ? Layer::area
                  : line.guide        ? Layer::guide
                  : line.faint        ? Layer::faint
                                      : Layer::strong;
    const bool is_strong = style.layer == Layer::strong, few = line.points.size() <= max_marked;
    style.marked = line.dots || !line.names.empty() || line.points.size() == 1 || (is_strong && few);
    const std::string colour = line.guide ? "#777777" : colours.at(strong % colours.size());
    std::size_t dash = line.guide ? 1 + guides++ % 3 : 0;
    if (is_strong) dash = (strong % colours.size() + strong / colours.size()) % dashes.size();
    strong += is_strong ? 1 : 0;
    const bool thin = !is_strong || line.points.size() > max_points;
    style.stroke = " stroke=\"" + colour + "\" stroke-width=\"" + (thin ? "1" : "2.25") + "\"";
    if (dash > 0) style.stroke += std::string(" stroke-dasharray=\"") + dashes.at(dash) + "\"";
    if (line.faint) style.stroke += " stroke-opacity=\"0.5\"";
    style.fill = " fill=\"" + colour + "\"" + (style.layer == Layer::area ? " fill-opacity=\"0.16\"" : "");
  }
  return styles;
}

// ---- curves ----

// Whether several lines have more points than can be drawn side by side.
bool are_dense(const std::vector<Line>& lines) {
  const auto is_dense = [](const Line& line) { return line.points.size() > max_points && line.lower.empty(); };
  return std::count_if(lines.begin(), lines.end(), is_dense) > 1;
}

// The first, lowest, highest and last of the points in each column of pixels; or, for lines that would hide each other,
// the mean of those in every four columns.
Points thinned(const Points& points, bool mean) {
  if (points.size() <= max_points) return points;
  const auto column = [mean](const auto& point) { return std::floor(point.first / (mean ? 4 : 1)); };
  Points kept;
  for (auto begin = points.begin(), end = begin; begin != points.end(); begin = end) {
    end = std::find_if(begin, points.end(), [&](const auto& point) { return column(point) != column(*begin); });
    if (mean) {
      std::pair<double, double> sum;
      for (auto point = begin; point != end; ++point) sum = {sum.first + point->first, sum.second + point->second};
      const auto count = static_cast<double>(end - begin);
      kept.emplace_back(sum.first / count, sum.second / count);
    } else {
      const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
      const auto [low, high] = std::minmax_element(begin, end, less);
      for (const auto& point : {begin, std::min(low, high), std::max(low, high), end - 1})
        if (kept.empty() || kept.back() != *point) kept.push_back(*point);
    }
  }
  return kept;
}

std::string curve_element(const Line& line, const Style& style, const Axes& axes, bool mean) {
  const Points points = thinned(axes.shown(outline_of(line)), mean);
  std::string list, text;
  for (const auto& [x, y] : points) list += (list.empty() ? "" : " ") + pixels(x) + "," + pixels(y);
  if (style.layer == Layer::area) {
    text += "<polygon" + style.fill + " points=\"" + list + "\"/>\n";
  } else if (!line.dots && !points.empty()) {
    text += "<polyline fill=\"none\"" + style.stroke + " points=\"" + list + "\"/>\n";
  }
  for (std::size_t i = 0; i < points.size() && style.marked; ++i)
    text += mark_element(points[i].first, points[i].second, points.size() > max_marked ? 2.25 : 3.25, style.fill,
                         line.names.size() == points.size() ? line.names[i] : "");
  double last = -1;
  for (const double place : line.lost) {
    const double x = std::round(axes.x.at(place));
    if (x - last < 8) continue;
    text += text_element(x, axes.y.from - 4, "\u00d7", style.fill + " font-size=\"18\" text-anchor=\"middle\"");
    last = x;
  }
  return text.empty() ? "" : "<g><title>" + escaped(line.name) + "</title>\n" + text + "</g>\n";
}

std::string curve_elements(const Figure& figure, const std::vector<Style>& styles, const Axes& axes) {
  const bool dense = are_dense(figure.lines);
  std::string curves;
  for (const Layer layer : {Layer::area, Layer::guide, Layer::faint, Layer::strong})
    for (std::size_t i = 0; i < styles.size(); ++i)
      if (styles[i].layer == layer) curves += curve_element(figure.lines[i], styles[i], axes, dense);
  return curves;
}

// ---- cells ----

constexpr int steps = 20;  // of the colours to each side of 0

// Blue below 0, pale in the middle, orange above.
std::string cell_look(int level) {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr std::array pale = {247, 247, 247}, blue = {0, 84, 147}, orange = {176, 70, 0};
  std::string text = " fill=\"#";
  for (std::size_t i = 0; i < 3; ++i) {
    const int end = (level < 0 ? blue : orange).at(i),
              value = pale.at(i) + (end - pale.at(i)) * std::abs(level) / steps;
    text += {digits[static_cast<std::size_t>(value / 16)], digits[static_cast<std::size_t>(value % 16)]};
  }
  return text + "\"";
}

// One path for each colour: the runs of cells of that colour, row by row. Edges are rounded once, so that neighbours
// share them.
std::string cell_elements(const Grid& grid, const Axes& axes) {
  const auto level_at = [&grid](std::size_t row, std::size_t column) {
    const double part = grid.limit > 0 ? grid.at(row, column) / grid.limit : 0;
    return static_cast<std::size_t>(std::lround((std::clamp(part, -1.0, 1.0) + 1) * steps));
  };
  const auto edge = [](const Axis& axis, std::size_t index) {
    return pixels(axis.at(static_cast<double>(index) - 0.5));
  };
  std::array<std::string, 2 * steps + 1> paths;
  for (std::size_t row = 0; row < grid.y.size(); ++row) {
    for (std::size_t column = 0, end = 0; column < grid.x.size() && !std::isnan(grid.at(row, column)); column = end) {
      const std::size_t level = level_at(row, column);
      for (end = column + 1; end < grid.x.size() && level_at(row, end) == level;) ++end;
      const std::string left = edge(axes.x, column);
      paths.at(level) += "M" + left + " " + edge(axes.y, row) + "H" + edge(axes.x, end) + "V" + edge(axes.y, row + 1) +
                         "H" + left + "z";
    }
  }
  std::string text;
  for (std::size_t level = 0; level < paths.size(); ++level)
    if (!paths.at(level).empty())
      text += "<path" + cell_look(static_cast<int>(level) - steps) + " d=\"" + paths.at(level) + "\"/>\n";
  return "<g shape-rendering=\"crispEdges\">\n" + text + "</g>\n";
}

// ---- around the area ----

// In columns of equal width, below y, which moves down to the last row.
std::string legend_elements(const Figure& figure, const std::vector<Style>& styles, double& y) {
  std::vector<std::pair<std::string, std::string>> entries;  // names, and samples of 36 x 12 pixels around 0, 0
  for (std::size_t i = 0; i < styles.size(); ++i) {
    const Line& line = figure.lines[i];
    if (line.name.empty()) continue;
    std::string sample = styles[i].layer == Layer::area ? box_element(styles[i].fill) : "";
    if (sample.empty() && !line.dots) sample = line_element(0, 0, 36, 0, styles[i].stroke);
    if (styles[i].marked) sample += mark_element(18, 0, 3.25, styles[i].fill);
    entries.emplace_back(shorten_middle(displayable(line.name), 48), sample);
  }
  for (int level = -steps; level <= steps && !figure.grid.x.empty(); level += steps / 2)
    entries.emplace_back(
        (entries.empty() ? figure.grid.value + " " : "") + significant(figure.grid.limit * level / steps, 3),
        box_element(cell_look(level)));
  double widest = 1;
  for (const auto& [name, sample] : entries) widest = std::max(widest, 65 + text_width(name));
  const auto per_row = static_cast<std::size_t>(std::max(1.0, (picture_width - 2 * margin + 22) / widest));
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i % per_row == 0) y += 20;
    const double x = margin + static_cast<double>(i % per_row) * widest;
    text += "<g transform=\"translate(" + pixels(x) + " " + pixels(y) + ")\">\n" + entries[i].second + "</g>\n" +
            text_element(x + 43, y + 4, entries[i].first);
  }
  return text;
}

// Ticks with their labels and, for curves, lines of a grid; the labels of both axes.
std::string axes_elements(const Figure& figure, const Axes& axes) {
  const Axis &across = axes.x, &up = axes.y;
  const bool crossed = figure.grid.x.empty();
  std::string lines, labels;
  for (const Tick& tick : up.ticks) {
    const double y = up.at(tick.value);
    lines += line_element(across.from - 4, y, crossed ? across.to : across.from, y);
    labels += text_element(across.from - 8, y + 4, tick.label, " text-anchor=\"end\"");
  }
  double free = 0;  // where the next label may begin
  for (const Tick& tick : across.ticks) {
    const double x = across.at(tick.value), half = text_width(tick.label) / 2;
    lines += line_element(x, crossed ? up.to : up.from, x, up.from + 4);
    if (x - half < free || x + half > picture_width) continue;
    labels += text_element(x, up.from + 18, tick.label, " text-anchor=\"middle\"");
    free = x + half + 8;
  }
  const auto label = [](double x, double y, const std::string& text, double room, const std::string& look) {
    const auto most = static_cast<std::size_t>(room / letter_width(13));
    return text_element(x, y, shorten(displayable(text), most), " font-size=\"13\" text-anchor=\"middle\"" + look);
  };
  const double middle = (up.from + up.to) / 2;
  return "<g stroke=\"#e0e0e0\">\n" + lines + "</g>\n<g stroke=\"#888888\">\n" +
         line_element(across.from, up.from, across.to, up.from) +
         line_element(across.from, up.to, across.from, up.from) + "</g>\n<g class=\"ticks\">\n" + labels + "</g>\n" +
         label((across.from + across.to) / 2, up.from + 42, figure.x_label, across.to - across.from, "") +
         label(24, middle, figure.y_label, area_height, " transform=\"rotate(-90 24 " + pixels(middle) + ")\"");
}

}  // namespace

std::string svg(const Figure& whole) {
  const Figure figure = sampled(whole, 256, 128);
  const bool curved = figure.grid.x.empty();
  const std::vector<Style> styles = styles_of(figure.lines);
  double y = 8;
  std::string elements = paragraph(figure.title, 17, " font-weight=\"bold\"", y);
  const std::string note = whole_note(figure) + (are_dense(figure.lines) ? "; lines: means of near points" : "");
  elements += paragraph(note, text_size, " fill=\"#555555\"", y);
  elements += legend_elements(figure, styles, y);
  Axes axes = axes_of(figure, 9, curved ? 8 : 17);
  double widest = 0;
  for (const Tick& tick : axes.y.ticks) widest = std::max(widest, text_width(tick.label));
  axes.x.from = 44 + widest;
  axes.x.to = picture_width - 30;
  if (!curved && figure.grid.turns.empty()) {  // both axes are of one kind: square cells
    const double cell = area_height / static_cast<double>(figure.grid.y.size());
    axes.x.to = std::min(axes.x.to, axes.x.from + cell * static_cast<double>(figure.grid.x.size()));
  }
  axes.y.to = y + 22;
  axes.y.from = axes.y.to + area_height;
  elements +=
      axes_elements(figure, axes) + (curved ? curve_elements(figure, styles, axes) : cell_elements(figure.grid, axes));
  const std::string width = pixels(picture_width), height = pixels(axes.y.from + 56),
                    size = "width=\"" + width + "\" height=\"" + height + "\"";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " viewBox=\"0 0 " + width + " " + height +
         "\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" font-size=\"12\" "
         "fill=\"#222222\">\n"
         "<title>" +
         escaped(figure.title) +
         "</title>\n<style>@media (prefers-color-scheme:dark){svg{filter:invert(0.93) "
         "hue-rotate(180deg)}}</style>\n<rect " +
         size + " fill=\"#ffffff\"/>\n" + elements + "</svg>\n";
}

}  // namespace rotary::cli
