#include "drawing.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "apps/shared/displayable.h"
#include "apps/shared/sheet.h"
#include "values/number_text.h"

namespace rotary::cli {

namespace {

struct Colours {
  std::string_view light, dark;
};

// In the order of Ink. The series are the palette of Okabe and Ito, safe for colour-blind readers, without its yellow,
// which is too pale on white; on dark pages the same hues, lighter.
constexpr std::array<Colours, 6 + series_count> inks = {{{"#ffffff", "#0d1117"},
                                                         {"#222222", "#e6edf3"},
                                                         {"#555555", "#a9b1ba"},
                                                         {"#e5e5e5", "#2b323b"},
                                                         {"#888888", "#7d8590"},
                                                         {"#777777", "#8b949e"},
                                                         {"#0072b2", "#4ba3e3"},
                                                         {"#d55e00", "#f07f3c"},
                                                         {"#009e73", "#2fc299"},
                                                         {"#cc79a7", "#e29cc4"},
                                                         {"#e69f00", "#f2b93b"},
                                                         {"#56b4e9", "#a6dcff"},
                                                         {"#333333", "#d0d7de"}}};

constexpr double letter_width = 0.6;  // of the size: a little more than the mean of Helvetica's and DejaVu's letters

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

}  // namespace

Ink series_ink(std::size_t index) noexcept {
  return static_cast<Ink>(static_cast<std::size_t>(Ink::series) + index % series_count);
}

std::string paint(std::optional<Ink> fill, std::optional<Ink> stroke) {
  std::string classes, colours;
  const auto add = [&](std::optional<Ink> ink, const char* attribute) {
    if (!ink) return;
    const auto index = static_cast<std::size_t>(*ink);
    classes += (classes.empty() ? "" : " ") + std::string(1, attribute[0]) + std::to_string(index);
    colours += std::string(" ") + attribute + "=\"" + std::string(inks.at(index).light) + "\"";
  };
  add(fill, "fill");
  add(stroke, "stroke");
  return "class=\"" + classes + "\"" + colours;
}

std::string document(double height, const std::string& title, const std::string& elements) {
  const std::string size = "width=\"" + pixels(picture_width) + "\" height=\"" + pixels(height) + "\"";
  std::string dark;
  for (std::size_t i = 0; i < inks.size(); ++i) {
    const std::string number = std::to_string(i), colour(inks[i].dark);
    dark += ".f" + number + "{fill:" + colour + "}.s" + number + "{stroke:" + colour + "}\n";
  }
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " viewBox=\"0 0 " + pixels(picture_width) + " " +
         pixels(height) + "\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n" +
         title_element(title) + "\n<style>\n@media (prefers-color-scheme:dark){\n" + dark + "}\n</style>\n<rect " +
         size + " " + paint(Ink::paper) + "/>\n" + elements + "</svg>\n";
}

std::string pixels(double value) {
  std::string text = detail::fixed(value, 2);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

double text_width(std::string_view text, double size) {
  return letter_width * size * static_cast<double>(columns(text));
}

std::string fitted(std::string_view text, double size, double width) {
  return shorten(displayable(text), static_cast<std::size_t>(width / (letter_width * size)));
}

std::string element(std::string_view name, std::initializer_list<std::pair<const char*, double>> places,
                    const std::string& more, const std::string& content) {
  std::string text = "<" + std::string(name);
  for (const auto& [key, value] : places) text += std::string(" ") + key + "=\"" + pixels(value) + "\"";
  if (!more.empty()) text += " " + more;
  return text + (content.empty() ? "/>\n" : ">" + content + "</" + std::string(name) + ">\n");
}

std::string line_element(double x1, double y1, double x2, double y2, const std::string& more) {
  return element("line", {{"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}}, more);
}

std::string text_element(double x, double y, std::string_view text, const std::string& more) {
  return element("text", {{"x", x}, {"y", y}}, more, escaped(text));
}

std::string title_element(const std::string& text) {
  return text.empty() ? "" : "<title>" + escaped(text) + "</title>";
}

double add_heading(std::string& elements, const std::string& title, const std::string& note) {
  constexpr double room = picture_width - 2 * picture_margin;
  double bottom = title.empty() ? 8 : 11;
  // In at most that many lines; the last one holds all the rest, cut.
  const auto add = [&](const std::string& text, double size, int lines, const std::string& look) {
    std::istringstream rest(wrapped(displayable(text), 0, static_cast<std::size_t>(room / (letter_width * size))));
    for (std::string line, more; lines > 0 && std::getline(rest, line); --lines) {
      if (lines == 1 && std::getline(rest, more, '\0')) line += " " + more;
      bottom += size + 4;
      elements += text_element(picture_margin, bottom, fitted(line, size, room), look);
    }
  };
  add(title, 17, 2, paint(Ink::text) + " font-size=\"17\" font-weight=\"bold\"");
  add(note, 12, 4, paint(Ink::soft_text) + " font-size=\"12\"");
  return bottom;
}

std::string axis_labels(const std::string& x, const std::string& y, double left, double top, double right,
                        double bottom) {
  const std::string style = paint(Ink::text) + " font-size=\"13\" text-anchor=\"middle\"";
  const double middle = (top + bottom) / 2;
  std::string text;
  if (!x.empty()) text += text_element((left + right) / 2, bottom + 43, fitted(x, 13, right - left), style);
  if (!y.empty())
    text += text_element(24, middle, fitted(y, 13, bottom - top),
                         style + " transform=\"rotate(-90 24 " + pixels(middle) + ")\"");
  return text;
}

}  // namespace rotary::cli
