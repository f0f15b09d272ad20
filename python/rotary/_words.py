"""The words that calls take, checked; rotary.Error, raised from Python. Here are the sentences of _core too."""

from __future__ import annotations

from typing import Literal, NoReturn

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


def fail(code: str, operation: str, sentence: str) -> NoReturn:
    """Raises "[operation] sentence" with its code."""
    made = _core.Error(f"[{operation}] {sentence}")
    made.code = code
    raise made


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


def _check_word(operation: str, name: str, word: object, *allowed: str) -> None:
    if not isinstance(word, str) or word not in allowed:
        *others, last = (f'"{one}"' for one in allowed)
        fail("VALUE", operation, f'{name} must be {", ".join(others)} or {last} but got "{word}"')


def check_doubled(operation: str, doubled: object) -> None:
    if doubled != "":
        _check_word(operation, "doubled", doubled, "halves", "neighbours")


def check_direction(operation: str, direction: object) -> None:
    _check_word(operation, "direction", direction, "forward", "backward")


def check_stores(operation: str, stores: object) -> None:
    _check_word(operation, "stores", stores, "automatic", "cached", "streaming")
