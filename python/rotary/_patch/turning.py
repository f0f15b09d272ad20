# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""q and k turned by a model's own rows: what a replacement calls."""

from __future__ import annotations

import torch

from .. import _rotating
from .._torch import cuda
from .._torch.tables import TensorTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torch import Tensor

    from .._rotating import Direction
    from .._words import Layout
    from .behaviours import Behaviour

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def has_kernels(device: torch.device) -> bool:
    """Whether rotary has kernels for tensors there."""
    return device.type == "cpu" or (device.type == "cuda" and cuda.BUILT)


def turned(
    xs: tuple[Tensor, ...], cos: Tensor, sin: Tensor, behaviour: Behaviour, layout: Layout, first: int
) -> tuple[Tensor, ...]:
    """Each of xs rotated; elements outside of the block are copied.

    Args:
        xs: of layout, float32, bfloat16 or float16.
        cos, sin: rows of behaviour.rows (complex rows as their parts), [tokens, w] or [batch, tokens, w].
        first: where the rotated block begins in the head.
    """
    twice = behaviour.rows if behaviour.rows in ("halves", "neighbours") else ""
    table = TensorTable(cos, sin, behaviour.pairing, twice)
    # Clockwise is the inverse of a rotation that reads and writes the same places; across two forms the sine changes.
    direction: Direction = "forward"
    if behaviour.clockwise and behaviour.pairing == "interleaved_to_half":
        table = TensorTable(cos, -sin, behaviour.pairing, twice)
    elif behaviour.clockwise:
        direction = "backward"
    if len(xs) == 2:
        return _rotating.rotate_qk(xs[0], xs[1], table, layout=layout, first=first, direction=direction)
    return tuple(_rotating.rotate(x, table, layout=layout, first=first, direction=direction) for x in xs)
