// Judges whether a picture can be read: all text inside it, no text on other text, colours for dark pages.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "xml_judge.h"

namespace rotary::plot_tests {

struct TextBox {
  std::string text;
  double left = 0, top = 0, right = 0, bottom = 0;
};

inline std::string inherited(const std::vector<Element>& document, std::size_t index, const std::string& key) {
  for (;; index = document[index].parent) {
    const auto found = document[index].attributes.find(key);
    if (found != document[index].attributes.end()) return found->second;
    if (index == 0) return "";
  }
}

// Where a text stands in a font whose letters are 0.55 of its size wide, which is near the mean of Helvetica's and
// DejaVu's.
inline TextBox box_of_text(const std::vector<Element>& document, std::size_t index) {
  const Element& element = document[index];
  const double size = std::stod(inherited(document, index, "font-size"));
  const double x = std::stod(element.attributes.at("x")), y = std::stod(element.attributes.at("y"));
  std::size_t letters = 0;
  for (const char c : element.text) letters += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  const double width = 0.55 * size * static_cast<double>(letters);
  const std::string anchor = inherited(document, index, "text-anchor");
  const double left = anchor == "end" ? x - width : anchor == "middle" ? x - width / 2 : x;
  if (element.attributes.count("transform") != 0) {  // the label of the y axis, which runs upwards
    EXPECT_TRUE(element.attributes.at("transform").starts_with("rotate(-90 "));
    return {element.text, x - 0.75 * size, y - width / 2, x + 0.2 * size, y + width / 2};
  }
  return {element.text, left, y - 0.75 * size, left + width, y + 0.2 * size};
}

inline std::vector<TextBox> text_boxes(const std::vector<Element>& document) {
  std::vector<TextBox> boxes;
  for (std::size_t i = 0; i < document.size(); ++i)
    if (document[i].name == "text" && document[i].attributes.count("aria-hidden") == 0)  // no halo of another
      boxes.push_back(box_of_text(document, i));
  return boxes;
}

inline void expect_readable(const std::string& svg) {
  const std::vector<Element> document = parse_xml(svg);
  const double width = std::stod(document[0].attributes.at("width"));
  const double height = std::stod(document[0].attributes.at("height"));
  const std::vector<TextBox> boxes = text_boxes(document);
  EXPECT_GE(boxes.size(), 6U);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const TextBox& a = boxes[i];
    EXPECT_TRUE(a.left >= 0 && a.top >= 0 && a.right <= width && a.bottom <= height)
        << a.text << ": " << a.left << ' ' << a.top << ' ' << a.right << ' ' << a.bottom;
    for (std::size_t j = 0; j < i; ++j) {
      const TextBox& b = boxes[j];
      EXPECT_FALSE(a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
          << '"' << a.text << "\" on \"" << b.text << '"';
    }
  }
  EXPECT_NE(svg.find("@media (prefers-color-scheme:dark)"), std::string::npos);
}

}  // namespace rotary::plot_tests
