#include "runtime/arithmetic.h"

#include "rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

#include "table/narrow.h"
#include "values/number_text.h"

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

using detail::narrowed;

// To 10 bits behind the point, nearest even; finite, and not near the largest float.
float tf32(float x) noexcept {
  const std::int32_t magnitude = detail::magnitude_of(x);
  const std::int32_t kept = (magnitude + 0xfff + (magnitude >> 13 & 1)) & ~0x1fff;
  return detail::float_of_bits(kept | (detail::bits_of_float(x) ^ magnitude));
}

float bf16_of(float x) noexcept { return narrowed<Rounding::bf16>(x); }

float held_position(Way way, const Position& position) noexcept {
  const float value = position.as_float();
  if (way == Way::bf16_positions) return bf16_of(value);
  return way == Way::tf32 ? tf32(value) : value;
}

std::vector<float> held_speeds(Way way, const Subject& subject) {
  if (way == Way::float32_inv_freq) return {subject.inv_freq.begin(), subject.inv_freq.end()};
  std::vector<float> speeds = subject.inv_freq_float32;
  if (way == Way::bf16_inv_freq) std::transform(speeds.begin(), speeds.end(), speeds.begin(), bf16_of);
  if (way == Way::tf32) std::transform(speeds.begin(), speeds.end(), speeds.begin(), tf32);
  return speeds;
}

// A GPU's sin.approx and cos.approx, in its machine code FMUL.RZ by 0.15915494 and MUFU.SIN: the angle times
// fl(1/(2 pi)), rounded towards zero to float32, is taken for the number of turns; of its fraction the unit then knows
// the sine. The unit's own error, some 2^-21, is not modelled.
CosSin quick_cos_sin(float angle) noexcept {
  constexpr float inverse_two_pi = 0.15915494309189535F;
  const double product = static_cast<double>(angle) * static_cast<double>(inverse_two_pi);  // exact: 48 bits
  auto turns = static_cast<float>(product);
  if (std::fabs(static_cast<double>(turns)) > std::fabs(product)) turns = std::nextafter(turns, 0.0F);
  const double fraction = static_cast<double>(turns) - std::nearbyint(static_cast<double>(turns));
  const double radians = 2 * std::numbers::pi * fraction;
  return {static_cast<float>(std::cos(radians)), static_cast<float>(std::sin(radians))};
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

Rows::Rows(const Subject& subject, Way way)
    : subject_(&subject),
      way_(way),
      speed_(held_speeds(way, subject)),
      factor_(static_cast<float>(subject.attention_factor)) {
  if (way != Way::running_rotation) return;
  cos_.assign(subject.inv_freq.size(), 1);
  sin_.assign(subject.inv_freq.size(), 0);
  for (const double w : subject.inv_freq) {
    const CosSin step = detail::round_once({false, 1, 0}, w, 1, Rounding::f32);
    step_cos_.push_back(step.cos);
    step_sin_.push_back(step.sin);
  }
}

bool Rows::has(const Position& position) const noexcept {
  if (way_ == Way::running_product) return subject_->chain.has_value();
  if (way_ != Way::running_rotation) return true;
  return position.is_whole() && position.magnitude() <= static_cast<std::uint64_t>(last_running_rotation);
}

double Rows::angle(const Position& position, float held, std::size_t pair) const noexcept {
  if (way_ == Way::float32_inv_freq) return position.as_double() * static_cast<double>(speed_[pair]);
  return static_cast<double>(held * speed_[pair]);
}

CosSin Rows::entry(double angle) const {
  if (!std::isfinite(angle)) {
    throw Error(Code::POSITION, std::string("[accuracy] every angle must be finite in float32 but '") +
                                    info(way_).name + "' got " + (std::isnan(angle) ? "nan" : "an infinite one"));
  }
  CosSin value = way_ == Way::fast_sine ? quick_cos_sin(static_cast<float>(angle)) : nearest_cos_sin(angle);
  value = {value.cos * factor_, value.sin * factor_};
  if (way_ == Way::bf16_table) return {bf16_of(value.cos), bf16_of(value.sin)};
  if (way_ == Way::f16_table) return {narrowed<Rounding::f16>(value.cos), narrowed<Rounding::f16>(value.sin)};
  return value;
}

void Rows::write_chain(const Position& position, std::span<CosSin> row) {
  const Subject::Chain& chain = *subject_->chain;
  theta_.assign(static_cast<std::size_t>(*std::max_element(chain.index.begin(), chain.index.end())) + 1, 0);
  float theta = position.as_float();
  for (float& of_index : theta_) {
    of_index = theta;
    theta *= chain.theta_scale;
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float angle = theta_[static_cast<std::size_t>(chain.index[i])] * chain.multiplier[i];
    row[i] = entry(static_cast<double>(angle));
  }
}

void Rows::go_to(const Position& position) {
  if (way_ != Way::running_rotation) return;
  if (position.magnitude() < at_) {
    at_ = 0;
    std::fill(cos_.begin(), cos_.end(), 1.0F);
    std::fill(sin_.begin(), sin_.end(), 0.0F);
  }
  for (; at_ < position.magnitude(); ++at_) {
    for (std::size_t i = 0; i < cos_.size(); ++i) {
      const float c = cos_[i] * step_cos_[i] - sin_[i] * step_sin_[i];
      sin_[i] = sin_[i] * step_cos_[i] + cos_[i] * step_sin_[i];
      cos_[i] = c;
    }
  }
}

void Rows::write(const Position& position, std::span<CosSin> row) {
  if (way_ == Way::running_product) return write_chain(position, row);
  if (way_ == Way::running_rotation) {
    go_to(position);
    const float sign = position.as_double() < 0 ? -1.0F : 1.0F;
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = {cos_[i] * factor_, sign * sin_[i] * factor_};
    return;
  }
  const float held = held_position(way_, position);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = way_ == Way::exact ? detail::round_once(dyadic(position), subject_->inv_freq[i],
                                                     subject_->attention_factor, Rounding::f32)
                                : entry(angle(position, held, i));
  }
}

std::vector<double> errors_at(const Subject& subject, Way way, const std::vector<Position>& positions) {
  Rows rows(subject, way);
  std::vector<CosSin> row(subject.inv_freq.size());
  std::vector<double> errors;
  for (const Position& position : positions) {
    if (!rows.has(position)) {
      throw Error(Code::POSITION, std::string("[accuracy] '") + info(way).name + "' must have a row at the position " +
                                      "but has none at " + detail::spelled(position.as_double()));
    }
    rows.write(position, row);
    double largest = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const ExactCosSin exact = exact_cos_sin(position, subject.inv_freq[i], subject.attention_factor);
      largest = std::max({largest, distance(static_cast<double>(row[i].cos), exact.cos),
                          distance(static_cast<double>(row[i].sin), exact.sin)});
    }
    errors.push_back(largest);
  }
  return errors;
}

}  // namespace rotary::accuracy
