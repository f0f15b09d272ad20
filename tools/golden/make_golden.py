#!/usr/bin/env python3
"""Writes tests/golden/expected.json: for every config in tests/golden/configs, the ropes that read_config and
frequencies() must find.

    python tools/golden/make_golden.py [name ...]     (needs mpmath; with names: prints, writes nothing)

The formulas in mpmath at 50 digits, from what golden/models.py says of the model.
"""
import json
import pathlib
import sys

import mpmath
from mpmath import mpf

from models import MODELS

mpmath.mp.dps = 50
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"

# ---- the formulas (docs/variants.md) ----

def unscaled(rope, base=None):
    return [mpf(base or rope["base"]) ** (mpf(-2 * i) / rope["exponent_dim"]) for i in rope["index"]]


def ntk_base(base, r, factor):
    return mpf(base) * mpf(factor) ** (mpf(r) / (r - 2))


def yarn_magnitude(factor, m=1):
    return mpf(1) if factor <= 1 else mpf(m) * mpf("0.1") * mpmath.log(factor) + 1


def yarn_bounds(rope, s):
    r, base = rope["exponent_dim"], mpf(rope["base"])

    def turns_at(beta):
        return r * mpmath.log(mpf(s["trained"]) / (2 * mpmath.pi * beta)) / (2 * mpmath.log(base))

    low, high = turns_at(s["beta_fast"]), turns_at(s["beta_slow"])
    if s.get("truncate", True):
        low, high = mpmath.floor(low), mpmath.ceil(high)
    return max(low, mpf(0)), min(high, mpf(r - 1))


def yarn(rope, s):
    low, high = yarn_bounds(rope, s)
    if low == high:
        high += mpf("0.001")
    ramp = [min(max((i - low) / (high - low), mpf(0)), mpf(1)) for i in rope["index"]]
    inv_freq = [w * t / s["factor"] + w * (1 - t) for w, t in zip(unscaled(rope), ramp)]
    if s["attention"] is not None:
        a = mpf(s["attention"])
    elif s["mscale"] and s["mscale_all_dim"]:
        a = yarn_magnitude(s["factor"], s["mscale"]) / yarn_magnitude(s["factor"], s["mscale_all_dim"])
    else:
        a = yarn_magnitude(s["factor"])
    return inv_freq, a


def llama3(rope, s):
    def bend(w):
        wavelength = 2 * mpmath.pi / w
        if wavelength < mpf(s["trained"]) / s["high"]:
            return w
        if wavelength > mpf(s["trained"]) / s["low"]:
            return w / s["factor"]
        t = (s["trained"] / wavelength - s["low"]) / (mpf(s["high"]) - s["low"])
        return (1 - t) * w / s["factor"] + t * w
    return [bend(w) for w in unscaled(rope)], mpf(1)


def longrope(rope, s, values, length):
    lists = values["rope_scaling"]
    extend = lists["long_factor"] if length > s["trained"] else lists["short_factor"]
    if s["mscale"] is not None:
        a = mpf(s["mscale"])
    else:
        a = mpf(1) if s["factor"] <= 1 else mpmath.sqrt(1 + mpmath.log(s["factor"]) / mpmath.log(s["trained"]))
    return [w / mpf(e) for w, e in zip(unscaled(rope), extend, strict=True)], a


