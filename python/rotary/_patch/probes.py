# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""What a function of framework code does, proved by running it on small random numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .behaviours import PAIRINGS, ROWS, Behaviour, behaviours, doubled, formula, single
from .conventions import Convention, Shape, conventions, places
from .turning import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    from torch import Tensor

    from .behaviours import Rows
    from .conventions import Turn

    Block = Literal["whole", "leading", "trailing"]
    Bits = Literal["equal", "float64", "fused"]

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
        without: what comes back where an optional tensor is None: "alone", or "none" in a tuple.
        numbers: how many float32 results were compared.
    """

    behaviour: Behaviour
    convention: Convention
    shapes: tuple[Shape, ...]
    block: Block
    dtypes: dict[tuple[torch.dtype, torch.dtype], torch.dtype]
    bits: Bits
    once: bool
    without: Literal["alone", "none"]
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


class _Numbers:
    """Arguments for a convention, the same for the same seed."""

    def __init__(self, seed: int, exact: bool) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._exact = exact

    def tensor(self, *shape: int) -> Tensor:
        if not self._exact:
            return torch.randn(shape, generator=self._generator)
        # Odd sixteenths below 4: no zero, few signs and magnitudes alike, and every product and sum is exact.
        odd = torch.randint(-32, 32, shape, generator=self._generator) * 2 + 1
        return odd.float() / 16

    def integers(self, below: int, *shape: int) -> Tensor:
        return torch.randint(0, below, shape, generator=self._generator)

    def arguments(self, convention: Convention, shape: Shape, rows: Rows, rest: int = 0) -> dict[str, Any]:
        """All arguments of the function by name. rest: elements of a head beside the rotated block."""
        sizes, parts = dict(_SIZES), 2 if convention.parts else 1
        tokens = sizes["t"] + (_PREFIX if shape.prefix else 0)
        named = dict(convention.defaults)
        for name in convention.tensors:
            size = [tokens if letter == "t" else sizes.get(letter, 0) for letter in shape.x[:-1]]
            named[name] = self.tensor(*size, parts * 2 * _PAIRS + rest)
        before = (_TABLE,) if convention.gathers else tuple(sizes[letter] for letter in shape.rows)
        for cos, sin in dict.fromkeys(zip(convention.cos, convention.sin)):
            made = [
                torch.cat([doubled(self.tensor(*before, _PAIRS), rows) for _ in range(parts)], -1) for _ in (cos, sin)
            ]
            if convention.complex:
                named[cos] = torch.complex(*made)
            else:
                named[cos], named[sin] = made
        if convention.unsqueeze:
            named[convention.unsqueeze] = shape.unsqueeze
        if convention.positions:
            axes = (parts,) if convention.parts else ()
            named[convention.positions] = self.integers(_TABLE, _SIZES["b"], _SIZES["t"], *axes)
        return named


def _called(function: Callable[..., Any], named: dict[str, Any]) -> tuple[Any, ...]:
    """The results, as a tuple; an argument that was written to is Unproved."""
    kept = {name: value.clone() for name, value in named.items() if isinstance(value, torch.Tensor)}
    with torch.no_grad():
        out = function(**named)
    for name, value in kept.items():
        if not torch.equal(value, named[name]):
            raise Unproved(f"it writes to its argument {name}")
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def _attempt(function: Callable[..., Any], named: dict[str, Any]) -> tuple[Any, ...] | None:
    """The same; None where the function does not take such arguments."""
    try:
        return _called(function, named)
    except Unproved:
        raise
    except Exception:
        return None


def _by_formula(turn: Turn, behaviour: Behaviour, block: Block = "leading") -> list[Tensor]:
    """What the plain formula makes of one turn."""
    cos, sin = single(turn.cos, behaviour.rows), single(turn.sin, behaviour.rows)
    if "h" in turn.layout:
        at = turn.layout.index("h") - len(turn.layout)
        cos, sin = cos.unsqueeze(at), sin.unsqueeze(at)
    width, results = 2 * cos.shape[-1], []
    for x in turn.xs:
        tokens = turn.layout.index("t")
        still, x = x.split((turn.prefix, x.shape[tokens] - turn.prefix), tokens)
        first = x.shape[-1] - width if block == "trailing" else 0
        middle = formula(x[..., first : first + width], cos, sin, behaviour.pairing, behaviour.clockwise)
        moved = torch.cat((x[..., :first], middle, x[..., first + width :]), -1)
        results.append(torch.cat((still, moved.to(still.dtype)), tokens) if turn.prefix else moved)
    return results


def _expected(
    convention: Convention, shape: Shape, behaviour: Behaviour, named: dict[str, Any], block: Block = "leading"
) -> tuple[Tensor, ...]:
    turns = convention.turns(named, places((shape,)))
    if turns is None:
        return ()
    made = [result for turn in turns for result in _by_formula(turn, behaviour, block)]
    out = convention.joined(named, made, "none")
    return out if isinstance(out, tuple) else (out,)


def _equal(got: tuple[Any, ...] | None, expected: tuple[Tensor, ...]) -> bool:
    return (
        got is not None
        and len(got) == len(expected)
        and all(isinstance(a, torch.Tensor) and torch.equal(a, b) for a, b in zip(got, expected))
    )


def _candidates(
    function: Callable[..., Any], like: Callable[..., Any]
) -> dict[tuple[Convention, Behaviour], list[Shape]]:
    """Every reading of the function that exact numbers agree with."""
    found: dict[tuple[Convention, Behaviour], list[Shape]] = {}
    readings = list(conventions(like))
    if not readings:
        raise Unproved("its parameters are not those of a known rotation")
    for convention in readings:
        for rows in ("complex",) if convention.complex else ROWS[:3]:
            for shape in convention.shapes:
                named = _Numbers(0, exact=True).arguments(convention, shape, rows)
                got = _attempt(function, named)
                if got is None:
                    continue
                for behaviour in behaviours(rows):
                    if _equal(got, _expected(convention, shape, behaviour, named)):
                        found.setdefault((convention, behaviour), []).append(shape)
    return found


def _precision(
    function: Callable[..., Any], convention: Convention, shapes: list[Shape], behaviour: Behaviour
) -> tuple[Bits, int]:
    """(how close random float32 results are, how many were compared)."""
    count, bits = 0, set()
    for shape in shapes:
        for seed in range(1, 1 + _ROUNDS):
            named = _Numbers(seed, exact=False).arguments(convention, shape, behaviour.rows)
            got = _attempt(function, named)
            bits.add(_bits(got, convention, shape, behaviour, named))
            count += sum(x.numel() for x in got or ())
    if len(bits) != 1:
        raise Unproved(f"float32 results are of several kinds: {', '.join(sorted(bits))}")
    return bits.pop(), count


def _bits(
    got: tuple[Any, ...] | None, convention: Convention, shape: Shape, behaviour: Behaviour, named: dict[str, Any]
) -> Bits:
    if _equal(got, _expected(convention, shape, behaviour, named)):
        return "equal"
    exact = _expected(convention, shape, behaviour, {name: _wider(value) for name, value in named.items()})
    if _equal(got, tuple(x.float() for x in exact)):
        return "float64"
    # Two products of numbers below 6, summed: a fused multiply-add saves one rounding of at most 2^-19.
    if convention.complex and got is not None and all((a - b).abs().max() < 2**-19 for a, b in zip(got, exact)):
        return "fused"
    raise Unproved(f"on random float32 numbers it differs from {behaviour}")


def _wider(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(torch.complex128) if value.is_complex() else value.double() if value.is_floating_point() else value


def _block(function: Callable[..., Any], convention: Convention, shape: Shape, behaviour: Behaviour) -> Block:
    if convention.parts:
        return "whole"
    named = _Numbers(9, exact=True).arguments(convention, shape, behaviour.rows, rest=_REST)
    got = _attempt(function, named)
    blocks: tuple[Block, ...] = ("leading", "trailing")
    for block in blocks:
        if _equal(got, _expected(convention, shape, behaviour, named, block)):
            return block
    return "whole"


def _dtypes(
    function: Callable[..., Any], convention: Convention, shape: Shape, behaviour: Behaviour
) -> tuple[dict[tuple[torch.dtype, torch.dtype], torch.dtype], bool]:
    """The result's dtype for each pair of dtypes, and whether 16-bit numbers are rotated in float32."""
    results, once = {}, True
    for x_type in DTYPES:
        for rows_type in (torch.float32,) if convention.complex else DTYPES:
            named = _Numbers(7, exact=False).arguments(convention, shape, behaviour.rows)
            for name in convention.tensors:
                named[name] = named[name].to(x_type)
            for name in {*convention.cos, *convention.sin} - {""} if not convention.complex else ():
                named[name] = named[name].to(rows_type)
            got = _attempt(function, named)
            wide = {
                n: v.float() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for n, v in named.items()
            }
            expected = _expected(convention, shape, behaviour, wide)
            if got is None or len({x.dtype for x in got}) != 1 or got[0].dtype not in DTYPES:
                continue
            if all(torch.allclose(a.float(), b, rtol=0, atol=0.125) for a, b in zip(got, expected)):
                results[x_type, rows_type] = got[0].dtype
            if x_type == rows_type == torch.bfloat16 or (convention.complex and x_type == torch.bfloat16):
                once = _equal(got, tuple(b.to(got[0].dtype) for b in expected))
    return results, once


