// Numbers and shapes as text, the same in every locale.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rotary::detail {

// The text that std::to_chars writes with these arguments after the value.
template <class... How>
std::string number_text(std::floating_point auto value, How... how) {
  if (std::isnan(value)) return "nan";  // whatever its sign
  std::array<char, 400> buffer{};  // the largest double has 309 digits before the point
  char* const begin = buffer.data();
  return {begin, std::to_chars(begin, begin + buffer.size(), value, how...).ptr};
}

// "0.50" for 2 decimals, at most 80 of them; zero has no sign.
inline std::string fixed(double value, int decimals) {
  std::string text = number_text(value, std::chars_format::fixed, decimals);
  if (text.front() == '-' && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

// "5.0e-08" for 1 decimal.
inline std::string scientific(double value, int decimals) {
  return number_text(value, std::chars_format::scientific, decimals);
}

// At most that many significant digits, as "%.*g" prints them: "0.5", "1e+30".
inline std::string significant(double value, int digits) {
  return number_text(value, std::chars_format::general, digits);
}

// The fewest digits that read back as the same value of the same type.
std::string shortest(std::floating_point auto value) { return number_text(value); }

// As shortest, but whole numbers below 1e15 without an exponent: "100000", "0.25", "1e+30".
inline std::string spelled(double value) {
  const bool whole = std::abs(value) < 1e15 && value == std::floor(value);
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : shortest(value);
}

// "77,509,632"
inline std::string with_separators(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t place = text.size(); place > sign + 3; place -= 3) text.insert(place - 3, ",");
  return text;
}

// "[1, 16, 32, 128]"
inline std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text.append(text.size() > 1 ? ", " : "").append(std::to_string(size));
  return text + "]";
}

}  // namespace rotary::detail
