#!/usr/bin/env python3
"""Prints the limbs of core/table/turns_constant.h, with which turns.cpp reduces angles. Needs mpmath."""
from mpmath import floor, mp, pi

ZERO_LIMBS = 18  # in front of 1/(2 pi), so that a window may begin 1152 bits above its point
INVERSE_LIMBS = 50  # the largest angle, DBL_MAX * DBL_MAX, begins at bit 1942; 18 limbs are read from there
PI_LIMBS = 16
mp.prec = 64 * INVERSE_LIMBS + 128


def print_limbs(name, fraction, zeros, limbs, columns):
    """The fraction bits, the most significant limb first, behind limbs of zeros."""
    bits = int(floor(fraction * 2 ** (64 * limbs)))
    words = [f"0x{bits >> 64 * k & 2**64 - 1:016x}u" for k in reversed(range(zeros + limbs))]
    print(f"{name}:", *(", ".join(words[k:k + columns]) + "," for k in range(0, len(words), columns)), sep="\n      ")


print_limbs("inverse_two_pi", 1 / (2 * pi), ZERO_LIMBS, INVERSE_LIMBS, 5)
print_limbs("quarter_pi", pi / 4, 0, PI_LIMBS, 4)
