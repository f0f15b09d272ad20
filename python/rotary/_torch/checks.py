# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The checks of the ops, on shapes alone: for fake tensors, and where torch's own ops rotate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _shapes
from .._words import check_layout, check_pairing, fail
from .guards import can_be_read
from .plain import How

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def check_rows(operation: str, cos: Tensor, sin: Tensor) -> None:
    if not (cos.dtype in _FLOATS and sin.dtype in _FLOATS):
        wrong = sin if cos.dtype in _FLOATS else cos
        fail("DTYPE", operation, f"cos and sin must hold floats but got {wrong.dtype}")
    _shapes.check_rows(operation, cos.shape, sin.shape)


def check(operation: str, tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> None:
    check_layout(operation, how.layout)
    check_pairing(operation, how.pairing)
    check_rows(operation, cos, sin)
    for name, x in zip("x" if len(tensors) == 1 else "qk", tensors):
        if x.dtype not in _FLOATS:
            fail("DTYPE", operation, f"{name} must be float32, float16, bfloat16 or float64 but got {x.dtype}")
        if not x.device == cos.device == sin.device:
            rule = f"{name}, cos and sin must be on one device"
            fail("DEVICE", operation, f"{rule} but got {x.device}, {cos.device} and {sin.device}")
        _shapes.check_heads(operation, name, x.shape, cos.shape, how.layout, how.first, how.kv_heads)


def check_scale(operation: str, q: Tensor, scale: Tensor, how: How) -> None:
    """Of q that is checked."""
    if scale.dtype not in _FLOATS:
        fail("DTYPE", operation, f"query_scale must hold floats but got {scale.dtype}")
    _shapes.check_scale(operation, q.shape, scale.shape, how.layout)
    if can_be_read(scale) and not bool(scale.isfinite().all()):
        at = int(scale.isfinite().flatten().logical_not().nonzero()[0])
        fail("VALUE", operation, f"query_scale must be finite but is not at element {at}")
