"""docs/long-context.md: its commands run, and its table is what they print: test_long_context.py PROGRAM DOCS.

PROGRAM is rotary-torch; rotary lies beside it. Needs Python's standard library only.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

program, docs = map(pathlib.Path, sys.argv[1:])
page = docs.read_text()
METHODS = ("linear", "yarn", "llama3")


def losses(printed):
    """{(length, scaling): (loss, loss of the last quarter)} of one table of rotary-torch perplexity."""
    row = r"^ +(\d+)  (\w+) +\S+ +([\d.]+) +[\d.]+ +([\d.]+)$"
    return {(int(n), word): (float(loss), float(last)) for n, word, loss, last in re.findall(row, printed, re.M)}


def expect(what, got, wanted, slack):
    assert abs(got - wanted) <= slack, f"{what}: {got}, but it should be {wanted}"


with tempfile.TemporaryDirectory() as folder:
    path = f"{program.resolve().parent}:{os.environ['PATH']}"
    settings = {"cwd": folder, "env": {**os.environ, "PATH": path}}

    def run(script):
        done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=300, **settings)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    scripts = re.findall(r"```sh\n(.*?)```", page, re.S)
    assert len(scripts) == 2, scripts
    printed = "".join(run(script) for script in scripts)
    tables = [losses(table) for table in printed.split("the last 9088 tokens")[1:]]
    assert len(tables) == 1 + len(METHODS), printed

    # The page's table. The bits of a training run differ from CPU to CPU.
    rows = re.findall(r"^\| (\w+)[^|]*\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", page, re.M)
    assert [row[0] for row in rows] == ["smoke", *METHODS], rows
    for (name, short, long, last), table in zip(rows, tables):
        expect(f"{name} at 32", table[32, "none"][0], float(short), 0.1)
        expect(f"{name} at 128", table[128, "none"][0], float(long), 0.15)
        expect(f"{name}, last quarter", table[128, "none"][1], float(last), 0.2)

    # A config that extend wrote is the scaling that perplexity makes by itself.
    own = losses(run("rotary-torch perplexity runs/smoke --length 128 --scaling linear,yarn,llama3 --threads 1"))
    for name, table in zip(METHODS, tables[1:]):
        expect(f"{name} by its config", table[128, "none"][0], own[128, name][0], 1e-4)

    # At sixteen times the trained length a window is as good as at that length, where without one the loss has grown.
    lines = run("rotary-torch perplexity runs/smoke --length 32,512 --scaling none --window 32 --sinks 0,4 "
                "--threads 1 --json")
    loss = {(line["length"], line.get("sinks")): line["loss"] for line in map(json.loads, lines.splitlines())}
    assert loss[512, None] > loss[32, None] + 0.6, loss
    for sinks in (0, 4):
        assert loss[512, sinks] < loss[32, sinks] + 0.1, loss
print(f"{docs}: its commands print what it says")
