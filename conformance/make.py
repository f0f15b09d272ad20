#!/usr/bin/env python3
"""make.py ROTARY [--check]: writes the numbers of cases.json, and values.safetensors, by the program ROTARY.

Standard library only. A case's id, config, source, rope, length and reading stand in cases.json by hand; a new case
needs no more. --check writes nothing: exit status 1 where a file here is not what the program makes today.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "files/golden"))
from files import dump  # noqa: E402

VERSION = "1"  # a changed value or meaning is a new version, added cases are not


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


def case(rotary, folder, row):
    """The case and its tensors: {name: rows of float32}."""
    config, length = HERE / row["config"], row.get("length")
    rope = json.loads(run(rotary, "inspect", config, "--json"))["ropes"][row["rope"]]
    positions = positions_of(rope, length)
    axes = max(rope["axis"]) + 1
    write_npy(folder / "p.npy", [[p + 7 * axis * (p > 1) for p in positions] for axis in range(axes)])
    run(rotary, "golden", config, "--output", folder / "g.json", "--rope", row["rope"], "--positions", folder / "p.npy",
        "--heads", 1, *(["--length", length] if length else []))
    made = json.loads((folder / "g.json").read_text())
    said = {"id": row["id"], "config": row["config"], "source": row["source"], "layer": rope["layers"][0],
            "rope": row["rope"], "part": rope["part"], "length": length,
            "positions": made["positions"] if axes > 1 else made["positions"][0], "inv_freq": made["inv_freq"],
            "attention_factor": made["attention_factor"], "pairing": rope["pairing"], "first": rope["first"],
            "rotary_dim": rope["rotary_dim"], "head_dim": rope["head_dim"]}
    said |= {"axis": rope["axis"]} if axes > 1 else {}
    said |= {"reading": row["reading"]} if "reading" in row else {}
    tensors = {"cos": made["cos"], "sin": made["sin"], "q": [token[0] for token in made["x"]],
               "rotated": [token[0] for token in made["rotated"]]}
    return said, {f"{row['id']}.{key}": rows for key, rows in tensors.items()}


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


def main():
    rotary, cases, tensors = pathlib.Path(sys.argv[1]).resolve(), [], {}
    with tempfile.TemporaryDirectory() as folder:
        for row in json.loads((HERE / "cases.json").read_text()):
            said, of_case = case(rotary, pathlib.Path(folder), row)
            cases.append(said)
            tensors |= of_case
    made = {"cases.json": (dump(cases) + "\n").encode(), "values.safetensors": safetensors(tensors)}
    different = [file for file, data in made.items() if (HERE / file).read_bytes() != data]
    if "--check" not in sys.argv:
        for file in different:
            (HERE / file).write_bytes(made[file])
    elif different:
        sys.exit(f"not what {rotary.name} makes: {', '.join(different)}; run conformance/make.py ROTARY")
    print(f"{len(cases)} cases of {len({case['config'] for case in cases})} configs")


if __name__ == "__main__":
    main()
