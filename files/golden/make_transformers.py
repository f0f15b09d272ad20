#!/usr/bin/env python3
"""The results of transformers' own functions on a CPU: python files/golden/make_transformers.py (torch, transformers)

core/tests/golden/frequencies_float32.json  float32 inv_freq; the keys of a case are those of rotary::Rope and its
                                            scaling, and 9 digits name a float32 exactly
core/tests/golden/eager_rotation.inc        the bits of random heads that turn by a random table, in f32, f16 and bf16,
                                            forward and backward (autograd)
gpu/tests/golden/model_norms.json           the bits of random heads, bf16, normed by the classes that norm q and k

torch runs with its scalar kernels, whose pow is the C library's; its vector kernels (ATEN_CPU_CAPABILITY=avx2, avx512)
have a pow of their own that differs by an ulp in 1 % of the frequencies.
"""
import importlib
import json
import os
from types import SimpleNamespace

os.environ.setdefault("ATEN_CPU_CAPABILITY", "default")  # before torch is imported

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import apply_rotary_pos_emb_interleave
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj_rotation
from transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense import HunYuanDenseV1RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb as llama_rotation

from files import ROOT

MADE = f"files/golden/make_transformers.py, transformers {transformers.__version__}, torch {torch.__version__}"


def bits(tensor):
    """The bits of its elements."""
    wide = tensor.dtype == torch.float32
    values = tensor.detach().contiguous().view(torch.int32 if wide else torch.int16).flatten().tolist()
    return [value & (0xffffffff if wide else 0xffff) for value in values]


# ---- frequencies ----

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


def frequencies():
    rows = []
    for head_dim, base in ((80, 10000.0), (128, 500000.0)):
        for scaling, parameters, trained_length, length in cases(head_dim):
            values = inv_freq(scaling, parameters, trained_length, length, head_dim, base)
            assert values.dtype == torch.float32
            keys = {"scaling": scaling, "head_dim": head_dim, "base": base, "length": length}
            keys |= {NAMES.get(k, k): v for k, v in parameters.items()}
            keys |= {"trained_length": trained_length} if scaling == "dynamic" else {}
            rows.append(json.dumps(keys)[:-1] + ', "inv_freq": [' + ", ".join(f"{float(v):.9g}" for v in values) + "]}")
    return '{"made": ' + json.dumps(MADE) + ', "cases": [\n' + ",\n".join(rows) + "\n]}\n"


# ---- rotations: the functions are named like the pairings ----


def doubled(cos, sin):
    return [torch.cat([t, t], dim=-1) for t in (cos, sin)]


def half(x, cos, sin):
    return llama_rotation(x, x, *doubled(cos, sin), unsqueeze_dim=2)[0]


def interleaved(x, cos, sin):
    return gptj_rotation(x, sin, cos)


def interleaved_to_half(x, cos, sin):
    return apply_rotary_pos_emb_interleave(x, x, *doubled(cos, sin), unsqueeze_dim=2)[0]


def rotations(tokens=5, heads=3, pairs=10):
    torch.manual_seed(20)
    angle = torch.rand(1, tokens, pairs) * 6.3
    cos, sin = torch.cos(angle) * 1.2, torch.sin(angle) * 1.2
    # Magnitudes from 1 to deep inside f16's subnormals.
    x = torch.randn(1, tokens, heads, 2 * pairs) * torch.logspace(0, -6.5, tokens)[None, :, None, None]
    x = torch.where(torch.arange(2 * pairs) % 7 == 0, torch.zeros(()), x)
    words = lambda tensor: "{" + ",".join(f"0x{value:x}" for value in bits(tensor)) + "}"
    lines = [f"// {MADE}", f"constexpr int eager_tokens = {tokens}, eager_heads = {heads}, eager_pairs = {pairs};",
             f"const std::vector<std::uint32_t> eager_cos = {words(cos)};",
             f"const std::vector<std::uint32_t> eager_sin = {words(sin)};", "const std::vector<Eager> eager = {"]
    for dtype, name in ((torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16")):
        for rotation in (half, interleaved, interleaved_to_half):
            stored = x.to(dtype).clone().requires_grad_()
            out = rotation(stored, cos.to(dtype), sin.to(dtype))
            given = torch.randn(out.shape).to(dtype)
            out.backward(given)
            values = ",\n     ".join(words(t) for t in (stored, out, given, stored.grad))
            lines.append(f"    {{DType::{name}, Pairing::{rotation.__name__},\n     {values}}},")
    return "\n".join([*lines, "};\n"])


# ---- norms ----

NORMS = [
    "qwen3.Qwen3", "qwen3_moe.Qwen3Moe", "qwen3_vl.Qwen3VLText", "glm4_moe.Glm4Moe", "exaone4.Exaone4",
    "apertus.Apertus", "dots1.Dots1", "lfm2.Lfm2", "gemma3.Gemma3", "qwen3_next.Qwen3Next", "qwen3_5.Qwen3_5",
    "t5gemma2.T5Gemma2", "gemma3n.Gemma3n", "gemma4.Gemma4", "afmoe.Afmoe", "olmo2.Olmo2", "olmo3.Olmo3",
    "flex_olmo.FlexOlmo", "olmoe.Olmoe", "minimax_m2.MiniMaxM2",
]  # fmt: skip
ACROSS_HEADS = ("olmo2", "olmo3", "flex_olmo", "olmoe", "minimax_m2")


def norms(tokens=3, heads=2, head_dim=32):
    torch.manual_seed(22)
    x = (torch.randn(tokens, heads, head_dim) * torch.logspace(-2, 1, tokens)[:, None, None]).to(torch.bfloat16)
    rows = []
    for model in NORMS:
        module, _, prefix = model.partition(".")
        across = module in ACROSS_HEADS
        kind = getattr(importlib.import_module(f"transformers.models.{module}.modeling_{module}"), prefix + "RMSNorm")
        norm = kind(heads * head_dim if across else head_dim, eps=1e-6)
        with torch.no_grad():
            norm.weight += torch.randn(norm.weight.shape) * 0.3  # they begin at 0 or 1, whichever is no change
            norm.to(torch.bfloat16)
            out = norm(x.flatten(1) if across else x).view(x.shape)
        assert out.dtype == torch.bfloat16
        rows.append(json.dumps({"model": module, "weight": bits(norm.weight), "out": bits(out)}))
    header = {"made": MADE, "tokens": tokens, "heads": heads, "head_dim": head_dim, "x": bits(x)}
    return json.dumps(header)[:-1] + ', "models": [\n' + ",\n".join(rows) + "\n]}\n"


if __name__ == "__main__":
    (ROOT / "core/tests/golden/frequencies_float32.json").write_text(frequencies())
    (ROOT / "core/tests/golden/eager_rotation.inc").write_text(rotations())
    (ROOT / "gpu/tests/golden/model_norms.json").write_text(norms())
