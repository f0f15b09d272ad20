// How far the common ways to make tables of cos and sin are from the exact one, for one rope: `rotary accuracy` as a
// function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/config.h"
#include "rotary/threads.h"

namespace rotary::accuracy {

// w is the frequency of a pair, p a position, fl() rounding to float32. Where a way says nothing else, cos and sin of
// its angle are rounded to the nearest float, and multiplied by the attention factor in float32.
enum class Way : std::uint8_t {
  exact,             // the real cos and sin, rounded once to float32: this library
  float32_product,   // fl(fl(p) w), w in float32 steps as the frameworks compute it: Angles::float32
  float32_inv_freq,  // p fl(w) in double
  bf16_inv_freq,     // the frameworks' w rounded to bf16 (model.to(bfloat16)), the product in float32
  bf16_table,        // float32_product, then cos and sin rounded to bf16
  f16_table,         // likewise to f16
  bf16_positions,    // fl(bf16(p) w)
  tf32,              // fl(tf32(p) tf32(w)), both to 10 bits behind the point, nearest even: a matrix product
  running_product,   // theta = fl(p), and from pair to pair theta = fl(theta base^(-2/r)): ggml
  running_rotation,  // from position to position (cos, sin) turned once more, in float32
  fast_sine,         // float32_product, then the device's quick sine: sin.approx, CUDA's __sinf
};

struct WayInfo {
  Way way;
  const char* name;     // "float32 product": a contract, the key of JSON
  const char* meaning;  // one line
};
ROTARY_API std::span<const WayInfo> all_ways() noexcept;
ROTARY_API const WayInfo& info(Way) noexcept;
ROTARY_API Way parse_way(std::string_view name);  // throws VALUE

// Where a token stands: an int64, or a finite double of magnitude below 2^63.
class ROTARY_API Position {
 public:
  Position() = default;
  Position(std::int64_t whole) : whole_(whole) {}  // NOLINT: an integer is a position
  static Position real(double value);              // throws POSITION

  bool is_whole() const noexcept { return is_whole_; }
  std::int64_t whole() const noexcept { return whole_; }  // of a real one: rounded towards 0
  double as_double() const noexcept { return is_whole_ ? static_cast<double>(whole_) : real_; }
  float as_float() const noexcept { return is_whole_ ? static_cast<float>(whole_) : static_cast<float>(real_); }
  std::uint64_t magnitude() const noexcept;  // without the fraction

 private:
  std::int64_t whole_ = 0;
  double real_ = 0;
  bool is_whole_ = true;
};

// The positions of one number of digits.
struct Decade {
  std::int64_t first = 0;  // 0, 10, 100, ...: the positions whose magnitude is from first to last
  std::int64_t last = 9;
  std::vector<Position> positions = {};  // those that are measured, of rising magnitude
};

struct Largest {
  double error = 0;  // |table - exact|; the entries hold the attention factor
  Position position = {};
  int pair = 0;
  bool of_sine = false;
};

// Of q_m . k_n, q and k unit vectors of a head, m and n two positions of the decade.
struct ScoreErrors {
  double largest = 0;  // for any q and k: the largest |z'_m conj(z'_n) - z_m conj(z_n)| of a pair, z = cos + i sin
  double rms = 0;      // the root of the mean square over all directions of q and k, and over the sampled m and n
};

struct DecadeErrors {
  std::optional<Largest> cos_sin = {};     // none: the way is not run at all positions of the decade
  std::optional<ScoreErrors> scores = {};  // none likewise, or there are not two positions
};

struct WayErrors {
  Way way = Way::exact;
  std::vector<DecadeErrors> decades = {};
};

// How far float32_product stays near the exact table.
struct Reach {
  std::int64_t last = 0;    // the last position before the first error above the tolerance; -1: none
  bool to_the_end = false;  // no error above the tolerance was found: `last` is the last position looked at
};

struct Request {
  Model model;
  std::size_t rope = 0;             // its number in the model
  Frequencies frequencies;          // of that rope, at `length` tokens
  std::int64_t length = 0;          // tokens in play, for the answer
  std::vector<Position> positions;  // where to measure; empty: a sample of each decade, to the one beyond the context's
  double tolerance = 1e-3;          // the error that the advice allows float32: from 1e-6 to 1
};

struct Study {
  std::size_t rope = 0;  // its number in the model
  ModelRope used;
  Frequencies frequencies;
  std::int64_t length = 0;
  double tolerance = 0;
  std::vector<Decade> decades;
  std::vector<WayErrors> ways;  // every way, each with its errors in every decade
  Reach reach;                  // within the tolerance
  std::string sampling;         // which positions were measured, in words
  std::string advice;           // up to where float32 is good enough, in words
};

// Of a rope whose pairs turn by sums each axis is measured alone, with the other coordinates at 0.
// progress: told now and then, on the caller's thread, how many of all positions are measured. The executor changes no
// bit of the result. Throws POSITION where an angle overflows float32, ROPE of phases and xpos, VALUE.
ROTARY_API Study study(const Request&, const Executor& = serial(),
                       const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});
// The object that `rotary accuracy --json` prints.
ROTARY_API std::string to_json(const Study&);

}  // namespace rotary::accuracy
