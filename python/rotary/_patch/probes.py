# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""What a function of framework code does, proved by running it on small random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from .conventions import PAIRINGS, REAL_ROWS, Behaviour, Convention, Rows, Shape
from .conventions import behaviours, conventions, doubled, formula

Function = Callable[..., Any]
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
        words = [str(self.behaviour)]
        if self.convention.parts:
            words.append("each part of the head by its own axis")
        if self.convention.gathers:
            words.append("rows taken by position")
        if self.block != "whole":
            words.append(f"{self.block} block of a longer head")
        words.append("16-bit types rounded once" if self.once else "16-bit types in their own arithmetic")
        layouts = dict.fromkeys(shape.x + (" after a prefix" if shape.prefix else "") for shape in self.shapes)
        return f"{', '.join(words)}; {', '.join(layouts)}; {self.numbers} float32 numbers {_BITS[self.bits]}"


class _Trial:
    """Arguments of one call, the same for the same seed, and what rotations make of them.

    Args:
        seed: 0 gives exact numbers: odd sixteenths below 4, no zero, few signs and magnitudes alike, of which every
            product and sum is representable.
        rest: elements of a head beside the rotated block.
    """

    def __init__(
        self,
        convention: Convention,
        shape: Shape,
        rows: Rows,
        seed: int,
        rest: int = 0,
        dtypes: tuple[torch.dtype, torch.dtype] = (torch.float32, torch.float32),
    ) -> None:
        self._seed, self._generator = seed, torch.Generator().manual_seed(seed)
        self._shape, parts = shape, 2 if convention.parts else 1
        self.named: dict[str, Tensor] = {}
        tokens = _SIZES["t"] + (_PREFIX if shape.prefix else 0)
        size = [tokens if letter == "t" else _SIZES[letter] for letter in shape.x[:-1]]
        for name in convention.tensors:
            self.named[name] = self._numbers(*size, parts * 2 * _PAIRS + rest).to(dtypes[0])
        before = (_TABLE,) if convention.gathers else tuple(_SIZES[letter] for letter in shape.rows)
        single: dict[str, list[list[Tensor]]] = {}  # by the name of cos: (cos, sin) of each part
        for cos, sin in dict.fromkeys(zip(convention.cos, convention.sin)):
            single[cos] = [[self._numbers(*before, _PAIRS).to(dtypes[1]) for _ in "cs"] for _ in range(parts)]
            made = [torch.cat([doubled(one, rows) for one in each], -1) for each in zip(*single[cos])]
            self.named.update({cos: torch.complex(*made)} if convention.complex else {cos: made[0], sin: made[1]})
        last = max(convention.names.index(name) for name in (*convention.tensors, *self.named))
        self._by_place = [self.named.get(n, convention.defaults.get(n)) for n in convention.names[: last + 1]]
        self._by_name: dict[str, Any] = {convention.unsqueeze: shape.unsqueeze} if convention.unsqueeze else {}
        size = [_SIZES["b"], _SIZES["t"], *([parts] if convention.parts else [])]
        places = torch.randint(0, _TABLE, size, generator=self._generator)
        used = convention.parts or convention.gathers or convention.positions not in convention.defaults
        if convention.positions and used:
            self._by_name[convention.positions] = places
        if convention.gathers:
            single = {name: [[one[places] for one in pair] for pair in each] for name, each in single.items()}
        self._turning = [(self.named[name], single[cos]) for name, cos in zip(convention.tensors, convention.cos)]

    def _numbers(self, *shape: int) -> Tensor:
        if self._seed:
            return torch.randn(shape, generator=self._generator)
        return (torch.randint(-32, 32, shape, generator=self._generator) * 2 + 1).float() / 16

    def run(self, function: Function) -> tuple[Any, ...] | None:
        """The results, None where the function does not take such arguments; Unproved where it writes to one."""
        kept = {name: value.clone() for name, value in self.named.items()}
        try:
            with torch.no_grad():
                out = function(*self._by_place, **self._by_name)
        except Exception:
            return None
        for name, value in kept.items():
            if not torch.equal(value, self.named[name]):
                raise Unproved(f"it writes to its argument {name}")
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)

    def turned(self, behaviour: Behaviour, block: Block = "leading", wide: Any = torch.float32) -> tuple[Tensor, ...]:
        """What the plain formula makes of them, in that type."""
        made = []
        for x, parts in self._turning:
            pieces = zip(x.to(wide).chunk(len(parts), -1), parts)
            made.append(torch.cat([self._piece(one, rows, behaviour, block) for one, rows in pieces], -1))
        return tuple(made)

    def _piece(self, x: Tensor, rows: list[Tensor], behaviour: Behaviour, block: Block) -> Tensor:
        layout = self._shape.x
        sizes = [_SIZES[letter] if letter in self._shape.rows else 1 for letter in layout[:-1]]
        cos, sin = (one.to(x.dtype).reshape(*sizes, _PAIRS) for one in rows)
        tokens, width = layout.index("t"), 2 * _PAIRS
        first = x.shape[-1] - width if block == "trailing" else 0
        still, x = x.split((x.shape[tokens] - _SIZES["t"], _SIZES["t"]), tokens)
        middle = formula(x[..., first : first + width], cos, sin, behaviour)
        return torch.cat((still, torch.cat((x[..., :first], middle, x[..., first + width :]), -1)), tokens)


