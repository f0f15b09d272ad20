# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The CUDA kernels, where _core was built with them (-DROTARY_CUDA=ON)."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _core
from .plain import How, turning

BUILT = _core._gpu_built() and torch.version.cuda is not None


def has_kernels(x: Tensor) -> bool:
    return BUILT and x.device.type == "cuda" and x.dtype != torch.float64


def rotate(cos: Tensor, sin: Tensor, how: How, x: Tensor, out: Tensor, k: Tensor | None, k_out: Tensor | None) -> None:
    """Writes to out and k_out, like x and k, on torch's current stream of their device."""
    rows = [one.to(torch.float32).contiguous() for one in (cos, sin)]
    words = how.pairing, how.layout, how.first, how.backward
    for one, other in ((x, out), (k, k_out)):
        if one is not None and other is not None and how.first > 0:
            other[..., : how.first].copy_(one[..., : how.first])
    if how.kv_heads > 0:
        at = how.layout.index("h")
        heads = x.shape[at] - how.kv_heads
        out.narrow(at, heads, how.kv_heads).copy_(x.narrow(at, heads, how.kv_heads))
    with torch.cuda.device(x.device):
        stream = torch.cuda.current_stream(x.device).cuda_stream
        _core._gpu_rotate(turning(x, how), k, turning(out, how), k_out, *rows, *words, stream)
