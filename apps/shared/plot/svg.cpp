// A figure as SVG: title and note, legend, axes, then areas, marks and curves, or cells.
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string_view>

#include "apps/shared/displayable.h"
#include "apps/shared/sheet.h"
#include "figure.h"
#include "values/number_text.h"

namespace rotary::cli {

namespace {

// In pixels, as all lengths here.
constexpr double picture_width = 800, margin = 20, area_height = 384, text_size = 12;
constexpr std::size_t max_marked = 32;    // lines of more points have no marks, unless the points have tooltips
constexpr std::size_t max_points = 2000;  // of lines with more only what can be seen is drawn

// The palette of Okabe and Ito, which the colour-blind tell apart, without its yellow, which is too pale on white.
constexpr std::array<std::string_view, 7> colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                     "#e69f00", "#56b4e9", "#333333"};
constexpr std::array<std::string_view, 4> dashes = {"", "8 3", "2.5 2.5", "10 3 2.5 3"};
constexpr std::string_view grey = "#777777";

// ---- elements ----

// At most two decimals, without zeros at the end: "12.5".
std::string pixels(double value) {
  std::string text = detail::fixed(value, 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

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

// `<name x="1" y="2.5" more>content</name>` with its line end.
std::string element(std::string_view name, const std::vector<std::pair<const char*, double>>& places,
                    const std::string& more, const std::string& content = "") {
  std::string text = "<" + std::string(name);
  for (const auto& [key, value] : places) text += std::string(" ") + key + "=\"" + pixels(value) + "\"";
  if (!more.empty()) text += " " + more;
  return text + (content.empty() ? "/>\n" : ">" + content + "</" + std::string(name) + ">\n");
}

std::string line_element(double x1, double y1, double x2, double y2, const std::string& more = "") {
  return element("line", {{"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}}, more);
}

std::string text_element(double x, double y, std::string_view text, const std::string& more = "") {
  return element("text", {{"x", x}, {"y", y}}, more, escaped(text));
}

std::string title_element(const std::string& text) {
  return text.empty() ? "" : "<title>" + escaped(text) + "</title>";
}

// How wide a letter is at most, nearly: a little more than the mean of Helvetica's and DejaVu's.
constexpr double letter_width(double size) { return 0.6 * size; }
double text_width(std::string_view text, double size) {
  return letter_width(size) * static_cast<double>(columns(text));
}

// Lines that begin at y and move it below them.
std::string paragraph(const std::string& text, double size, const std::string& more, double& y) {
  const auto most = static_cast<std::size_t>((picture_width - 2 * margin) / letter_width(size));
  std::istringstream lines(wrapped(displayable(text), 0, most));
  std::string elements;
  for (std::string line; std::getline(lines, line);) {
    y += size + 4;
    elements += text_element(margin, y, shorten(line, most), "font-size=\"" + pixels(size) + "\" " + more);
  }
  return elements;
}

// ---- styles ----

struct Style {
  std::string_view colour = grey;
  std::string_view dash = "";
  bool thin = false;
  bool joined = true;   // by a line
  bool marked = false;  // every point has a mark
  int layer = 3;        // from back to front: areas, guides, faint lines, strong ones

  std::string stroke() const {
    const std::string dashed = dash.empty() ? "" : "stroke-dasharray=\"" + std::string(dash) + "\" ";
    return dashed + "stroke=\"" + std::string(colour) + "\" stroke-width=\"" + (thin ? "1" : "2.25") + "\"" +
           (layer == 2 ? " stroke-opacity=\"0.5\"" : "");
  }
  std::string fill() const {
    return "fill=\"" + std::string(colour) + "\"" + (layer == 0 ? " fill-opacity=\"0.16\"" : "");
  }
};

// Strong lines differ in colour and dashes; the first is solid and the others lie in front of it, so that two equal
// lines are both seen. Other lines have the colour of the next strong one, guides are grey.
std::vector<Style> styles_of(const std::vector<Line>& lines) {
  std::vector<Style> styles;
  std::size_t strong = 0, guides = 0;
  for (const Line& line : lines) {
    Style style{.colour = colours.at(strong % colours.size())};
    style.layer = !line.lower.empty() ? 0 : line.guide ? 1 : line.faint ? 2 : 3;
    style.thin = style.layer < 3 || line.points.size() > max_points;
    style.joined = !line.dots;
    style.marked = line.dots || !line.names.empty() || line.points.size() == 1 ||
                   (line.points.size() <= max_marked && style.layer == 3);
    if (line.guide) {
      style.colour = grey;
      style.dash = dashes.at(1 + guides++ % 3);
    } else if (style.layer == 3) {
      style.dash = dashes.at((strong % colours.size() + strong / colours.size()) % dashes.size());
      ++strong;
    }
    styles.push_back(style);
  }
  return styles;
}

// ---- the area of the figure; y grows downwards ----

struct Area {
  double left = 0, top = 0, right = picture_width - 30, bottom = 0;

  double x(double fraction) const { return left + fraction * (right - left); }
  double y(double fraction) const { return bottom - fraction * (bottom - top); }
  Points at(Points fractions) const {
    for (auto& [across, up] : fractions) across = x(across), up = y(up);
    return fractions;
  }
};

// The first, lowest, highest and last of the points in each column of pixels; or, for lines that would hide each other,
// the mean of those in every four columns.
Points thinned(const Points& points, bool mean) {
  if (points.size() <= max_points) return points;
  const auto column = [mean](const auto& point) { return std::floor(point.first / (mean ? 4 : 1)); };
  Points kept;
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end =
        std::find_if(begin, points.end(), [&](const auto& point) { return column(point) != column(*begin); });
    if (mean) {
      double x = 0, y = 0;
      for (auto point = begin; point != end; ++point) x += point->first, y += point->second;
      const auto count = static_cast<double>(end - begin);
      kept.emplace_back(x / count, y / count);
    } else {
      const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
      const auto [low, high] = std::minmax_element(begin, end, less);
      for (const auto& point : {begin, std::min(low, high), std::max(low, high), end - 1})
        if (kept.empty() || kept.back() != *point) kept.push_back(*point);
    }
    begin = end;
  }
  return kept;
}

std::string mark_element(double x, double y, double radius, const Style& style, const std::string& tip = "") {
  return element("circle", {{"cx", x}, {"cy", y}, {"r", radius}}, style.fill() + " stroke=\"#ffffff\"",
                 title_element(tip));
}

std::string curve_element(const Line& line, const Style& style, const Axes& axes, const Area& area, bool mean) {
  const Points points = thinned(area.at(axes.shown(outline_of(line))), mean);
  std::string list, text;
  for (const auto& [x, y] : points) list += (list.empty() ? "" : " ") + pixels(x) + "," + pixels(y);
  if (style.layer == 0) {
    text += element("polygon", {}, style.fill() + " points=\"" + list + "\"");
  } else if (style.joined && !points.empty()) {
    text += element("polyline", {}, "fill=\"none\" " + style.stroke() + " points=\"" + list + "\"");
  }
  const double radius = points.size() > max_marked ? 2.25 : 3.25;
  for (std::size_t i = 0; i < points.size() && style.marked; ++i)
    text += mark_element(points[i].first, points[i].second, radius, style,
                         line.names.size() == points.size() ? line.names[i] : "");
  double last = -1;
  for (const double place : line.lost) {
    const double x = std::round(area.x(axes.x.at(place)));
    if (x - last < 8) continue;
    last = x;
    text += text_element(x, area.bottom - 4, "\u00d7", style.fill() + " font-size=\"18\" text-anchor=\"middle\"");
  }
  return text.empty() ? "" : "<g>" + title_element(line.name) + "\n" + text + "</g>\n";
}

// Whether several lines have more points than can be drawn side by side.
bool are_dense(const std::vector<Line>& lines) {
  const auto is_dense = [](const Line& line) { return line.points.size() > max_points && line.lower.empty(); };
  return std::count_if(lines.begin(), lines.end(), is_dense) > 1;
}

std::string curve_elements(const Figure& figure, const std::vector<Style>& styles, const Axes& axes, const Area& area) {
  std::string curves;
  for (int layer = 0; layer <= 3; ++layer)
    for (std::size_t i = 0; i < styles.size(); ++i)
      if (styles[i].layer == layer)
        curves += curve_element(figure.lines[i], styles[i], axes, area, are_dense(figure.lines));
  return curves;
}

// ---- cells ----

constexpr int steps = 20;  // of the colours to each side of 0

// Blue below 0, pale in the middle, orange above.
std::string cell_colour(int level) {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr std::array pale = {247, 247, 247}, blue = {0, 84, 147}, orange = {176, 70, 0};
  std::string text = "fill=\"#";
  for (std::size_t i = 0; i < 3; ++i) {
    const auto value = static_cast<std::size_t>(pale.at(i) + ((level < 0 ? blue : orange).at(i) - pale.at(i)) *
                                                                 std::abs(level) / steps);
    text += {digits[value / 16], digits[value % 16]};
  }
  return text + "\"";
}

// One path for each colour: the runs of cells of that colour, row by row. Edges are rounded once, so that neighbours
// share them.
std::string cell_elements(const Grid& grid, const Axes& axes, const Area& area) {
  const auto level_at = [&grid](std::size_t row, std::size_t column) {
    const double part = grid.limit > 0 ? grid.at(row, column) / grid.limit : 0;
    return static_cast<int>(std::lround(std::clamp(part, -1.0, 1.0) * steps));
  };
  const auto left_of = [&](std::size_t column) { return pixels(area.x(axes.x.at(static_cast<double>(column) - 0.5))); };
  const auto top_of = [&](std::size_t row) { return pixels(area.y(axes.y.at(static_cast<double>(row) - 0.5))); };
  std::array<std::string, 2 * steps + 1> paths;
  for (std::size_t row = 0; row < grid.y.size(); ++row) {
    for (std::size_t column = 0; column < grid.x.size() && !std::isnan(grid.at(row, column));) {
      const int level = level_at(row, column);
      std::size_t end = column + 1;
      while (end < grid.x.size() && level_at(row, end) == level) ++end;
      paths.at(static_cast<std::size_t>(level + steps)) += "M" + left_of(column) + " " + top_of(row) + "H" +
                                                           left_of(end) + "V" + top_of(row + 1) + "H" +
                                                           left_of(column) + "z";
      column = end;
    }
  }
  std::string text;
  for (int level = -steps; level <= steps; ++level)
    if (const std::string& path = paths.at(static_cast<std::size_t>(level + steps)); !path.empty())
      text += element("path", {}, cell_colour(level) + " d=\"" + path + "\"");
  return "<g shape-rendering=\"crispEdges\">\n" + text + "</g>\n";
}

// ---- around the area ----

struct Entry {
  std::string name;
  std::string sample;  // elements around 0, 0, of 36 x 12 pixels
};

std::vector<Entry> legend_of(const Figure& figure, const std::vector<Style>& styles) {
  const auto box = [](const std::string& fill) {
    return element("rect", {{"x", 0}, {"y", -6}, {"width", 36}, {"height", 12}}, fill);
  };
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < styles.size(); ++i) {
    if (figure.lines[i].name.empty()) continue;
    std::string sample;
    if (styles[i].layer == 0) sample = box(styles[i].fill());
    if (styles[i].layer > 0 && styles[i].joined) sample = line_element(0, 0, 36, 0, styles[i].stroke());
    if (styles[i].marked) sample += mark_element(18, 0, 3.25, styles[i]);
    entries.push_back({shorten_middle(displayable(figure.lines[i].name), 48), sample});
  }
  for (int level = -steps; level <= steps && !figure.grid.x.empty(); level += steps / 2) {
    const std::string value = detail::significant(figure.grid.limit * level / steps, 3);
    entries.push_back({entries.empty() ? figure.grid.value + " " + value : value, box(cell_colour(level))});
  }
  return entries;
}

// In columns of equal width, from y on, which moves below it.
std::string legend_elements(const std::vector<Entry>& entries, double& y) {
  double widest = 1;
  for (const Entry& entry : entries) widest = std::max(widest, 65 + text_width(entry.name, text_size));
  const auto per_row = static_cast<std::size_t>(std::max(1.0, (picture_width - 2 * margin + 22) / widest));
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i % per_row == 0) y += 20;
    const double x = margin + static_cast<double>(i % per_row) * widest;
    text += "<g transform=\"translate(" + pixels(x) + " " + pixels(y) + ")\">\n" + entries[i].sample + "</g>\n" +
            text_element(x + 43, y + 4, entries[i].name);
  }
  return text;
}

// Ticks with their labels and, for curves, lines of a grid; the labels of both axes.
std::string axes_elements(const Figure& figure, const Axes& axes, const Area& area) {
  std::string lines, labels;
  const bool crossed = figure.grid.x.empty();
  for (const Tick& tick : axes.y.ticks) {
    const double y = area.y(axes.y.at(tick.value));
    lines += line_element(area.left - 4, y, crossed ? area.right : area.left, y);
    labels += text_element(area.left - 8, y + 4, tick.label, "text-anchor=\"end\"");
  }
  double free = 0;  // where the next label may begin
  for (const Tick& tick : axes.x.ticks) {
    const double x = area.x(axes.x.at(tick.value)), half = text_width(tick.label, text_size) / 2;
    lines += line_element(x, crossed ? area.top : area.bottom, x, area.bottom + 4);
    if (x - half < free || x + half > picture_width) continue;
    labels += text_element(x, area.bottom + 18, tick.label, "text-anchor=\"middle\"");
    free = x + half + 8;
  }
  const auto label = [](double x, double y, const std::string& text, double room, const std::string& more) {
    const auto most = static_cast<std::size_t>(room / letter_width(13));
    return text_element(x, y, shorten(displayable(text), most), "font-size=\"13\" text-anchor=\"middle\"" + more);
  };
  const double middle = area.y(0.5);
  return "<g stroke=\"#e0e0e0\">\n" + lines + "</g>\n<g stroke=\"#888888\">\n" +
         line_element(area.left, area.bottom, area.right, area.bottom) +
         line_element(area.left, area.top, area.left, area.bottom) + "</g>\n<g class=\"ticks\">\n" + labels + "</g>\n" +
         label(area.x(0.5), area.bottom + 42, figure.x_label, area.right - area.left, "") +
         label(24, middle, figure.y_label, area_height, " transform=\"rotate(-90 24 " + pixels(middle) + ")\"");
}

}  // namespace

std::string svg(const Figure& whole) {
  const Figure figure = sampled(whole, 256, 128);
  const Axes axes = axes_of(figure, 9, figure.grid.x.empty() ? 8 : 17);
  const std::vector<Style> styles = styles_of(figure.lines);
  double y = 8;
  std::string elements = paragraph(figure.title, 17, "font-weight=\"bold\"", y);
  std::string note = whole_note(figure);
  if (are_dense(figure.lines)) note += "; lines: means of near points";
  elements += paragraph(note, text_size, "fill=\"#555555\"", y);
  elements += legend_elements(legend_of(figure, styles), y);
  Area area{.top = y + 22, .bottom = y + 22 + area_height};
  for (const Tick& tick : axes.y.ticks) area.left = std::max(area.left, 44 + text_width(tick.label, text_size));
  elements += axes_elements(figure, axes, area);
  elements +=
      figure.grid.x.empty() ? curve_elements(figure, styles, axes, area) : cell_elements(figure.grid, axes, area);
  const std::string size = "width=\"" + pixels(picture_width) + "\" height=\"" + pixels(area.bottom + 56) + "\"";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " viewBox=\"0 0 " + pixels(picture_width) + " " +
         pixels(area.bottom + 56) +
         "\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" font-size=\"" +
         pixels(text_size) + "\" fill=\"#222222\">\n" + title_element(figure.title) +
         "\n<style>@media (prefers-color-scheme:dark){svg{filter:invert(0.93) hue-rotate(180deg)}}</style>\n<rect " +
         size + " fill=\"#ffffff\"/>\n" + elements + "</svg>\n";
}

}  // namespace rotary::cli
