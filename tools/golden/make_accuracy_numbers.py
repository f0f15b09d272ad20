#!/usr/bin/env python3
"""The errors of the common ways to make tables of cos and sin, by mpmath and numpy: tests/golden/accuracy.json.

Run by hand: python tools/golden/make_accuracy_numbers.py (needs mpmath and numpy).
It knows the formulas of RoPE and of transformers' float32 code, and nothing of the library. Every cos and sin is
computed with 60 digits and rounded once to float32; products in float32 are numpy's.
"""
import json
import math
import pathlib

import mpmath
import numpy
from mpmath import mp, mpf

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
    dict(name="llama3", base=500000, head_dim=128, scaling="llama3", factor=8.0, low=1.0, high=4.0, trained=8192),
    dict(name="yarn", base=1000000, head_dim=128, scaling="yarn", factor=4.0, trained=32768),
]
POSITIONS = [0, 1, 7, 9, 100, 999, 4095, 4096, 65536, 131071, 999999, 1048576, (1 << 24) + 1, 10**9 + 7, (1 << 31) - 1,
             (1 << 53) + 1, (1 << 63) - 1, -1, -5, -70001]
DENSE = [(0, 9), (10, 99), (100, 999)]  # of the first two ropes, every position


def rounded(value, bits):
    with mp.workprec(bits):
        return +mpf(value)


def f32(value):  # correctly rounded; nothing here is subnormal
    return F(float(rounded(value, 24)))


def bf16(value):
    return F(float(rounded(float(value), 8)))


# ---- the frequencies: real numbers, and transformers' float32 steps ----

def correction_range(rope, r):
    def dimension(beta):
        return r * math.log(rope["trained"] / (beta * 2 * math.pi)) / (2 * math.log(rope["base"]))
    return max(math.floor(dimension(32)), 0), min(math.ceil(dimension(1)), r - 1)


