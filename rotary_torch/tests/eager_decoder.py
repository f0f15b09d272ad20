"""The small decoders of `rotary train` in eager PyTorch, as one would write them: the peer of bench_decoder.py."""

import math

import torch
from torch import nn
from torch.nn import functional as F

PRESETS = {
    "nanogpt-cpu": dict(layers=4, width=128, heads=4, feed_forward=512, block=64, batch=12, activation="gelu",
                        rope_fraction=1.0),
    "labml": dict(layers=6, width=128, heads=16, feed_forward=512, block=512, batch=4, activation="relu",
                  rope_fraction=0.5),
    "nanogpt-gpu": dict(layers=6, width=384, heads=6, feed_forward=1536, block=256, batch=64, activation="gelu",
                        rope_fraction=1.0, dropout=0.2),
}


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def apply_rope(x, cos, sin):
    """x [batch, heads, tokens, head_dim]; the first elements of each head rotate."""
    block, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    rotated = block * cos + rotate_half(block) * sin
    return torch.cat((rotated, rest), dim=-1) if rest.shape[-1] else rotated


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, cos, sin, cache):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3 * self.heads, -1).transpose(1, 2).chunk(3, dim=1)
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
            cache[:] = [k, v]
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0,
                                           is_causal=tokens > 1)
        return self.output(y.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads, feed_forward, activation, dropout):
        super().__init__()
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.feed = nn.Sequential(nn.Linear(width, feed_forward), {"gelu": nn.GELU, "relu": nn.ReLU}[activation](),
                                  nn.Linear(feed_forward, width), nn.Dropout(dropout))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, cos, sin, cache):
        x = x + self.dropout(self.attention(self.attention_norm(x), cos, sin, cache))
        return x + self.feed(self.feed_norm(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary, layers, width, heads, feed_forward, block, activation, rope_fraction, batch=0,
                 dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, feed_forward, activation, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)
        rotary_dim = int(width // heads * rope_fraction) // 2 * 2
        angles = torch.arange(4 * block)[:, None] * 1e4 ** (-torch.arange(0, rotary_dim, 2) / rotary_dim)
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def forward(self, ids, start=0, caches=None):
        cos, sin = self.cos[start : start + ids.shape[1]], self.sin[start : start + ids.shape[1]]
        x = self.dropout(self.embedding(ids))
        for i, block in enumerate(self.blocks):
            x = block(x, cos, sin, None if caches is None else caches[i])
        return self.head(self.norm(x))

    @torch.no_grad()
    def generate(self, ids, count):
        caches = [[] for _ in self.blocks]
        logits, start = self(ids, 0, caches), ids.shape[1]
        for _ in range(count):
            ids = torch.cat((ids, logits[:, -1].argmax(-1, keepdim=True)), dim=1)
            logits, start = self(ids[:, -1:], start, caches), start + 1
        return ids


def optimizer_of(model, preset):
    if preset == "labml":
        return torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.999), eps=1e-8)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                             lr=1e-3, betas=(0.9, 0.99))


def learning_rate(preset, step, steps):
    if preset == "labml":
        return 128**-0.5 * min((step + 1) ** -0.5, (step + 1) * 2000**-1.5)
    if step < 100:
        return 1e-3 * (step + 1) / 101
    return 1e-4 + 0.5 * (1 + math.cos(math.pi * (step - 100) / (steps - 100))) * 9e-4


def train_step(model, optimizer, data, preset, step, steps):
    shape = PRESETS[preset]
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(preset, step, steps)
    starts = torch.randint(len(data) - shape["block"], (shape["batch"],))
    ids = torch.stack([data[s : s + shape["block"]] for s in starts])
    targets = torch.stack([data[s + 1 : s + 1 + shape["block"]] for s in starts])
    logits = model(ids)
    loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()
