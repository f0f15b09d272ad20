"""Checks of the words and shapes of arguments, with the sentences of _core; and rotary.Error, raised from Python.

Shapes are checked here where torch's or JAX's own operations rotate; elsewhere _core checks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NoReturn, get_args

from . import _core

Pairing = Literal["half", "interleaved", "interleaved_to_half"]
# b batch, t tokens, h heads, d head_dim.
Layout = Literal[
    "bthd", "bhtd", "tbhd", "thbd", "hbtd", "htbd", "btd", "tbd", "thd", "htd", "bhd", "hbd", "bd", "td", "hd"
]
Direction = Literal["forward", "backward"]
Stores = Literal["automatic", "cached", "streaming"]
Angles = Literal["exact", "float32"]
Rounding = Literal["f32", "f16", "bf16"]
_WORDS = {"direction": get_args(Direction), "stores": get_args(Stores), "doubled": ("halves", "neighbours")}


def fail(code: str, operation: str, sentence: str) -> NoReturn:
    """Raises rotary.Error "[operation] sentence" with the code."""
    error = _core.Error(f"[{operation}] {sentence}")
    error.code = code
    raise error


def check_pairing(operation: str, pairing: object) -> None:
    if not isinstance(pairing, str) or pairing not in ("half", "interleaved", "interleaved_to_half"):
        got = "is not given" if pairing is None else f"got {pairing!r}"
        fail("PAIRING", operation, f"pairing must be half, interleaved or interleaved_to_half but {got}")


def check_layout(operation: str, layout: object) -> None:
    if isinstance(layout, str) and 2 <= len(layout) <= 4 and layout[-1] == "d":
        others = layout[:-1]
        if all(letter in "bth" and others.count(letter) == 1 for letter in others):
            return
    got = "none: there is no default" if layout is None else f'"{layout}"'
    rule = "layout must name the dimensions, b batch, t tokens, h heads in their order and d head_dim last"
    fail("SHAPE", operation, f'{rule}, as "bthd", "bhtd", "tbhd" or "thd", but got {got}')


def check_word(operation: str, name: str, word: object) -> None:
    """Checks the word of the argument `name`: direction, stores, doubled or layout."""
    if name == "layout":
        return check_layout(operation, word)
    if not isinstance(word, str) or word not in _WORDS[name]:
        *others, last = (f'"{one}"' for one in _WORDS[name])
        fail("VALUE", operation, f'{name} must be {", ".join(others)} or {last} but got "{word}"')


# ---- shapes of heads and rows ----

Sizes = Sequence[Any]  # ints, or the symbols of torch and JAX while they trace


def size_of(layout: Layout, shape: Sizes, letter: str) -> Any:
    return shape[layout.index(letter)] if letter in layout else 1


def parts_of_heads(layout: Layout, shape: Sizes, kv_heads: int) -> list[Any]:
    """The number of heads of q or k, or the numbers of both in a packed tensor (kv_heads above 0)."""
    heads = size_of(layout, shape, "h")
    return [heads - 2 * kv_heads, kv_heads] if kv_heads > 0 else [heads]


def check_rows(operation: str, cos: Sizes, sin: Sizes) -> None:
    if len(cos) not in (2, 3, 4) or cos != sin:
        rule = "cos and sin must both be [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs]"
        fail("SHAPE", operation, f"{rule} but got {list(cos)} and {list(sin)}")


def check_heads(
    operation: str, name: str, shape: Sizes, rows: Sizes, layout: Layout, first: int, kv_heads: int = -1
) -> None:
    """Checks the shape of heads against that of their rows of cos and sin. kv_heads: 0 or more for a packed tensor."""
    refuse = partial(fail, "SHAPE", operation)
    if len(shape) != len(layout):
        refuse(f'{name} must have the {len(layout)} dimensions of layout "{layout}" but got {list(shape)}')
    batch, tokens, heads = (size_of(layout, shape, letter) for letter in "bth")
    there = rows[-2 if len(rows) < 4 else 1]
    if there != tokens:
        refuse(f"the table must have a row for each token of {name}, {tokens}, but has {there}")
    if len(rows) > 2 and rows[0] != 1 and rows[0] != batch:
        refuse(f"the table's batch must be 1 or that of {name} but got {rows[0]} and {batch}")
    width = 2 * rows[-1]
    if first < 0 or first + width > shape[-1]:
        rule = f"the {width} elements that turn must lie inside the head_dim {shape[-1]} of {name} but begin at {first}"
        refuse(f"{rule}: frameworks' rows are doubled, use rotary.from_doubled for them")
    if kv_heads >= 0 and (heads < 2 * kv_heads or "h" not in layout):
        refuse(f"{name} must have at least 2 * kv_heads heads but got {heads} and {kv_heads}")
    for part in parts_of_heads(layout, shape, kv_heads) if len(rows) == 4 else ():
        if rows[2] == 0 or part % rows[2] != 0:
            rule = f"{name} must have a multiple of the {rows[2]} heads"
            refuse(f"{rule} that the table has rows for but has {part}")


def check_scale(operation: str, q: Sizes, scale: Sizes, layout: Layout) -> None:
    """Refuses a query_scale that does not fit q. The shape of q must have been checked."""
    batch, tokens = (size_of(layout, q, letter) for letter in "bt")
    if tuple(scale) not in ((tokens,), (batch, tokens)):
        rule = "query_scale must have a factor for each token of q, [tokens] or [batch, tokens] of"
        fail("SHAPE", operation, f"{rule} {batch} x {tokens}, but got {list(scale)}")
