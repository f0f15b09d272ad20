#!/usr/bin/env python3
"""Makes data/demo: what `rotary demo` runs on. Needs numpy and mpmath; the same bytes every time.

config.json         the rope of Llama 3.1 8B as its config.json states it
qk.safetensors      q [1, 16, 32, 128] and k [1, 16, 8, 128], bf16: normal numbers with a fixed seed, a few channels louder
                    than the rest, as trained models have them
high_precision.json inv_freq of four pairs, and their cos and sin, by mpmath with 60 digits, printed to 25: the cos and sin
                    of position * inv_freq for the double nearest to inv_freq
"""
import json
import struct

import mpmath
import numpy

import models
from files import ROOT
from make_golden import formula

TOKENS, HEADS, KV_HEADS, HEAD_DIM = 16, 32, 8, 128
BASE, FACTOR, LOW, HIGH, TRAINED = 500000, 8, 1, 4, 8192
POSITIONS = [1, -7, 8191, 131071, 2**40 + 1, 2**53 + 1]
PAIRS = [0, 28, 32, 63]

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HEADS * HEAD_DIM,
    "max_position_embeddings": 131072,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 32,
    "num_key_value_heads": KV_HEADS,
    "rope_scaling": {
        "factor": float(FACTOR),
        "high_freq_factor": float(HIGH),
        "low_freq_factor": float(LOW),
        "original_max_position_embeddings": TRAINED,
        "rope_type": "llama3",
    },
    "rope_theta": float(BASE),
    "torch_dtype": "bfloat16",
}


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
    folder = ROOT / "data" / "demo"
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")

    random = numpy.random.Generator(numpy.random.PCG64(20210409))
    write_safetensors(folder / "qk.safetensors", {"q": tensor(random, HEADS), "k": tensor(random, KV_HEADS)})

    text = lambda value: mpmath.nstr(value, 25)
    scaling = models.llama3(FACTOR, LOW, HIGH, TRAINED)
    speeds, _ = formula(models.rope(0, HEADS, KV_HEADS, HEAD_DIM, BASE, scaling=scaling))
    rows = []
    for position in POSITIONS:
        for pair in PAIRS:
            angle = position * mpmath.mpf(float(speeds[pair]))
            row = {"position": position, "pair": pair, "cos": text(mpmath.cos(angle)), "sin": text(mpmath.sin(angle))}
            rows.append("    " + json.dumps(row))
    inv_freq = json.dumps({pair: text(speeds[pair]) for pair in PAIRS})
    lines = '{\n  "inv_freq": ' + inv_freq + ',\n  "angles": [\n' + ",\n".join(rows) + "\n  ]\n}\n"
    (folder / "high_precision.json").write_text(lines)


if __name__ == "__main__":
    main()
