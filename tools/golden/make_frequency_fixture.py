#!/usr/bin/env python3
"""Writes tests/golden/frequencies_float32.txt: the float32 inv_freq of Hugging Face transformers, on a CPU.

Usage: make_frequency_fixture.py [--all] OUTPUT      (--all: every head size and base, for a study by hand)

torch runs with its scalar kernels, whose pow is the C library's; its vector kernels (ATEN_CPU_CAPABILITY=avx2, avx512)
have a pow of their own that differs by an ulp in 1 % of the frequencies.

Plain text. One case is two lines:
  case SCALING key value key value ...     lists are comma-separated; the keys are those of rotary::Rope and its scaling
  inv_freq value value ...                 9 digits, which name a float32 exactly
"""
import os
import platform
import sys
from types import SimpleNamespace

os.environ.setdefault("ATEN_CPU_CAPABILITY", "default")  # before torch is imported

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense import HunYuanDenseV1RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

# Our names for the keys of rope_parameters.
NAMES = {
    "original_max_position_embeddings": "trained_length",
    "low_freq_factor": "low",
    "high_freq_factor": "high",
    "partial_rotary_factor": "fraction",
    "alpha": "factor",
}


def cases(head_dim):
    """(scaling, parameters as in rope_parameters, trained length, current length) for one head size."""
    pairs = head_dim // 2
    short = [1.0 + 0.013 * k for k in range(pairs)]
    long = [1.0 + 0.61 * k for k in range(pairs)]
    longrope = dict(factor=32.0, short_factor=short, long_factor=long, original_max_position_embeddings=4096)
    yarn = dict(factor=4.0, original_max_position_embeddings=32768)
    return [
        ("default", {}, 0, 0),
        ("linear", dict(factor=8.0), 0, 0),
        ("linear", dict(factor=3.0), 0, 0),
        ("ntk", dict(alpha=1000.0), 0, 0),
        ("dynamic", dict(factor=2.0), 2048, 0),
        ("dynamic", dict(factor=8.43), 1000, 0),  # float32 steps would give another base
        ("dynamic", dict(factor=2.0), 2048, 2049),
        ("dynamic", dict(factor=3.7), 4096, 100003),
        ("yarn", yarn, 0, 0),
        ("yarn", dict(factor=40.0, original_max_position_embeddings=4096), 0, 0),
        ("yarn", dict(factor=32.0, original_max_position_embeddings=4096, truncate=False), 0, 0),
        ("longrope", longrope, 0, 4096),
        ("longrope", longrope, 0, 4097),
        ("llama3", dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                        original_max_position_embeddings=8192), 0, 0),
        ("llama3", dict(factor=32.0, low_freq_factor=0.125, high_freq_factor=0.5,
                        original_max_position_embeddings=1024), 0, 0),
        ("proportional", dict(partial_rotary_factor=0.25), 0, 0),
        ("proportional", dict(partial_rotary_factor=0.35, factor=3.0), 0, 0),
    ]


def inv_freq(scaling, parameters, trained_length, length, head_dim, base):
    config = SimpleNamespace(
        rope_parameters={"rope_theta": base, **parameters},
        head_dim=head_dim,
        hidden_size=head_dim,
        num_attention_heads=1,
        max_position_embeddings=trained_length,
        standardize_rope_params=lambda: None,
    )
    if scaling == "default":
        return LlamaRotaryEmbedding.compute_default_rope_parameters(config)[0]
    if scaling == "ntk":
        return HunYuanDenseV1RotaryEmbedding.compute_ntk_alpha_rope_parameters(config)[0]
    # The forward pass hands the current length over as a tensor, torch.max(position_ids) + 1.
    seq_len = torch.tensor(length) if length else None
    return ROPE_INIT_FUNCTIONS[scaling](config, torch.device("cpu"), seq_len=seq_len)[0]


def text(value):
    if isinstance(value, list):
        return ",".join(repr(v) for v in value)
    return str(int(value)) if isinstance(value, bool) else repr(value)


def main():
    every = "--all" in sys.argv
    output = sys.argv[-1]
    shapes = [(80, 10000.0), (128, 500000.0)]
    if every:
        bases = [10000.0, 150000.0, 500000.0, 1000000.0, 10000000.0]
        shapes = [(head_dim, base) for head_dim in (64, 80, 96, 128, 256) for base in bases]
    with open(output, "w") as file:
        file.write(f"# Made by tools/golden/make_frequency_fixture.py with torch {torch.__version__}, transformers "
                   f"{transformers.__version__}, Python {platform.python_version()}, "
                   f"{torch.backends.cpu.get_cpu_capability()}\n")
        for head_dim, base in shapes:
            for scaling, parameters, trained_length, length in cases(head_dim):
                values = inv_freq(scaling, parameters, trained_length, length, head_dim, base)
                assert values.dtype == torch.float32
                keys = {"head_dim": head_dim, "base": base, "length": length}
                keys.update({NAMES.get(k, k): v for k, v in parameters.items()})
                if scaling == "dynamic":
                    keys["trained_length"] = trained_length
                file.write("case " + scaling + "".join(f" {k} {text(v)}" for k, v in keys.items()) + "\n")
                file.write("inv_freq " + " ".join(f"{float(v):.9g}" for v in values) + "\n")


if __name__ == "__main__":
    main()
