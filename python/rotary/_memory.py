"""Memory as the arrays that callers are given: numpy's, or memoryviews where numpy is not installed."""

from __future__ import annotations

import math
from typing import Any

from ._words import error

_TYPES = {"F32": ("f", 4), "F64": ("d", 8), "I64": ("q", 8), "F16": ("e", 2)}  # the letters of numpy and of struct


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def view(memory: Any, kind: str, shape: tuple[int, ...]) -> Any:
    """A read-only array that keeps the memory."""
    letter, size = _TYPES[kind]
    seen: Any = memoryview(memory).toreadonly()
    numpy = _numpy()
    if math.prod(shape) * size != seen.nbytes:
        raise error("SHAPE", "Table", f"memory of {seen.nbytes} bytes must fill its shape but got {shape}")
    if numpy is not None:
        return numpy.frombuffer(seen, letter).reshape(shape)
    return seen.cast(letter, shape) if seen.nbytes > 0 else seen.cast(letter)


def empty(kind: str, shape: tuple[int, ...]) -> Any:
    """A new array, not yet written, for a result beside another library's array."""
    letter, size = _TYPES.get(kind, ("", 0))
    if _numpy() is not None and letter:
        return _numpy().empty(shape, letter)
    if letter not in ("f", "d"):  # memoryview has no e before Python 3.12
        raise error(
            "DTYPE",
            "rotate",
            f"a new array of {kind} must be one of numpy, torch or JAX but got another library's: rotate it in place, "
            "or pass out=",
        )
    memory: Any = memoryview(bytearray(size * math.prod(shape)))
    return memory.cast(letter, shape) if memory.nbytes > 0 else memory.cast(letter)
