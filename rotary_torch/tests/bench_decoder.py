"""Times `rotary train` and `rotary generate`, and the same decoders in eager PyTorch, as one would write them.

    bench_decoder.py ROTARY_TORCH [--threads 1] [--rounds 5]

ROTARY_TORCH is the program. Both sides use one libtorch, the same number of threads and the same shapes, and alternate:
a round of ours, a round of theirs. Medians of the rounds.
"""

import argparse
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: this python has no torch ({error})")
    sys.exit(77)

VOCABULARY = 65
PRESETS = {
    "nanogpt-cpu": dict(layers=4, width=128, heads=4, feed_forward=512, block=64, batch=12, activation="gelu",
                        rope_fraction=1.0),
    "labml": dict(layers=6, width=128, heads=16, feed_forward=512, block=512, batch=4, activation="relu",
                  rope_fraction=0.5),
}
WORKS = [("train", "nanogpt-cpu", 60), ("train", "labml", 4), ("generate", "nanogpt-cpu", 400)]


# ---- ours ----


class Ours:
    def __init__(self, program, threads, folder):
        self.program, self.threads, self.folder = program, threads, pathlib.Path(folder)
        self.text = self.folder / "text"
        ids = torch.randint(VOCABULARY, (100000,)).tolist()
        self.text.write_text("".join(chr(ord("0") + i) for i in [*range(VOCABULARY), *ids]))
        self.rounds = 0

    def run(self, *words):
        command = [self.program, *map(str, words), "--threads", str(self.threads)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def train(self, preset, steps):
        """Milliseconds per step, as the command says them."""
        self.rounds += 1
        printed = self.run("train", "--preset", preset, "--text", self.text, "--steps", steps, "--output",
                           self.folder / f"{preset}{self.rounds}")
        return float(re.search(r"([\d.,]+) ms per step", printed)[1].replace(",", ""))

    def generate(self, preset, tokens):
        """Milliseconds per token: a long text's time without that of a short one."""

        def seconds(count):
            start = time.perf_counter()
            self.run("generate", self.folder / f"{preset}1", "--prompt", "0", "--temperature", 0, "--tokens", count)
            return time.perf_counter() - start

        short = seconds(1)
        return 1e3 * (seconds(tokens + 1) - short) / tokens


# ---- eager PyTorch ----


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def apply_rope(x, cos, sin):
    """x [batch, heads, tokens, head_dim]; the first elements of each head rotate."""
    block, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    rotated = block * cos + rotate_half(block) * sin
    return torch.cat((rotated, rest), dim=-1) if rest.shape[-1] else rotated


class Block(nn.Module):
    def __init__(self, width, heads, feed_forward, activation):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, feed_forward), {"gelu": nn.GELU, "relu": nn.ReLU}[activation](),
                                  nn.Linear(feed_forward, width))

    def attention(self, x, cos, sin, cache):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3 * self.heads, -1).transpose(1, 2).chunk(3, dim=1)
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
            cache[:] = [k, v]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=tokens > 1)
        return self.output(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x, cos, sin, cache):
        x = x + self.attention(self.attention_norm(x), cos, sin, cache)
        return x + self.feed(self.feed_norm(x))


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, feed_forward, block, activation, rope_fraction, batch):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, heads, feed_forward, activation) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)
        rotary_dim = int(width // heads * rope_fraction) // 2 * 2
        angles = torch.arange(16 * block)[:, None] * 1e4 ** (-torch.arange(0, rotary_dim, 2) / rotary_dim)
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def forward(self, ids, start=0, caches=None):
        cos, sin = self.cos[start : start + ids.shape[1]], self.sin[start : start + ids.shape[1]]
        x = self.embedding(ids)
        for i, block in enumerate(self.blocks):
            x = block(x, cos, sin, None if caches is None else caches[i])
        return self.head(self.norm(x))


class Eager:
    def __init__(self):
        self.data = torch.randint(VOCABULARY, (100000,))
        self.models = {preset: Decoder(**shape) for preset, shape in PRESETS.items()}
        self.optimizers = {preset: self.optimizer_of(preset) for preset in PRESETS}

    def optimizer_of(self, preset):
        parameters = list(self.models[preset].parameters())
        if preset == "labml":
            return torch.optim.Adam(parameters, lr=1.0, betas=(0.9, 0.999), eps=1e-8)
        decayed, others = [p for p in parameters if p.dim() >= 2], [p for p in parameters if p.dim() < 2]
        return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                 lr=1e-3, betas=(0.9, 0.99))

    def train(self, preset, steps):
        model, optimizer, shape = self.models[preset], self.optimizers[preset], PRESETS[preset]
        start = time.perf_counter()
        for step in range(steps):
            for group in optimizer.param_groups:
                noam = 128**-0.5 * min((step + 1) ** -0.5, (step + 1) * 2000**-1.5)
                group["lr"] = noam if preset == "labml" else 1e-4 + 0.5 * (1 + math.cos(math.pi * step / steps)) * 9e-4
            starts = torch.randint(len(self.data) - shape["block"], (shape["batch"],))
            ids = torch.stack([self.data[s : s + shape["block"]] for s in starts])
            targets = torch.stack([self.data[s + 1 : s + 1 + shape["block"]] for s in starts])
            loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()
        return 1e3 * (time.perf_counter() - start) / steps

    @torch.no_grad()
    def generate(self, preset, tokens):
        model, ids = self.models[preset], torch.zeros(1, 1, dtype=torch.long)
        caches = [[] for _ in model.blocks]
        start = time.perf_counter()
        for position in range(tokens):
            ids = model(ids, position, caches)[:, -1:].argmax(-1)
        return 1e3 * (time.perf_counter() - start) / tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    print(f"torch {torch.__version__}, threads {options.threads}, medians of {options.rounds} alternating rounds, ms")
    print(f"{'':34}{'ours':>9}{'eager':>9}{'ours/eager':>12}")
    with tempfile.TemporaryDirectory() as folder:
        sides = Ours(options.program, options.threads, folder), Eager()
        for what, preset, count in WORKS:
            rounds = [[getattr(side, what)(preset, count) for side in sides] for _ in range(options.rounds)]
            ours, eager = (statistics.median(times) for times in zip(*rounds))
            name = f"{what} {preset}, per {'step' if what == 'train' else 'token'}"
            print(f"{name:34}{ours:9.3f}{eager:9.3f}{ours / eager:12.3f}")


if __name__ == "__main__":
    main()
