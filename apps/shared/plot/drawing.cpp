#include "drawing.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/shared/displayable.h"
#include "values/number_text.h"

namespace rotary::cli {

namespace {

struct Colours {
  std::string_view light;
  std::string_view dark;
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

std::string class_of(char what, Ink ink) { return what + std::to_string(static_cast<int>(ink)); }
std::string_view light(Ink ink) { return inks.at(static_cast<std::size_t>(ink)).light; }

}  // namespace

Ink series_ink(std::size_t index) noexcept {
  return static_cast<Ink>(static_cast<std::size_t>(Ink::series) + index % series_count);
}

std::string paint(std::optional<Ink> fill, std::optional<Ink> stroke) {
  std::string classes = fill ? class_of('f', *fill) : "";
  if (stroke) classes += (classes.empty() ? "" : " ") + class_of('s', *stroke);
  std::string text = "class=\"" + classes + "\"";
  if (fill) text += " fill=\"" + std::string(light(*fill)) + "\"";
  if (stroke) text += " stroke=\"" + std::string(light(*stroke)) + "\"";
  return text;
}

std::string style_element(const std::string& more_dark_rules) {
  std::string rules;
  for (std::size_t i = 0; i < inks.size(); ++i) {
    const std::string colour(inks[i].dark);
    const Ink ink = static_cast<Ink>(i);
    rules += "." + class_of('f', ink) + "{fill:" + colour + "}." + class_of('s', ink) + "{stroke:" + colour + "}\n";
  }
  return "<style>\n@media (prefers-color-scheme:dark){\n" + rules + more_dark_rules + "}\n</style>\n";
}

std::string document_start(double width, double height, const std::string& title, const std::string& dark_rules) {
  const std::string size = "width=\"" + pixels(width) + "\" height=\"" + pixels(height) + "\"";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " viewBox=\"0 0 " + pixels(width) + " " +
         pixels(height) + "\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n<title>" +
         escaped(title) + "</title>\n" + style_element(dark_rules) + "<rect " + size + " " + paint(Ink::paper) + "/>\n";
}

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

std::string fitted(std::string_view text, double size, double width) {
  const std::string whole = displayable(text);
  std::size_t most = columns(whole);
  std::string shown = whole;
  while (most > 1 && text_width(shown, size) > width) shown = shorten(whole, --most);
  return shown;
}

std::string line_element(double x1, double y1, double x2, double y2, const std::string& attributes) {
  return "<line x1=\"" + pixels(x1) + "\" y1=\"" + pixels(y1) + "\" x2=\"" + pixels(x2) + "\" y2=\"" + pixels(y2) +
         "\"" + (attributes.empty() ? "" : " " + attributes) + "/>\n";
}

std::string text_element(double x, double y, std::string_view text, const std::string& attributes) {
  return "<text x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\"" + (attributes.empty() ? "" : " " + attributes) + ">" +
         escaped(text) + "</text>\n";
}

std::string title_element(const std::string& text) {
  return text.empty() ? "" : "<title>" + escaped(text) + "</title>";
}

std::string mark_element(Shape shape, const PlotPoint& centre, double radius, Ink ink, const std::string& tip) {
  const std::string look = " " + paint(ink, Ink::paper) + " stroke-width=\"" + (radius < 3 ? "0.5" : "1") + "\"";
  const auto element = [&](const char* name, const std::string& where) {
    return std::string("<") + name + where + look +
           (tip.empty() ? "/>\n" : ">" + title_element(tip) + "</" + name + ">\n");
  };
  const auto at = [&](double x, double y) {
    return pixels(centre.x + x * radius) + " " + pixels(centre.y + y * radius);
  };
  switch (shape) {
    case Shape::circle:
      break;
    case Shape::square:
      return element("rect", " x=\"" + pixels(centre.x - 0.9 * radius) + "\" y=\"" + pixels(centre.y - 0.9 * radius) +
                                 "\" width=\"" + pixels(1.8 * radius) + "\" height=\"" + pixels(1.8 * radius) + "\"");
    case Shape::triangle:
      return element("path", " d=\"M" + at(0, -1.25) + "L" + at(1.15, 0.85) + "L" + at(-1.15, 0.85) + "z\"");
    case Shape::diamond:
      return element("path", " d=\"M" + at(0, -1.3) + "L" + at(1.3, 0) + "L" + at(0, 1.3) + "L" + at(-1.3, 0) + "z\"");
  }
  return element("circle",
                 " cx=\"" + pixels(centre.x) + "\" cy=\"" + pixels(centre.y) + "\" r=\"" + pixels(radius) + "\"");
}

namespace {

// In at most that many lines; the last one is cut where more would be needed.
std::vector<std::string> lines_of(const std::string& text, double size, double width, std::size_t most) {
  std::vector<std::string> lines;
  for (std::string rest = displayable(text); !rest.empty();) {
    std::string line = rest;
    std::size_t space = 0;
    while (text_width(line, size) > width && space != std::string::npos && lines.size() + 1 < most) {
      space = line.rfind(' ');
      line.resize(std::min(space, line.size()));
    }
    lines.push_back(fitted(line, size, width));
    rest.erase(0, std::min(rest.size(), line.size() + 1));
  }
  return lines;
}

}  // namespace

// The widths leave room for letters that are wider than thought.
double heading_elements(std::string& out, const std::string& title, const std::string& note, double width) {
  constexpr double margin = 20;
  double bottom = title.empty() ? 8 : 11;
  for (const std::string& line : lines_of(title, 17, (width - 2 * margin) / 1.2, 2)) {
    bottom += 21;
    out += text_element(margin, bottom, line, paint(Ink::text) + " font-size=\"17\" font-weight=\"bold\"");
  }
  for (const std::string& line : lines_of(note, 12, (width - 2 * margin) / 1.16, 4)) {
    bottom += 17;
    out += text_element(margin, bottom, line, paint(Ink::soft_text) + " font-size=\"12\"");
  }
  return bottom;
}

}  // namespace rotary::cli
