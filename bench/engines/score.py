"""The cells of an adapter's outputs, by the cases' values and, where they differ, by `rotary check`."""
import json
import pathlib
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
CONFORMANCE = HERE.parents[1] / "conformance"
sys.path.insert(0, str(CONFORMANCE))
from make import safetensors  # noqa: E402
from values import read_values  # noqa: E402


def checked(rotary, folder, case, positions, q, rotated):
    """The answer of `rotary check --json`."""
    before, after, at = (folder / name for name in ("before.safetensors", "after.safetensors", "positions.npy"))
    before.write_bytes(safetensors({"q": q}))
    after.write_bytes(safetensors({"q": rotated}))
    np.save(at, positions)
    layer = ["--rope", str(case["rope"])] if case["part"] else ["--layer", str(case["layer"])]
    length = ["--length", str(case["length"])] if case["length"] else []
    done = subprocess.run([rotary, "check", CONFORMANCE / case["config"], *layer, *length, "--layout", "td",
                           "--before", before, "--after", after, "--positions", at, "--json"],
                          capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{case['id']}: {done.stderr}")
    return json.loads(done.stdout)


def cell(rotary, folder, case, values, rotated):
    """The result of one case: equal (every element within the rounding of float32), float32 (within that of angles in
    float32, as `rotary check` allows), or differs, with check's cause."""
    reached = ~np.isnan(rotated).all(axis=1)
    positions = np.array(case["positions"])[..., reached]
    q, right, rotated = (x[reached] for x in (values[case["id"] + ".q"], values[case["id"] + ".rotated"], rotated))
    errors = np.abs(rotated.astype(np.float64) - right).max(axis=1) if np.isfinite(rotated).all() else None
    if errors is None:
        return {"result": "differs", "cause": "not_finite", "sentence": "the result holds NaN or infinity"}
    times = np.atleast_2d(positions)[0]
    found = {"worst_error": float(f"{errors.max():.3g}")}
    found |= {f"at_{p}": float(f"{errors[i]:.3g}") for i, p in enumerate(times) if p in (131071, 1000000)}
    if errors.max() <= np.abs(q).max() * case["attention_factor"] * 2.0 ** -22:
        return {"result": "equal"} | found
    said = checked(rotary, folder, case, positions, q, rotated)
    if said["equal"] or said["cause"] == "query_factor_open":  # as asked; a factor behind it was not called
        return {"result": "float32"} | found
    if said["cause"] == "order":  # "the elements have another order: scores of q and k that both have it are the same"
        return {"result": "order"} | found
    return {"result": "differs", "cause": said["cause"], "sentence": said["sentence"]} | found


def cells(rotary, folder, output):
    """The cells of one engine, by the file that its adapter wrote."""
    values, out = read_values(CONFORMANCE / "values.safetensors"), []
    with np.load(output) as file:
        said, tensors = json.loads(str(file["said"])), {n: file[n] for n in file.files if n != "said"}
    for case in json.loads((CONFORMANCE / "cases.json").read_text()):
        result, sentence = said.get(case["id"], ("not there", ""))
        if result == "rotated":
            out.append({"case": case["id"]} | cell(rotary, folder, case, values, tensors[case["id"]]))
        elif result == "head_dim":
            out.append({"case": case["id"], "result": "differs", "cause": "head_dim", "sentence": sentence})
        elif result != "not there":
            out.append({"case": case["id"], "result": result, "sentence": sentence})
    return out