def formula(rope, values, length=0):
    """(inv_freq, attention factor) in 50 digits."""
    s, r = rope["scaling"], rope["exponent_dim"]
    if s["name"] == "default":
        return unscaled(rope), mpf(1)
    if s["name"] == "linear":
        return [w / s["factor"] for w in unscaled(rope)], mpf(1)
    if s["name"] == "ntk_fixed":
        return [w * mpf(s["factor"]) ** (mpf(-2) / r) for w in unscaled(rope, mpf(rope["base"]) * s["factor"])], mpf(1)
    if s["name"] == "ntk":
        return unscaled(rope, ntk_base(rope["base"], r, s["factor"])), mpf(1)
    if s["name"] == "dynamic":
        stretch = mpf(s["factor"]) * max(length, s["trained"]) / s["trained"] - (s["factor"] - 1)
        return unscaled(rope, ntk_base(rope["base"], r, stretch)), mpf(1)
    if s["name"] == "yarn":
        return yarn(rope, s)
    if s["name"] == "llama3":
        return llama3(rope, s)
    if s["name"] == "longrope":
        return longrope(rope, s, values, length)
    if s["name"] == "yarn_log":
        low, high = yarn_bounds(rope, s)
        ramp = [min(max((i - low) / (high - low), mpf(0)), mpf(1)) for i in rope["index"]]
        log, exp = mpmath.log, mpmath.exp
        return [exp(log(w) * (1 - t) + log(w / s["factor"]) * t) for w, t in zip(unscaled(rope), ramp)], mpf(1)
    if s["name"] == "theta_scale":
        trained = s["trained"] / (2 * mpmath.pi)
        exponent = mpmath.log(trained * s["factor"]) / mpmath.log(trained)
        return unscaled(rope, mpf(rope["base"]) ** exponent), mpf(1)
    if s["name"] == "proportional":
        turning = int(mpmath.floor(mpf(s["fraction"]) * r / 2))
        return [w if i < turning else mpf(0) for i, w in enumerate(unscaled(rope))], mpf(1)
    raise ValueError(s["name"])


# ---- the file ----

def digits(x):
    return mpmath.nstr(x, 22, min_fixed=-3, max_fixed=30) if x else "0"


def expect(rope, values):
    keep = ("part", "layers", "layers_without_rope", "heads", "kv_heads", "head_dim", "rotary_dim", "first", "pairing")
    out = {key: rope[key] for key in keep}
    inv_freq, a = formula(rope, values)
    out |= {"base": float(rope["base"]), "scaling": rope["scaling"]["name"], "axis": "".join(map(str, rope["axis"])),
            "attention_factor": digits(a), "inv_freq": [digits(w) for w in inv_freq]}
    if rope["lengths"]:
        out["long"] = []
        for length in rope["lengths"]:
            inv_freq, a = formula(rope, values, length)
            out["long"].append({"length": length, "attention_factor": digits(a),
                                "inv_freq": [digits(w) for w in inv_freq]})
    return out


def dump(value, indent=0, width=118):
    """JSON with short values on one line and long lists wrapped."""
    flat = json.dumps(value)
    pad = " " * indent
    if len(pad + flat) <= width and not (isinstance(value, dict) and indent < 6):
        return flat
    if isinstance(value, dict):
        body = ",\n".join(f"{pad}  {json.dumps(k)}: {dump(v, indent + 2)}" for k, v in value.items())
        return "{\n" + body + "\n" + pad + "}"
    if isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value):
        return "[\n" + ",\n".join(pad + "  " + dump(v, indent + 2) for v in value) + "\n" + pad + "]"
    if isinstance(value, list):
        lines, line = [], pad + "  "
        for item in (json.dumps(v) for v in value):
            if len(line) + len(item) + 1 > width:
                lines.append(line.rstrip())
                line = pad + "  "
            line += item + ", "
        lines.append(line.rstrip().rstrip(","))
        return "[\n" + "\n".join(lines) + "\n" + pad + "]"
    return flat


def main(names):
    models = {}
    files = {path.name.removesuffix(".json") for path in (GOLDEN / "configs").glob("*.json")}
    if files != set(MODELS):
        sys.exit(f"without a description or a file: {sorted(files ^ set(MODELS))}")
    for name in names or sorted(MODELS):
        source, seen, ropes = MODELS[name]
        values = json.loads((GOLDEN / "configs" / f"{name}.json").read_text())
        entry = {"source": source,
                 "values": "opened" if seen == "opened" else "ours, in the form of the file; not published",
                 "model_type": values.get("model_type", ""), "ropes": [expect(rope, values) for rope in ropes]}
        models[name] = entry
    if names:
        print(dump(models))
        return
    made = {"by": "tools/golden/make_golden.py", "python": sys.version.split()[0], "mpmath": mpmath.__version__}
    (GOLDEN / "expected.json").write_text(dump({"made": made, "models": models}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
