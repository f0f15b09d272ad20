#!/usr/bin/env python3
"""run.py ROTARY [ENGINE...]: what each engine makes of conformance/, into results.json. See README.md."""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from engines import ENGINES
from score import CONFORMANCE, HERE, cells

RESULTS = HERE / "results.json"
ON_CPU = {  # each engine reads its own
    "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE / "adapters", CONFORMANCE))), "PYTHONWARNINGS": "ignore",
    "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "torch", "SGLANG_USE_CPU_ENGINE": "1",
    "VLLM_TARGET_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1"}


def environment(engine, envs, torch):
    """The Python of the engine's environment, which is made where it is not there yet."""
    folder = envs / str(engine)
    python, made = folder / "bin/python", folder / "made"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        for packages, how in (engine.packages, []), (engine.alone, ["--no-deps"]):
            if packages:
                subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q",
                                "--disable-pip-version-check", *how, *packages.split()], check=True)
        if engine.torch:  # behind the environment's own packages
            next(folder.glob("lib/python*/site-packages")).joinpath("zz-torch.pth").write_text(f"{torch}\n")
        made.touch()
    return python


def measure(engine, rotary, python, folder, wanted):
    """The engine's cells."""
    output = folder / f"{engine}.npz"
    done = subprocess.run([python, HERE / "harness.py", engine.adapter, CONFORMANCE, output, *wanted], text=True,
                          stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=os.environ | ON_CPU)
    if done.returncode:
        sys.exit(f"{engine}: {done.stderr[-2000:]}")
    return [{"engine": engine.name, "version": engine.version} | one for one in cells(rotary, folder, output)]


def write_results(engine, found):
    """Puts the engine's cells in the place of those that results.json has."""
    results, key = json.loads(RESULTS.read_text()), (engine.name, engine.version)
    rank = {(e.name, e.version): place for place, e in enumerate(ENGINES)}
    measured = [e for e in results["engines"] if (e["name"], e["version"]) != key] + [
        {"name": engine.name, "version": engine.version, "date": datetime.date.today().isoformat()}]
    measured.sort(key=lambda e: rank[e["name"], e["version"]])
    rows = [c for c in results["cells"] if (c["engine"], c["version"]) != key] + found
    rows.sort(key=lambda c: rank[c["engine"], c["version"]])
    RESULTS.write_text(json.dumps({"version": 1, "engines": measured}, indent=1)[:-2] +
                       ',\n "cells": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rotary", type=pathlib.Path, help="the program")
    options.add_argument("engines", nargs="*", help="name or name-version; default: all")
    options.add_argument("--envs", type=pathlib.Path, default=pathlib.Path("build/engines"), help="their environments")
    options.add_argument("--torch", type=pathlib.Path, help="a site-packages folder with torch; default: this Python's")
    options.add_argument("--case", action="append", default=[], help="only this case: prints its cells, writes nothing")
    asked = options.parse_intermixed_args()
    torch = asked.torch or next(pathlib.Path(p) for p in sys.path if (pathlib.Path(p) / "torch").is_dir())
    for engine in ENGINES:
        if asked.engines and engine.name not in asked.engines and str(engine) not in asked.engines:
            continue
        python = environment(engine, asked.envs.resolve(), torch.resolve())
        with tempfile.TemporaryDirectory() as folder:
            found = measure(engine, asked.rotary.resolve(), python, pathlib.Path(folder), asked.case)
        if asked.case:
            print(json.dumps(found, indent=1))
            continue
        counts = {r: sum(c["result"] == r for c in found) for r in sorted({c["result"] for c in found})}
        print(engine, counts, flush=True)
        write_results(engine, found)


if __name__ == "__main__":
    main()
