"""Times rotary::rotate and the eager formula q*cos + rotate_half(q)*sin: bench_op.py LIBRARY [ROUNDS].

The two run alternately; medians of all rounds. Checked before it is timed.
"""

import statistics
import sys
import time

import torch


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def measure(works, rounds):
    times = [[] for _ in works]
    for _ in range(rounds):
        for work, mine in zip(works, times):
            start = time.perf_counter()
            work()
            mine.append(time.perf_counter() - start)
    return [1e3 * statistics.median(t) for t in times]


torch.ops.load_library(sys.argv[1])
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
rotary = torch.ops.rotary
print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, medians of {rounds} rounds, milliseconds")
for shape, dtype in [
    ((1, 32, 2048, 128), torch.float32),
    ((1, 32, 2048, 128), torch.bfloat16),
    ((1, 32, 1, 128), torch.float32),
    ((1, 32, 1, 128), torch.bfloat16),
]:
    tokens, pairs = shape[2], shape[3] // 2
    inv_freq = 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    cos, sin = rotary.table(torch.arange(tokens), inv_freq)
    wide = [torch.cat([t, t], -1).to(dtype) for t in (cos, sin)]
    x = torch.randn(shape).to(dtype).requires_grad_()
    grad = torch.randn(shape).to(dtype)
    ours = lambda: rotary.rotate(x, cos, sin, "half", "bhtd")
    eager = lambda: x * wide[0] + rotate_half(x) * wide[1]
    if dtype == torch.float32:
        assert torch.equal(ours(), eager())
    else:
        exactly = x.double() * torch.cat([cos, cos], -1).double() + rotate_half(x).double() * torch.cat([sin, sin], -1).double()
        assert torch.allclose(ours().double(), exactly, rtol=2**-8, atol=1e-6)
    repeat = 1 if tokens > 1 else 200

    def forward(f):
        with torch.no_grad():
            for _ in range(repeat):
                f()

    def both(f):
        for _ in range(repeat):
            x.grad = None
            f().backward(grad)

    for name, run in [("forward", forward), ("forward and backward", both)]:
        mine, theirs = (t / repeat for t in measure([lambda: run(ours), lambda: run(eager)], rounds))
        print(f"{str(list(shape)):20} {str(dtype)[6:]:9} {name:21} rotary {mine:9.4f}  eager {theirs:9.4f}  eager/rotary {theirs / mine:6.2f}")
