# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""How the functions of models take what they turn: roles of parameters by their names, shapes that are proved later.

A Convention only proposes. What holds for a function is what probes.py found by running it.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Literal, TypeAlias

    from torch import Tensor

    from .._words import Layout

_FREQS = re.compile(r"freqs?_?(ci|cis|complex)?$")
_EMPTY = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Shape(NamedTuple):
    """One way to lay out x and rows.

    x: its layout. rows: b, t and 1 for the dimensions of cos before the last one. unsqueeze: the argument unsqueeze_dim
    that goes with it, None where there is no such parameter. prefix: x has more tokens than the rows, and the last turn.
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
    Shape("bhtd", "bt"),
    Shape("bthd", "bt"),
    Shape("bhtd", "1t"),
    Shape("bthd", "1t"),
    Shape("bhtd", "t"),
    Shape("bthd", "t"),
    Shape("bhtd", "b1t"),
    Shape("bhtd", "11t"),
    Shape("bhtd", "1t"),
    Shape("bthd", "bt1"),
    Shape("bthd", "1t1"),
    Shape("bthd", "t1"),
    Shape("thd", "t"),
    Shape("htd", "t"),
    Shape("btd", "bt"),
    Shape("btd", "t"),
    Shape("bhtd", "t", None, True),
)


class Turn(NamedTuple):
    """Tensors that turn by the same rows."""

    xs: tuple[Tensor, ...]
    cos: Tensor
    sin: Tensor
    layout: Layout
    prefix: int = 0  # tokens of each x before those that turn


class _Place(NamedTuple):
    """A shape, ready to be compared with tensors."""

    shape: Shape
    axes: tuple[int, ...]  # for each dimension of the rows, which one of x it goes with; -1: it is 1
    tokens: tuple[int, int]  # the dimension of tokens of x, and of the rows
    kept: tuple[int, ...]  # dimensions of the rows without those of size 1; empty: all but a batch of 1


Places: TypeAlias = "dict[tuple[int, int, Any], list[_Place]]"


def places(shapes: tuple[Shape, ...]) -> Places:
    """Shapes by the dimensions of x and rows and by the argument unsqueeze_dim."""
    found: Places = {}
    for shape in shapes:
        axes = tuple(-1 if letter == "1" else shape.x.index(letter) for letter in shape.rows)
        kept = tuple(at for at, axis in enumerate(axes) if axis >= 0)
        lone = shape.rows == "1t" and "b" in shape.x
        place = _Place(
            shape,
            axes,
            (shape.x.index("t"), shape.rows.index("t")),
            () if lone or len(kept) == len(axes) else kept,
        )
        found.setdefault((len(shape.x), len(axes) + 1, shape.unsqueeze), []).append(place)
    return found


def _turn(x: Tensor, cos: Tensor, sin: Tensor, unsqueeze: Any, proved: Places) -> Turn | None:
    sizes, rows = x.shape, cos.shape
    for shape, axes, (tokens, row), kept in proved.get((len(sizes), len(rows), unsqueeze), ()):
        prefix = sizes[tokens] - rows[row]
        if prefix > 0 if shape.prefix else prefix == 0:
            for at, axis in enumerate(axes):
                if at != row and rows[at] != (1 if axis < 0 else sizes[axis]):
                    break
            else:
                if kept:
                    cos, sin = (part.reshape(*(rows[at] for at in kept), rows[-1]) for part in (cos, sin))
                return Turn((x,), cos, sin, shape.x, prefix if shape.prefix else 0)
    return None


def _cut(turn: Turn, parts: int) -> list[Turn] | None:
    """The head of one tensor in equal parts, each with its own columns."""
    x = turn.xs[0]
    if x.shape[-1] % parts or turn.cos.shape[-1] != x.shape[-1]:
        return None
    columns = zip(x.chunk(parts, -1), turn.cos.chunk(parts, -1), turn.sin.chunk(parts, -1))
    return [turn._replace(xs=(part,), cos=cos, sin=sin) for part, cos, sin in columns]


@dataclass(frozen=True)
class Convention:
    """The roles of a function's parameters.

    Attributes:
        tensors: parameters that turn, in the order of the results.
        cos, sin: their rows, for each of tensors; sin is "" where cos is complex.
        unsqueeze, positions: parameters of that meaning, or "".
        gathers: cos and sin are tables, and positions says which row a token takes.
        parts: the head is cut into positions.shape[-1] parts, each with its own columns of rows.
        others: parameters that must keep their defaults.
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
    others: tuple[str, ...] = ()

    @property
    def complex(self) -> bool:
        return not self.sin[0]

    @property
    def shapes(self) -> tuple[Shape, ...]:
        known = _UNSQUEEZED if self.unsqueeze else _PLACED
        return tuple(shape for shape in known if shape.rows == "bt") if self.gathers else known

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """All arguments by name; None where they are not the function's."""
        if len(args) > len(self.names):
            return None
        given = dict(zip(self.names, args))
        given.update(kwargs)
        named = {**self.defaults, **given}
        if len(named) != len(self.names) or len(given) != len(args) + len(kwargs):
            return None
        for name in self.names:
            if name not in named:
                return None
        for name in self.others:
            if named[name] is not self.defaults[name]:
                return None
        return named

    def rows(self, named: dict[str, Any], at: int) -> tuple[Tensor, Tensor] | None:
        """The rows of tensors[at] as they are given, complex ones as two."""
        cos = named[self.cos[at]]
        if not isinstance(cos, torch.Tensor):
            return None
        if self.complex:
            return (cos.real, cos.imag) if cos.is_complex() else None
        sin = named[self.sin[at]]
        if not isinstance(sin, torch.Tensor) or sin.shape != cos.shape or cos.is_complex():
            return None
        if self.gathers:
            cos, sin = cos[named[self.positions]], sin[named[self.positions]]
        return cos, sin

    def turns(self, named: dict[str, Any], proved: Places) -> list[Turn] | None:
        """What turns by what, as one of the proved shapes (places of them); None where none fits."""
        found: list[Turn] = []
        unsqueeze = named[self.unsqueeze] if self.unsqueeze else None
        for at, name in enumerate(self.tensors):
            x = named[name]
            if x is None:
                continue
            rows = self.rows(named, at) if isinstance(x, torch.Tensor) else None
            turn = None if rows is None else _turn(x, *rows, unsqueeze, proved)
            if turn is None:
                return None
            last = found[-1] if found else None
            if (
                last is not None
                and self.cos[at] == self.cos[0]
                and last.layout == turn.layout
                and last.prefix == turn.prefix
            ):
                found[-1] = Turn((*last.xs, x), last.cos, last.sin, last.layout, last.prefix)  # by the same rows
            else:
                found.append(turn)
        if self.parts and found:
            return _cut(found[0], named[self.positions].shape[-1])
        return found or None

    def joined(self, named: dict[str, Any], results: list[Tensor], without: Literal["alone", "none"]) -> Any:
        """What the function returns, of what the turns gave in their order."""
        if self.parts:
            return torch.cat(results, -1)
        if len(self.tensors) == 1:
            return results[0]
        if len(results) == len(self.tensors):
            return tuple(results)
        if without == "alone":
            return results[0]
        left = iter(results)
        return tuple(None if named[name] is None else next(left) for name in self.tensors)


