"""rotary.Error, raised from Python."""

from __future__ import annotations

from . import _core

PAIRINGS = ("half", "interleaved", "interleaved_to_half")


def error(code: str, operation: str, sentence: str) -> _core.Error:
    """The exception "[operation] sentence" with its code."""
    made = _core.Error(f"[{operation}] {sentence}")
    made.code = code
    return made


def check_pairing(operation: str, pairing: object) -> None:
    """Raises rotary.Error PAIRING for what is no pairing, None among it."""
    if pairing not in PAIRINGS:
        got = "is not given" if pairing is None else f"got {pairing!r}"
        raise error("PAIRING", operation, f"pairing must be half, interleaved or interleaved_to_half but {got}")
