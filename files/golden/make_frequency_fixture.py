#!/usr/bin/env python3
"""Writes core/tests/golden/frequencies_float32.json: the float32 inv_freq of Hugging Face transformers, on a CPU.

torch runs with its scalar kernels, whose pow is the C library's; its vector kernels (ATEN_CPU_CAPABILITY=avx2, avx512)
have a pow of their own that differs by an ulp in 1 % of the frequencies.

The keys of a case are those of rotary::Rope and its scaling; inv_freq has 9 digits, which name a float32 exactly.
"""
import json
import os
import platform
from types import SimpleNamespace

os.environ.setdefault("ATEN_CPU_CAPABILITY", "default")  # before torch is imported

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense import HunYuanDenseV1RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from files import ROOT

TRAINED = "original_max_position_embeddings"
# Our names for the keys of rope_parameters.
NAMES = {TRAINED: "trained_length", "low_freq_factor": "low", "high_freq_factor": "high",
         "partial_rotary_factor": "fraction", "alpha": "factor"}


def cases(head_dim):
    """(scaling, parameters as in rope_parameters, trained length, current length) for one head size."""
    pairs = head_dim // 2
    short = [1.0 + 0.013 * k for k in range(pairs)]
    long = [1.0 + 0.61 * k for k in range(pairs)]
    longrope = {"factor": 32.0, "short_factor": short, "long_factor": long, TRAINED: 4096}
    return [
        ("default", {}, 0, 0),
        ("linear", {"factor": 8.0}, 0, 0),
        ("linear", {"factor": 3.0}, 0, 0),
        ("ntk", {"alpha": 1000.0}, 0, 0),
        ("dynamic", {"factor": 2.0}, 2048, 0),
        ("dynamic", {"factor": 8.43}, 1000, 0),  # float32 steps would give another base
        ("dynamic", {"factor": 2.0}, 2048, 2049),
        ("dynamic", {"factor": 3.7}, 4096, 100003),
        ("yarn", {"factor": 4.0, TRAINED: 32768}, 0, 0),
        ("yarn", {"factor": 40.0, TRAINED: 4096}, 0, 0),
        ("yarn", {"factor": 32.0, TRAINED: 4096, "truncate": False}, 0, 0),
        ("longrope", longrope, 0, 4096),
        ("longrope", longrope, 0, 4097),
        ("llama3", {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, TRAINED: 8192}, 0, 0),
        ("llama3", {"factor": 32.0, "low_freq_factor": 0.125, "high_freq_factor": 0.5, TRAINED: 1024}, 0, 0),
        ("proportional", {"partial_rotary_factor": 0.25}, 0, 0),
        ("proportional", {"partial_rotary_factor": 0.35, "factor": 3.0}, 0, 0),
    ]


def inv_freq(scaling, parameters, trained_length, length, head_dim, base):
    config = SimpleNamespace(rope_parameters={"rope_theta": base, **parameters}, head_dim=head_dim,
                             hidden_size=head_dim, num_attention_heads=1, max_position_embeddings=trained_length,
                             standardize_rope_params=lambda: None)
    if scaling == "default":
        return LlamaRotaryEmbedding.compute_default_rope_parameters(config)[0]
    if scaling == "ntk":
        return HunYuanDenseV1RotaryEmbedding.compute_ntk_alpha_rope_parameters(config)[0]
    # The forward pass hands the current length over as a tensor, torch.max(position_ids) + 1.
    seq_len = torch.tensor(length) if length else None
    return ROPE_INIT_FUNCTIONS[scaling](config, torch.device("cpu"), seq_len=seq_len)[0]


def main():
    source = (f"files/golden/make_frequency_fixture.py with torch {torch.__version__}, "
              f"transformers {transformers.__version__}, Python {platform.python_version()}, "
              f"{torch.backends.cpu.get_cpu_capability()}")
    rows = []
    for head_dim, base in ((80, 10000.0), (128, 500000.0)):
        for scaling, parameters, trained_length, length in cases(head_dim):
            values = inv_freq(scaling, parameters, trained_length, length, head_dim, base)
            assert values.dtype == torch.float32
            keys = {"scaling": scaling, "head_dim": head_dim, "base": base, "length": length}
            keys |= {NAMES.get(k, k): v for k, v in parameters.items()}
            keys |= {"trained_length": trained_length} if scaling == "dynamic" else {}
            rows.append(json.dumps(keys)[:-1] + ', "inv_freq": [' + ", ".join(f"{float(v):.9g}" for v in values) + "]}")
    text = '{"made": ' + json.dumps(source) + ', "cases": [\n' + ",\n".join(rows) + "\n]}\n"
    (ROOT / "core/tests/golden/frequencies_float32.json").write_text(text)


if __name__ == "__main__":
    main()
