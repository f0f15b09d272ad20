# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""What a rotation of framework code can be: which elements turn, by rows of which form, taken by which parameters.

All of it only proposes. What holds for a function is what probes.py found by running it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from .._words import Layout, Pairing

# How a function takes one cos and sin for each pair: [c0 c1 c0 c1], [c0 c0 c1 c1], [c0 c1], or c + i s.
Rows = Literal["halves", "neighbours", "single", "complex"]
REAL_ROWS: tuple[Rows, ...] = ("halves", "neighbours", "single")
PAIRINGS: tuple[Pairing, ...] = ("half", "interleaved", "interleaved_to_half")


class Behaviour(NamedTuple):
    """One rotation: which elements turn together, which way, by rows of which form."""

    pairing: Pairing
    clockwise: bool
    rows: Rows

    def __str__(self) -> str:
        return f"{self.pairing}{', clockwise' if self.clockwise else ''}, rows {self.rows}"


def behaviours(rows: Rows) -> Iterator[Behaviour]:
    """All behaviours that take rows of this form."""
    return (Behaviour(pairing, clockwise, rows) for pairing in PAIRINGS for clockwise in (False, True))


def doubled(single: Tensor, rows: Rows) -> Tensor:
    """[..., pairs] in the form that a function takes; complex rows are made by torch.complex."""
    if rows == "halves":
        return torch.cat((single, single), -1)
    return single.repeat_interleave(2, -1) if rows == "neighbours" else single


def formula(x: Tensor, cos: Tensor, sin: Tensor, behaviour: Behaviour) -> Tensor:
    """The rotated block by torch's own operations: x [..., 2 pairs], cos and sin [..., pairs], broadcast against x."""
    sin = -sin if behaviour.clockwise else sin
    a, b = x.chunk(2, -1) if behaviour.pairing == "half" else (x[..., 0::2], x[..., 1::2])
    turned = a * cos - b * sin, b * cos + a * sin
    return torch.stack(turned, -1).flatten(-2) if behaviour.pairing == "interleaved" else torch.cat(turned, -1)


class Shape(NamedTuple):
    """One way to lay out x and rows.

    x: its layout. rows: b, t and 1 for the dimensions of cos before the last one. unsqueeze: the argument
    unsqueeze_dim that goes with it, None where there is no such parameter. prefix: x has more tokens than the rows,
    and the last turn.
    """

    x: Layout
    rows: str
    unsqueeze: int | None = None
    prefix: bool = False


# Every layout of the rows of functions that have a parameter unsqueeze_dim: rows get a dimension for the heads.
_UNSQUEEZED = (
    Shape("bhtd", "bt", 1),
    Shape("bthd", "bt", 2),
    Shape("bhtd", "1t", 1),
    Shape("bthd", "1t", 2),
    Shape("bthd", "bt", -2),
    Shape("bhtd", "bt", -3),
    Shape("thd", "t", 1),
    Shape("htd", "t", 0),
    Shape("bhtd", "t", 0),
)
# And of functions without it.
_PLACED = (
    *(Shape(x, rows) for rows in ("bt", "1t", "t") for x in ("bhtd", "bthd")),
    *(Shape("bhtd", rows) for rows in ("b1t", "11t")),
    *(Shape("bthd", rows) for rows in ("bt1", "1t1", "t1")),
    Shape("thd", "t"),
    Shape("htd", "t"),
    Shape("btd", "bt"),
    Shape("btd", "t"),
    Shape("bhtd", "t", None, True),
)


@dataclass(frozen=True)
class Convention:
    """The roles of a function's parameters.

    Attributes:
        names, defaults: of all of them.
        tensors: parameters that turn, in the order of the results.
        cos, sin: their rows, for each of tensors; sin is "" where cos is complex.
        unsqueeze, positions: parameters of that meaning, or "".
        gathers: cos and sin are tables, and positions says which row a token takes.
        parts: the head is cut into positions.shape[-1] parts, each with its own columns of rows.
    """

    names: tuple[str, ...]
    defaults: dict[str, Any] = field(hash=False)
    tensors: tuple[str, ...]
    cos: tuple[str, ...]
    sin: tuple[str, ...]
    unsqueeze: str = ""
    positions: str = ""
    gathers: bool = False
    parts: bool = False

    @property
    def complex(self) -> bool:
        return not self.sin[0]

    @property
    def shapes(self) -> tuple[Shape, ...]:
        known = _UNSQUEEZED if self.unsqueeze else _PLACED
        return tuple(shape for shape in known if shape.rows == "bt") if self.gathers else known


def _roles(names: list[str]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None:
    """(tensors, cos, sin) that the names allow: tensors stand before their rows."""
    lower = {name.lower(): name for name in names}
    if "cos" in lower and "sin" in lower:
        tensors = tuple(names[: min(names.index(lower["cos"]), names.index(lower["sin"]))])
        cos, sin = (tuple(lower.get(f"{row}_{name}", lower[row]) for name in tensors) for row in ("cos", "sin"))
        return (tensors, cos, sin) if tensors else None
    freqs = [at for at, name in enumerate(names) if re.match(r"freqs?_?(ci|cis|complex)?$", name.lower())]
    count = freqs[0] if len(freqs) == 1 else 0
    return (tuple(names[:count]), (names[count],) * count, ("",) * count) if count else None


def conventions(function: Callable[..., Any]) -> Iterator[Convention]:
    """What the signature of a function may mean."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    fixed = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = [p.name for p in fixed]
    defaults = {p.name: p.default for p in fixed if p.default is not p.empty}
    roles = _roles(names)
    if roles is None:
        return
    unsqueeze = next((name for name in names if name in ("unsqueeze_dim", "unsqueeze_axis")), "")
    positions = next((name for name in names if name.startswith("position")), "")
    known = {unsqueeze, positions}.union(*roles)
    if all(name in known or name in defaults for name in names):
        plain = Convention(tuple(names), defaults, *roles, unsqueeze, positions)
        yield plain
        if positions and not plain.complex:
            yield replace(plain, gathers=True)
            yield replace(plain, parts=True)
