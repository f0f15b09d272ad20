#!/usr/bin/env python3
"""make.py ROTARY [--check]: writes configs/, cases.json and values.safetensors, all numbers by the program ROTARY.

Standard library only. --check writes nothing: exit status 1 where a file here is not what the program makes today.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "files/golden"))
from files import GOLDEN, dump  # noqa: E402
from rows import CASES  # noqa: E402

VERSION = "1"  # a changed value or meaning is a new version, added cases are not


def config_of(name, change):
    """The text of a file of files/tests/golden/configs, with keys changed: "a.b" is b in a, None takes a key away."""
    text = (GOLDEN / "configs" / f"{name}.json").read_text()
    if not change:
        return text
    values = json.loads(text)
    for path, value in change.items():
        *above, key = path.split(".")
        at = values
        for part in above:
            at = at[part]
        at.pop(key, None)
        if value is not None:
            at[key] = value
    return dump(values) + "\n"


def write_npy(path, rows):
    """int64 [axes, tokens]."""
    head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}".ljust(117) + "\n"
    flat = [p for row in rows for p in row]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(
        f"<{len(flat)}q", *flat))


def positions_of(rope, length):
    """0, 1, 4095, the trained length, 131071 and 1000000; below a given length where the scaling depends on it."""
    if length:
        return sorted({0, 1, length // 2, length - 2, length - 1})
    return sorted({0, 1, 4095, rope["trained_length"] or rope["context"] or 2048, 131071, 1000000})


def run(rotary, *arguments):
    done = subprocess.run([rotary, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def case(rotary, folder, name, row):
    """The case and its tensors: {name: rows of float32}."""
    config = HERE / "configs" / f"{row['file']}.json"
    rope = json.loads(run(rotary, "inspect", config, "--json"))["ropes"][row["rope"]]
    positions = positions_of(rope, row["length"])
    axes = max(rope["axis"]) + 1
    write_npy(folder / "p.npy", [[p + 7 * axis * (p > 1) for p in positions] for axis in range(axes)])
    how = ["--rope", row["rope"], "--positions", folder / "p.npy", "--heads", 1]
    run(rotary, "golden", config, "--output", folder / "g.json", *how,
        *(["--length", row["length"]] if row["length"] else []))
    made = json.loads((folder / "g.json").read_text())
    said = {"id": name, "config": f"configs/{row['file']}.json", "source": row["source"], "layer": rope["layers"][0],
            "rope": row["rope"], "part": rope["part"], "length": row["length"] or None,
            "positions": made["positions"] if axes > 1 else made["positions"][0], "inv_freq": made["inv_freq"],
            "attention_factor": made["attention_factor"], "pairing": rope["pairing"], "first": rope["first"],
            "rotary_dim": rope["rotary_dim"], "head_dim": rope["head_dim"]}
    if axes > 1:
        said["axis"] = rope["axis"]
    if row["reading"]:
        said["reading"] = row["reading"]
    heads = {"q": made["x"], "rotated": made["rotated"]}
    return said, {f"{name}.cos": made["cos"], f"{name}.sin": made["sin"],
                  **{f"{name}.{key}": [token[0] for token in rows] for key, rows in heads.items()}}


def safetensors(tensors):
    """Rows of float32 by name as the bytes of a file."""
    head, data = {"__metadata__": {"version": VERSION}}, b""
    for name, rows in tensors.items():
        bytes_ = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
        head[name] = {"dtype": "F32", "shape": [len(rows), len(rows[0])],
                      "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def put(path, data, check):
    """Writes a file, or says whether it differs."""
    data = data if isinstance(data, bytes) else data.encode()
    if check:
        return path.exists() and path.read_bytes() == data
    path.write_bytes(data)
    return True


def main():
    rotary, check = pathlib.Path(sys.argv[1]).resolve(), "--check" in sys.argv
    different, cases, tensors = [], [], {}
    for name, row in CASES.items():
        path = HERE / "configs" / f"{row['file']}.json"
        if not put(path, config_of(row["config"], row["change"]), check):
            different.append(path.name)
    with tempfile.TemporaryDirectory() as folder:
        for name, row in CASES.items():
            said, of_case = case(rotary, pathlib.Path(folder), name, row)
            cases.append(said)
            tensors |= of_case
    for file, data in ("cases.json", dump(cases) + "\n"), ("values.safetensors", safetensors(tensors)):
        if not put(HERE / file, data, check):
            different.append(file)
    if different:
        sys.exit(f"not what {rotary.name} makes: {', '.join(different)}; run conformance/make.py ROTARY")
    print(f"{len(cases)} cases of {len({row['file'] for row in CASES.values()})} configs")


if __name__ == "__main__":
    main()
