# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The function that takes the place of a proved one."""

from __future__ import annotations

import functools

import torch

from .conventions import places
from .turning import turned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .conventions import Turn
    from .probes import Proof


def _first(proof: Proof, turn: Turn) -> int | None:
    """Where the block begins in the heads of a turn; None where this was not proved."""
    columns, size, dtype = turn.cos.shape[-1], turn.xs[0].shape[-1], turn.xs[0].dtype
    if proof.behaviour.rows in ("single", "complex"):
        columns *= 2
    if columns % 2 or columns > size or (columns < size and proof.block == "whole"):
        return None
    for x in turn.xs[1:]:
        if x.shape[-1] != size or x.dtype != dtype:
            return None
    if (dtype, turn.cos.dtype) not in proof.dtypes or turn.sin.dtype != turn.cos.dtype:
        return None
    return size - columns if proof.block == "trailing" else 0


def _results(proof: Proof, turn: Turn, first: int) -> list[torch.Tensor]:
    xs = turn.xs
    dtype = proof.dtypes[xs[0].dtype, turn.cos.dtype]
    if xs[0].dtype != dtype:  # the original promotes: 16-bit q by float32 rows is float32
        xs = tuple(x.to(dtype) for x in xs)
    if not turn.prefix:
        return list(turned(xs, turn.cos, turn.sin, proof.behaviour, turn.layout, first))
    tokens = turn.layout.index("t")
    cut = [x.split((turn.prefix, x.shape[tokens] - turn.prefix), tokens) for x in xs]
    moved = turned(tuple(x for _, x in cut), turn.cos, turn.sin, proof.behaviour, turn.layout, first)
    return [torch.cat((still, out), tokens) for (still, _), out in zip(cut, moved)]


def replacement(original: Callable[..., Any], proof: Proof, named_as: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does what original was proved to do, by rotary.

    Calls outside of what was proved (another dtype, rows that are broadcast in another way, an option that is not at
    its default) run the original.

    Args:
        named_as: whose name, docstring and signature it keeps.
    """
    convention, proved = proof.convention, places(proof.shapes)

    @functools.wraps(named_as, updated=())
    def by_rotary(*args: Any, **kwargs: Any) -> Any:
        named = convention.named(args, kwargs)
        turns = None if named is None else convention.turns(named, proved)
        if turns is None or named is None:
            return original(*args, **kwargs)
        results: list[torch.Tensor] = []
        for turn in turns:
            first = _first(proof, turn)
            if first is None:
                return original(*args, **kwargs)
            results.extend(_results(proof, turn, first))
        return convention.joined(named, results, proof.without)

    by_rotary.__dict__["__rotary_original__"] = original
    return by_rotary
