# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The CUDA kernels, where _core was built with them (-DROTARY_CUDA=ON)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _core
from .plain import How, turning

BUILT = _core._gpu_built() and torch.version.cuda is not None


def has_kernels(x: Tensor) -> bool:
    return BUILT and x.device.type == "cuda" and x.dtype != torch.float64


def rotate(cos: Tensor, sin: Tensor, how: How, tensors: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    """Writes to outs, which are like the tensors, on torch's current stream of their device."""
    rows = [one.to(torch.float32).contiguous() for one in (cos, sin)]
    words = how.pairing, how.layout, how.first, how.backward
    for x, out in zip(tensors, outs):
        if how.first > 0:
            out[..., : how.first].copy_(x[..., : how.first])
        if how.kv_heads > 0:
            at = how.layout.index("h")
            heads = x.shape[at] - how.kv_heads
            out.narrow(at, heads, how.kv_heads).copy_(x.narrow(at, heads, how.kv_heads))
    k, k_out = (tensors[1], outs[1]) if len(tensors) == 2 else (None, None)
    with torch.cuda.device(cos.device):
        stream = torch.cuda.current_stream(cos.device).cuda_stream
        _core._gpu_rotate(turning(tensors[0], how), k, turning(outs[0], how), k_out, *rows, *words, stream)
