// Which coordinate of a position drives each pair: the layouts of the vision-language models.
#include "runtime/arithmetic.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "number_text.h"
#include "rotary/makers.h"
#include "rotary/rotary.h"
#include "values/fail.h"

namespace rotary {

using namespace detail;
namespace {

constexpr int max_axes = std::numeric_limits<std::uint8_t>::max() + 1;

void check_sections(std::span<const int> sections, const std::string& operation) {
  std::int64_t pairs = 0;
  for (const int section : sections) {
    if (section < 0) fail(Code::SHAPE, operation, "every section must be at least 0 but got ", section);
    pairs += section;
  }
  if (pairs == 0 || pairs > std::numeric_limits<int>::max() / 2)
    fail(Code::SHAPE, operation, "the sections must sum to the pairs of a head but got ", pairs, " pairs");
}

void check_three(std::span<const int> sections, const std::string& operation) {
  if (sections.size() != 3) fail(Code::SHAPE, operation, "there must be 3 sections but got ", sections.size());
  check_sections(sections, operation);
}

void check_axes(std::int64_t axes) {
  if (axes >= 1 && axes <= max_axes) return;
  fail(Code::SHAPE, "axial", "axes must be in [1, 256] but got ", axes);
}

}  // namespace

std::vector<std::uint8_t> sectioned_axes(std::span<const int> sections) {
  if (sections.empty() || sections.size() > max_axes)
    fail(Code::SHAPE, "sectioned_axes", "there must be 1 to 256 sections but got ", sections.size());
  check_sections(sections, "sectioned_axes");
  std::vector<std::uint8_t> axis;
  for (std::size_t section = 0; section < sections.size(); ++section)
    axis.insert(axis.end(), static_cast<std::size_t>(sections[section]), static_cast<std::uint8_t>(section));
  return axis;
}

// Pair i has axis H if i % 3 = 1 and i < 3 s1, axis W if i % 3 = 2 and i < 3 s2, else axis T; sections are [T, H, W].
std::vector<std::uint8_t> interleaved_axes(std::span<const int> sections) {
  check_three(sections, "interleaved_axes");
  std::vector<std::uint8_t> axis(static_cast<std::size_t>(sections[0] + sections[1] + sections[2]), 0);
  for (std::size_t a = 1; a < 3; ++a) {
    for (std::size_t i = a; i < axis.size() && i < 3 * static_cast<std::size_t>(sections[a]); i += 3)
      axis[i] = static_cast<std::uint8_t>(a);
  }
  return axis;
}

// The first s0 + s1 pairs alternate H, W, H, W, ...; the last s2 have axis T. Positions are in the order T, H, W.
std::vector<std::uint8_t> ernie_axes(std::span<const int> height_width_time) {
  check_three(height_width_time, "ernie_axes");
  const int alternating = height_width_time[0] + height_width_time[1];
  std::vector<std::uint8_t> axis(static_cast<std::size_t>(alternating + height_width_time[2]), 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(alternating); ++i) axis[i] = i % 2 == 0 ? 1 : 2;
  return axis;
}

std::vector<std::uint8_t> glm_axes(std::span<const int> sections) {
  check_three(sections, "glm_axes");
  std::vector<int> left(sections.begin(), sections.end());
  std::vector<std::uint8_t> axis(static_cast<std::size_t>(left[0] + left[1] + left[2]));
  for (std::size_t i = 0; i < axis.size(); ++i) {
    std::size_t a = i % 3;
    while (left[a] == 0) a = (a + 1) % 3;
    --left[a];
    axis[i] = static_cast<std::uint8_t>(a);
  }
  return axis;
}

std::vector<std::uint8_t> openpangu_axes(std::span<const int> sections) {
  check_three(sections, "openpangu_axes");
  if (sections[0] == 0) fail(Code::SHAPE, "openpangu_axes", "the first section must be at least 1 but got 0");
  const std::array<int, 3> counts{sections[0] - 1, sections[1], sections[2]};
  std::array<int, 3> placed{};
  std::vector<std::uint8_t> axis;
  for (int i = counts[0] + counts[1] + counts[2]; i > 0; --i) {
    std::size_t best = 3;
    for (std::size_t a = 0; a < 3; ++a) {
      const bool repeats = !axis.empty() && a == axis.back();
      const auto share = [&](std::size_t of) { return static_cast<double>(placed[of]) / counts[of]; };
      if (placed[a] < counts[a] && !repeats && (best == 3 || share(a) < share(best))) best = a;
    }
    if (best == 3) best = axis.back();  // no other axis has pairs left
    ++placed[best];
    axis.push_back(static_cast<std::uint8_t>(best));
  }
  axis.push_back(0);
  return axis;
}

std::vector<std::uint8_t> videorope_axes(std::span<const int> sections) {
  check_three(sections, "videorope_axes");
  return ernie_axes(std::array{sections[1], sections[2], sections[0]});
}

// Each axis owns r = 2 floor(head_dim / axes / 2) elements, hence r / 2 pairs, with its own run of frequencies
// b^(-2k/r), k = 0, 1, ...: the exponent index restarts and its denominator is r. Elements left over do not turn
// (head_dim 80 and 3 axes: 78 turn).
Rope axial(int head_dim, int axes, double base, Pairing pairing) {
  check_axes(axes);
  if (head_dim / axes < 2)
    fail(Code::SHAPE, "axial", "head_dim must give each of the ", axes, " axes 2 elements or more but got ", head_dim);
  const int pairs_per_axis = head_dim / axes / 2;
  Rope rope;
  rope.head_dim = head_dim;
  rope.rotary_dim = 2 * pairs_per_axis * axes;
  rope.base = base;
  rope.pairing = pairing;
  rope.exponent_dim = 2 * pairs_per_axis;
  for (int a = 0; a < axes; ++a) {
    for (int k = 0; k < pairs_per_axis; ++k) {
      rope.axis.push_back(static_cast<std::uint8_t>(a));
      rope.index.push_back(k);
    }
  }
  return rope;
}

Rope axial(int head_dim, std::span<const Axis> axes, Pairing pairing) {
  check_axes(static_cast<std::int64_t>(axes.size()));
  Rope rope;
  rope.head_dim = head_dim;
  rope.base = axes.front().base;
  rope.pairing = pairing;
  std::optional<double> factor;
  std::int64_t sum = 0;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const Axis& axis = axes[a];
    const auto require = [a](bool holds, Code code, const char* what, const std::string& rule, double value) {
      if (holds) return;
      fail(code, "axial", what, " of axis ", a, " must be ", rule, " but got ", detail::spelled(value));
    };
    require(axis.width >= 0 && axis.width % 2 == 0, Code::SHAPE, "the width", "even and at least 0", axis.width);
    require(axis.stretch > 0 && std::isfinite(axis.stretch), Code::SCALING, "the stretch", "finite and above 0",
            axis.stretch);
    sum += axis.width;
    if (axis.width == 0) continue;
    if (depends_on_length(axis.scaling))
      fail(Code::LENGTH, "axial", "the scaling of axis ", a, " must be the same at every length but got ",
           name(axis.scaling));
    const Frequencies run =
        frequencies({.head_dim = axis.width, .base = axis.base, .pairing = pairing, .scaling = axis.scaling});
    require(run.attention_factor == factor.value_or(run.attention_factor), Code::SCALING, "the attention factor",
            "as of those before it", run.attention_factor);
    factor = run.attention_factor;
    for (const double speed : run.inv_freq) rope.inv_freq.push_back(speed / axis.stretch);
    rope.axis.insert(rope.axis.end(), run.inv_freq.size(), static_cast<std::uint8_t>(a));
  }
  if (sum < 2 || sum > head_dim)
    fail(Code::SHAPE, "axial", "the widths must sum to at least 2 and at most head_dim = ", head_dim, " but got ", sum);
  rope.rotary_dim = static_cast<int>(sum);
  if (factor != 1.0) rope.attention_factor = factor;
  return rope;
}

}  // namespace rotary
