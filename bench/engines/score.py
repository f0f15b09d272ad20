"""The cells of an adapter's outputs, by the cases' values and, where they differ, by `rotary check`."""
import json
import pathlib
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
CONFORMANCE = HERE.parents[1] / "conformance"
sys.path[:0] = [str(HERE), str(CONFORMANCE)]
from harness import read_values  # noqa: E402
from make import safetensors  # noqa: E402

AS_ASKED = {"query_factor_open"}  # the rotation is as asked; a factor of queries behind it was not called


def check_command(case):
    """The arguments of `rotary check`, from conformance/, with the files that write_tensors() writes."""
    layer = ["--layer", str(case["layer"])] if not case["part"] else ["--rope", str(case["rope"])]
    length = ["--length", str(case["length"])] if case["length"] else []
    return ["check", case["config"], *layer, *length, "--layout", "td",
            "--before", "before.safetensors", "--after", "after.safetensors", "--positions", "positions.npy"]


def write_tensors(folder, case, q, rotated):
    (folder / "before.safetensors").write_bytes(safetensors({"q": q}))
    (folder / "after.safetensors").write_bytes(safetensors({"q": rotated}))
    np.save(folder / "positions.npy", np.array(case["positions"]))


def checked(rotary, folder, case, q, rotated):
    """The answer of `rotary check --json`."""
    write_tensors(folder, case, q, rotated)
    files = {name: str(folder / name) for name in ("before.safetensors", "after.safetensors", "positions.npy")}
    arguments = [files.get(a, a) for a in check_command(case)]
    done = subprocess.run([rotary, *arguments, "--json"], capture_output=True, text=True, cwd=CONFORMANCE)
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
    said = checked(rotary, folder, case | {"positions": positions}, q, rotated)
    if said["equal"] or said["cause"] in AS_ASKED:
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


if __name__ == "__main__":
    import collections
    found = cells(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])
    print(collections.Counter(c["result"] for c in found))
    for c in found:
        if c["result"] not in ("float32", "equal"):
            print(c["case"], c["result"], c.get("cause", ""), c.get("worst_error", ""), c.get("sentence", "")[:230])
