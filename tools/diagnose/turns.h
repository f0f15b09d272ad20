// Which elements rotate with which, by which angle at every token, and how well a motion explains it.
#pragma once

#include <array>
#include <complex>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rotary/diagnose.h"
#include "sample.h"

namespace rotary::diagnose {

using Complex = std::complex<double>;

// ---- the rotated block ---------------------------------------------------------------------------

enum class Kind : std::uint8_t {
  half,                 // the three of rotary::Pairing
  interleaved,          //
  interleaved_to_half,  //
  half_to_interleaved,  // reads (i, i + n), writes (2i, 2i + 1): no model does, a port may
};
const char* name(Kind) noexcept;
std::optional<Kind> kind_of(Pairing) noexcept;

struct Block {
  Kind kind = Kind::half;
  int first = 0;
  int pairs = 0;
  std::array<int, 2> input(int pair) const noexcept;   // the elements of a head that the pair reads
  std::array<int, 2> output(int pair) const noexcept;  // and writes
  int rotary_dim() const noexcept { return 2 * pairs; }
  Block reversed() const noexcept;  // reads what this writes and writes what this reads
  // The same elements, read where they are written.
  Block in_place() const noexcept {
    return {output(0)[1] == output(0)[0] + 1 ? Kind::interleaved : Kind::half, first, pairs};
  }
  bool operator==(const Block&) const = default;
};
inline Complex pair_of(std::span<const double> head, const std::array<int, 2>& pair) noexcept {
  return {head[static_cast<std::size_t>(pair[0])], head[static_cast<std::size_t>(pair[1])]};
}

// Blocks found from the norms of pairs alone: a rotation keeps them, or multiplies all of them by the attention factor.
struct FoundBlock {
  Block block;
  double misfit = 0;
};
struct BlockSearch {
  std::vector<int> touched;                // elements that differ in any head
  std::vector<FoundBlock> found;           // the best block of each kind that explains the data, the best kind first
  std::array<double, 4> misfit_of_kind{};  // the least misfit of any block of each kind
};
// expected is preferred among blocks that the data do not tell apart.
BlockSearch search_blocks(const Sample&, const std::optional<Block>& expected);

// Whether the data do not tell two blocks of these misfits apart.
bool alike(const Sample&, double misfit, double other);

// ---- how much the elements after are off beside their rounding, whatever the angles are ----------

// The noise of pairs, whose norms a rotation keeps up to one factor, and of elements that are not rotated. Zero where
// the elements are off by no more than their rounding, by so much that no pairing is left, or together, as by a norm or
// a gain of each head. By medians: some elements, heads or tokens that are wrong altogether are no noise.
Noise measure_noise(const Sample&, const std::optional<Block>& asked);

// Whether elements are the same before and after, but for the sample's noise.
struct Still {
  const Sample& sample;
  double sum = 0;  // the sum of squared changes, in squared errors
  double count = 0;
  bool moved = false;  // an element changed by more than rounding
  void add(double before, double after) noexcept;
  bool holds() const noexcept;
};

// ---- the angles of its pairs ---------------------------------------------------------------------

// turn[(b * tokens + t) * pairs() + i] is the complex factor of pair i: y = turn * x, by least squares over its heads.
struct Turns : Bounds {  // the sample's bounds
  Reading reading = {};
  Block block = {};
  bool apart = false;                    // the pairs of each head are pairs of their own: Motion::of
  std::vector<std::int64_t> heads = {};  // the heads that rotate; the others are the same before and after
  std::vector<Complex> turn = {};        //
  std::vector<double> sigma = {};        // standard error of each turn, from rounding and noise
  std::vector<double> weight = {};       // sum over the heads of the squared norm before
  double spread = 0;                     // relative misfit among the heads, for the worst pair

  const Layout& layout() const noexcept { return reading.layout; }
  std::int64_t rows() const noexcept { return layout().batch * layout().tokens; }
  int pairs() const noexcept { return block.pairs * (apart ? static_cast<int>(layout().heads) : 1); }
  std::size_t at(std::int64_t row, int pair) const noexcept { return static_cast<std::size_t>(row * pairs() + pair); }
};
Turns measure(const Sample&, const Reading&, const Block&, bool apart = false);
// The turns with most rows weighing nothing: some hundred tell as much as all do.
Turns thinned(const Turns&);

// How fast each pair rotates, and to which positions: an angle is a sum of `terms` products of a speed and a distance,
// and a phase. The distance is the position, minus the position in `from` if the tensor before is rotated already.
struct Motion {
  std::vector<double> speed;                  // radians per position, [terms, pairs], negative: clockwise
  std::vector<std::uint8_t> axis;             // the axis of each speed; all 0 where it is empty
  std::vector<std::vector<double>> position;  // per axis, of each row (b * tokens + t)
  std::vector<std::vector<double>> from = {};  // positions of the tensor before; empty: it is not rotated
  double factor = 1;                          // the attention factor
  int terms = 1;
  int apart = 0;                    // above 0: each head has so many pairs of its own, else all heads the same
  std::vector<double> phase = {};   // per pair; empty: 0
  std::vector<double> growth = {};  // per pair: the logarithm of xPos's amplitude, per position from `center` on
  double center = 0;

