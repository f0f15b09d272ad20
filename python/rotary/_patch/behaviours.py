# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""What a rotation of framework code can be, and the plain formula of each."""

from __future__ import annotations

from typing import NamedTuple

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from torch import Tensor

    from .._words import Pairing

    # How a function takes one cos and sin for each pair: [c0 c1 c0 c1], [c0 c0 c1 c1], [c0 c1], or c + i s.
    Rows = Literal["halves", "neighbours", "single", "complex"]

ROWS: tuple[Rows, ...] = ("halves", "neighbours", "single", "complex")
PAIRINGS: tuple[Pairing, ...] = ("half", "interleaved", "interleaved_to_half")


class Behaviour(NamedTuple):
    """One rotation: which elements turn together, which way, by rows of which form."""

    pairing: Pairing
    clockwise: bool
    rows: Rows

    def __str__(self) -> str:
        way = ", clockwise" if self.clockwise else ""
        return f"{self.pairing}{way}, rows {self.rows}"


def behaviours(rows: Rows) -> Iterator[Behaviour]:
    """All behaviours that take rows of this form."""
    return (Behaviour(pairing, clockwise, rows) for pairing in PAIRINGS for clockwise in (False, True))


def doubled(single: Tensor, rows: Rows) -> Tensor:
    """[..., pairs] in the form that a function takes; complex rows are made by torch.complex."""
    if rows == "halves":
        return torch.cat((single, single), -1)
    if rows == "neighbours":
        return single.repeat_interleave(2, -1)
    return single


def single(given: Tensor, rows: Rows) -> Tensor:
    """The reverse of doubled: one column for each pair."""
    if rows == "halves":
        return given[..., : given.shape[-1] // 2]
    if rows == "neighbours":
        return given[..., ::2]
    return given


def formula(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, clockwise: bool) -> Tensor:
    """The rotated block by torch's own operations.

    Args:
        x: [..., 2 pairs].
        cos, sin: [..., pairs], broadcast against x.
    """
    if clockwise:
        sin = -sin
    pairs = x.shape[-1] // 2
    a, b = (x[..., :pairs], x[..., pairs:]) if pairing == "half" else (x[..., 0::2], x[..., 1::2])
    first, second = a * cos - b * sin, b * cos + a * sin
    if pairing == "interleaved":
        return torch.stack((first, second), -1).flatten(-2)
    return torch.cat((first, second), -1)
