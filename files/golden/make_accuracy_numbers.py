#!/usr/bin/env python3
"""The errors of the common ways to make tables of cos and sin, by mpmath and numpy: tools/tests/golden/accuracy.json.

Run by hand: python files/golden/make_accuracy_numbers.py (needs mpmath, numpy, torch and transformers).
It knows the formulas of RoPE and nothing of the library. Every cos and sin is computed with 60 digits and rounded once
to float32; products in float32 are numpy's.
"""
import json

import mpmath
import numpy
from mpmath import mp, mpf

import models
from files import ROOT
from make_transformers import TRAINED, inv_freq
from make_golden import formula

mp.dps = 60
F = numpy.float32

WAYS = ["exact", "float32 product", "bf16 positions", "running rotation", "fast sine"]
LAST_ROTATION = 1 << 20
ROPES = [
    dict(name="plain", base=10000, head_dim=128),
    dict(name="llama", base=500000, head_dim=64),
    dict(name="million", base=1000000, head_dim=128),
    dict(name="phi", base=10000, head_dim=96),
    dict(name="partial", base=10000, head_dim=128, rotary_dim=32),
    dict(name="linear", base=10000, head_dim=64, scaling="linear", factor=3.0),
    dict(name="llama3", base=500000, head_dim=128, scaling="llama3", factor=8.0, low=1.0, high=4.0,
         trained_length=8192),
    dict(name="yarn", base=1000000, head_dim=128, scaling="yarn", factor=4.0, trained_length=32768),
]
POSITIONS = [0, 1, 7, 9, 100, 999, 4095, 4096, 65536, 131071, 999999, 1048576, (1 << 24) + 1, 10**9 + 7, (1 << 31) - 1,
             (1 << 53) + 1, (1 << 63) - 1, -1, -5, -70001]
DENSE = [(0, 9), (10, 99), (100, 999)]  # every position of the first two ropes


def rounded(value, bits):
    with mp.workprec(bits):
        return +mpf(value)


def f32(value):  # correctly rounded; nothing here is subnormal
    return F(float(rounded(value, 24)))


def bf16(value):
    return F(float(rounded(float(value), 8)))


# ---- the frequencies: real numbers, and transformers' own in float32 ----


def real_frequencies(rope):
    """(inv_freq, attention factor), each the nearest double."""
    words = {"factor": "factor", "low": "low", "high": "high", "trained_length": "trained"}
    values = {word: rope[key] for key, word in words.items() if key in rope}
    scaling = getattr(models, rope.get("scaling", "default"))(**values)
    speeds, a = formula(models.rope(0, 1, 1, rope.get("rotary_dim", rope["head_dim"]), rope["base"], scaling=scaling))
    return [mpf(float(w)) for w in speeds], mpf(float(a))


def float32_frequencies(rope):
    words = {"factor": "factor", "low_freq_factor": "low", "high_freq_factor": "high", TRAINED: "trained_length"}
    parameters = {word: rope[key] for word, key in words.items() if key in rope}
    width = rope.get("rotary_dim", rope["head_dim"])
    return inv_freq(rope.get("scaling", "default"), parameters, 0, 0, width, float(rope["base"])).numpy()


# ---- one row of each way: (cos, sin) of each pair ----


def fast_sine(angle):
    """By turns, a float32 product rounded towards zero."""
    product = mpf(float(angle)) * mpf(float(F(0.15915494309189535)))
    turns = mp.mpf(mpmath.libmp.mpf_pos(product._mpf_, 24, "d"))
    return mp.cos(2 * mp.pi * turns), mp.sin(2 * mp.pi * turns)


class Case:
    def __init__(self, rope):
        self.w, self.a = real_frequencies(rope)
        self.w32, self.a32 = float32_frequencies(rope), F(float(self.a))
        self.rotations = self.running_rotation()

    def running_rotation(self):
        """{position: the row that so many turns by a position of 1 make}"""
        cos, sin = numpy.ones(len(self.w), F), numpy.zeros(len(self.w), F)
        c1, s1 = (numpy.array([f32(of(w)) for w in self.w], F) for of in (mp.cos, mp.sin))
        wanted, found = {abs(p) for p in POSITIONS} | set(range(1000)), {}
        for p in range(LAST_ROTATION + 1):
            if p in wanted:
                found[p] = cos, sin
            cos, sin = cos * c1 - sin * s1, sin * c1 + cos * s1
        return found

    def exact(self, position):
        return [(self.a * mp.cos(position * w), self.a * mp.sin(position * w)) for w in self.w]

    def table(self, way, position):
        if way == "exact":
            return [(f32(c), f32(s)) for c, s in self.exact(position)]
        if way == "running rotation":
            cos, sin = self.rotations[abs(position)]
            return list(zip(cos * self.a32, (-sin if position < 0 else sin) * self.a32))
        p = bf16(F(position)) if way == "bf16 positions" else F(position)
        turned = fast_sine if way == "fast sine" else lambda angle: (mp.cos(float(angle)), mp.sin(float(angle)))
        return [(f32(c) * self.a32, f32(s) * self.a32) for c, s in (turned(p * w) for w in self.w32)]

    def errors(self, way, positions):
        """The largest error at each position; None where nobody rotates so often."""
        out = []
        for p in positions:
            there = way != "running rotation" or abs(p) <= LAST_ROTATION
            pairs = zip(self.table(way, p), self.exact(p)) if there else ()
            errors = (abs(mpf(float(got)) - real) for row in pairs for got, real in zip(*row))
            out.append(max(errors, default=None))
        return out


def text(value):
    return None if value is None else mp.nstr(value, 20, strip_zeros=False, min_fixed=0, max_fixed=0)


def main():
    out = []
    for k, rope in enumerate(ROPES):
        case = Case(rope)
        one = {"rope": rope, "positions": [str(p) for p in POSITIONS],
               "errors": {way: [text(error) for error in case.errors(way, POSITIONS)] for way in WAYS}}
        if k < 2:
            one["decades"] = {way: [text(max(case.errors(way, range(first, last + 1)))) for first, last in DENSE]
                              for way in WAYS}
        out.append(one)
    by = f"files/golden/make_accuracy_numbers.py, mpmath {mpmath.__version__}, numpy {numpy.__version__}"
    (ROOT / "tools/tests/golden/accuracy.json").write_text(json.dumps({"made_by": by, "ropes": out}, indent=1) + "\n")


if __name__ == "__main__":
    main()
