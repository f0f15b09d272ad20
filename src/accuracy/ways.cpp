#include "runtime/arithmetic.h"

#include "ways.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

namespace rotary::accuracy {

namespace {

constexpr std::array<WayInfo, 11> ways = {{
    {Way::exact, "exact", "the real cos and sin, rounded once to float32: this library's tables"},
    {Way::float32_product, "float32 product", "inv_freq in float32 times the position in float32"},
    {Way::float32_inv_freq, "float32 inv_freq", "inv_freq rounded to float32, times the position in double"},
    {Way::bf16_inv_freq, "bf16 inv_freq", "inv_freq rounded to bf16 (a model cast to bf16), the product in float32"},
    {Way::bf16_table, "bf16 table", "float32 product, then cos and sin rounded to bf16"},
    {Way::f16_table, "f16 table", "float32 product, then cos and sin rounded to f16"},
    {Way::bf16_positions, "bf16 positions", "the position rounded to bf16, then float32 product"},
    {Way::tf32, "TF32", "the product by a matrix unit: position and inv_freq rounded to 11 bits"},
    {Way::running_product, "running product", "the angle multiplied from pair to pair in float32, as ggml does"},
    {Way::running_rotation, "running rotation", "(cos, sin) turned once more from position to position, in float32"},
    {Way::fast_sine, "fast sine", "float32 product, then a model of a GPU's quick sine (CUDA's __sinf, __cosf)"},
}};

// base^(-2 index / r), in double.
double series(double base, double r, int index) { return std::pow(base, -2.0 * index / r); }

// The base whose series the frequencies are, but for one factor; none if they are no such series.
std::optional<double> base_of(const std::vector<double>& inv_freq, const std::vector<int>& index, double r) {
  std::size_t first = inv_freq.size(), last = 0;
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    if (inv_freq[i] <= 0) continue;
    if (first == inv_freq.size() || index[i] < index[first]) first = i;
    if (inv_freq[last] <= 0 || index[i] > index[last]) last = i;
  }
  if (first == inv_freq.size() || index[first] == index[last]) return std::nullopt;
  const double base = std::pow(inv_freq[first] / inv_freq[last], r / (2.0 * (index[last] - index[first])));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double expected = inv_freq[first] * series(base, r, index[i] - index[first]);
    if (inv_freq[i] != 0 && std::fabs(inv_freq[i] / expected - 1) > 1e-12) return std::nullopt;
  }
  return base;
}

std::optional<Subject::Chain> chain_of(const Rope& rope, const std::vector<double>& inv_freq) {
  Subject::Chain chain;
  chain.index = rope.index;
  if (chain.index.empty()) {
    chain.index.resize(inv_freq.size());
    std::iota(chain.index.begin(), chain.index.end(), 0);
  }
  const int rotary_dim = static_cast<int>(2 * inv_freq.size());
  const int r = rope.exponent_dim == 0 ? rotary_dim : rope.exponent_dim;
  const bool is_plain = rope.inv_freq.empty() && rope.multiplier.empty();
  const bool is_unscaled = is_plain && std::holds_alternative<Unscaled>(rope.scaling);
  std::optional<double> base = is_unscaled ? rope.base : base_of(inv_freq, chain.index, r);
  if (!base && is_plain) base = rope.base;
  if (!base) return std::nullopt;
  const float exponent = -2.0F / static_cast<float>(r);
  chain.theta_scale = static_cast<float>(std::pow(*base, static_cast<double>(exponent)));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    chain.multiplier.push_back(static_cast<float>(inv_freq[i] / series(*base, r, chain.index[i])));
  }
  return chain;
}

}  // namespace

std::span<const WayInfo> all_ways() noexcept { return ways; }

const WayInfo& info(Way way) noexcept {
  return *std::find_if(ways.begin(), ways.end(), [way](const WayInfo& known) { return known.way == way; });
}

Way parse_way(std::string_view name) {
  std::string names;
  for (const WayInfo& known : ways) {
    if (name == known.name) return known.way;
    names.append(names.empty() ? "" : ", ").append(known.name);
  }
  throw Error(Code::VALUE, "[accuracy] a way must be one of " + names + " but got '" + std::string(name) + "'");
}

Subject::Subject(const Rope& rope, const Frequencies& frequencies)
    : inv_freq(frequencies.inv_freq),
      inv_freq_float32(frequencies.inv_freq_float32),
      attention_factor(frequencies.attention_factor),
      head_dim(rope.head_dim),
      chain(chain_of(rope, frequencies.inv_freq)) {
  if (inv_freq_float32.empty()) inv_freq_float32.assign(inv_freq.begin(), inv_freq.end());
}

}  // namespace rotary::accuracy
