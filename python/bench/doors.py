#!/usr/bin/env python3
"""What RoPE of q (32 heads of 128) and k (8) costs a call: rotary's ways beside eager torch, in one alternating run.

    python/bench/doors.py [--rounds N] [--threads N] [--case WORDS]

Each way gets cos and sin that are already there, and they take turns, round by round. Told are the median over the
rounds of eager torch's time over that of each, and its fastest time.
"""

import argparse
import functools
import importlib.util
import statistics
import timeit

import numpy
import rotary
import torch


def eager(q, k, cos, sin):
    return tuple(x * cos + torch.cat((-x[..., 64:], x[..., :64]), -1) * sin for x in (q, k))


def ways_of(tokens, dtype):
    """Of each way a function of q and k."""
    module = rotary.torch.RotaryEmbedding(head_dim=128, pairing="half", layout="bhtd")
    table = module.table(range(tokens))
    cos, sin = (torch.tensor(numpy.concatenate((rows, rows), -1)).to(dtype) for rows in (table.cos, table.sin))
    doubled = rotary.from_doubled(cos, sin, pairing="half")
    by_table = functools.partial(rotary.rotate_qk, table=table, layout="bhtd")
    formula = torch.compile(eager, fullgraph=True)
    ways = {
        "eager": lambda q, k: eager(q, k, cos, sin),
        "rotary.rotate_qk": by_table,
        "rotary.rotate_qk, doubled rows": lambda q, k: rotary.rotate_qk(q, k, doubled, layout="bhtd"),
        "RotaryEmbedding, its table in the call": module,
        "eager, compiled": lambda q, k: formula(q, k, cos, sin),
        "rotary.rotate_qk, compiled": torch.compile(by_table, fullgraph=True),
    }
    if importlib.util.find_spec("rotary_embedding_torch") is not None:
        from rotary_embedding_torch import RotaryEmbedding

        lucid = RotaryEmbedding(dim=128).rotate_queries_or_keys
        ways["rotary-embedding-torch (interleaved)"] = lambda q, k: (lucid(q), lucid(k))
    return ways


def cases():
    for tokens, dtype in ((1, torch.float32), (64, torch.bfloat16), (2048, torch.float32), (2048, torch.bfloat16)):
        name, ways = f"{tokens} tokens, {str(dtype)[6:]}", ways_of(tokens, dtype)
        q, k = [torch.randn(1, tokens, heads, 128).to(dtype).transpose(1, 2) for heads in (32, 8)]
        alone = lambda call: functools.partial(torch.no_grad()(call), q, k)  # noqa: B023, E731
        yield f"{name}, no gradient", {way: alone(call) for way, call in ways.items()}
        inputs, grads = [x.clone().requires_grad_() for x in (q, k)], [torch.randn_like(x) for x in (q, k)]
        both = lambda call, x=inputs, g=grads: torch.autograd.grad(call(*x), x, g)  # noqa: E731
        yield f"{name}, forward and backward", {way: functools.partial(both, call) for way, call in ways.items()}
        if dtype == torch.float32:
            table = rotary.Table(rotary.Rope(head_dim=128, pairing="half"), range(tokens))
            by_numpy = functools.partial(rotary.rotate_qk, q.numpy(), k.numpy(), table, layout="bhtd")
            yield f"{name}, numpy", {"eager": functools.partial(ways["eager"], q, k), "rotary.rotate_qk": by_numpy}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="", help="cases whose names contain this; by default all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rotary.set_num_threads(given.threads)
    for name, ways in cases():
        if given.case in name:
            timers = [(timer := timeit.Timer(call), timer.autorange()[0] // 50 + 1) for call in ways.values()]
            times = [[timer.timeit(count) / count for timer, count in timers] for _ in range(given.rounds)]
            print(f"\n{name}")
            for way, taken in zip(ways, zip(*times)):
                ratio = statistics.median(one[0] / other for one, other in zip(times, taken))
                print(f"  {way:40} {ratio:6.2f}  {min(taken) * 1e6:10.2f} us")


if __name__ == "__main__":
    main()
