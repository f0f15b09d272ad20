#include "runtime/arithmetic.h"

#include "ways.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

#include "rotary/error.h"
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

double product_of(float position, float speed) noexcept { return static_cast<double>(position * speed); }

CosSin times(const CosSin& value, double attention_factor) noexcept {
  const auto factor = static_cast<float>(attention_factor);
  return {value.cos * factor, value.sin * factor};
}

void check_finite(double angle, Way way) {
  if (std::isfinite(angle)) return;
  throw Error(Code::POSITION, std::string("[accuracy] every angle must be finite in float32 but '") + info(way).name +
                                  "' got " + (std::isnan(angle) ? "nan" : "an infinite one"));
}

// ---- the real numbers ----

// Towards zero; what is lost is below 2^-117.
Sum sum_of(const detail::Fraction<2>& value, bool negative) noexcept {
  constexpr std::uint64_t tail = 0x7ff;  // the bits of a limb that a double does not hold
  const double sign = negative ? -1 : 1;
  const double high = static_cast<double>(value.limb[1] & ~tail) * 0x1p-64;
  const double low =
      static_cast<double>(value.limb[1] & tail) * 0x1p-64 + static_cast<double>(value.limb[0]) * 0x1p-128;
  return {sign * high, sign * low};
}

Sum operator*(const Sum& a, double factor) noexcept {
  if (factor == 1) return a;
  const double high = a.high * factor;
  return {high, std::fma(a.high, factor, -high) + a.low * factor};
}

detail::Dyadic dyadic(const Position& position) noexcept {
  return position.is_whole() ? detail::dyadic(position.whole()) : detail::dyadic(position.as_double());
}

// Whether every number within 2^-50 of value, relatively, rounds to the same float.
bool is_clear(double value) noexcept {
  return static_cast<float>(value * (1 - 0x1p-50)) == static_cast<float>(value * (1 + 0x1p-50));
}

// `exact` rounded once to float: the result of round_once, for which it reuses `exact` where that decides.
CosSin rounded(const ExactCosSin& exact, const Position& position, double inv_freq, double factor) noexcept {
  const double cos = exact.cos.high, sin = exact.sin.high;
  if (is_clear(cos) && is_clear(sin)) return {static_cast<float>(cos), static_cast<float>(sin)};
  return detail::round_once(dyadic(position), inv_freq, factor, Rounding::f32);
}

// cos and sin of a finite angle, each the nearest float.
CosSin nearest_cos_sin(double angle) noexcept {
  const double cos = std::cos(angle), sin = std::sin(angle);
  if (is_clear(cos) && is_clear(sin)) return {static_cast<float>(cos), static_cast<float>(sin)};
  return detail::round_once({false, 1, 0}, angle, 1, Rounding::f32);
}

double distance(float value, const Sum& exact) noexcept {
  return std::fabs((static_cast<double>(value) - exact.high) - exact.low);
}

}  // namespace

Position Position::real(double value) {
  if (!(std::fabs(value) < 0x1p63)) {
    throw Error(Code::POSITION,
                "[accuracy] a position must be finite and below 2^63 but got " + detail::shortest(value));
  }
  Position position;
  position.real_ = value;
  position.is_whole_ = false;
  position.whole_ = static_cast<std::int64_t>(value);
  return position;
}

std::uint64_t Position::magnitude() const noexcept {
  const auto bits = static_cast<std::uint64_t>(whole_);
  return whole_ < 0 ? 0 - bits : bits;
}

ExactCosSin exact_cos_sin(const Position& position, double inv_freq, double factor) noexcept {
  const detail::Dyadic p = dyadic(position), w = detail::dyadic(inv_freq);
  const detail::Wide m = static_cast<detail::Wide>(p.mantissa) * w.mantissa;
  const int exponent = p.exponent + w.exponent;
  const bool negative = p.negative != w.negative;
  const int bits = detail::high(m) != 0 ? 64 + width_of(detail::high(m)) : width_of(detail::low(m));
  if (m == 0) return {Sum{1, 0} * factor, Sum{0, 0}};
  if (bits + exponent <= -100) return {Sum{1, 0} * factor, Sum{position.as_double() * inv_freq, 0} * factor};
  const auto found = detail::wide::cos_sin(detail::turns<2>(m, exponent));
  return {sum_of(found.cos, found.cos_negative) * factor, sum_of(found.sin, found.sin_negative != negative) * factor};
}

std::span<const WayInfo> all_ways() noexcept { return ways; }

const WayInfo& info(Way way) noexcept { return ways[static_cast<std::size_t>(way)]; }

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
      rows(inv_freq.size() / static_cast<std::size_t>(frequencies.pairs())),
      inv_freq_float32(frequencies.inv_freq_float32),
      attention_factor(frequencies.attention_factor),
      head_dim(rope.head_dim),
      chain(chain_of(rope, frequencies.inv_freq)) {
  if (!frequencies.phase.empty() || frequencies.xpos.scale != 0)
    throw Error(Code::ROPE,
                "[accuracy] angles must be inv_freq times a position, of which the common ways are known, but the "
                "rope has phases or xpos");
  if (inv_freq_float32.empty()) inv_freq_float32.assign(inv_freq.begin(), inv_freq.end());
}

bool has_row(const Subject& subject, Way way, const Position& position) noexcept {
  if (way == Way::running_product) return subject.chain.has_value();
  if (way != Way::running_rotation) return true;
  return position.is_whole() && position.magnitude() <= static_cast<std::uint64_t>(last_running_rotation);
}

