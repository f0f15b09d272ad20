// Unsigned integers of 128 bits, and fixed-point fractions of N limbs and their rounding, for the angles that double
// arithmetic cannot decide.
#pragma once

#include <cstdint>

#include "rotary/rotary.h"
#include "runtime/device_code.h"
#include "table/turns_constant.h"

namespace rotary::detail {

// ---- 128 bits, for products of two 64-bit words ----

// For compilers without one (32-bit machines, MSVC): two words, with only the operations of the wide computations.
struct TwoWords {
  std::uint64_t lower = 0, upper = 0;

  constexpr TwoWords() = default;
  ROTARY_DEVICE constexpr TwoWords(std::uint64_t x) noexcept : lower(x) {}  // NOLINT: a word is one
  ROTARY_DEVICE constexpr TwoWords(std::uint64_t high, std::uint64_t low) noexcept : lower(low), upper(high) {}

  ROTARY_DEVICE friend constexpr TwoWords operator+(TwoWords a, TwoWords b) noexcept {
    const std::uint64_t sum = a.lower + b.lower;
    return {a.upper + b.upper + (sum < a.lower ? 1 : 0), sum};
  }
  ROTARY_DEVICE friend constexpr TwoWords operator-(TwoWords a, TwoWords b) noexcept {
    return {a.upper - b.upper - (a.lower < b.lower ? 1 : 0), a.lower - b.lower};
  }
  ROTARY_DEVICE friend constexpr TwoWords operator*(TwoWords a, std::uint64_t b) noexcept {
    const std::uint64_t mask = 0xffffffffu;
    const std::uint64_t a0 = a.lower & mask, a1 = a.lower >> 32, b0 = b & mask, b1 = b >> 32;
    const std::uint64_t bottom = a0 * b0, crossed = a1 * b0 + (bottom >> 32), other = a0 * b1 + (crossed & mask);
    return {a.upper * b + a1 * b1 + (crossed >> 32) + (other >> 32), other << 32 | (bottom & mask)};
  }
  ROTARY_DEVICE friend constexpr TwoWords operator<<(TwoWords a, int bits) noexcept {
    if (bits == 0) return a;
    if (bits >= 64) return {a.lower << (bits - 64), 0};
    return {a.upper << bits | a.lower >> (64 - bits), a.lower << bits};
  }
  ROTARY_DEVICE friend constexpr TwoWords operator>>(TwoWords a, int bits) noexcept {
    if (bits == 0) return a;
    if (bits >= 64) return {0, a.upper >> (bits - 64)};
    return {a.upper >> bits, a.upper << (64 - bits) | a.lower >> bits};
  }
  ROTARY_DEVICE friend constexpr bool operator==(TwoWords a, TwoWords b) noexcept {
    return a.lower == b.lower && a.upper == b.upper;
  }
};
ROTARY_DEVICE constexpr std::uint64_t high(TwoWords x) noexcept { return x.upper; }
ROTARY_DEVICE constexpr std::uint64_t low(TwoWords x) noexcept { return x.lower; }

#if defined(__SIZEOF_INT128__)
__extension__ typedef unsigned __int128 Wide;
ROTARY_DEVICE constexpr std::uint64_t high(Wide x) noexcept { return static_cast<std::uint64_t>(x >> 64); }
ROTARY_DEVICE constexpr std::uint64_t low(Wide x) noexcept { return static_cast<std::uint64_t>(x); }
#else
using Wide = TwoWords;
#endif

// ---- fractions ----

// sum of limb[k] 2^(64 (k - N)): the least significant limb first, value below 1.
template <int N>
struct Fraction {
  std::uint64_t limb[N] = {};
};

// a b, truncated: at most one unit in the last place (ulp, 2^(-64 N)) too small.
template <int N>
ROTARY_DEVICE Fraction<N> operator*(const Fraction<N>& a, const Fraction<N>& b) noexcept {
  std::uint64_t product[2 * N] = {};
#ifdef __CUDA_ARCH__
#pragma unroll(N > 6 ? 1 : N)  // 16 limbs unrolled take nvcc a minute
#endif
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

// The product of two limbs, without loops: most angles need no more.
ROTARY_DEVICE inline Fraction<2> operator*(const Fraction<2>& a, const Fraction<2>& b) noexcept {
  const Wide bottom = static_cast<Wide>(a.limb[0]) * b.limb[0];
  const Wide first = static_cast<Wide>(a.limb[0]) * b.limb[1] + high(bottom);
  const Wide second = static_cast<Wide>(a.limb[1]) * b.limb[0] + low(first);
  const Wide top = static_cast<Wide>(a.limb[1]) * b.limb[1] + high(first) + high(second);
  return {{low(top), high(top)}};
}

// a + b modulo 1.
template <int N>
ROTARY_DEVICE Fraction<N> operator+(const Fraction<N>& a, const Fraction<N>& b) noexcept {
  Fraction<N> result;
  std::uint64_t carry = 0;
  for (int k = 0; k < N; ++k) {
    const Wide sum = static_cast<Wide>(a.limb[k]) + b.limb[k] + carry;
    result.limb[k] = low(sum);
    carry = high(sum);
  }
  return result;
}

// a - b, b not above a.
template <int N>
ROTARY_DEVICE Fraction<N> operator-(const Fraction<N>& a, const Fraction<N>& b) noexcept {
  Fraction<N> result;
  std::uint64_t borrow = 0;
  for (int k = 0; k < N; ++k) {
    const Wide difference = static_cast<Wide>(a.limb[k]) - b.limb[k] - borrow;
    result.limb[k] = low(difference);
    borrow = high(difference) & 1;
  }
  return result;
}

// a / divisor, truncated; divisor below 2^32.
template <int N>
ROTARY_DEVICE constexpr Fraction<N> operator/(const Fraction<N>& a, std::uint64_t divisor) noexcept {
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

// 1 - a, one ulp too small: every bit inverted.
template <int N>
ROTARY_DEVICE constexpr Fraction<N> operator~(const Fraction<N>& a) noexcept {
  Fraction<N> result;
  for (int k = 0; k < N; ++k) result.limb[k] = ~a.limb[k];
  return result;
}

// a 2^bits modulo 1, 0 < bits < 64.
template <int N>
ROTARY_DEVICE Fraction<N> operator<<(const Fraction<N>& a, int bits) noexcept {
  Fraction<N> result;
  for (int k = N - 1; k > 0; --k) result.limb[k] = a.limb[k] << bits | a.limb[k - 1] >> (64 - bits);
  result.limb[0] = a.limb[0] << bits;
  return result;
}

// The `Limbs` limbs of 1/(2 pi) from bit `begin` of the constant on, the least significant first.
template <int Limbs>
struct Window {
  std::uint64_t limb[Limbs];
  ROTARY_DEVICE explicit Window(int begin) noexcept {
    const std::uint64_t* from = inverse_two_pi() + begin / 64;
    const int bits = begin % 64;
    for (int k = 0; k < Limbs; ++k) {
      const int j = Limbs - 1 - k;
      limb[k] = bits == 0 ? from[j] : from[j] << bits | from[j + 1] >> (64 - bits);
    }
  }
};

// The fractional part of m 2^exponent / (2 pi), at most 2 ulp too small. Payne and Hanek's reduction: the bits of
// 1/(2 pi) that only make whole turns are never read. -1152 <= exponent <= 3136 - 64 N.
template <int N>
ROTARY_DEVICE Fraction<N> turns(std::uint64_t m, int exponent) noexcept {
  const Window<N + 1> window(exponent + inverse_two_pi_point);
  Fraction<N> result;
  Wide sum = static_cast<Wide>(m) * window.limb[0];
  for (int k = 0; k < N; ++k) {
    sum = static_cast<Wide>(m) * window.limb[k + 1] + high(sum);
    result.limb[k] = low(sum);
  }
  return result;
}
template <int N>
ROTARY_DEVICE Fraction<N> turns(Wide m, int exponent) noexcept {
  const Window<N + 2> window(exponent + inverse_two_pi_point);
  std::uint64_t product[N + 2] = {};
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t factor = i == 0 ? low(m) : high(m);
    if (factor == 0) continue;
    std::uint64_t carry = 0;
    for (int k = 0; k + i < N + 2; ++k) {
      const Wide sum = static_cast<Wide>(factor) * window.limb[k] + product[i + k] + carry;
      product[i + k] = low(sum);
      carry = high(sum);
    }
  }
  Fraction<N> result;
  for (int k = 0; k < N; ++k) result.limb[k] = product[k + 2];
  return result;
}

// 1, 1/d1, 1/(d1 d2), ... of the Taylor series of cos x (first = 1: d = 1 2, 3 4, ...) and of (sin x)/x (first = 2:
// d = 2 3, 4 5, ...) in powers of z = x^2, x <= pi/4; each at most 2 ulp too small. 6 N + 4 terms leave less than an
// ulp.
template <int N>
struct Coefficients {
  static constexpr int terms = 6 * N + 4;
  Fraction<N> of[terms];
  ROTARY_DEVICE constexpr explicit Coefficients(unsigned first) noexcept {
    of[0] = ~of[0];
    for (unsigned k = 1; k < terms; ++k) {
      const std::uint64_t d = first + 2 * (k - 1);
      of[k] = of[k - 1] / (d * (d + 1));
    }
  }
};

// The alternating series; its steps add less than 8 ulp. With many limbs, which few angles need, each term is computed
// from the one before and not read from a table: at most 3 ulp too small.
template <int N, unsigned First>
ROTARY_DEVICE Fraction<N> series(const Fraction<N>& z) noexcept {
  if constexpr (N > 6) {
    Fraction<N> term = ~Fraction<N>(), sum = term;
    for (unsigned k = 1; k < Coefficients<N>::terms; ++k) {
      const std::uint64_t d = First + 2 * (k - 1);
      term = term * z / (d * (d + 1));
      sum = k % 2 == 1 ? sum - term : sum + term;
    }
    return sum;
  }
  static constexpr Coefficients<N> coefficients(First);
  Fraction<N> sum = coefficients.of[Coefficients<N>::terms - 1];
  for (int k = Coefficients<N>::terms - 1; k-- > 0;) sum = coefficients.of[k] - z * sum;
  return sum;
}

// A storage type as the rounding sees it: bits of precision, exponent of the smallest subnormal, 2^overflow = infinity.
struct Format {
  int precision;
  int smallest;
  int overflow;
};
ROTARY_DEVICE inline constexpr Format format_of(Rounding rounding) noexcept {
  return rounding == Rounding::f32   ? Format{24, -149, 128}
         : rounding == Rounding::f16 ? Format{11, -24, 16}
                                     : Format{8, -133, 128};
}

// The 64 bits of integer from bit k on; bits outside the integer are 0.
template <int N>
ROTARY_DEVICE std::uint64_t bits_from(const std::uint64_t (&integer)[N], int k) noexcept {
  if (k <= -64 || k >= 64 * N) return 0;
  if (k < 0) return integer[0] << -k;
  const int limb = k / 64, shift = k % 64;
  const std::uint64_t lower = integer[limb] >> shift;
  return shift == 0 || limb + 1 == N ? lower : lower | integer[limb + 1] << (64 - shift);
}

// Whether a bit below bit k is set.
template <int N>
ROTARY_DEVICE bool any_below(const std::uint64_t (&integer)[N], int k) noexcept {
  for (int j = 0; j < N && 64 * j < k; ++j) {
    const std::uint64_t kept = k - 64 * j >= 64 ? integer[j] : integer[j] << (64 - (k - 64 * j));
    if (kept != 0) return true;
  }
  return false;
}

// integer * 2^exponent (integer of N limbs, the least significant first) rounded to nearest even.
template <int N>
ROTARY_DEVICE float rounded(const std::uint64_t (&integer)[N], int exponent, const Format& format) noexcept {
  int top = N - 1;
  while (top >= 0 && integer[top] == 0) --top;
  if (top < 0) return 0;
  const int highest = 64 * top + width_of(integer[top]) - 1;
  int last = highest + exponent - (format.precision - 1);  // exponent of the last bit that is kept
  if (last < format.smallest) last = format.smallest;
  const int cut = last - exponent;  // bits below this one are rounded away
  std::uint64_t kept = bits_from(integer, cut);
  if (cut > 0 && (bits_from(integer, cut - 1) & 1) != 0) {
    if ((kept & 1) != 0 || any_below(integer, cut - 1)) ++kept;
  }
  if (kept == 0) return 0;
  if (width_of(kept) + last > format.overflow) return __builtin_bit_cast(float, 0x7f800000u);
  while (last > -149 && kept < (1u << 23)) {
    kept <<= 1;
    --last;
  }
  // 2^23 <= kept <= 2^24, or last is -149 and the sum is a subnormal's bits.
  return __builtin_bit_cast(float, (static_cast<std::uint32_t>(last + 149) << 23) + static_cast<std::uint32_t>(kept));
}

}  // namespace rotary::detail
