#!/usr/bin/env python3
"""What RoPE costs a call, by each door: the time of eager torch over that of the door, in one alternating run.

    python/bench/doors.py [--case NAME]... [--rounds N] [--threads N] [--json FILE]

Each door gets q and k, and cos and sin that are already there. The doors take turns, round by round; told is the median
over the rounds of eager / door, and the fastest call of the door.
"""

import argparse
import json
import statistics
import time

import rotary
import torch

# name: (tokens, dtype, heads of q, heads of k, head_dim)
CASES = {
    "one token, f32": (1, torch.float32, 32, 8, 128),
    "64 tokens, bf16": (64, torch.bfloat16, 32, 8, 128),
    "2048 tokens, f32": (2048, torch.float32, 32, 8, 128),
    "2048 tokens, bf16": (2048, torch.bfloat16, 32, 8, 128),
}


def turned_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def eager(q, k, cos, sin):
    """As Hugging Face's models write it: doubled rows in the tensors' type."""
    return q * cos + turned_half(q) * sin, k * cos + turned_half(k) * sin


def doors(case):
    """Of each door a function of q and k that returns the two."""
    tokens, dtype, heads, kv_heads, head_dim = case
    module = rotary.torch.RotaryEmbedding(head_dim=head_dim, pairing="half", layout="bhtd")
    table = module.table(range(tokens))
    single = [torch.from_dlpack(rows) for rows in (table.cos, table.sin)]
    cos, sin = (torch.cat((rows, rows), -1).to(dtype) for rows in single)
    doubled = rotary.from_doubled(cos, sin, pairing="half")
    ops, words = torch.ops.rotary_python, ("bhtd", "half", "", 0, False)
    return {
        "eager": lambda q, k: eager(q, k, cos, sin),
        "rotary.rotate_qk": lambda q, k: rotary.rotate_qk(q, k, table, layout="bhtd"),
        "rotary.rotate_qk, doubled rows": lambda q, k: rotary.rotate_qk(q, k, doubled, layout="bhtd"),
        "the op": lambda q, k: ops.rotate_qk(q, k, *single, *words),
        "RotaryEmbedding, its table in the call": lambda q, k: module(q, k),
    }


def seconds(call, least=0.002):
    """Of one call, over as many as take `least`."""
    count = 1
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        spent = time.perf_counter() - begin
        if spent >= least or count >= 1 << 16:
            return spent / count
        count = max(2 * count, int(count * least / max(spent, 1e-9)))


def measured(case, functions, rounds, backward):
    tokens, dtype, heads, kv_heads, head_dim = case
    # As a model has them: [batch, tokens, heads, head_dim] in memory.
    q, k = (torch.randn(1, tokens, n, head_dim).to(dtype).transpose(1, 2) for n in (heads, kv_heads))
    grads = [torch.randn_like(x) for x in (q, k)]
    if backward:
        q.requires_grad_(), k.requires_grad_()

    def forward(function):
        def call():
            function(q, k)

        def both():
            torch.autograd.grad(function(q, k), (q, k), grads)

        return both if backward else call

    calls = {name: forward(function) for name, function in functions.items()}
    times = {name: [] for name in calls}
    with torch.set_grad_enabled(backward):
        for call in calls.values():
            seconds(call)
        for _ in range(rounds):
            for name, call in calls.items():
                times[name].append(seconds(call))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", choices=list(CASES), help="by default all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", help="a file for every time that was taken")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    kept = {}
    print(f"torch {torch.__version__}, rotary {rotary.__version__} ({rotary.chosen_target()}), {given.threads} threads")
    for name in given.case or CASES:
        for backward in (False, True):
            times = measured(CASES[name], doors(CASES[name]), given.rounds, backward)
            kept[f"{name}{', with backward' if backward else ''}"] = times
            print(f"\n{name}, {'forward and backward' if backward else 'no gradient'}")
            for door, taken in times.items():
                ratio = statistics.median(one / other for one, other in zip(times["eager"], taken))
                print(f"  {door:40} {ratio:6.2f}  {min(taken) * 1e6:10.2f} us")
    if given.json:
        with open(given.json, "w") as file:
            json.dump(kept, file)


if __name__ == "__main__":
    main()
