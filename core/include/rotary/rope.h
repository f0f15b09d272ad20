// Rope (a rope as a model card describes it) and Frequencies (the angular speed of every pair).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "rotary/error.h"
#include "rotary/export.h"

namespace rotary {

// ---- Rope: as a model card describes it ----------------------------------------------------------

// Which two elements of the rotated block rotate together, with n = rotary_dim / 2 pairs. For n = 3, with c for the
// first element of each pair and s for the second:
//
//   half         [c c c s s s]
//   interleaved  [c s c s c s]
enum class Pairing : std::uint8_t {
  unset,                // there is no default: functions that need the pairing throw PAIRING
  half,                 // (x[i], x[i + n])      "rotate_half", GPT-NeoX, most of Hugging Face
  interleaved,          // (x[2i], x[2i + 1])    RoFormer, GPT-J, Meta's own Llama
  interleaved_to_half,  // reads (2i, 2i + 1), writes (i, i + n): DeepSeek-V3's family in Hugging Face
};

// The published methods that change inv_freq. r is Rope::exponent_dim, i the exponent index of a pair, b the base,
// w = b^(-2i/r) the unscaled frequency, f the factor, L0 the trained_length, a the attention factor (1 if not stated).

// w. RoFormer, arXiv:2104.09864.
struct Unscaled {
  bool operator==(const Unscaled&) const = default;
};
// w / f. Position interpolation, arXiv:2306.15595.
struct Linear {
  double factor = 1;
  bool operator==(const Linear&) const = default;
};
// The base becomes b f^(r/(r-2)), at any length. bloc97, in the YaRN repository; Hunyuan's "alpha".
struct Ntk {
  double factor = 1;
  bool operator==(const Ntk&) const = default;
};
// (b f)^(-2i/r) f^(-2/r), or with mixed_b = B: w / exp(ln(f)/(r/2)^B (i+1)^B). kexue.fm/9706; vLLM's rope_type "ntk".
struct NtkFixed {
  double factor = 1;
  std::optional<double> mixed_b = {};
  bool operator==(const NtkFixed&) const = default;
};
// The base becomes b (f L/L0 - (f-1))^(r/(r-2)) with L = max(length, L0). Hugging Face.
struct Dynamic {
  double factor = 1;
  std::int64_t trained_length = 0;
  bool operator==(const Dynamic&) const = default;
};
// NTK by parts, with an attention factor. YaRN, arXiv:2309.00071.
struct Yarn {
  double factor = 1;
  std::int64_t trained_length = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;                         // floor and ceil of the correction range; gpt-oss: false
  std::optional<double> attention_factor = {};  // a; not set: the formula below
  std::optional<double> mscale = {};            // a = M(mscale) / M(mscale_all_dim) if both are set and
  std::optional<double> mscale_all_dim = {};    // not 0, else M(1); M(m) = magnitude * m * ln(factor) + 1
  double magnitude = 0.1;                       // telechat3: 0.07
  bool mscale_ratio = false;                    // DeepSeek's own code: always the ratio, with defaults 1 and 0
  double extrapolation_factor = 1;              // vLLM: weight of the unscaled frequencies
  double attn_factor = 1;                       // vLLM, ggml: multiplies a
  bool operator==(const Yarn&) const = default;
};
// w / ext_i with ext = long_factor if length > L0, else short_factor. LongRoPE, arXiv:2402.13753.
struct LongRope {
  std::vector<double> short_factor = {};  // one per pair
  std::vector<double> long_factor = {};   // one per pair
  std::int64_t trained_length = 0;
  double factor = 1;                            // a = sqrt(1 + ln(factor) / ln(L0)) if factor > 1, else 1
  std::optional<double> attention_factor = {};  // replaces a
  std::optional<double> short_mscale = {};      // replaces a up to L0 (Phi-3.5-MoE)
  std::optional<double> long_mscale = {};       // replaces a beyond L0
  bool operator==(const LongRope&) const = default;
};
// Stretches wavelengths above L0/low by f, keeps those below L0/high and blends between. llama-models, Llama 3.1.
struct Llama3 {
  double factor = 1;
  std::int64_t trained_length = 0;
  double low = 1;
  double high = 4;
  bool operator==(const Llama3&) const = default;
};
// The first floor(fraction * r / 2) pairs rotate (w / f), the others do not. p-RoPE, arXiv:2410.06205; Gemma 4.
struct Proportional {
  double fraction = 1;
  double factor = 1;
  bool operator==(const Proportional&) const = default;
};
// YaRN's blend of the logarithms: w / f^(1 - m), where m is the weight of w in YaRN. Grok in SGLang, models/grok.py.
struct YarnLog {
  double factor = 1;
  std::int64_t trained_length = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  double extrapolation_factor = 1;
  bool operator==(const YarnLog&) const = default;
};
// The base becomes b^(ln(L0 f / 2 pi) / ln(L0 / 2 pi)), L0 above 2 pi. Grok in SGLang, models/grok.py.
struct ThetaScale {
  double factor = 1;
  std::int64_t trained_length = 0;
  bool operator==(const ThetaScale&) const = default;
};
using Scaling =
    std::variant<Unscaled, Linear, Ntk, NtkFixed, Dynamic, Yarn, LongRope, Llama3, Proportional, YarnLog, ThetaScale>;

// "default", "linear", "ntk", "ntk_fixed", "dynamic", "yarn", "longrope", "llama3", "proportional", "yarn_log",
// "theta_scale".
ROTARY_API const char* name(const Scaling&) noexcept;
// The scaling of that name with its default values. Throws SCALING.
ROTARY_API Scaling parse_scaling(std::string_view name);
// Whether inv_freq or the attention factor depends on the length, see frequencies(): Dynamic, LongRope.
ROTARY_API bool depends_on_length(const Scaling&) noexcept;
// A value of a scaling, by the name of its member ("factor"), for programs that read or write any scaling.
struct ScalingValue {
  const char* name;
  std::variant<double*, std::int64_t*, bool*, std::optional<double>*, std::vector<double>*> value;
};
// The values of a scaling, to read and to set. The pointers are valid as long as the scaling is of this kind.
ROTARY_API std::vector<ScalingValue> values_of(Scaling&);
ROTARY_API const char* name(Pairing) noexcept;            // "unset", "half", "interleaved", "interleaved_to_half"
ROTARY_API Pairing parse_pairing(std::string_view name);  // any but "unset"; throws PAIRING

// The amplitude of xPos, arXiv:2212.10554: at position p, cos and sin of pair i of n are multiplied by
// zeta^((p - center) / scale), zeta = (2i + 0.4 r) / (1.4 r), r = 2n, for queries; for keys by its inverse.
struct XPos {
  double scale = 0;         // above 0, 512 in the published models; 0: no amplitude
  double center = 0;        // must be the same for queries and for the keys of a cache
  bool reciprocal = false;  // true for keys
  bool operator==(const XPos&) const = default;
};

struct Rope {
  int head_dim = 0;                  // elements of one head
  int rotary_dim = 0;                // elements of the rotated block, even; 0: head_dim
  double base = 10000;               // above 1 ("rope_theta")
  Pairing pairing = Pairing::unset;  // required
  Scaling scaling = {};
  std::vector<std::uint8_t> axis = {};  // which coordinate of a position drives each pair; empty: all 0
  std::vector<int> index = {};          // i in b^(-2i/r), per pair; empty: 0, 1, 2, ...
  int exponent_dim = 0;                 // r in b^(-2i/r); 0: rotary_dim (axial ropes: the width of an axis)
  bool clockwise = false;               // rotates by minus the angle: (a cos + b sin, b cos - a sin); nanochat
  // Learned values, one per pair or empty; finite; 0: the pair does not rotate; negative: it rotates backwards.
  std::vector<double> inv_freq = {};  // replaces the computed frequencies; the scaling still sets the attention factor
  std::vector<double> multiplier = {};          // multiplies inv_freq, computed or learned
  std::optional<double> attention_factor = {};  // replaces the scaling's
  // Rows of frequencies, not the model's number of heads: leave it 1 unless each head turns by its own frequencies. If
  // it is above 1, or summed_axes is above 0, inv_freq is required, in the shape of Frequencies::inv_freq.
  int head_rows = 1;
  int summed_axes = 0;
  std::vector<double> phase = {};               // as Frequencies::phase
  XPos xpos = {};
  ROTARY_API int axes() const noexcept;  // the axes of its positions, as Frequencies::axes()
  bool operator==(const Rope&) const = default;
};

// Values for Rope::axis. sections are the numbers of pairs of each axis.
ROTARY_API std::vector<std::uint8_t> sectioned_axes(std::span<const int> sections);       // Qwen2-VL: ttt hhh www
ROTARY_API std::vector<std::uint8_t> interleaved_axes(std::span<const int> sections);     // Qwen3-VL: thw thw ... ttt
ROTARY_API std::vector<std::uint8_t> ernie_axes(std::span<const int> height_width_time);  // Ernie 4.5 VL: hwhw... ttt
// A vision rope of several axes, each with its own run of frequencies over rotary_dim / axes elements:
// the first pairs use axis 0, the next axis 1, ...
ROTARY_API Rope axial(int head_dim, int axes, double base, Pairing pairing);
// Axes of unequal width, each with its own base (Flux: 16, 56, 56): the first width / 2 pairs use axis 0, and so on.
// Widths are even and sum to at most head_dim; the remaining elements do not rotate, nor does an axis of width 0. Fills
// in inv_freq and axis. Throws SHAPE, SCALING, and LENGTH for a scaling that depends on the length.
struct Axis {
  int width = 0;  // elements of the head
  double base = 10000;
  double stretch = 1;    // multiplies its wavelengths
  Scaling scaling = {};  // scales its own frequencies; all axes must have the same attention factor
  bool operator==(const Axis&) const = default;
};
ROTARY_API Rope axial(int head_dim, std::span<const Axis> axes, Pairing pairing);

// ---- Frequencies: radians per position of every pair ---------------------------------------------

// The general form of every rotation. Head h rotates pair i of token t by the angle
//
//   angle[t, h, i] = sum over a of position[a, t] * F[h, a, i] + phase[h, i]
//
// and multiplies the pair by attention_factor and xpos's amplitude. Most ropes have one row of inv_freq for all heads,
// and each pair uses one coordinate: F[h, a, i] = inv_freq[i] where a = axis[i], else 0.
struct Frequencies {
  std::vector<double> inv_freq = {};  // radians per position, [head_rows, pairs], or if summed_axes > 0,
                                      // [head_rows, summed_axes, pairs]; 0: the pair does not rotate
  Pairing pairing = Pairing::unset;   // required by Table
  std::vector<std::uint8_t> axis = {};       // [pairs], or empty: all 0
  double attention_factor = 1;               // multiplies cos and sin
  std::vector<float> inv_freq_float32 = {};  // inv_freq in the frameworks' float32 steps, for Angles::float32;
                                             // empty: inv_freq rounded
  bool clockwise = false;                    // negates every sin, including signed zeros
  int head_rows = 1;               // 1, or the number of heads of q or of k. Consecutive heads of q that share a head
                                   // of k share its row
  int summed_axes = 0;             // above 0: an angle sums over that many coordinates, and axis is empty
  std::vector<double> phase = {};  // radians, added to the angle: [pairs], [head_rows, pairs], or empty: 0
  XPos xpos = {};
  ROTARY_API int axes() const noexcept;   // summed_axes, or 1 + the largest axis
  ROTARY_API int pairs() const noexcept;  // in a head
  ROTARY_API void check() const;          // throws PAIRING, SHAPE, SCALING unless a table can be made of them
};

// inv_freq and attention_factor are within 1 ulp of the real-number formula. length is the length of the sequence, the
// largest position + 1; 0: at most the trained length. Only scalings for which depends_on_length() is true use it; for
// these, frequencies(rope) throws LENGTH, and frequencies(rope, 0) means the trained length.
// Throws PAIRING (unset or unknown), SCALING, SHAPE.
ROTARY_API Frequencies frequencies(const Rope& rope);
ROTARY_API Frequencies frequencies(const Rope& rope, std::int64_t length);

}  // namespace rotary