def real_frequencies(rope):
    r = rope.get("rotary_dim", rope["head_dim"])
    plain = [mpf(rope["base"]) ** (-mpf(2 * i) / r) for i in range(r // 2)]
    scaling = rope.get("scaling")
    if scaling == "linear":
        return [w / mpf(rope["factor"]) for w in plain]
    if scaling == "llama3":
        factor, low, high, trained = (mpf(rope[k]) for k in ("factor", "low", "high", "trained"))
        out = []
        for w in plain:
            wavelength = 2 * mp.pi / w
            if wavelength < trained / high:
                out.append(w)
            elif wavelength > trained / low:
                out.append(w / factor)
            else:
                smooth = (trained / wavelength - low) / (high - low)
                out.append((1 - smooth) * w / factor + smooth * w)
        return out
    if scaling == "yarn":
        low, high = correction_range(rope, r)
        ramp = [min(max(mpf(i - low) / (high - low), 0), 1) for i in range(r // 2)]
        return [w / mpf(rope["factor"]) * t + w * (1 - t) for w, t in zip(plain, ramp)]
    return plain


def float32_frequencies(rope):
    r = rope.get("rotary_dim", rope["head_dim"])
    powers = [f32(mpf(rope["base"]) ** mpf(float(F(2 * i) / F(r)))) for i in range(r // 2)]
    plain = numpy.array([F(1) / p for p in powers], F)
    scaling = rope.get("scaling")
    if scaling == "linear":
        return plain / F(rope["factor"])
    if scaling == "llama3":
        factor, low, high, trained = (rope[k] for k in ("factor", "low", "high", "trained"))
        wavelength = F(2 * math.pi) / plain
        stretched = numpy.where(wavelength > F(trained / low), plain / F(factor), plain)
        smooth = (F(trained) / wavelength - F(low)) / F(high - low)
        blended = (F(1) - smooth) * stretched / F(factor) + smooth * stretched
        medium = ~(wavelength < F(trained / high)) & ~(wavelength > F(trained / low))
        return numpy.where(medium, blended, stretched).astype(F)
    if scaling == "yarn":
        low, high = correction_range(rope, r)
        powers = numpy.array(powers, F)
        slow = F(1) / (F(rope["factor"]) * powers)
        ramp = numpy.clip((numpy.arange(r // 2, dtype=F) - F(low)) / F(high - low), F(0), F(1))
        keep = F(1) - ramp
        return (slow * (F(1) - keep) + plain * keep).astype(F)
    return plain


def attention_factor(rope):
    return mpf(1) if rope.get("scaling") != "yarn" else mpf(float(mpf("0.1") * mp.log(mpf(rope["factor"])) + 1))


class Subject:
    def __init__(self, rope):
        self.rope = rope
        self.w = [mpf(float(rounded(w, 53))) for w in real_frequencies(rope)]
        self.w32 = float32_frequencies(rope)
        self.a = attention_factor(rope)
        self.row = None  # running rotation

    # ---- one row of each way, as pairs (cos, sin) of floats ----

    def angles(self, way, p):
        p32 = bf16(F(p)) if way == "bf16 positions" else F(p)
        return [p32 * w for w in self.w32]

    def quick(self, angle):
        inverse = F(0.15915494309189535)
        product = mpf(float(angle)) * mpf(float(inverse))
        with mp.workprec(24):
            turns = mp.mpf(mpmath.libmp.mpf_pos(product._mpf_, 24, "d"))  # towards zero
        return mp.cos(2 * mp.pi * turns), mp.sin(2 * mp.pi * turns)

    def rotation(self, position):
        if self.row is None:
            self.wanted, self.row = {}, True
            cos, sin = numpy.ones(len(self.w), F), numpy.zeros(len(self.w), F)
            c1 = numpy.array([f32(mp.cos(w)) for w in self.w], F)
            s1 = numpy.array([f32(mp.sin(w)) for w in self.w], F)
            wanted = {abs(p) for p in POSITIONS} | set(range(1000))
            for p in range(LAST_ROTATION + 1):
                if p in wanted:
                    self.wanted[p] = (cos.copy(), sin.copy())
                cos, sin = cos * c1 - sin * s1, sin * c1 + cos * s1
        cos, sin = self.wanted[abs(position)]
        a = F(float(self.a))
        return [(c * a, (-s if position < 0 else s) * a) for c, s in zip(cos, sin)]

    def exact(self, position):
        return [(self.a * mp.cos(position * w), self.a * mp.sin(position * w)) for w in self.w]

    def table(self, way, position):
        if way == "exact":
            return [(f32(c), f32(s)) for c, s in self.exact(position)]
        if way == "running rotation":
            return self.rotation(position) if abs(position) <= LAST_ROTATION else None
        a, out = F(float(self.a)), []
        for angle in self.angles(way, position):
            angle = mpf(float(angle))
            c, s = self.quick(angle) if way == "fast sine" else (mp.cos(angle), mp.sin(angle))
            c, s = f32(c) * a, f32(s) * a
            out.append((c, s))
        return out

    def error(self, way, position, exact):
        rows = self.table(way, position)
        if rows is None:
            return None
        return max(max(abs(mpf(float(c)) - x), abs(mpf(float(s)) - y)) for (c, s), (x, y) in zip(rows, exact))


def text(value):
    return None if value is None else mp.nstr(value, 20, strip_zeros=False, min_fixed=0, max_fixed=0)


def main():
    out = []
    for k, rope in enumerate(ROPES):
        subject = Subject(rope)
        exact = {p: subject.exact(p) for p in POSITIONS}
        one = {"rope": rope, "positions": [str(p) for p in POSITIONS], "errors": {}}
        for way in WAYS:
            one["errors"][way] = [text(subject.error(way, p, exact[p])) for p in POSITIONS]
        if k < 2:
            dense = {p: subject.exact(p) for p in range(1000)}
            one["decades"] = {way: [text(max(subject.error(way, p, dense[p]) for p in range(first, last + 1)))
                                    for first, last in DENSE] for way in WAYS}
        out.append(one)
        print(rope["name"])
    path = pathlib.Path(__file__).parents[2] / "tests/golden/accuracy.json"
    made = {"made_by": f"tools/golden/make_accuracy_numbers.py, mpmath {mpmath.__version__}, numpy {numpy.__version__}"}
    path.write_text(json.dumps({**made, "ropes": out}, indent=1) + "\n")


if __name__ == "__main__":
    main()
