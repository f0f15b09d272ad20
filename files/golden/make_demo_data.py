#!/usr/bin/env python3
"""Makes the data of scripts/demo.sh beside cli/data/demo/config.json, the rope of Llama 3.1 8B as its file states it.
Needs numpy and mpmath; the bytes are the same every time.

qk.safetensors      q [1, 16, 32, 128] and k [1, 16, 8, 128], bf16: normal numbers with a fixed seed, a few channels
                    louder than the rest, as trained models have them
high_precision.json inv_freq of four pairs, and their cos and sin, by mpmath with 60 digits, printed to 25: the cos
                    and sin of position * inv_freq for the double nearest to inv_freq
"""
import json
import struct

import mpmath
import numpy

import models
from files import ROOT
from make_golden import formula

FOLDER = ROOT / "cli/data/demo"
CONFIG = json.loads((FOLDER / "config.json").read_text())
TOKENS, HEADS, KV_HEADS = 16, CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
HEAD_DIM = CONFIG["hidden_size"] // HEADS
POSITIONS = [1, -7, 8191, 131071, 2**40 + 1, 2**53 + 1]
PAIRS = [0, 28, 32, 63]


def bf16(values):
    """To nearest, ties to even, as 16-bit words."""
    bits = values.astype(numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def tensor(random, heads):
    loud = 1 + 7 * (random.random((1, 1, heads, HEAD_DIM)) > 0.97)
    return bf16(random.standard_normal((1, TOKENS, heads, HEAD_DIM)) * loud)


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, data in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(data.shape), "data_offsets": [offset, offset + data.nbytes]}
        offset += data.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data.tobytes() for data in tensors.values()))


def main():
    mpmath.mp.dps = 60
    random = numpy.random.Generator(numpy.random.PCG64(20210409))
    write_safetensors(FOLDER / "qk.safetensors", {"q": tensor(random, HEADS), "k": tensor(random, KV_HEADS)})

    text = lambda value: mpmath.nstr(value, 25)
    scaled = CONFIG["rope_scaling"]
    words = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    scaling = models.llama3(*(scaled[word] for word in words))
    speeds, _ = formula(models.rope(0, HEADS, KV_HEADS, HEAD_DIM, CONFIG["rope_theta"], scaling=scaling))
    rows = []
    for position in POSITIONS:
        for pair in PAIRS:
            angle = position * mpmath.mpf(float(speeds[pair]))
            row = {"position": position, "pair": pair, "cos": text(mpmath.cos(angle)), "sin": text(mpmath.sin(angle))}
            rows.append("    " + json.dumps(row))
    inv_freq = json.dumps({pair: text(speeds[pair]) for pair in PAIRS})
    (FOLDER / "high_precision.json").write_text(
        '{\n  "inv_freq": ' + inv_freq + ',\n  "angles": [\n' + ",\n".join(rows) + "\n  ]\n}\n")


if __name__ == "__main__":
    main()
