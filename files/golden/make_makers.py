#!/usr/bin/env python3
"""Frequencies as the code of others makes them: core/tests/golden/makers.json, for core/tests/makers_test.cpp.

Run by hand: python files/golden/make_makers.py FOLDER (needs torch, timm, rotary-embedding-torch and einops). FOLDER
holds clones of lucidrains/vit-pytorch and Wiselnn570/VideoRoPE, by those last names, and what the wheels of sglang and
vllm hold. In float64 where their code takes a type, else in its float32. Of Grok (SGLang, models/grok.py), CoPE
(hrlics/CoPE, modeling_cope.py) and LTX (diffusers, transformer_ltx.py), whose code cannot be called alone, the
statements are written here again.
"""
import ast
import json
import math
import pathlib
import sys
import types
import typing

import numpy
import rotary_embedding_torch
import timm.layers.pos_embed_sincos as timm_rope
import torch
from einops import rearrange, repeat

from files import ROOT

F64 = torch.float64
CLONES = pathlib.Path(sys.argv[1])


def functions_of(path, more=(), only=None):
    """The functions and classes of a file, without what the file imports beside torch and numpy."""
    tree, nn = ast.parse((CLONES / path).read_text()), torch.nn
    kinds = ast.FunctionDef, ast.ClassDef
    tree.body = [one for one in tree.body if isinstance(one, kinds) and only in (None, one.name)]
    names = dict(torch=torch, math=math, np=numpy, Tensor=torch.Tensor, nn=nn, Module=nn.Module, F=nn.functional,
                 arange=torch.arange, cat=torch.cat, stack=torch.stack, rearrange=rearrange, repeat=repeat,
                 ModuleList=nn.ModuleList) | vars(typing) | dict(more)
    exec(compile("from __future__ import annotations\n" + ast.unparse(tree), path, "exec"), names)
    return names


def mixed():
    angles = torch.tensor([0.0, 0.7, 3.9], dtype=F64)
    rand, timm_rope.torch.rand = torch.rand, lambda *shape, **_: (angles / (2 * torch.pi)).reshape(shape)
    frequencies = timm_rope.init_random_2d_freqs(16, 1, 3, dtype=F64)  # [axes, depth, heads, pairs]
    timm_rope.torch.rand = rand
    return frequencies[:, 0].transpose(0, 1)


def golden():
    rope = functions_of("vit-pytorch/vit_pytorch/vit_nd_rotary.py")["GoldenGateRoPENd"](3, 2, 16, 0.2, 20.0, 0.25)
    frequencies = next(iter(dict(rope.named_buffers()).values()))  # [heads, pairs, axes]
    return frequencies.transpose(1, 2)


def yarn_log():
    dim, base, length, factor = 64, 10000.0, 8192, 16.0
    plain = base ** (-torch.arange(0, dim, 2, dtype=F64) / dim)
    at = lambda turns: dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(math.floor(at(32)), 0), min(math.ceil(at(1)), dim - 1)
    mask = 1 - ((torch.arange(dim // 2, dtype=F64) - low) / (high - low)).clamp(0, 1)
    return torch.exp(torch.log(plain) * mask + torch.log(plain / factor) * (1 - mask))


def cope():
    u = torch.linspace(0, torch.pi, 20, dtype=F64)
    speeds = 500000.0 ** (-torch.arange(0, 64, 2, dtype=F64) / 64)
    speeds[12:] *= 0.5 * (1 + torch.cos(u))
    return speeds


SECTIONS = (8, 12, 12), (24, 20, 20), (5, 9, 2), (1, 0, 3)


def glm_axes(sections):
    path = "sglang/srt/layers/rotary_embedding/mrope.py"
    rope = functions_of(path, dict(RotaryEmbedding=object), "MRotaryEmbedding")["MRotaryEmbedding"]
    module = types.SimpleNamespace(mrope_section=sections, rotary_dim=2 * sum(sections), mrope_interleaved_glm=True,
                                   cos_sin_cache=torch.ones(1))
    return rope._build_axis_map(module).tolist()


def openpangu_axes(sections):
    path = "vllm/model_executor/layers/rotary_embedding/mrope_interleaved.py"
    embedding = functions_of(path, dict(MRotaryEmbedding=object))["MRotaryEmbeddingInterleaved"]
    return embedding.get_mrope_interleaved_id_list(*sections, force_last=True)


def videorope_axes(sections):
    name = "apply_m_modify_multimodal_rotary_pos_emb"
    more = dict(rotate_half=torch.zeros_like)
    turn = functions_of("VideoRoPE/videorope-transformer/modeling_videorope.py", more, name)[name]
    number = torch.arange(3.0)[:, None, None, None].expand(3, 1, 1, 2 * sum(sections))  # the axis's number, for cos
    turned, _ = turn(torch.ones(1), torch.ones(1), number, number, list(sections))
    return turned.flatten()[: sum(sections)].int().tolist()


expected = {"timm_mixed": mixed(), "golden_gate": golden(), "yarn_log": yarn_log(), "cope": cope(),
            "ltx": 10000.0 ** torch.linspace(0, 1, 7, dtype=F64) * math.pi / 2,
            "pixel": rotary_embedding_torch.RotaryEmbedding(16, freqs_for="pixel", max_freq=224).freqs.detach(),
            "timm_pixel": timm_rope.pixel_freq_bands(8, 224.0)}
expected = {name: values.flatten().tolist() for name, values in expected.items()}
expected |= {make.__name__: ["".join(map(str, make(sections))) for sections in SECTIONS]
            for make in (glm_axes, openpangu_axes, videorope_axes)}
rows = (f" {json.dumps(name)}: {json.dumps(values)}" for name, values in expected.items())
(ROOT / "core/tests/golden/makers.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")
