"""rotary.RotaryEmbedding beside the formula of Hugging Face's models in torch, eager and compiled, on one thread.

    python -P bench/torch_module.py            every table, in the thread's CPU time: medians of alternating rounds
    python -P bench/torch_module.py calls      q and k of one token: the public function beside the C++ function inside
    python -P bench/torch_module.py models     a decode step alone

Needs torch and the package. The formula makes its rows in the call too, as the module does; in the model it makes them
once a step.
"""

import sys
import time

import rotary
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

HEADS, KV_HEADS, WIDTH, BASE = 32, 8, 128, 500000.0


def medians(ways, rounds=15, seconds=0.04):
    """The median time of a call of each way, in microseconds; the ways take turns."""
    counts, times = {}, {name: [] for name in ways}
    for name, call in ways.items():
        for _ in range(3):
            call()
        begin = time.thread_time()
        call()
        counts[name] = max(1, int(seconds / max(time.thread_time() - begin, 1e-6)))
    for _ in range(rounds):
        for name, call in ways.items():
            begin = time.thread_time()
            for _ in range(counts[name]):
                call()
            times[name].append((time.thread_time() - begin) / counts[name] * 1e6)
    return {name: sorted(some)[len(some) // 2] for name, some in times.items()}


def say(title, times, unit):
    shown = ", ".join(f"{name} {time:.1f} us ({times[unit] / time:.2f})" for name, time in times.items())
    print(f"{title}: {shown}", flush=True)


def rotate_half(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)


def rows_of(positions, inv_freq, dtype):
    angles = positions[..., None].float() * inv_freq
    angles = torch.cat((angles, angles), -1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def formula(q, k, positions, inv_freq):
    cos, sin = rows_of(positions, inv_freq, q.dtype)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def modules():
    """q and k of 32 and 8 heads of 128, in Hugging Face's layout."""
    inv_freq = BASE ** (-torch.arange(0, WIDTH, 2).float() / WIDTH)
    for tokens in (1, 64, 2048):
        for dtype in (torch.float32, torch.bfloat16):
            q, k = (torch.randn(1, heads, tokens, WIDTH).to(dtype) for heads in (HEADS, KV_HEADS))
            positions = torch.arange(1000, 1000 + tokens)
            rope = rotary.RotaryEmbedding(head_dim=WIDTH, base=BASE, pairing="half", layout="bhtd")
            torch._dynamo.reset()
            both = [torch.compile(one, fullgraph=True, dynamic=False) for one in (formula, rope)]
            ways = {
                "formula": lambda: formula(q, k, positions, inv_freq),
                "module": lambda: rope(q, k, positions),
                "formula, compiled": lambda: both[0](q, k, positions, inv_freq),
                "module, compiled": lambda: both[1](q, k, positions),
            }
            say(f"{tokens} tokens, {str(dtype)[6:]}", medians(ways), "formula, compiled")


class Layer(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.heads = heads, kv_heads, kv_heads
        width = hidden // heads
        self.norms = nn.ModuleList(nn.RMSNorm(hidden) for _ in range(2))
        self.qkv = nn.Linear(hidden, sum(self.heads) * width, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.up, self.down = nn.Linear(hidden, 8 * hidden, bias=False), nn.Linear(4 * hidden, hidden, bias=False)

    def forward(self, x, past, turn):
        width = x.shape[-1] // self.heads[0]
        qkv = self.qkv(self.norms[0](x)).unflatten(-1, (-1, width)).transpose(1, 2)
        q, k, v = qkv.split(self.heads, 1)
        q, k = turn(q, k)
        k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        y = scaled_dot_product_attention(q, k, v, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, up = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * up)


class Model(nn.Module):
    """A small Llama. way: "module" (in each layer), "rows" (a table once a step), else the formula (the same)."""

    def __init__(self, way, layers=4, hidden=256, heads=8, kv_heads=2):
        super().__init__()
        torch.manual_seed(0)
        self.way, width = way, hidden // heads
        self.layers = nn.ModuleList(Layer(hidden, heads, kv_heads) for _ in range(layers))
        self.rope = rotary.RotaryEmbedding(head_dim=width, base=BASE, pairing="half", layout="bhtd")
        self.register_buffer("inv_freq", BASE ** (-torch.arange(0, width, 2).float() / width), persistent=False)

    def forward(self, x, past, positions):
        if self.way == "module":
            turn = lambda q, k: self.rope(q, k, positions)  # noqa: E731
        elif self.way == "rows":
            table = self.rope.table(positions)
            turn = lambda q, k: rotary.rotate_qk(q, k, table, layout="bhtd")  # noqa: E731
        else:
            cos, sin = rows_of(positions, self.inv_freq, x.dtype)
            turn = lambda q, k: (q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin)  # noqa: E731
        for layer in self.layers:
            x = layer(x, past, turn)
        return x


def models():
    """A decode step of a whole small model, with 128 tokens in the cache."""
    x, past, positions = torch.randn(1, 1, 256), torch.randn(2, 1, 2, 128, 32), torch.tensor([128])
    for how in ("eager", "compiled"):
        torch._dynamo.reset()
        made = {way: Model(way).eval() for way in ("formula", "module", "rows", "the formula again")}
        for one in made.values():  # the same weights: 15 MB elsewhere may be some percent slower
            one.layers = made["formula"].layers
        if how == "compiled":
            made = {way: torch.compile(one, fullgraph=True, dynamic=False) for way, one in made.items()}
        ways = {way: (lambda one=one: one(x, past, positions)) for way, one in made.items()}
        say(f"a decode step of 4 layers, {how}", medians(ways, rounds=60), "formula")


def calls():
    """q and k of one token in new tensors: hot, and after 64 MB of other memory was read."""
    rope = rotary.Rope(head_dim=WIDTH, base=BASE, pairing="half")
    table, other = rotary.Table(rope, [1000]), torch.zeros(16 << 20)
    q, k = torch.randn(1, HEADS, 1, WIDTH), torch.randn(1, KV_HEADS, 1, WIDTH)
    inside = rotary._core.rotate_qk
    given = "rotate_qk", q, k, table, "bhtd", None, None, 0, "forward", None
    public = lambda: rotary.rotate_qk(q, k, table, layout="bhtd")  # noqa: E731
    ways = {"rotate_qk": public, "_core.rotate_qk": lambda: inside(*given)}
    say("one token, hot", medians(ways), "_core.rotate_qk")
    times = {name: [] for name in ways}
    for _ in range(200):
        for name, call in ways.items():
            other.add_(1)
            begin = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - begin) * 1e6)
    say("one token, cold", {name: sorted(some)[100] for name, some in times.items()}, "_core.rotate_qk")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        for measure in (modules, models, calls):
            if sys.argv[1:] in ([], [measure.__name__]):
                measure()
