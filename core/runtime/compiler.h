// Macros for features that compilers spell differently. MSVC (cl) has never compiled this; clang-cl counts as clang.
#pragma once

#include <limits>
#include <type_traits>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>

#include <cmath>
#include <cstring>

#define ROTARY_NOINLINE __declspec(noinline)
#define ROTARY_IN_REGISTER(constraint, x) static_cast<void>(x)
// These have the names of the other compilers; it has __builtin_bit_cast.
#define __builtin_memcpy std::memcpy
#define __builtin_fabs std::fabs
#define __builtin_inf() HUGE_VAL
#define __builtin_prefetch(p, write, locality) static_cast<void>(p)
#else
#define ROTARY_NOINLINE [[gnu::noinline]]
// Makes the compiler treat x as an unknown value, in a register of that kind.
#define ROTARY_IN_REGISTER(constraint, x) __asm__("" : "+" constraint(x))
#endif

// Without exceptions (-fno-exceptions) fail() calls the program's handler and aborts.
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define ROTARY_THROWS 1
#else
#define ROTARY_THROWS 0
#endif

namespace rotary::detail {

// ---- sums and products that may overflow ---------------------------------------------------------

// For compilers without the builtins below.
namespace plain {

template <class T>
constexpr bool add_overflows(T a, T b, T* result) noexcept {
  using Unsigned = std::make_unsigned_t<T>;
  *result = static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  if constexpr (std::is_unsigned_v<T>) return *result < a;
  return b < 0 ? *result > a : *result < a;
}

template <class T>
constexpr bool multiply_overflows(T a, T b, T* result) noexcept {
  using Unsigned = std::make_unsigned_t<T>;
  const auto magnitude = [](T x) {
    return static_cast<Unsigned>(x < 0 ? 0 - static_cast<Unsigned>(x) : static_cast<Unsigned>(x));
  };
  *result = static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  if (a == 0 || b == 0) return false;
  const bool negative = (a < 0) != (b < 0);
  const Unsigned largest =
      static_cast<Unsigned>(static_cast<Unsigned>(std::numeric_limits<T>::max()) + (negative ? 1u : 0u));
  return magnitude(a) > largest / magnitude(b);
}

}  // namespace plain

// a + b and a b modulo the range of T; true if they overflow.
template <class T>
constexpr bool add_overflows(std::type_identity_t<T> a, std::type_identity_t<T> b, T* result) noexcept {
#if defined(_MSC_VER) && !defined(__clang__)
  return plain::add_overflows<T>(a, b, result);
#else
  return __builtin_add_overflow(a, b, result);
#endif
}
template <class T>
constexpr bool multiply_overflows(std::type_identity_t<T> a, std::type_identity_t<T> b, T* result) noexcept {
#if defined(_MSC_VER) && !defined(__clang__)
  return plain::multiply_overflows<T>(a, b, result);
#else
  return __builtin_mul_overflow(a, b, result);
#endif
}

}  // namespace rotary::detail
