// Elements of an SVG picture. Colours are presentation attributes, so that every viewer shows them, and have a class
// each, by which the document's style exchanges them for dark pages.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rotary::cli {

constexpr double picture_width = 800, picture_margin = 20;  // in pixels, as all lengths here

// A colour for light pages and one for dark ones.
enum class Ink : unsigned char {
  paper,  // the background
  text,
  soft_text,
  grid,
  base,  // the line of an axis
  guide,
  series,  // the first colour of a line; more follow (series_ink)
};
inline constexpr std::size_t series_count = 7;
Ink series_ink(std::size_t index) noexcept;  // starts again after series_count

// `class="..." fill="#..." stroke="#..."`
std::string paint(std::optional<Ink> fill, std::optional<Ink> stroke = std::nullopt);

// The whole file: the title as its name, the colours for dark pages, the paper, the elements.
std::string document(double height, const std::string& title, const std::string& elements);

std::string pixels(double value);                       // at most two decimals, without trailing zeros: "12.5"
double text_width(std::string_view text, double size);  // estimated, in a sans-serif font
// displayable() and cut so that it fits the width.
std::string fitted(std::string_view text, double size, double width);

// `<name x="1" y="2.5" more>content</name>` with its line end; content is XML.
std::string element(std::string_view name, std::initializer_list<std::pair<const char*, double>> places,
                    const std::string& more = "", const std::string& content = "");
std::string line_element(double x1, double y1, double x2, double y2, const std::string& more = "");
std::string text_element(double x, double y, std::string_view text, const std::string& more = "");
std::string title_element(const std::string& text);  // a tooltip; "" for no text

// Title, at most two lines, and note, at most four, from the top; returns the lowest base line.
double add_heading(std::string& elements, const std::string& title, const std::string& note);
// The labels of the axes of an area, below it and, running upwards, at the left edge of the picture.
std::string axis_labels(const std::string& x, const std::string& y, double left, double top, double right,
                        double bottom);

}  // namespace rotary::cli
