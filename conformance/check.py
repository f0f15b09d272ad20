#!/usr/bin/env python3
"""check.py [COPIES]: computes the cases again in mpmath, from what files/golden/models.py says of models.

No line of rotary's program or library takes part: frequencies by the formulas of files/golden/make_golden.py at 50
digits, cos and sin of position * inv_freq rounded once to float32, the rotation in exact products. COPIES: compares
the configs of COPIED with published files in that folder instead, ORG--NAME_config.json. Exit status 1 where a value
here is another.
"""
import json
import pathlib
import sys

import mpmath
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "files/golden"))
from make_golden import formula  # noqa: E402
from models import MODELS, linear, longrope, yarn  # noqa: E402
from values import read_values  # noqa: E402

COPIED = "mixtral-8x7b qwen3-8b qwen3-30b-a3b deepseek-v3 kimi-k2".split()

# The ropes of changed files that are not the ropes of the files they are made of, by hand.
SAID = {
    "llama-2-7b-linear-int": {"scaling": linear(4)},
    "qwen2.5-7b-yarn-all-keys": {"scaling": yarn(4, 32768, 24, 2, truncate=False, attention=1.25)},
    "qwen3-8b-yarn-no-length": {"scaling": yarn(4, 40960)},
    "llama-3.1-8b-head-dim": {"head_dim": 64, "rotary_dim": 64, "exponent_dim": 64, "axis": [0] * 32,
                              "index": list(range(32))},
    "phi-3.5-moe-at-131072": {"scaling": longrope(32, 131072, mscale=1.243163121016122)},  # short_factor
}


def pairs(rope):
    """The elements of each pair before and after the rotation: u, v, out u, out v."""
    n, first, i = rope["rotary_dim"] // 2, rope["first"], np.arange(rope["rotary_dim"] // 2)
    half, interleaved = (i + first, i + n + first), (2 * i + first, 2 * i + 1 + first)
    return {"half": half + half, "interleaved": interleaved + interleaved,
            "interleaved_to_half": interleaved + half}[rope["pairing"]]


def faults(case, rope, values, scaling_of):
    """Sentences of what differs."""
    inv_freq, factor = formula(rope, scaling_of, case["length"] or 0)
    ours = map(mpmath.mpf, case["inv_freq"])
    worst = max(abs(a / w - 1) if w else abs(a) for a, w in zip(ours, inv_freq, strict=True))
    if worst > 4e-15:
        yield f"inv_freq differs by {mpmath.nstr(worst, 3)}"
    if abs(case["attention_factor"] / factor - 1) > 1e-15:
        yield f"attention_factor {case['attention_factor']} is not {mpmath.nstr(factor, 17)}"
    for key in "pairing", "first", "rotary_dim", "head_dim":
        if case[key] != rope[key]:
            yield f"{key} {case[key]} is not {rope[key]}"
    positions = np.atleast_2d(np.array(case["positions"], np.int64))
    q, rotated = values["q"], values["rotated"]
    expected, (u, v, out_u, out_v) = q.astype(np.float64), pairs(rope)
    for token in range(positions.shape[1]):
        for i, (w, axis) in enumerate(zip(map(mpmath.mpf, case["inv_freq"]), rope["axis"])):
            angle = int(positions[axis, token]) * w
            cos, sin = (np.float32(str(mpmath.nstr(case["attention_factor"] * f(angle), 30)))
                        for f in (mpmath.cos, mpmath.sin))
            if cos != values["cos"][token, i] or sin != values["sin"][token, i]:
                yield f"cos or sin of token {token}, pair {i} is not the rounded one"
            a, b, c, s = (np.float64(x) for x in (q[token, u[i]], q[token, v[i]], cos, sin))
            expected[token, out_u[i]], expected[token, out_v[i]] = a * c - b * s, b * c + a * s
    if np.abs(rotated - expected).max() > np.abs(q).max() * 2 * 2.0 ** -23:
        yield "rotated is not the rotation of q by cos and sin"


def other_values(copies):
    """Sentences of the keys that have other values in the published files."""
    for name in COPIED:
        file = f"{MODELS[name][0].split(' ')[0].replace('/', '--')}_config.json"
        ours, theirs = (json.loads(path.read_text()) for path in (HERE / f"configs/{name}.json", copies / file))
        yield from (f"{name}: {key} is {theirs.get(key)} there" for key in ours if ours[key] != theirs.get(key, ...))


def main():
    if sys.argv[1:]:
        sys.exit("\n".join(other_values(pathlib.Path(sys.argv[1]))) or None)
    tensors, bad = read_values(HERE / "values.safetensors"), 0
    cases = json.loads((HERE / "cases.json").read_text())
    for case in cases:
        file = pathlib.Path(case["config"]).stem  # a changed file's name begins with that of the file it is made of
        model = max((name for name in MODELS if file.startswith(name)), key=len)
        rope = MODELS[model][1][case["rope"]] | SAID.get(case["id"], {})
        scaling = json.loads((HERE / case["config"]).read_text()).get("rope_scaling")
        values = {key: tensors[f"{case['id']}.{key}"] for key in ("cos", "sin", "q", "rotated")}
        for sentence in faults(case, rope, values, scaling):
            print(f"{case['id']}: {sentence}")
            bad += 1
    print(f"{len(cases)} cases checked, {bad} faults")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