  int pairs() const noexcept { return static_cast<int>(speed.size()) / terms; }
  int of(std::int64_t head, int pair) const noexcept { return static_cast<int>(head) * apart + pair; }
  int axis_of(int pair, int term = 0) const noexcept {
    return axis.empty() ? 0 : axis[static_cast<std::size_t>(term * pairs() + pair)];
  }
  double from_of(std::int64_t row, int on) const noexcept {
    return from.empty() ? 0 : from[static_cast<std::size_t>(on)][static_cast<std::size_t>(row)];
  }
  double distance(std::int64_t row, int pair, int term = 0) const noexcept {
    const int on = axis_of(pair, term);
    return position[static_cast<std::size_t>(on)][static_cast<std::size_t>(row)] - from_of(row, on);
  }
  double speed_of(int pair, int term = 0) const noexcept {
    return speed[static_cast<std::size_t>(term * pairs() + pair)];
  }
  double log_amplitude(std::int64_t row, int pair) const noexcept {
    return growth.empty()
               ? 0
               : growth[static_cast<std::size_t>(pair)] * (distance(row, pair) - (from.empty() ? center : 0));
  }
  double angle(std::int64_t row, int pair) const noexcept;  // without the phase
  double size(std::int64_t row, int pair) const noexcept;   // |terms| + |phase| + |log amplitude|
  // The size of all angles that the engine computed: size(), and with `from` the angles of the tensor before too.
  double computed(std::int64_t row, int pair) const noexcept;
  Complex turn(std::int64_t row, int pair) const noexcept;
  Motion reversed() const;  // undoes it
  void shift(double by);    // moves all positions
};

// Rotates the block of every head of the elements, which lie as the sample's, by the motion, in double
// (composites.cpp).
void rotate(std::vector<double>& elements, const Layout&, const Block&, const Motion&);

// ---- comparing them ------------------------------------------------------------------------------

// The error of angles in float32 steps, relative to the angle: about 12 roundings, and one more for each pair before it
// in engines that multiply their way from pair to pair (ggml).
inline constexpr double float32_slack = 12 * 0x1p-24;
inline double slack_of(int pair, double slack = float32_slack) { return slack * (1 + pair / 12.0); }
inline double slack_of(const Turns& turns, int pair, double slack = float32_slack) {
  return slack_of(pair % turns.block.pairs, slack);
}

// The error of the angle's and the table's float32 steps, relative to the pair's norm. angle: its size.
inline double steps_of(int pair, double angle) { return 4 * 0x1p-24 + slack_of(pair) * angle; }

// The largest error of an element of a pair of this norm: the error of the steps above, and the rounding of cos, sin,
// two products and their sum to the element type: at most 3 units of the norm (2.6 were seen in Hugging Face's 16-bit
// models).
inline double most_off(double norm, double unit, double least, double steps) {
  return norm * (3 * unit + steps) + 2 * least;
}

// The difference between a measured turn and `turn`, in tolerances: at most 1 where rounding explains it. slack: of the
// angle, relative: slack_of(pair).
double misfit(const Turns&, std::size_t at, double angle, Complex turn, double slack);
double misfit(const Turns&, const Motion&, std::int64_t row, int pair);

struct Fit {
  // Every turn differs by no more than rounding and noise explain, and noisy pairs are turned no more than stretched.
  bool holds = true;
  double residual = 0;  // rms of the differences, relative to the turns
  double chi = 0;       // the sum of squared differences of the angles of noisy pairs, in variances
};
// turn_of: turns to use in place of the motion's, such as the entries of a table of few bits. whole: false stops
// at the first turn that is not explained: then only `holds` is known.
Fit compare(const Turns&, const Motion&, double slack = float32_slack,
            const std::function<Complex(std::int64_t row, int pair)>& turn_of = {}, bool whole = true);

// In which precision the angles and the table of cos and sin were computed, where the motion explains the turns but for
// rounding.
struct FoundPrecision {
  std::optional<Precision> precision;  // empty where the data do not tell
  Cause cause = Cause::coarse_table;   // which numbers have few bits
  Fit fit;                             // the motion's, with that precision
};
FoundPrecision find_precision(const Turns&, const Motion&, const std::vector<float>& inv_freq_float32);

}  // namespace rotary::diagnose
