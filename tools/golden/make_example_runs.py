#!/usr/bin/env python3
"""Writes tests/golden/runs: two small training runs by a formula, for the tests and docs of rotary compare.

Nothing was trained. The losses fall from ln(65) as those of real runs do; the noise is a linear congruence, so every
Python 3 writes the same bytes.
"""
import json
import math
import pathlib

RUNS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "runs"
STEPS = 2000
START = math.log(65)


def make_run(name, position, parameters, end, pace, seed):
    state = seed

    def noise():
        nonlocal state
        state = (state * 1664525 + 1013904223) % 2**32
        return state / 2**32 - 0.5

    def loss(step):
        return end + (START - end) * (0.6 * math.exp(-step / pace) + 0.4 * math.exp(-step / (4 * pace)))

    folder = RUNS / name
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "rotary_decoder", "position_embedding_type": position, "parameters": parameters}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    with open(folder / "loss.jsonl", "w") as log:
        for step in range(0, STEPS + 1, 50):
            if step > 0:
                log.write(json.dumps({"step": step, "train_loss": round(loss(step) - 0.1 + 0.3 * noise(), 4)}) + "\n")
            if step % 250 == 0:
                log.write(json.dumps({"step": step, "validation_loss": round(loss(step) + 0.01 * noise(), 4)}) + "\n")


make_run("rope", "rope", 802944, end=1.78, pace=130, seed=1)
make_run("none", "none", 802944, end=2.03, pace=160, seed=2)