def _roles(names: list[str]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
    """(tensors, cos, sin) that the names allow."""
    lower = {name.lower(): name for name in names}
    if "cos" in lower and "sin" in lower:
        first = min(names.index(lower["cos"]), names.index(lower["sin"]))
        tensors = tuple(names[:first])
        own = [(lower.get(f"cos_{t}", lower["cos"]), lower.get(f"sin_{t}", lower["sin"])) for t in tensors]
        if tensors:
            yield tensors, tuple(c for c, _ in own), tuple(s for _, s in own)
        return
    freqs = [name for name in names if _FREQS.match(name.lower())]
    if len(freqs) == 1 and names.index(freqs[0]) > 0:
        tensors = tuple(names[: names.index(freqs[0])])
        yield tensors, freqs * len(tensors), ("",) * len(tensors)


def conventions(function: Callable[..., Any]) -> Iterator[Convention]:
    """What the signature of a function may mean."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    fixed = [p for p in parameters.values() if p.kind not in _VARIADIC]
    names = [p.name for p in fixed]
    defaults = {p.name: p.default for p in fixed if p.default is not _EMPTY}
    for tensors, cos, sin in _roles(names):
        unsqueeze = next((n for n in names if n in ("unsqueeze_dim", "unsqueeze_axis")), "")
        positions = next((n for n in names if n.startswith("position")), "")
        roles = {*tensors, *cos, *sin, unsqueeze, positions}
        others = tuple(n for n in names if n not in roles)
        if any(name not in defaults for name in others):
            return
        plain = Convention(tuple(names), defaults, tensors, tuple(cos), tuple(sin), unsqueeze, positions, others=others)
        yield plain
        if positions and not plain.complex:
            meant = (tuple(names), defaults, tensors, tuple(cos), tuple(sin), unsqueeze, positions)
            yield Convention(*meant, gathers=True, others=others)
            yield Convention(*meant, parts=True, others=others)
