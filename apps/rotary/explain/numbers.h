// The computations that the chapters of `rotary explain` share.
#pragma once

#include <cstdint>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "apps/shared/plot/plot.h"
#include "page.h"
#include "rotary/rotary.h"

namespace rotary::cli {

using Vector = std::vector<float>;

constexpr double two_pi = 2 * std::numbers::pi;

std::string list(const Vector& values, int decimals);  // "(0.634, 3.098)"; 0 decimals: "(3, 1)"

// One head, rotated by the library at one position.
Vector rotate_head(Vector head, const Frequencies& speeds, std::int64_t position,
                   Pairing pairing = Pairing::interleaved, Angles angles = Angles::exact);
double dot(const Vector& a, const Vector& b);
// The dot product of q rotated at position m and k rotated at position n.
double score(const Vector& q, std::int64_t m, const Vector& k, std::int64_t n, const Frequencies& speeds,
             Pairing pairing = Pairing::interleaved);

// A curve for terminal_plot: the points (0, height(0)), (1, height(1)), ..., count of them.
Line curve(const std::string& name, int count, const std::function<double(int)>& height);

// Curves of stretch by pair, of 64 pairs, as a picture: file, alt and title are those of Picture and of its SVG.
Picture stretch_picture(const std::string& file, const std::string& alt, const std::string& title, Plot curves);

// The mean over all pairs of cos(distance * speed): the score of q = k = (1, 0, 1, 0, ...) divided by the pairs.
double mean_cosine(const Frequencies& speeds, double distance);

// The unscaled frequencies of all pairs of a head of head_dim elements.
Frequencies plain_frequencies(int head_dim, double base = 10000);

}  // namespace rotary::cli
