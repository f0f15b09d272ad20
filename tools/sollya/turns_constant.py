#!/usr/bin/env python3
"""Writes src/table/turns_constant.h: the bits of 1/(2 pi) and of pi/4 that turns.cpp reduces angles with.

Usage: tools/sollya/turns_constant.py > src/table/turns_constant.h     (integers only, no dependency)
"""

GUARD = 128
ZERO_LIMBS = 18  # in front of 1/(2 pi), so that a window may begin 1152 bits above its point
INVERSE_LIMBS = 50  # the largest angle, DBL_MAX * DBL_MAX, begins at bit 1942; 18 limbs are read from there
PI_LIMBS = 16


def arctan_inverse(n, one):
    """one * atan(1/n) by the Taylor series, truncated."""
    power = one // n
    total, k, sign = power, 1, 1
    while power:
        power //= n * n
        k += 2
        sign = -sign
        total += sign * (power // k)
    return total


def quarter_pi(bits):
    """floor(2^bits * pi/4), Machin: pi/4 = 4 atan(1/5) - atan(1/239)."""
    one = 1 << (bits + GUARD)
    return (4 * arctan_inverse(5, one) - arctan_inverse(239, one)) >> GUARD


def inverse_two_pi(bits):
    """floor(2^bits / (2 pi)) = floor(2^bits / (8 * pi/4))."""
    work = bits + GUARD
    return ((1 << (2 * work)) // (8 * quarter_pi(work))) >> GUARD


def rows(value, limbs):
    words = ["0x%016xu" % ((value >> (64 * (limbs - 1 - k))) & (2**64 - 1)) for k in range(limbs)]
    return ",\n".join("      " + ", ".join(words[k : k + 5]) for k in range(0, limbs, 5)) + ","


print(
    f"""// Written by tools/sollya/turns_constant.py. Most significant limb first.
#pragma once

#include <cstdint>

#include "device_code.h"

namespace rotary {{

// {ZERO_LIMBS} limbs of zeros, then the fraction bits of 1/(2 pi).
inline constexpr int inverse_two_pi_point = {ZERO_LIMBS * 64};
ROTARY_DEVICE inline const std::uint64_t* inverse_two_pi() noexcept {{
  static constexpr std::uint64_t limbs[{ZERO_LIMBS + INVERSE_LIMBS}] = {{
{rows(inverse_two_pi(64 * INVERSE_LIMBS), ZERO_LIMBS + INVERSE_LIMBS)}
  }};
  return limbs;
}}

// The fraction bits of pi/4.
ROTARY_DEVICE inline const std::uint64_t* quarter_pi() noexcept {{
  static constexpr std::uint64_t limbs[{PI_LIMBS}] = {{
{rows(quarter_pi(64 * PI_LIMBS), PI_LIMBS)}
  }};
  return limbs;
}}

}}  // namespace rotary"""
)