def _without(
    function: Callable[..., Any], convention: Convention, shape: Shape, rows: Rows
) -> Literal["alone", "none"]:
    optional = [name for name in convention.tensors[1:] if name in convention.defaults]
    if not optional:
        return "none"
    named = _Numbers(8, exact=True).arguments(convention, shape, rows)
    named.update(dict.fromkeys(optional))
    got = _attempt(function, named)
    return "alone" if got is not None and len(got) == 1 else "none"


def prove(function: Callable[..., Any], like: Callable[..., Any] | None = None) -> Proof:
    """What the function does; Unproved where that is not one known rotation.

    The function runs on the CPU, on exactly representable numbers in every layout that its parameters allow, and is
    compared with every pairing, direction and form of rows. What agrees is run again on random float32 numbers, which
    must give the bits of the plain formula, on longer heads, and on the 16-bit types.

    Args:
        like: has the function's signature; by default itself.
    """
    found = _candidates(function, like or function)
    if not found:
        raise Unproved(
            f"no known rotation ({', '.join(PAIRINGS)}; either direction; every form of rows) gives its numbers"
        )
    if len(found) > 1:
        raise Unproved(f"it is ambiguous: {' or '.join(str(behaviour) for _, behaviour in found)}")
    (convention, behaviour), shapes = next(iter(found.items()))
    bits, numbers = _precision(function, convention, shapes, behaviour)
    dtypes, once = _dtypes(function, convention, shapes[0], behaviour)
    return Proof(
        behaviour,
        convention,
        tuple(shapes),
        _block(function, convention, shapes[0], behaviour),
        dtypes,
        bits,
        once,
        _without(function, convention, shapes[0], behaviour.rows),
        numbers,
    )
