# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The CUDA kernels, where _core was built with them (-DROTARY_CUDA=ON)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _core
from .plain import How, parts_of_heads, turning

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
    pairs = [(turning(x, how), turning(out, how)) for x, out in zip(tensors, outs)]
    if cos.dim() == 4 and how.kv_heads > 0:  # the heads of q and of k have rows each
        at, sizes = how.layout.index("h"), parts_of_heads(tensors[0], how)
        pairs = list(zip(*(one.split(sizes, at) for one in pairs[0])))
    (q, q_out), (k, k_out) = (*pairs, (None, None))[:2]
    with torch.cuda.device(cos.device):
        stream = torch.cuda.current_stream(cos.device).cuda_stream
        _core._gpu_rotate(q, k, q_out, k_out, *rows, *words, stream)
