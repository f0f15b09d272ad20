# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""What a function of framework code does: proposed by its signature, proved by running it on small random numbers."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from .._words import Layout, Pairing

Function = Callable[..., Any]
# How a function takes one cos and sin for each pair: [c0 c1 c0 c1], [c0 c0 c1 c1], [c0 c1], or c + i s.
Rows = Literal["halves", "neighbours", "single", "complex"]


class Behaviour(NamedTuple):
    """One rotation: which elements turn together, which way, by rows of which form."""

    pairing: Pairing
    clockwise: bool
    rows: Rows

    def __str__(self) -> str:
        return f"{self.pairing}{', clockwise' if self.clockwise else ''}, rows {self.rows}"

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The block x [..., 2 pairs] by torch's own operations; cos and sin [..., pairs], broadcast against x."""
        sin = -sin if self.clockwise else sin
        a, b = x.chunk(2, -1) if self.pairing == "half" else (x[..., 0::2], x[..., 1::2])
        turned = a * cos - b * sin, b * cos + a * sin
        return torch.stack(turned, -1).flatten(-2) if self.pairing == "interleaved" else torch.cat(turned, -1)


def forms(is_complex: bool) -> tuple[Rows, ...]:
    """The forms that real or complex rows can have."""
    return ("complex",) if is_complex else ("halves", "neighbours", "single")


def doubled(single: Tensor, rows: Rows) -> Tensor:
    """[..., pairs] in the form that a function takes; complex rows are made by torch.complex."""
    if rows == "halves":
        return torch.cat((single, single), -1)
    return single.repeat_interleave(2, -1) if rows == "neighbours" else single


class Shape(NamedTuple):
    """One way to lay out x and rows.

    x: its layout. rows: b, t and 1 for the dimensions of cos before the last one. unsqueeze: the argument
    unsqueeze_dim that goes with it, if there is one. prefix: x has more tokens than the rows, and the last turn.
    """

    x: Layout
    rows: str
    unsqueeze: int | None = None
    prefix: bool = False


_WHOLE: tuple[Layout, ...] = ("bhtd", "bthd")
# Every layout of the rows of functions that have a parameter unsqueeze_dim: rows get a dimension for the heads.
_UNSQUEEZED = (
    *(Shape(x, rows, x.index("h")) for rows in ("bt", "1t") for x in _WHOLE),
    *(Shape(x, "bt", x.index("h") - 4) for x in _WHOLE),
    *(Shape(x, "t", x.index("h")) for x in ("thd", "htd")),
    Shape("bhtd", "t", 0),
)
# And of functions without it.
_PLACED = (
    *(Shape(x, rows) for rows in ("bt", "1t", "t") for x in _WHOLE),
    *(Shape("bhtd", rows) for rows in ("b1t", "11t")),
    *(Shape("bthd", rows) for rows in ("bt1", "1t1", "t1")),
    *(Shape(x, "t") for x in ("thd", "htd")),
    *(Shape("btd", rows) for rows in ("bt", "t")),
    Shape("bhtd", "t", None, True),
)


@dataclass(frozen=True)
class Convention:
    """The roles of a function's parameters.

    Attributes:
        names, defaults: of all of them.
        turns: (tensor, cos, sin) for each result, in their order: what turns, by which rows; sin is "" where cos is
            complex.
        unsqueeze, positions: parameters of that meaning, or "".
        gathers: cos and sin are tables, and positions says which row a token takes.
        parts: the head is cut into positions.shape[-1] parts, each with its own columns of rows.
    """

    names: tuple[str, ...]
    defaults: dict[str, Any]
    turns: tuple[tuple[str, str, str], ...]
    unsqueeze: str = ""
    positions: str = ""
    gathers: bool = False
    parts: bool = False

    @property
    def complex(self) -> bool:
        return not self.turns[0][2]

    @property
    def shapes(self) -> tuple[Shape, ...]:
        known = _UNSQUEEZED if self.unsqueeze else _PLACED
        return tuple(shape for shape in known if shape.rows == "bt") if self.gathers else known


