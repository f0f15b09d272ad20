#include "numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "apps/shared/text.h"

namespace rotary::cli {

namespace {

std::string digits_as(double value, std::chars_format format, int decimals) {
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, decimals);
  return {buffer.data(), result.ptr};
}

std::string joined_without_ends(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  return out;
}

}  // namespace

std::string fixed(double value, int decimals) {
  const std::string text = digits_as(value, std::chars_format::fixed, decimals);
  const bool zero = text.find_first_not_of("-0.") == std::string::npos;
  return zero && text.front() == '-' ? text.substr(1) : text;
}

std::string power_of_ten(double value, int decimals) {
  return digits_as(value, std::chars_format::scientific, decimals);
}

std::string list(const Vector& values, int decimals) {
  std::string out;
  for (const float value : values) out.append(out.empty() ? "(" : ", ").append(fixed(value, decimals));
  return out + ")";
}

Vector turned(Vector head, const Frequencies& speeds, std::int64_t position, Pairing pairing, Angles angles) {
  Frequencies paired = speeds;
  paired.pairing = pairing;
  rotate(heads(head, thd(1, 1, static_cast<int>(head.size()))), Table(paired, position, angles));
  return head;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b.at(i));
  return sum;
}

double score(const Vector& q, std::int64_t m, const Vector& k, std::int64_t n, const Frequencies& speeds,
             Pairing pairing) {
  return dot(turned(q, speeds, m, pairing), turned(k, speeds, n, pairing));
}

Frequencies plain_frequencies(int head_dim, double base) {
  Rope rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.pairing = Pairing::interleaved;
  return frequencies(rope);
}

std::string draw(const std::vector<Arrow>& arrows) {
  constexpr double columns_per_unit = 8;
  constexpr double lines_per_unit = 4;
  constexpr std::size_t width = 60;
  double highest = 0;
  for (const Arrow& arrow : arrows) highest = std::max(highest, arrow.y);
  const auto lines = static_cast<std::size_t>(std::lround(highest * lines_per_unit)) + 1;
  std::vector<std::string> canvas(lines, "|" + std::string(width, ' '));  // canvas[0] is y = 0
  canvas[0].replace(0, 34, "+" + std::string(33, '-'));
  for (const Arrow& arrow : arrows) {
    constexpr int steps = 48;
    for (int step = 1; step <= steps; ++step) {
      const double part = static_cast<double>(step) / steps;
      const auto column = static_cast<std::size_t>(std::lround(part * arrow.x * columns_per_unit));
      const auto line = static_cast<std::size_t>(std::lround(part * arrow.y * lines_per_unit));
      if (column + line > 0) canvas.at(line).at(column) = '.';
      if (step == steps) canvas[line].replace(column, arrow.label.size() + 2, "* " + arrow.label);
    }
  }
  std::reverse(canvas.begin(), canvas.end());
  return joined_without_ends(canvas);
}

std::string plot(const std::vector<Curve>& curves, const Frame& frame) {
  const auto lines = static_cast<std::size_t>(frame.lines);
  const auto width = static_cast<std::size_t>(frame.columns);
  std::vector<std::string> canvas(lines, std::string(width, ' '));
  for (const Curve& curve : curves) {
    for (int column = 0; column < frame.columns; ++column) {
      const double part = (frame.high - curve.height(column)) / (frame.high - frame.low);
      const auto line = static_cast<std::size_t>(std::lround(std::clamp(part, 0.0, 1.0) * (frame.lines - 1)));
      canvas[line][static_cast<std::size_t>(column)] = curve.mark;
    }
  }
  for (std::size_t line = 0; line < lines; ++line) {
    const double share = static_cast<double>(line) / (frame.lines - 1);
    const double value = frame.high + share * (frame.low - frame.high);
    const std::string label = std::abs(value - std::round(value)) < 1e-9 ? fixed(value, 0) : "";
    canvas[line] = lead(label, 4) + " |" + canvas[line];
  }
  canvas.push_back("      " + frame.axis);
  return joined_without_ends(canvas);
}

}  // namespace rotary::cli