CosSin float32_product(const Subject& subject, const Position& position, std::size_t pair) {
  const double angle = product_of(position.as_float(), subject.inv_freq_float32[pair]);
  check_finite(angle, Way::float32_product);
  return times(nearest_cos_sin(angle), subject.attention_factor);
}

Largest error_of(const CosSin& value, const ExactCosSin& exact, const Position& position, std::size_t pair) {
  const double cos_error = distance(value.cos, exact.cos), sin_error = distance(value.sin, exact.sin);
  return {std::max(cos_error, sin_error), position, static_cast<int>(pair), sin_error > cos_error};
}

SharedRow::SharedRow(const Subject& subject, const Position& at) : position(at) {
  for (std::size_t i = 0; i < subject.inv_freq.size(); ++i) {
    exact.push_back(exact_cos_sin(at, subject.inv_freq[i], subject.attention_factor));
    const double angle = product_of(at.as_float(), subject.inv_freq_float32[i]);
    product.push_back(std::isfinite(angle) ? times(nearest_cos_sin(angle), subject.attention_factor) : CosSin{});
  }
}

double WayRows::angle(const Position& at, std::size_t pair) const {
  const float position = at.as_float(), speed = subject_->inv_freq_float32[pair];
  switch (way_) {
    case Way::float32_inv_freq:
      return at.as_double() * static_cast<double>(static_cast<float>(subject_->inv_freq[pair]));
    case Way::bf16_inv_freq:
      return product_of(position, bf16_of(speed));
    case Way::bf16_positions:
      return product_of(bf16_of(position), speed);
    case Way::tf32:
      return product_of(tf32(position), tf32(speed));
    case Way::running_product: {
      const Subject::Chain& chain = *subject_->chain;
      return product_of(theta_[static_cast<std::size_t>(chain.index[pair])], chain.multiplier[pair]);
    }
    default:
      return product_of(position, speed);
  }
}

// Of every way but exact and running_rotation.
CosSin WayRows::value(const SharedRow& shared, std::size_t pair) const {
  const double turned = angle(shared.position, pair);
  check_finite(turned, way_);
  const CosSin& product = shared.product[pair];
  switch (way_) {
    case Way::float32_product:
      return product;
    case Way::bf16_table:
      return {bf16_of(product.cos), bf16_of(product.sin)};
    case Way::f16_table:
      return {narrowed<Rounding::f16>(product.cos), narrowed<Rounding::f16>(product.sin)};
    case Way::fast_sine:
      return times(quick_cos_sin(static_cast<float>(turned)), subject_->attention_factor);
    default:
      return times(nearest_cos_sin(turned), subject_->attention_factor);
  }
}

void WayRows::turn_to(const Position& position) {
  if (step_.empty() || position.magnitude() < at_) {
    step_.clear();
    for (const double w : subject_->inv_freq) step_.push_back(detail::round_once({false, 1, 0}, w, 1, Rounding::f32));
    at_ = 0;
    rotated_.assign(step_.size(), CosSin{1, 0});
  }
  for (; at_ < position.magnitude(); ++at_) {
    for (std::size_t i = 0; i < rotated_.size(); ++i) {
      const CosSin now = rotated_[i], step = step_[i];
      rotated_[i] = {now.cos * step.cos - now.sin * step.sin, now.sin * step.cos + now.cos * step.sin};
    }
  }
}

const std::vector<CosSin>& WayRows::at(const SharedRow& shared) {
  const Position& position = shared.position;
  row_.resize(shared.exact.size());
  if (way_ == Way::running_rotation) turn_to(position);
  if (way_ == Way::running_product) {
    const std::vector<int>& index = subject_->chain->index;
    theta_.resize(static_cast<std::size_t>(*std::max_element(index.begin(), index.end())) + 1);
    float theta = position.as_float();
    for (float& of_index : theta_) {
      of_index = theta;
      theta *= subject_->chain->theta_scale;
    }
  }
  for (std::size_t i = 0; i < row_.size(); ++i) {
    if (way_ == Way::exact) {
      row_[i] = rounded(shared.exact[i], position, subject_->inv_freq[i], subject_->attention_factor);
    } else if (way_ == Way::running_rotation) {
      const CosSin& now = rotated_[i];
      row_[i] = times({now.cos, position.as_double() < 0 ? -now.sin : now.sin}, subject_->attention_factor);
    } else {
      row_[i] = value(shared, i);
    }
  }
  return row_;
}

std::vector<std::vector<double>> errors_at(const Subject& subject, std::span<const Way> asked,
                                           const std::vector<Position>& positions) {
  std::vector<WayRows> rows;
  for (const Way way : asked) rows.emplace_back(subject, way);
  std::vector<std::vector<double>> errors(asked.size());
  for (const Position& position : positions) {
    const SharedRow shared(subject, position);
    for (std::size_t w = 0; w < asked.size(); ++w) {
      if (!has_row(subject, asked[w], position)) {
        throw Error(Code::POSITION, std::string("[accuracy] '") + info(asked[w]).name +
                                        "' must have a row at the position but has none at " +
                                        detail::spelled(position.as_double()));
      }
      const std::vector<CosSin>& row = rows[w].at(shared);
      double& largest = errors[w].emplace_back(0);
      for (std::size_t i = 0; i < row.size(); ++i)
        largest = std::max(largest, error_of(row[i], shared.exact[i], position, i).error);
    }
  }
  return errors;
}

}  // namespace rotary::accuracy
