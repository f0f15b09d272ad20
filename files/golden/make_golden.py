#!/usr/bin/env python3
"""Writes files/tests/golden/expected.json: for every config in files/tests/golden/configs, the ropes that read_config
and frequencies() must find.

    python files/golden/make_golden.py     (needs mpmath)

The formulas in mpmath at 50 digits, from what golden/models.py says of the model.
"""
import json
import sys

import mpmath
from mpmath import mpf

from files import GOLDEN, write
from models import MODELS, OPENED

mpmath.mp.dps = 50

# ---- the formulas (docs/variants.md): (inv_freq, attention factor) of a rope of models.py, in mpmath's digits ----


def unscaled(rope, base=None):
    return [mpf(base or rope["base"]) ** (mpf(-2 * i) / rope["exponent_dim"]) for i in rope["index"]]


def ntk(rope, factor):
    r = rope["exponent_dim"]
    return unscaled(rope, mpf(rope["base"]) * mpf(factor) ** (mpf(r) / (r - 2)))


def magnitude(factor, m=1):
    return mpf(1) if factor <= 1 else mpf(m) * mpf("0.1") * mpmath.log(factor) + 1


def yarn_ramp(rope, s):
    """For each pair, how much of its frequency is divided by the factor."""
    r, base = rope["exponent_dim"], mpf(rope["base"])
    low, high = (r * mpmath.log(mpf(s["trained"]) / (2 * mpmath.pi * beta)) / (2 * mpmath.log(base))
                 for beta in (s["beta_fast"], s["beta_slow"]))
    if s.get("truncate", True):
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, mpf(0)), min(high, mpf(r - 1))
    if low == high:
        high += mpf("0.001")
    return [min(max((i - low) / (high - low), mpf(0)), mpf(1)) for i in rope["index"]]


def yarn(rope, s):
    inv_freq = [w * t / s["factor"] + w * (1 - t) for w, t in zip(unscaled(rope), yarn_ramp(rope, s))]
    if s["attention"] is not None:
        return inv_freq, mpf(s["attention"])
    if s["mscale"] and s["mscale_all_dim"]:
        return inv_freq, magnitude(s["factor"], s["mscale"]) / magnitude(s["factor"], s["mscale_all_dim"])
    return inv_freq, magnitude(s["factor"])


def llama3(rope, s):
    def bend(w):
        wavelength = 2 * mpmath.pi / w
        if wavelength < mpf(s["trained"]) / s["high"]:
            return w
        if wavelength > mpf(s["trained"]) / s["low"]:
            return w / s["factor"]
        t = (s["trained"] / wavelength - s["low"]) / (mpf(s["high"]) - s["low"])
        return (1 - t) * w / s["factor"] + t * w
    return [bend(w) for w in unscaled(rope)]


def longrope(rope, s, lists, length):
    extend = lists["long_factor"] if length > s["trained"] else lists["short_factor"]
    a = mpf(s["mscale"] or (1 if s["factor"] <= 1 else
                            mpmath.sqrt(1 + mpmath.log(s["factor"]) / mpmath.log(s["trained"]))))
    return [w / mpf(e) for w, e in zip(unscaled(rope), extend, strict=True)], a


def yarn_log(rope, s):
    log, whole = mpmath.log, zip(unscaled(rope), yarn_ramp(rope, s))
    return [mpmath.exp(log(w) * (1 - t) + log(w / s["factor"]) * t) for w, t in whole]


def theta_scale(rope, s):
    trained = s["trained"] / (2 * mpmath.pi)
    return unscaled(rope, mpf(rope["base"]) ** (mpmath.log(trained * s["factor"]) / mpmath.log(trained)))


def proportional(rope, s):
    turning = int(mpmath.floor(mpf(s["fraction"]) * rope["exponent_dim"] / 2))
    return [w if i < turning else mpf(0) for i, w in enumerate(unscaled(rope))]


def formula(rope, lists=None, length=0):
    """lists: the short_factor and long_factor of a longrope."""
    s = rope["scaling"]
    stretch = lambda: mpf(s["factor"]) * max(length, s["trained"]) / s["trained"] - (s["factor"] - 1)
    result = {
        "default": lambda: unscaled(rope),
        "linear": lambda: [w / s["factor"] for w in unscaled(rope)],
        "ntk_fixed": lambda: [w * mpf(s["factor"]) ** (mpf(-2) / rope["exponent_dim"])
                              for w in unscaled(rope, mpf(rope["base"]) * s["factor"])],
        "ntk": lambda: ntk(rope, s["factor"]),
        "dynamic": lambda: ntk(rope, stretch()),
        "yarn": lambda: yarn(rope, s),
        "llama3": lambda: llama3(rope, s),
        "longrope": lambda: longrope(rope, s, lists, length),
        "yarn_log": lambda: yarn_log(rope, s),
        "theta_scale": lambda: theta_scale(rope, s),
        "proportional": lambda: proportional(rope, s),
    }[s["name"]]()
    return result if isinstance(result, tuple) else (result, mpf(1))


# ---- the file ----


def digits(x):
    return mpmath.nstr(x, 22, min_fixed=-3, max_fixed=30) if x else "0"


def spelled(rope, lists, length=0):
    inv_freq, a = formula(rope, lists, length)
    return {"attention_factor": digits(a), "inv_freq": [digits(w) for w in inv_freq]}


def expect(rope, lists):
    keep = ("part", "layers", "layers_without_rope", "heads", "kv_heads", "head_dim", "rotary_dim", "first", "pairing")
    out = {key: rope[key] for key in keep}
    out |= {"base": float(rope["base"]), "scaling": rope["scaling"]["name"], "axis": "".join(map(str, rope["axis"]))}
    out |= spelled(rope, lists)
    long = [{"length": length} | spelled(rope, lists, length) for length in rope["lengths"]]
    return out | ({"long": long} if long else {})


def main():
    models = {}
    found = {path.name.removesuffix(".json") for path in (GOLDEN / "configs").glob("*.json")}
    if found != set(MODELS):
        sys.exit(f"without a description or a file: {sorted(found ^ set(MODELS))}")
    for name, (source, ropes) in sorted(MODELS.items()):
        values = json.loads((GOLDEN / "configs" / f"{name}.json").read_text())
        models[name] = {
            "source": source,
            "values": "opened" if name in OPENED else "ours, in the form of the file; not published",
            "model_type": values.get("model_type", ""),
            "ropes": [expect(rope, values.get("rope_scaling")) for rope in ropes]}
    source = {"by": "files/golden/make_golden.py", "python": sys.version.split()[0], "mpmath": mpmath.__version__}
    write(GOLDEN / "expected.json", {"made": source, "models": models})


if __name__ == "__main__":
    main()
