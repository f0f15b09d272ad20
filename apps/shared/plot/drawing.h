// Elements of an SVG picture. Colours are presentation attributes, so that every viewer shows them, and have a class
// each, by which style_element() exchanges them for dark pages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axis.h"

namespace rotary::cli {

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

// A `style` element with the dark colours, and more rules for dark pages.
std::string style_element(const std::string& more_dark_rules = "");

// From the element's start tag to the white or dark paper. height and width in pixels.
std::string document_start(double width, double height, const std::string& title, const std::string& dark_rules = "");

std::string pixels(double value);  // at most two decimals, without trailing zeros: "12.5"
std::string escaped(std::string_view text);

// Estimated width in a sans-serif font; too wide rather than too narrow.
double text_width(std::string_view text, double size);
// displayable() and cut so that it fits the width.
std::string fitted(std::string_view text, double size, double width);

std::string line_element(double x1, double y1, double x2, double y2, const std::string& attributes = "");
// text must be displayable.
std::string text_element(double x, double y, std::string_view text, const std::string& attributes = "");
std::string title_element(const std::string& text);  // a tooltip; "" for no text

enum class Shape : unsigned char { circle, square, triangle, diamond };
std::string mark_element(Shape shape, const PlotPoint& centre, double radius, Ink ink, const std::string& tip = "");

// Title, at most two lines, and note, at most four, from the top; returns the lowest base line.
double heading_elements(std::string& out, const std::string& title, const std::string& note, double width);

}  // namespace rotary::cli
