#include "runtime/arithmetic.h"

#include "rows.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "table/narrow.h"
#include "values/number_text.h"

namespace rotary::accuracy {

namespace {

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
  return stored({value.cos * factor_, value.sin * factor_});
}

CosSin Rows::stored(const CosSin& value) const noexcept {
  if (way_ == Way::bf16_table) return {bf16_of(value.cos), bf16_of(value.sin)};
  if (way_ == Way::f16_table) return {narrowed<Rounding::f16>(value.cos), narrowed<Rounding::f16>(value.sin)};
  return value;
}

void Rows::write_exact(const Position& position, std::span<CosSin> row, std::span<const ExactCosSin> known) const {
  const double factor = subject_->attention_factor;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double w = subject_->inv_freq[i];
    row[i] = known.empty() ? detail::round_once(position.dyadic(), w, factor, Rounding::f32)
                           : rounded_once(known[i], position, w, factor);
  }
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

void Rows::write_rotation(const Position& position, std::span<CosSin> row) {
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
  const float sign = position.as_double() < 0 ? -1.0F : 1.0F;
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = {cos_[i] * factor_, sign * sin_[i] * factor_};
}

void Rows::write(const Position& position, std::span<CosSin> row, const Known& known) {
  if (way_ == Way::exact) return write_exact(position, row, known.exact);
  if (way_ == Way::running_product) return write_chain(position, row);
  if (way_ == Way::running_rotation) return write_rotation(position, row);
  if (!known.product.empty() && begins_with_product(way_)) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = stored(known.product[i]);
    return;
  }
  const float held = held_position(way_, position);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = entry(angle(position, held, i));
}

bool begins_with_product(Way way) noexcept {
  return way == Way::float32_product || way == Way::bf16_table || way == Way::f16_table;
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
