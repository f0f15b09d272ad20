"""rotate and its family, for arrays of every kind.

The C++ part takes all arrays but tensors of torch whose memory alone is not enough: it returns None for them, and
rotary._torch.entry takes them. Both take their arguments by position; an array that is also the output is rotated in
place.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Literal, TypeVar

from . import _core
from ._tables import Table, refuse_xpos
from ._types import AnyArray, AnyTable
from ._words import Direction, Layout, Pairing, check_pairing, check_word, fail

_modules = sys.modules  # this package does not import torch; if a tensor exists, torch is among them


_A = TypeVar("_A", bound=AnyArray)
_Q = TypeVar("_Q", bound=AnyArray)
_K = TypeVar("_K", bound=AnyArray)


def rotate(
    x: _A, table: AnyTable, *, layout: Layout, out: _A | None = None,
    first: int = 0, direction: Direction = "forward",
) -> _A:  # fmt: skip
    """Rotate heads by a table: (a, b) -> (a cos - b sin, b cos + a sin).

    The first table.rotary_dim elements of each head rotate, in float32 without fused multiply-add; the others keep
    their bits. float16 and bfloat16 are rounded once, to nearest even. Autograd, torch.func and torch.compile work,
    also for the cos and sin of a table that rotary.from_rows or rotary.from_doubled made of tensors.

    Args:
        x: float32, float16 or bfloat16 (torch: float64 too) of numpy, torch, JAX (traced: rotary.jax), DLPack or a
            buffer. The elements of a head lie side by side; other strides are free.
        table: a rotary.Table, or a result of from_rows() or from_doubled(), for the same tokens.
        layout: the order of the dimensions, b batch, t tokens, h heads, d head_dim last: "bthd", "thd", "td", ...
        out: receives the result, without a gradient. None: a new array of the same kind.
        first: the element of each head where the rotated block begins (ropes[0].first of rotary.config).
        direction: "forward", or "backward" for the gradient, the transposed map.

    Raises:
        rotary.Error: SHAPE, DTYPE, ALIAS, DEVICE, VALUE, TORCH (a gradient cannot be recorded into out or in place).
    """
    given = "rotate", x, table, layout, out, first, direction
    done = None if _is_traced() else _core.rotate(*given)
    return _torch().rotate(*given) if done is None else done


def rotate_(x: _A, table: AnyTable, *, layout: Layout, first: int = 0, direction: Direction = "forward") -> _A:
    """Rotate x in place, and return it. x must be writable; arguments and errors are those of rotate()."""
    given = "rotate_", x, table, layout, x, first, direction
    done = None if _is_traced() else _core.rotate(*given)
    return _torch().rotate(*given) if done is None else done


def rotate_qk(
    q: _Q, k: _K, table: AnyTable, *, layout: Layout, out: tuple[_Q, _K] | None = None, first: int = 0,
    direction: Direction = "forward", query_scale: AnyArray | None = None,
) -> tuple[_Q, _K]:  # fmt: skip
    """Rotate queries and keys in one call.

    q and k may differ in heads, head_dim, strides and element type. A table with xPos is refused, since keys need the
    inverse amplitude: rotate q and k by one table each.

    Args:
        q, k: as x of rotate(): [batch, heads, tokens, head_dim] with layout="bhtd".
        out: (q_out, k_out), which receive the results. None: new arrays of the same kind.
        query_scale: floats [tokens] or [batch, tokens], the factors of q's tokens (rotary.tools.query_scale has a
            model's). Each multiplies all elements of its token's heads of q, also backward. k is only rotated.
        table, layout, first, direction: see rotate(), also for errors.
    """
    q_out, k_out = out if isinstance(out, tuple) and len(out) == 2 else (None, None)
    if out is not None and (q_out is None or k_out is None):
        raise TypeError(f"[rotate_qk] out must be a tuple of two arrays, (q_out, k_out), but got {type(out).__name__}")
    refuse_xpos("rotate_qk", table)
    given = "rotate_qk", q, k, table, layout, q_out, k_out, first, direction, query_scale
    done = None if _is_traced() else _core.rotate_qk(*given)
    return _torch().rotate_qk(*given) if done is None else done


def rotate_qk_(
    q: _Q, k: _K, table: AnyTable, *, layout: Layout,
    first: int = 0, direction: Direction = "forward", query_scale: AnyArray | None = None,
) -> tuple[_Q, _K]:  # fmt: skip
    """Rotate queries and keys in place, in one call, and return them. q and k must be writable; see rotate_qk()."""
    refuse_xpos("rotate_qk_", table)
    given = "rotate_qk_", q, k, table, layout, q, k, first, direction, query_scale
    done = None if _is_traced() else _core.rotate_qk(*given)
    return _torch().rotate_qk(*given) if done is None else done


def _is_traced() -> bool:
    """Whether torch.compile reads these functions, in which it cannot follow a call of _core."""
    torch = _modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def _torch() -> Any:
    import rotary._torch.entry as entry

    return entry


# ---- tables of rows that exist already ----


def from_rows(cos: Any, sin: Any, *, pairing: Pairing, repeated: bool = False) -> AnyTable:
    """Make a table of rows with one column for each pair, as in flash-attn and vLLM.

    Args:
        cos, sin: floats [tokens, pairs] or [batch, tokens, pairs]. The table of torch's tensors is a
            rotary.torch.TensorTable, which holds them: a gradient reaches them, on any device. That of other arrays is
            a rotary.Table with a copy; float64 is rounded to float32.
        pairing: see rotary.Rope.
        repeated: accepts rows whose columns are equal in pairs, which are refused as doubled where they can be read.

    Raises:
        rotary.Error: SHAPE, DTYPE, PAIRING.
    """
    pairing = check_pairing("from_rows", pairing)
    make, seen = _seen("from_rows", cos, sin, "")
    if seen is not None and not repeated:
        refuse_doubled("from_rows", *seen)
    return make(cos, sin, pairing, "")


def refuse_doubled(operation: str, cos: Any, sin: Any) -> None:
    """Refuses rows whose columns are equal in pairs."""
    seen, columns = _core._doubling(operation, cos, sin)
    if seen in ("halves", "neighbours", "both"):
        rule = f"cos and sin must have one column for each pair but got {columns} columns of which each two are equal"
        hint = "use rotary.from_doubled (or pass repeated=True where the pairs do turn alike)"
        fail("SHAPE", operation, f"{rule}: frameworks' rows are doubled, {hint}")


def from_doubled(
    cos: Any, sin: Any, *, pairing: Pairing, doubled: Literal["halves", "neighbours"] | None = None
) -> AnyTable:
    """Make a table of doubled rows, in which each column stands twice, as in Hugging Face's models.

    Args:
        cos, sin: floats [tokens, 2 * pairs] or [batch, tokens, 2 * pairs], doubled in two halves or, if the pairing is
            not "half", also side by side. The first of two columns is read, and gets the gradient. See from_rows().
        pairing: see rotary.Rope.
        doubled: "halves" or "neighbours". None: found from the numbers. Tensors that cannot be read (on another device,
            or inside torch.compile) need it if the pairing is not "half".

    Raises:
        rotary.Error: SHAPE (the rows are not doubled), DTYPE, PAIRING, VALUE.
    """
    pairing = check_pairing("from_doubled", pairing)
    if doubled is not None:
        check_word("from_doubled", "doubled", doubled or "nothing")
    make, seen = _seen("from_doubled", cos, sin, "halves")
    if seen is not None:
        doubled = _seen_doubling(*seen, pairing, doubled)
    elif doubled is None and pairing != "half":
        _refuse_unclear("that cannot be read here (compiled, or on another device)")
    return make(cos, sin, pairing, doubled or "halves")


def _refuse_unclear(rows: str) -> None:
    hint = 'pass doubled="halves" or doubled="neighbours"'
    fail("SHAPE", "from_doubled", f"cos and sin must show how they are doubled but got rows {rows}: {hint}")


def _seen_doubling(cos: Any, sin: Any, pairing: str, wanted: str | None) -> Any:
    """How the rows are doubled, which must be as wanted; if nothing is wanted, as the pairing allows."""
    seen, columns = _core._doubling("from_doubled", cos, sin)
    allowed = [wanted] if wanted else ["halves"] if pairing == "half" else ["halves", "neighbours"]
    found = [one for one in allowed if seen in (one, "both", "even")]
    if not found:
        how = " or ".join({"halves": "in two halves", "neighbours": "side by side"}[one or ""] for one in allowed)
        rule = f"cos and sin must hold each column twice, {how}, but got {columns} columns that do not"
        fail("SHAPE", "from_doubled", f"{rule}: rows of one column for each pair are for rotary.from_rows")
    if seen == "both" and len(found) == 2:
        _refuse_unclear("that repeat in halves and side by side")
    return found[0]


def _seen(operation: str, cos: Any, sin: Any, doubled: str) -> tuple[Any, tuple[Any, Any] | None]:
    """The function that makes a table of such rows, after a check of the shapes of tensors; and the rows if they can be
    read.
    """
    torch = _modules.get("torch")
    if torch is None or not isinstance(cos, torch.Tensor):
        return partial(Table._of_rows, operation), (cos, sin)
    import rotary._torch.tables as tables
    from rotary._torch.plain import can_be_read

    tables.check_tensors(operation, cos, sin, doubled)
    return tables.TensorTable, (cos.detach(), sin.detach()) if can_be_read(cos, sin) else None
