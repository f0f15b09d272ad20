#!/usr/bin/env python3
"""run.py ROTARY [ENGINE...]: what each engine makes of conformance/, into results.json. See README.md."""
import argparse
import collections
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from score import CONFORMANCE, HERE, cells

RESULTS = HERE / "results.json"
ENGINES = """transformers-4.36.2 transformers-4.44.2 transformers-4.51.3 transformers-4.57.6 transformers-5.0.0
    transformers-5.24.0 mlx-lm-0.32.2 keras-hub-0.32.0 vllm-0.33.0 sglang-0.5.23 lmdeploy-0.18.0 llama.cpp-b11549
    onnxruntime-genai-0.18.0 ibm-fms-1.13.1 megatron-bridge-0.3.1 paddleformers-1.2.0 easydel-0.3.0 litgpt-0.5.13
    torchtune-0.6.1""".split()
ON_CPU = {  # each engine reads its own
    "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE / "adapters", CONFORMANCE))), "PYTHONWARNINGS": "ignore",
    "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "torch", "SGLANG_USE_CPU_ENGINE": "1",
    "JAX_PLATFORMS": "cpu", "VLLM_TARGET_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1"}


def name_of(engine):
    return engine.rpartition("-")[0]


def environment(engine, envs, torch):
    """The Python of the engine's environment, which is made where it is not there yet."""
    folder = envs / engine
    python, made = folder / "bin/python", folder / "made"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check",
                        "--no-deps", "-r", HERE / "environments" / f"{engine}.txt"], check=True)
        # torch stands behind the environment's own packages
        next(folder.glob("lib/python*/site-packages")).joinpath("zz-torch.pth").write_text(f"{torch}\n")
        made.touch()
    return python


def measure(engine, rotary, python, folder, wanted):
    """The engine's cells."""
    output, adapter = folder / "out.npz", name_of(engine).replace("-", "_").replace(".", "_") + "_"
    done = subprocess.run([python, HERE / "harness.py", adapter, CONFORMANCE, output, *wanted], text=True,
                          stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=os.environ | ON_CPU)
    if done.returncode:
        sys.exit(f"{engine}: {done.stderr[-2000:]}")
    who = {"engine": name_of(engine), "version": engine.rpartition("-")[2]}
    return [who | cell for cell in cells(rotary, folder, output)]


def write_results(engine, found):
    """Puts the engine's cells in the place of those that results.json has."""
    results = json.loads(RESULTS.read_text())
    measured = {f"{e['name']}-{e['version']}": e for e in results["engines"]}
    measured[engine] = {"name": name_of(engine), "version": engine.rpartition("-")[2],
                        "date": datetime.date.today().isoformat()}
    rows = {one: [c for c in results["cells"] if f"{c['engine']}-{c['version']}" == one] for one in measured}
    rows[engine] = found
    order = [one for one in ENGINES if one in measured]
    RESULTS.write_text(json.dumps({"version": 1, "engines": [measured[one] for one in order]}, indent=1)[:-2] +
                       ',\n "cells": [\n' + ",\n".join(json.dumps(c) for one in order for c in rows[one]) + "\n]}\n")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rotary", type=pathlib.Path, help="the program")
    options.add_argument("engines", nargs="*", help="name or name-version; default: all")
    options.add_argument("--envs", type=pathlib.Path, default=pathlib.Path("build/engines"), help="their environments")
    options.add_argument("--torch", type=pathlib.Path, help="a site-packages folder with torch; default: this Python's")
    options.add_argument("--case", action="append", default=[], help="only this case: prints its cells, writes nothing")
    asked = options.parse_intermixed_args()
    for name in asked.engines:
        if name not in ENGINES and name not in map(name_of, ENGINES):
            options.error(f"no engine {name}; there are: {' '.join(ENGINES)}")
    torch = asked.torch or next(pathlib.Path(p) for p in sys.path if (pathlib.Path(p) / "torch").is_dir())
    for engine in ENGINES:
        if asked.engines and name_of(engine) not in asked.engines and engine not in asked.engines:
            continue
        python = environment(engine, asked.envs.resolve(), torch.resolve())
        with tempfile.TemporaryDirectory() as folder:
            found = measure(engine, asked.rotary.resolve(), python, pathlib.Path(folder), asked.case)
        if asked.case:
            print(json.dumps(found, indent=1))
            continue
        print(engine, dict(collections.Counter(cell["result"] for cell in found)), flush=True)
        write_results(engine, found)


if __name__ == "__main__":
    main()
