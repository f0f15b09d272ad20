#include "numbers.h"

#include <cmath>

#include "apps/shared/text.h"

namespace rotary::cli {

std::string list(const Vector& values, int decimals) {
  std::string out;
  for (const float value : values) out.append(out.empty() ? "(" : ", ").append(fixed(value, decimals));
  return out + ")";
}

Vector rotate_head(Vector head, const Frequencies& speeds, std::int64_t position, Pairing pairing, Angles angles) {
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
  return dot(rotate_head(q, speeds, m, pairing), rotate_head(k, speeds, n, pairing));
}

Line curve(const std::string& name, int count, const std::function<double(int)>& height) {
  Line line{.name = name, .points = {}, .dots = true};
  for (int i = 0; i < count; ++i) line.points.emplace_back(i, height(i));
  return line;
}

Picture stretch_picture(const std::string& file, const std::string& alt, const std::string& title, Plot curves) {
  curves.x_label = "pair";
  curves.y_label = "stretch";
  Picture picture{file, alt, terminal_plot(curves, 67, 13), ""};  // a column for each pair
  curves.title = title;
  curves.y_label = "stretch, times";
  curves.x_ticks = {0, 8, 16, 24, 32, 40, 48, 56, 63};
  curves.names_on_lines = true;
  for (Line& line : curves.lines) line.dots = false;
  picture.svg = svg(curves);
  return picture;
}

double mean_cosine(const Frequencies& speeds, double distance) {
  double sum = 0;
  for (const double speed : speeds.inv_freq) sum += std::cos(distance * speed);
  return sum / static_cast<double>(speeds.inv_freq.size());
}

Frequencies plain_frequencies(int head_dim, double base) {
  Rope rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.pairing = Pairing::interleaved;
  return frequencies(rope);
}

}  // namespace rotary::cli
