// The common ways to compute a table of cos and sin, each as a model of what frameworks and kernels do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"

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
std::span<const WayInfo> all_ways() noexcept;
const WayInfo& info(Way) noexcept;
Way parse_way(std::string_view name);  // throws VALUE

// running_rotation takes a step per position; it is not run beyond this one.
inline constexpr std::int64_t last_running_rotation = std::int64_t{1} << 20;

// A rope as the ways see it.
struct Subject {
  // frequencies: those of the rope, at some length.
  Subject(const Rope& rope, const Frequencies& frequencies);

  std::vector<double> inv_freq;         // the truth: radians per position
  std::vector<float> inv_freq_float32;  // as frameworks compute them
  double attention_factor = 1;
  int head_dim = 0;

  // For running_product: theta of index i is fl(p) multiplied i times by theta_scale, a pair's angle fl(theta of its
  // index * multiplier). Without a value: the frequencies were given and are no geometric series.
  struct Chain {
    float theta_scale = 1;
    std::vector<int> index;         // per pair
    std::vector<float> multiplier;  // per pair: what the scaling makes of the unscaled frequency
  };
  std::optional<Chain> chain;

  int pairs() const noexcept { return static_cast<int>(inv_freq.size()); }
};

}  // namespace rotary::accuracy