def _equal(got: tuple[Any, ...] | None, expected: tuple[Tensor, ...]) -> bool:
    if got is None or len(got) != len(expected):
        return False
    return all(isinstance(a, torch.Tensor) and torch.equal(a, b) for a, b in zip(got, expected))


class _Reading(NamedTuple):
    """What a function is taken for, once exact numbers agree with it."""

    function: Function
    convention: Convention
    behaviour: Behaviour

    def trial(self, shape: Shape, seed: int, rest: int = 0, **dtypes: Any) -> tuple[_Trial, tuple[Any, ...] | None]:
        """(the arguments, what the function makes of them)."""
        trial = _Trial(self.convention, shape, self.behaviour.rows, seed, rest, **dtypes)
        return trial, trial.run(self.function)

    def precision(self, shapes: list[Shape]) -> tuple[Bits, int]:
        """(how close random float32 results are, how many were compared)."""
        count, found = 0, set()
        for shape in shapes:
            for seed in range(1, 1 + _ROUNDS):
                trial, got = self.trial(shape, seed)
                found.add(self._bits(trial, got))
                count += sum(x.numel() for x in got or ())
        if len(found) != 1:
            raise Unproved(f"float32 results are of several kinds: {', '.join(sorted(found))}")
        return found.pop(), count

    def _bits(self, trial: _Trial, got: tuple[Any, ...] | None) -> Bits:
        if _equal(got, trial.turned(self.behaviour)):
            return "equal"
        exact = trial.turned(self.behaviour, wide=torch.float64)
        if _equal(got, tuple(x.float() for x in exact)):
            return "float64"
        # Two products of numbers below 6, summed: a fused multiply-add saves one rounding of at most 2^-19.
        if self.convention.complex and got is not None and all((a - b).abs().max() < 2**-19 for a, b in zip(got, exact)):
            return "fused"
        raise Unproved(f"on random float32 numbers it differs from {self.behaviour}")

    def block(self, shape: Shape) -> Block:
        if self.convention.parts:
            return "whole"
        trial, got = self.trial(shape, 0, _REST)
        known: tuple[Block, ...] = ("leading", "trailing")
        return next((block for block in known if _equal(got, trial.turned(self.behaviour, block))), "whole")

    def dtypes(self, shape: Shape) -> tuple[dict[tuple[torch.dtype, torch.dtype], torch.dtype], bool]:
        """The result's dtype for each pair of dtypes, and whether 16-bit numbers are rotated in float32."""
        results, once = {}, True
        for x_type in DTYPES:
            for rows_type in DTYPES[:1] if self.convention.complex else DTYPES:
                trial, got = self.trial(shape, 7, dtypes=(x_type, rows_type))
                expected = trial.turned(self.behaviour)
                if got is None or len({x.dtype for x in got}) != 1 or got[0].dtype not in DTYPES:
                    continue
                if all(torch.allclose(a.float(), b, rtol=0, atol=0.125) for a, b in zip(got, expected)):
                    results[x_type, rows_type] = got[0].dtype
                if x_type == torch.bfloat16 and (self.convention.complex or rows_type == x_type):
                    once = _equal(got, tuple(b.to(got[0].dtype) for b in expected))
        return results, once


def _readings(function: Function, like: Function) -> dict[_Reading, list[Shape]]:
    """Every reading of the function that exact numbers agree with."""
    known = list(conventions(like))
    if not known:
        raise Unproved("its parameters are not those of a known rotation")
    found: dict[_Reading, list[Shape]] = {}
    for convention in known:
        for rows in ("complex",) if convention.complex else REAL_ROWS:
            for shape in convention.shapes:
                trial = _Trial(convention, shape, rows, 0)
                got = trial.run(function)
                for behaviour in behaviours(rows) if got is not None else ():
                    if _equal(got, trial.turned(behaviour)):
                        found.setdefault(_Reading(function, convention, behaviour), []).append(shape)
    return found


def prove(function: Function, like: Function | None = None) -> Proof:
    """What the function does; Unproved where that is not one known rotation.

    The function runs on the CPU, on exactly representable numbers in every layout that its parameters allow, and is
    compared with every pairing, direction and form of rows. What agrees is run again on random float32 numbers, which
    must give the bits of the plain formula, on longer heads, and on the 16-bit types.

    Args:
        like: has the function's signature; by default itself.
    """
    found = _readings(function, like or function)
    if not found:
        raise Unproved(
            f"no known rotation ({', '.join(PAIRINGS)}; either direction; every form of rows) gives its numbers"
        )
    if len(found) > 1:
        raise Unproved(f"it is ambiguous: {' or '.join(str(reading.behaviour) for reading in found)}")
    reading, shapes = next(iter(found.items()))
    bits, numbers = reading.precision(shapes)
    dtypes, once = reading.dtypes(shapes[0])
    block = reading.block(shapes[0])
    return Proof(reading.behaviour, reading.convention, tuple(shapes), block, dtypes, bits, once, numbers)