def _turns(names: list[str]) -> tuple[tuple[str, str, str], ...]:
    """What the names allow: tensors stand before their rows."""
    lower = {name.lower(): name for name in names}
    if "cos" in lower and "sin" in lower:
        given = names[: min(names.index(lower["cos"]), names.index(lower["sin"]))]
        return tuple((x, lower.get(f"cos_{x}", lower["cos"]), lower.get(f"sin_{x}", lower["sin"])) for x in given)
    freqs = [name for name in names if re.match(r"freqs?_?(ci|cis|complex)?$", name.lower())]
    return tuple((x, freqs[0], "") for x in names[: names.index(freqs[0])]) if len(freqs) == 1 else ()


def conventions(function: Function) -> Iterator[Convention]:
    """What the signature of a function may mean."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    fixed = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = [p.name for p in fixed]
    defaults = {p.name: p.default for p in fixed if p.default is not p.empty}
    turns = _turns(names)
    unsqueeze = next((name for name in names if name in ("unsqueeze_dim", "unsqueeze_axis")), "")
    positions = next((name for name in names if name.startswith("position")), "")
    known = {unsqueeze, positions, *defaults}.union(*turns)
    if turns and known.issuperset(names):
        plain = Convention(tuple(names), defaults, turns, unsqueeze, positions)
        yield plain
        if positions and not plain.complex:
            yield replace(plain, gathers=True)
            yield replace(plain, parts=True)


Block = Literal["whole", "leading", "trailing"]
Bits = Literal["equal", "float64", "fused"]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Sizes of which no two are alike and none is 1, so that rows in a wrong place cannot be broadcast.
_SIZES = {"b": 2, "h": 3, "t": 5, "1": 1}
_PAIRS, _PREFIX, _REST, _TABLE = 4, 2, 6, 11
_ROUNDS = 4  # of random float32 numbers, after one of exact ones
_BITS = {
    "equal": "equal to the formula bit for bit",
    "float64": "equal to the formula in float64, rounded",
    "fused": "nearer to the exact ones than one rounding: torch's complex product fuses",
}


class Unproved(Exception):
    """Why nothing is proved of a function."""


@dataclass(frozen=True)
class Proof:
    """What a function was proved to do.

    Attributes:
        behaviour, convention, shapes: which elements turn, the roles of the arguments, the layouts that were run.
        block: where the rotated block lies in a head that is longer: "whole" where that was refused.
        dtypes: the result's dtype for each pair of dtypes of x and rows that was run.
        bits: how random float32 results compare with the formula in float32: "equal"; "float64" where they are those of
            the formula in float64, rounded; "fused" where they are nearer to the exact ones than one rounding, as
            torch's complex product, which fuses a multiplication with the addition.
        once: 16-bit numbers are rotated in float32 and rounded once.
        numbers: how many float32 results were compared.
    """

    behaviour: Behaviour
    convention: Convention
    shapes: tuple[Shape, ...]
    block: Block
    dtypes: dict[tuple[torch.dtype, torch.dtype], torch.dtype]
    bits: Bits
    once: bool
    numbers: int

    def __str__(self) -> str:
        words = {
            str(self.behaviour): True,
            "each part of the head by its own axis": self.convention.parts,
            "rows taken by position": self.convention.gathers,
            f"{self.block} block of a longer head": self.block != "whole",
            "16-bit types rounded once" if self.once else "16-bit types in their own arithmetic": True,
        }
        layouts = dict.fromkeys(shape.x + (" after a prefix" if shape.prefix else "") for shape in self.shapes)
        told = f"{', '.join(word for word, holds in words.items() if holds)}; {', '.join(layouts)}"
        return f"{told}; {self.numbers} float32 numbers {_BITS[self.bits]}"


class _Trial:
    """One call with arguments that are the same for the same seed: its results, and what rotations make of them.

    Args:
        seed: 0 gives exact numbers: odd sixteenths below 4, no zero, few signs and magnitudes alike, of which every
            product and sum is representable.
        rest: elements of a head beside the rotated block.
        dtypes: of the tensors that turn, and of the rows.

    Attributes:
        got: the results, None where the function does not take such arguments.
    """

    def __init__(
        self, function: Function, convention: Convention, shape: Shape, rows: Rows,
        seed: int = 0, rest: int = 0, dtypes: tuple[torch.dtype, torch.dtype] = DTYPES[:1] * 2,
    ) -> None:  # fmt: skip
        generator, parts = torch.Generator().manual_seed(seed), 2 if convention.parts else 1

        def numbers(*size: int) -> Tensor:
            if seed:
                return torch.randn(size, generator=generator)
            return (torch.randint(-32, 32, size, generator=generator) * 2 + 1).float() / 16

        sizes = {**_SIZES, "t": _SIZES["t"] + (_PREFIX if shape.prefix else 0), "d": parts * 2 * _PAIRS + rest}
        before = (_TABLE,) if convention.gathers else tuple(_SIZES[letter] for letter in shape.rows)
        places = torch.randint(0, _TABLE, (_SIZES["b"], _SIZES["t"], parts), generator=generator)
        places = places if convention.parts else places[..., 0]
        self.shape, self._turning = shape, list[tuple[Tensor, list[Tensor]]]()
        named: dict[str, Tensor] = {}
        single: dict[str, list[Tensor]] = {}  # by the name of cos: cos and sin [..., parts, pairs]
        for name, cos, sin in convention.turns:
            if cos not in single:
                drawn = [numbers(*before, parts, _PAIRS).to(dtypes[1]) for _ in "cs"]
                made = [doubled(one, rows).flatten(-2) for one in drawn]
                named.update({cos: torch.complex(*made)} if convention.complex else {cos: made[0], sin: made[1]})
                single[cos] = [one[places] for one in drawn] if convention.gathers else drawn
            named[name] = numbers(*(sizes[letter] for letter in shape.x)).to(dtypes[0])
            self._turning.append((named[name], single[cos]))
        words: dict[str, Any] = {convention.unsqueeze: shape.unsqueeze} if convention.unsqueeze else {}
        used = convention.parts or convention.gathers or convention.positions not in convention.defaults
        if convention.positions and used:
            words[convention.positions] = places
        last = max(map(convention.names.index, named))
        by_place = [named.get(name, convention.defaults.get(name)) for name in convention.names[: last + 1]]
        kept = {name: value.clone() for name, value in named.items()}
        out = None
        with contextlib.suppress(Exception), torch.no_grad():
            out = function(*by_place, **words)
        for name, value in kept.items():
            if not torch.equal(value, named[name]):
                raise Unproved(f"it writes to its argument {name}")
        self.got = None if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)

    def turned(self, behaviour: Behaviour, block: Block = "leading", wide: Any = torch.float32) -> list[Tensor]:
        """What the plain formula makes of the arguments, in that type."""
        layout, tokens, made = self.shape.x, self.shape.x.index("t"), list[Tensor]()
        sizes = [_SIZES[letter] if letter in self.shape.rows else 1 for letter in layout[:-1]]
        for x, rows in self._turning:
            cos, sin = (one.to(wide).reshape(*sizes, *one.shape[-2:]) for one in rows)
            x = x.to(wide).unflatten(-1, (cos.shape[-2], -1))
            still, x = x.split((x.shape[tokens] - _SIZES["t"], _SIZES["t"]), tokens)
            first = x.shape[-1] - 2 * _PAIRS if block == "trailing" else 0
            before, middle, after = x.tensor_split((first, first + 2 * _PAIRS), -1)
            x = torch.cat((before, behaviour.turned(middle, cos, sin), after), -1)
            made.append(torch.cat((still, x), tokens).flatten(-2))
        return made

    def agrees(self, behaviour: Behaviour, block: Block = "leading", wide: Any = torch.float32, to: Any = None) -> bool:
        """Whether the results are those of the formula in the type wide, rounded to the type to, bit for bit."""
        expected = [x.to(to or wide) for x in self.turned(behaviour, block, wide)]
        alike = (isinstance(a, torch.Tensor) and torch.equal(a, b) for a, b in zip(self.got or (), expected))
        return len(self.got or ()) == len(expected) and all(alike)

    def bits(self, behaviour: Behaviour) -> Bits:
        """How close random float32 results are."""
        if self.agrees(behaviour):
            return "equal"
        if self.agrees(behaviour, wide=torch.float64, to=torch.float32):
            return "float64"
        # Two products of numbers below 6, summed: a fused multiply-add saves one rounding of at most 2^-19.
        exact = self.turned(behaviour, wide=torch.float64)
        near = [bool((a - b).abs().max() < 2**-19) for a, b in zip(self.got or (), exact)]
        if behaviour.rows == "complex" and near and all(near):
            return "fused"
        raise Unproved(f"on random float32 numbers it differs from {behaviour}")


def _readings(function: Function, like: Function) -> Iterator[tuple[Convention, Behaviour, tuple[Shape, ...]]]:
    """What the function may be taken for, in which layouts: every behaviour that agrees on exact numbers."""
    for convention in conventions(like):
        for rows in forms(convention.complex):
            trials = [_Trial(function, convention, shape, rows) for shape in convention.shapes]
            taken = [trial for trial in trials if trial.got is not None]
            for pairing, clockwise in itertools.product(get_args(Pairing), (False, True)):
                behaviour = Behaviour(pairing, clockwise, rows)
                shapes = tuple(trial.shape for trial in taken if trial.agrees(behaviour))
                if shapes:
                    yield convention, behaviour, shapes


def prove(function: Function, like: Function | None = None) -> Proof:
    """What the function does; Unproved where that is not one known rotation.

    The function runs on the CPU, on exactly representable numbers in every layout that its parameters allow, and is
    compared with every pairing, direction and form of rows. What agrees is run again on random float32 numbers, which
    must give the bits of the plain formula, on longer heads, and on the 16-bit types.

    Args:
        like: has the function's signature; by default itself.
    """
    if next(conventions(like or function), None) is None:
        raise Unproved("its parameters are not those of a known rotation")
    found = list(_readings(function, like or function))
    if not found:
        known = ", ".join(get_args(Pairing))
        raise Unproved(f"no known rotation ({known}; either direction; every form of rows) gives its numbers")
    if len(found) > 1:
        raise Unproved(f"it is ambiguous: {' or '.join(str(behaviour) for _, behaviour, _ in found)}")
    convention, behaviour, shapes = found[0]

    def trial(shape: Shape, *how: Any) -> _Trial:
        return _Trial(function, convention, shape, behaviour.rows, *how)

    drawn = [trial(shape, seed) for shape in shapes for seed in range(1, 1 + _ROUNDS)]
    kinds = {one.bits(behaviour) for one in drawn}
    if len(kinds) != 1:
        raise Unproved(f"float32 results are of several kinds: {', '.join(sorted(kinds))}")
    longer, dtypes, once = trial(shapes[0], 0, _REST), dict[tuple[torch.dtype, torch.dtype], torch.dtype](), True
    blocks: tuple[Block, ...] = ("whole",) if convention.parts else ("leading", "trailing", "whole")
    block = next(block for block in blocks if block == "whole" or longer.agrees(behaviour, block))
    for given in itertools.product(DTYPES, DTYPES[:1] if convention.complex else DTYPES):
        one = trial(shapes[0], 7, 0, given)
        got = one.got or ()
        if len({x.dtype for x in got}) != 1 or got[0].dtype not in DTYPES:
            continue
        if all(torch.allclose(a.float(), b, rtol=0, atol=0.125) for a, b in zip(got, one.turned(behaviour))):
            dtypes[given] = got[0].dtype
        if given[0] == torch.bfloat16 and (convention.complex or given[1] == torch.bfloat16):
            once = one.agrees(behaviour, to=got[0].dtype)
    numbers = sum(x.numel() for one in drawn for x in one.got or ())
    return Proof(behaviour, convention, shapes, block, dtypes, kinds.pop(), once, numbers)
