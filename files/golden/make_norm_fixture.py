#!/usr/bin/env python3
"""Writes gpu/tests/golden/model_norms.json: random heads in bf16, normed with random weights by the classes with which
transformers' models norm q and k. gpu/tests/norms_test.cpp compares.

    python3 files/golden/make_norm_fixture.py > gpu/tests/golden/model_norms.json     (torch, transformers)
"""
import importlib
import json

import torch
import transformers

TOKENS, HEADS, HEAD_DIM = 3, 2, 32
MODELS = [
    "qwen3.Qwen3", "qwen3_moe.Qwen3Moe", "qwen3_vl.Qwen3VLText", "glm4_moe.Glm4Moe", "exaone4.Exaone4",
    "apertus.Apertus", "dots1.Dots1", "lfm2.Lfm2", "gemma3.Gemma3", "qwen3_next.Qwen3Next", "qwen3_5.Qwen3_5",
    "t5gemma2.T5Gemma2", "gemma3n.Gemma3n", "gemma4.Gemma4", "afmoe.Afmoe", "olmo2.Olmo2", "olmo3.Olmo3",
    "flex_olmo.FlexOlmo", "olmoe.Olmoe", "minimax_m2.MiniMaxM2",
]  # fmt: skip
ACROSS_HEADS = ("olmo2", "olmo3", "flex_olmo", "olmoe", "minimax_m2")


def words(tensor):
    return [b & 0xffff for b in tensor.contiguous().view(torch.int16).flatten().tolist()]


def main():
    torch.manual_seed(22)
    x = (torch.randn(TOKENS, HEADS, HEAD_DIM) * torch.logspace(-2, 1, TOKENS)[:, None, None]).to(torch.bfloat16)
    made_by = f"files/golden/make_norm_fixture.py, transformers {transformers.__version__}, torch {torch.__version__}"
    rows = []
    for model in MODELS:
        module, _, prefix = model.partition(".")
        across = module in ACROSS_HEADS
        kind = getattr(importlib.import_module(f"transformers.models.{module}.modeling_{module}"), prefix + "RMSNorm")
        norm = kind(HEADS * HEAD_DIM if across else HEAD_DIM, eps=1e-6)
        with torch.no_grad():
            norm.weight += torch.randn(norm.weight.shape) * 0.3  # they begin at 0 or 1, whichever is no change
            norm.to(torch.bfloat16)
            out = norm(x.flatten(1) if across else x).view(x.shape)
        assert out.dtype == torch.bfloat16
        rows.append(json.dumps({"model": module, "weight": words(norm.weight), "out": words(out)}))
    header = {"made": made_by, "tokens": TOKENS, "heads": HEADS, "head_dim": HEAD_DIM, "x": words(x)}
    print(json.dumps(header)[:-1] + ', "models": [\n' + ",\n".join(rows) + "\n]}")


if __name__ == "__main__":
    main()
