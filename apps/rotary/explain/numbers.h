// What the chapters of `rotary explain` compute and draw with.
#pragma once

#include <cstdint>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::cli {

using Vector = std::vector<float>;

constexpr double two_pi = 2 * std::numbers::pi;

std::string fixed(double value, int decimals);         // "-0.416147"; never "-0.000000"
std::string power_of_ten(double value, int decimals);  // "3.0e-08"
std::string list(const Vector& values, int decimals);  // "(0.634, 3.098)"; 0 decimals: "(3, 1)"

// The library's rotation of one head at one position.
Vector turned(Vector head, const Frequencies& speeds, std::int64_t position, Pairing pairing = Pairing::interleaved,
              Angles angles = Angles::exact);
double dot(const Vector& a, const Vector& b);
// q at position m, k at position n.
double score(const Vector& q, std::int64_t m, const Vector& k, std::int64_t n, const Frequencies& speeds,
             Pairing pairing = Pairing::interleaved);

// Every pair of a head of head_dim, unscaled.
Frequencies plain_frequencies(int head_dim, double base = 10000);

// Arrows from the origin into the upper right quarter.
struct Arrow {
  double x;
  double y;
  std::string label;
};
std::string draw(const std::vector<Arrow>& arrows);

// Curves over columns 0, 1, ..., later ones on top; whole numbers label the heights, axis is the line below.
struct Curve {
  char mark;
  std::function<double(int column)> height;
};
struct Frame {
  int columns;
  int lines;
  double low;
  double high;
  std::string axis;
};
std::string plot(const std::vector<Curve>& curves, const Frame& frame);

}  // namespace rotary::cli
