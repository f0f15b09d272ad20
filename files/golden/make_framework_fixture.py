#!/usr/bin/env python3
"""Writes core/tests/golden/eager_rotation.inc: the results of transformers' own functions on random heads and a random
table of cos and sin in f32, f16 and bf16, forward and backward (autograd). core/tests/rotate_test.cpp compares bits.

    python3 files/golden/make_framework_fixture.py > core/tests/golden/eager_rotation.inc     (torch, transformers)
"""
import torch
import transformers
from transformers.models.deepseek_v3.modeling_deepseek_v3 import apply_rotary_pos_emb_interleave
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj_rotation
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama_rotation

TOKENS, HEADS, PAIRS = 5, 3, 10


def doubled(cos, sin):
    return [torch.cat([t, t], dim=-1) for t in (cos, sin)]


def half(x, cos, sin):
    return llama_rotation(x, x, *doubled(cos, sin), unsqueeze_dim=2)[0]


def interleaved(x, cos, sin):
    return gptj_rotation(x, sin, cos)


def interleaved_to_half(x, cos, sin):
    return apply_rotary_pos_emb_interleave(x, x, *doubled(cos, sin), unsqueeze_dim=2)[0]


def words(tensor):
    """The bits of its elements, as a list of C++."""
    wide = tensor.dtype == torch.float32
    bits = tensor.detach().contiguous().view(torch.int32 if wide else torch.int16).flatten().tolist()
    return "{" + ",".join(f"0x{b & (0xffffffff if wide else 0xffff):x}" for b in bits) + "}"


def main():
    torch.manual_seed(20)
    angle = torch.rand(1, TOKENS, PAIRS) * 6.3
    cos, sin = torch.cos(angle) * 1.2, torch.sin(angle) * 1.2
    # Magnitudes from 1 to deep inside f16's subnormals.
    x = torch.randn(1, TOKENS, HEADS, 2 * PAIRS) * torch.logspace(0, -6.5, TOKENS)[None, :, None, None]
    x = torch.where(torch.arange(2 * PAIRS) % 7 == 0, torch.zeros(()), x)
    print("// files/golden/make_framework_fixture.py, "
          f"transformers {transformers.__version__}, torch {torch.__version__}")
    print(f"constexpr int eager_tokens = {TOKENS}, eager_heads = {HEADS}, eager_pairs = {PAIRS};")
    print(f"const std::vector<std::uint32_t> eager_cos = {words(cos)};")
    print(f"const std::vector<std::uint32_t> eager_sin = {words(sin)};")
    print("const std::vector<Eager> eager = {")
    for dtype, name in ((torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16")):
        for rotation in (half, interleaved, interleaved_to_half):
            stored = x.to(dtype).clone().requires_grad_()
            out = rotation(stored, cos.to(dtype), sin.to(dtype))
            given = torch.randn(out.shape).to(dtype)
            out.backward(given)
            values = ",\n     ".join(words(t) for t in (stored, out, given, stored.grad))
            print(f"    {{DType::{name}, Pairing::{rotation.__name__},\n     {values}}},")
    print("};")


if __name__ == "__main__":
    main()
