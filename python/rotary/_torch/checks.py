# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The checks of the ops, on shapes alone: for fake tensors, and where torch's own ops rotate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._words import check_layout, check_pairing, fail
from .guards import can_be_read
from .plain import How, parts_of_heads

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def check_rows(operation: str, cos: Tensor, sin: Tensor) -> None:
    if not (cos.dtype in _FLOATS and sin.dtype in _FLOATS):
        wrong = sin if cos.dtype in _FLOATS else cos
        fail("DTYPE", operation, f"cos and sin must hold floats but got {wrong.dtype}")
    if cos.dim() not in (2, 3, 4) or cos.shape != sin.shape:
        fail(
            "SHAPE",
            operation,
            "cos and sin must both be [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs] but got "
            f"{list(cos.shape)} and {list(sin.shape)}",
        )


def check(operation: str, tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> None:
    check_layout(operation, how.layout)
    check_pairing(operation, how.pairing)
    check_rows(operation, cos, sin)
    for name, x in zip("x" if len(tensors) == 1 else "qk", tensors):
        _check_one(operation, name, x, cos, sin, how)


def check_scale(operation: str, q: Tensor, scale: Tensor, how: How) -> None:
    """Of q that is checked."""
    batch, tokens = (q.shape[how.layout.index(one)] if one in how.layout else 1 for one in "bt")
    if scale.dtype not in _FLOATS:
        fail("DTYPE", operation, f"query_scale must hold floats but got {scale.dtype}")
    if scale.shape not in ((tokens,), (batch, tokens)):
        rule = "query_scale must have a factor for each token of q, [tokens] or [batch, tokens] of"
        fail("SHAPE", operation, f"{rule} {batch} x {tokens}, but got {list(scale.shape)}")
    if can_be_read(scale) and not bool(scale.isfinite().all()):
        at = int(scale.isfinite().flatten().logical_not().nonzero()[0])
        fail("VALUE", operation, f"query_scale must be finite but is not at element {at}")


def _check_one(operation: str, name: str, x: Tensor, cos: Tensor, sin: Tensor, how: How) -> None:
    layout, shape = how.layout, list(x.shape)
    if x.dtype not in _FLOATS:
        fail("DTYPE", operation, f"{name} must be float32, float16, bfloat16 or float64 but got {x.dtype}")
    if not x.device == cos.device == sin.device:
        fail(
            "DEVICE",
            operation,
            f"{name}, cos and sin must be on one device but got {x.device}, {cos.device} and {sin.device}",
        )
    if x.dim() != len(layout):
        fail("SHAPE", operation, f'{name} must have the {len(layout)} dimensions of layout "{layout}" but got {shape}')
    tokens = x.shape[layout.index("t")] if "t" in layout else 1
    batch = x.shape[layout.index("b")] if "b" in layout else 1
    rows = cos.shape[-2 if cos.dim() < 4 else 1]
    if rows != tokens:
        fail("SHAPE", operation, f"the table must have a row for each token of {name}, {tokens}, but has {rows}")
    if cos.dim() > 2 and cos.shape[0] != 1 and cos.shape[0] != batch:
        fail("SHAPE", operation, f"the table's batch must be 1 or that of {name} but got {cos.shape[0]} and {batch}")
    width = 2 * cos.shape[-1]
    if how.first < 0 or how.first + width > x.shape[-1]:
        fail(
            "SHAPE",
            operation,
            f"the {width} elements that turn must lie inside the head_dim {x.shape[-1]} of {name} but begin at "
            f"{how.first}: frameworks' rows are doubled, use rotary.from_doubled for them",
        )
    if how.kv_heads >= 0:
        heads = x.shape[layout.index("h")] if "h" in layout else 1
        if heads < 2 * how.kv_heads or "h" not in layout:
            fail("SHAPE", operation, f"{name} must have at least 2 * kv_heads heads but got {heads} and {how.kv_heads}")
    if cos.dim() == 4:
        for heads in parts_of_heads(x, how):
            if heads % cos.shape[2] != 0:
                rule = f"{name} must have a multiple of the {cos.shape[2]} heads"
                fail("SHAPE", operation, f"{rule} that the table has rows for but has {heads}")
