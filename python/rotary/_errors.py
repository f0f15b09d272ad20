"""rotary.Error, raised from Python."""

from __future__ import annotations

from . import _core


def error(code: str, operation: str, sentence: str) -> _core.Error:
    """The exception "[operation] sentence" with its code."""
    made = _core.Error(f"[{operation}] {sentence}")
    made.code = code
    return made
