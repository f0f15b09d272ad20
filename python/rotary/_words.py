"""Checks of the words and shapes of arguments, with the sentences of _core; and rotary.Error, raised from Python.

Shapes are checked here where torch's or JAX's own operations rotate; elsewhere _core checks them.
"""

from collections.abc import Sequence
from typing import Any, Literal, NoReturn, get_args

from . import _core

Pairing = Literal["half", "interleaved", "interleaved_to_half", "neox", "rotate_half", "gptj", "norm"]
# b batch, t or s tokens, h heads, d head_dim.
Layout = Literal[
    "bthd", "bhtd", "tbhd", "thbd", "hbtd", "htbd", "btd", "tbd", "thd", "htd", "bhd", "hbd", "bd", "td", "hd",
    "bshd", "bhsd", "sbhd", "shd", "hsd"
]  # fmt: skip
Direction = Literal["forward", "backward"]
Angles = Literal["exact", "float32"]
Rounding = Literal["f32", "f16", "bf16"]
_PAIRINGS = {"neox": "half", "rotate_half": "half", "gptj": "interleaved", "norm": "interleaved"}
_WORDS = {"doubled": ("halves", "neighbours"), "angles": get_args(Angles), "rounding": get_args(Rounding)}


def fail(code: str, operation: str, sentence: str) -> NoReturn:
    """Raises rotary.Error "[operation] sentence" with the code."""
    error = _core.Error(f"[{operation}] {sentence}")
    error.code = code
    raise error


def check_pairing(operation: str, pairing: Any) -> Any:
    """The pairing in our word for it: vLLM, llama.cpp and transformers have others."""
    if pairing == "half" or pairing == "interleaved" or pairing == "interleaved_to_half":
        return pairing
    if isinstance(pairing, str) and pairing in _PAIRINGS:
        return _PAIRINGS[pairing]
    got = "is not given" if pairing is None else f"got {pairing!r}"
    rule = "half (neox, rotate_half), interleaved (gptj, norm) or interleaved_to_half"
    fail("PAIRING", operation, f"pairing must be {rule} but {got}")


def check_layout(operation: str, layout: Any) -> Any:
    """The layout with t for tokens, which other libraries call s."""
    if isinstance(layout, str):
        word = layout.replace("s", "t")
        letters = word[:-1]
        # Counts, since torch 2.4 does not trace a set.
        is_once = letters.count("b") < 2 and letters.count("t") < 2 and letters.count("h") < 2
        if letters and is_once and word[-1] == "d" and not letters.strip("bth"):
            return word
    got = "none: there is no default" if layout is None else f'"{layout}"'
    rule = "layout must name the dimensions, b batch, t or s tokens, h heads in their order and d head_dim last"
    fail("SHAPE", operation, f'{rule}, as "bthd", "bhtd", "tbhd" or "thd", but got {got}')


def check_word(operation: str, name: str, word: object) -> None:
    """Checks the word of the argument `name`: direction, doubled, angles, rounding or layout."""
    if name == "layout":
        check_layout(operation, word)
    elif name == "direction":
        if word != "forward" and word != "backward":
            fail("VALUE", operation, f'direction must be "forward" or "backward" but got "{word}"')
    elif not isinstance(word, str) or word not in _WORDS[name]:
        *others, last = (f'"{one}"' for one in _WORDS[name])
        fail("VALUE", operation, f'{name} must be {", ".join(others)} or {last} but got "{word}"')


# ---- shapes of heads and rows ----

Sizes = Sequence[Any]  # ints, or the symbols of torch and JAX while they trace


def size_of(layout: Layout, shape: Sizes, letter: str) -> Any:
    return shape[layout.index(letter)] if letter in layout else 1


def check_rows(operation: str, cos: Sizes, sin: Sizes) -> None:
    if len(cos) not in (2, 3, 4) or cos != sin:
        rule = "cos and sin must both be [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs]"
        fail("SHAPE", operation, f"{rule} but got {list(cos)} and {list(sin)}")


def check_heads(operation: str, name: str, shape: Sizes, rows: Sizes, layout: Layout, first: int) -> None:
    """Checks the shape of heads against that of their rows of cos and sin."""
    if len(shape) != len(layout):
        rule = f'{name} must have the {len(layout)} dimensions of layout "{layout}"'
        fail("SHAPE", operation, f"{rule} but got {list(shape)}: only a batch in front may have several")
    batch, tokens, heads = size_of(layout, shape, "b"), size_of(layout, shape, "t"), size_of(layout, shape, "h")
    there = rows[-2 if len(rows) < 4 else 1]
    if there != tokens:
        fail("SHAPE", operation, f"the table must have a row for each token of {name}, {tokens}, but has {there}")
    if len(rows) > 2 and rows[0] != 1 and rows[0] != batch:
        fail("SHAPE", operation, f"the table's batch must be 1 or that of {name} but got {rows[0]} and {batch}")
    width = 2 * rows[-1]
    if first < 0 or first + width > shape[-1]:
        rule = f"the {width} elements that turn must lie inside the head_dim {shape[-1]} of {name} but begin at {first}"
        fail("SHAPE", operation, f"{rule}: frameworks' rows are doubled, use rotary.from_doubled for them")
    if len(rows) == 4 and (rows[2] == 0 or heads % rows[2] != 0):
        rule = f"{name} must have a multiple of the {rows[2]} heads"
        fail("SHAPE", operation, f"{rule} that the table has rows for but has {heads}")


def check_scale(operation: str, q: Sizes, scale: Sizes, layout: Layout) -> None:
    """Refuses a query_scale that does not fit q. The shape of q must have been checked."""
    batch, tokens = (size_of(layout, q, letter) for letter in "bt")
    if tuple(scale) not in ((tokens,), (batch, tokens)):
        rule = "query_scale must have a factor for each token of q, [tokens] or [batch, tokens] of"
        fail("SHAPE", operation, f"{rule} {batch} x {tokens}, but got {list(scale)}")
