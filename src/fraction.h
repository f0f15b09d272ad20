// Fixed-point fractions of N limbs, for the angles that double arithmetic cannot decide, and their rounding.
#pragma once

#include <bit>
#include <cstdint>

#include "rotary/rotary.h"
#include "turns_constant.h"

namespace rotary {

__extension__ typedef unsigned __int128 Wide;

inline constexpr std::uint64_t high(Wide x) noexcept { return static_cast<std::uint64_t>(x >> 64); }
inline constexpr std::uint64_t low(Wide x) noexcept { return static_cast<std::uint64_t>(x); }

// sum of limb[k] 2^(64 (k - N)): the least significant limb first, value below 1.
template <int N>
struct Fraction {
  std::uint64_t limb[N] = {};
};

// a b, truncated: at most one unit in the last place (ulp, 2^(-64 N)) too small.
template <int N>
Fraction<N> operator*(const Fraction<N>& a, const Fraction<N>& b) noexcept {
  std::uint64_t product[2 * N] = {};
  for (int i = 0; i < N; ++i) {
    std::uint64_t carry = 0;
    for (int k = 0; k < N; ++k) {
      const Wide sum = static_cast<Wide>(a.limb[i]) * b.limb[k] + product[i + k] + carry;
      product[i + k] = low(sum);
      carry = high(sum);
    }
    product[i + N] = carry;
  }
  Fraction<N> result;
  for (int k = 0; k < N; ++k) result.limb[k] = product[N + k];
  return result;
}

// a / divisor, truncated; divisor below 2^32.
template <int N>
Fraction<N> operator/(const Fraction<N>& a, std::uint64_t divisor) noexcept {
  Fraction<N> result;
  std::uint64_t rest = 0;
  for (int k = N - 1; k >= 0; --k) {
    const std::uint64_t upper = rest << 32 | a.limb[k] >> 32;
    const std::uint64_t lower = upper % divisor << 32 | (a.limb[k] & 0xffffffffu);
    result.limb[k] = upper / divisor << 32 | lower / divisor;
    rest = lower % divisor;
  }
  return result;
}

// 1 - a, one ulp too small: every bit turned.
template <int N>
Fraction<N> operator~(const Fraction<N>& a) noexcept {
  Fraction<N> result;
  for (int k = 0; k < N; ++k) result.limb[k] = ~a.limb[k];
  return result;
}

// a 2^bits, 0 < bits < 64; what leaves at the top is lost.
template <int N>
Fraction<N> operator<<(const Fraction<N>& a, int bits) noexcept {
  Fraction<N> result;
  for (int k = N - 1; k > 0; --k) result.limb[k] = a.limb[k] << bits | a.limb[k - 1] >> (64 - bits);
  result.limb[0] = a.limb[0] << bits;
  return result;
}

// The fractional part of m 2^exponent / (2 pi), at most 2 ulp too small. Payne and Hanek's reduction: the bits of
// 1/(2 pi) that only make whole turns are never read. -1152 <= exponent <= 3136 - 64 N.
template <int N>
Fraction<N> turns(Wide m, int exponent) noexcept {
  constexpr int extra = 2;  // limbs that m's 128 bits push up
  const int begin = exponent + inverse_two_pi_point;
  const std::uint64_t* from = inverse_two_pi + begin / 64;
  const int bits = begin % 64;
  std::uint64_t product[N + extra + 1] = {};
  std::uint64_t window[N + extra];
  for (int k = 0; k < N + extra; ++k) {
    const int j = N + extra - 1 - k;
    window[k] = bits == 0 ? from[j] : from[j] << bits | from[j + 1] >> (64 - bits);
  }
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t factor = i == 0 ? low(m) : high(m);
    if (factor == 0) continue;
    std::uint64_t carry = 0;
    for (int k = 0; k + i < N + extra; ++k) {
      const Wide sum = static_cast<Wide>(factor) * window[k] + product[i + k] + carry;
      product[i + k] = low(sum);
      carry = high(sum);
    }
  }
  Fraction<N> result;
  for (int k = 0; k < N; ++k) result.limb[k] = product[k + extra];
  return result;
}

// 1 - z/d1 (1 - z/d2 (1 - ...)), the Taylor series of cos x (first = 1: d = 1 2, 3 4, ...) and of (sin x)/x
// (first = 2: d = 2 3, 4 5, ...) with z = x^2, x <= pi/4. 6 N + 4 terms leave less than an ulp.
template <int N>
Fraction<N> series(const Fraction<N>& z, unsigned first) noexcept {
  Fraction<N> sum = ~Fraction<N>{};
  for (unsigned k = 6 * N + 4; k-- > 0;) {
    const std::uint64_t d = first + 2 * k;
    sum = ~(z * sum / (d * (d + 1)));
  }
  return sum;
}

// A storage type as the rounding sees it: bits of precision, exponent of the smallest subnormal, 2^overflow = infinity.
struct Format {
  int precision;
  int smallest;
  int overflow;
};
inline constexpr Format format_of(DType dtype) noexcept {
  return dtype == DType::f32 ? Format{24, -149, 128} : dtype == DType::f16 ? Format{11, -24, 16} : Format{8, -133, 128};
}

// integer * 2^exponent (integer of N limbs, the least significant first) rounded to nearest even.
template <int N>
float rounded(const std::uint64_t (&integer)[N], int exponent, const Format& format) noexcept {
  int top = N - 1;
  while (top >= 0 && integer[top] == 0) --top;
  if (top < 0) return 0;
  const auto bit = [&](int k) { return k < 64 * N && (integer[k / 64] >> (k % 64) & 1) != 0; };
  const int highest = 64 * top + static_cast<int>(std::bit_width(integer[top])) - 1;
  int last = highest + exponent - (format.precision - 1);  // exponent of the last bit that is kept
  if (last < format.smallest) last = format.smallest;
  const int cut = last - exponent;  // bits below this one are rounded away
  std::uint64_t kept = 0;
  for (int k = highest; k >= cut; --k) kept = kept << 1 | (k >= 0 && bit(k) ? 1u : 0u);
  if (cut > 0 && bit(cut - 1)) {
    bool above_half = (kept & 1) != 0;
    for (int k = 0; k < cut - 1 && !above_half; ++k) above_half = bit(k);
    if (above_half) ++kept;
  }
  if (kept == 0) return 0;
  if (static_cast<int>(std::bit_width(kept)) + last > format.overflow) return std::bit_cast<float>(0x7f800000u);
  while (last > -149 && kept < (1u << 23)) {
    kept <<= 1;
    --last;
  }
  // 2^23 <= kept <= 2^24, or last is -149 and the sum is a subnormal's bits.
  return std::bit_cast<float>((static_cast<std::uint32_t>(last + 149) << 23) + static_cast<std::uint32_t>(kept));
}

}  // namespace rotary
