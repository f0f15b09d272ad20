"""Memory as arrays of numpy for the caller, and the caller's positions as memory."""

import math
import operator
from typing import Any, NoReturn

from ._words import fail

_TYPES = {"F32": ("f", 4), "F64": ("d", 8), "I64": ("q", 8), "F16": ("e", 2)}  # numpy's letters, and bytes


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        rule = "a new array must be one of numpy, which is not installed"
        fail("DTYPE", "array", f"{rule}: install numpy, or give tensors of torch")
    return numpy


def view(memory: Any, kind: str, shape: tuple[int, ...]) -> Any:
    """A read-only array over the memory, which it keeps alive."""
    letter, size = _TYPES[kind]
    seen = memoryview(memory).toreadonly()
    if math.prod(shape) * size != seen.nbytes:
        fail("SHAPE", "Table", f"memory of {seen.nbytes} bytes must fill its shape but got {shape}")
    return _numpy().frombuffer(seen, letter).reshape(shape)


def kind_of(kind: Any) -> int:
    """The library that makes arrays of this type: a Kind of src/arrays.h."""
    if hasattr(kind, "__array_struct__"):
        return 0
    if hasattr(kind, "__torch_function__"):
        return 1
    if str(kind.__module__).partition(".")[0] in ("jax", "jaxlib"):
        return 3 if any(base.__name__ == "Tracer" for base in kind.__mro__) else 2
    return 4


def empty(kind: str, shape: tuple[int, ...], like: Any) -> Any:
    """A new uninitialised array for a result, with the dtype of JAX's array `like`, without one of the type `kind`."""
    if like is None and kind not in _TYPES:
        rule = f"a new array of {kind} must be one of numpy, torch or JAX but got another library's"
        fail("DTYPE", "rotate", f"{rule}: rotate it in place, or pass out=")
    return _numpy().empty(shape, _TYPES[kind][0] if like is None else like.dtype)


def positions(given: Any) -> Any:
    """Positions in the form that _core reads: an array as it is; an int, a range or lists as (values, shape)."""
    if type(given) is int:
        _check_range(given)
        return (given, 0), ()
    if type(given) is range:
        _check_range(*given[:1], *given[-1:])
        return (given[0] if given else 0, given.step if len(given) > 1 else 0), (len(given),)
    if isinstance(given, (list, tuple)):
        flat, places = flattened("positions", given)
        return _numbers(flat), places
    if isinstance(given, (int, float)):
        return _numbers([given]), ()
    if given is None or isinstance(given, str):
        _refuse(given)
    return given if getattr(given, "is_cpu", True) else given.cpu()


def _refuse(given: object) -> NoReturn:
    rule = "positions must be an int, a range, a list of numbers, or an array of integers or floats"
    raise TypeError(f"[positions] {rule} but got {type(given).__name__}")


def _check_range(*integers: int) -> None:
    for position in integers:
        if not -(2**63) <= position < 2**63:
            fail("POSITION", "positions", f"a position must fit 64 bits but got {position}")


def flattened(what: str, given: Any) -> tuple[Any, tuple[int, ...]]:
    """The numbers of nested lists or of an array of several dimensions, in row-major order, and their shape.

    Other values are returned unchanged, with the shape ().
    """
    if len(getattr(given, "shape", ())) > 1:
        given = given.tolist()
    if not isinstance(given, (list, tuple)):
        return given, ()
    flat, shape = [*given], [len(given)]
    while flat and (lists := {issubclass(kind, (list, tuple)) for kind in {*map(type, flat)}}) != {False}:
        if len(lists) > 1:
            fail("SHAPE", what, "a list must hold numbers or lists, not both")
        sizes = {*map(len, flat)}
        if len(sizes) > 1:
            fail("SHAPE", what, f"rows must have one length but got {' and '.join(map(str, sorted(sizes)))}")
        shape.append(sizes.pop())
        if len(shape) > 3:
            fail("SHAPE", what, "lists must be nested at most three deep")
        flat = [item for row in flat for item in row]
    return flat, tuple(shape)


def _number(given: Any) -> int | float:
    if isinstance(given, float):
        return float(given)
    try:
        if not isinstance(given, bool):
            return operator.index(given)
    except TypeError:
        pass
    _refuse(given)


def _numbers(flat: list[Any]) -> Any:
    """An array of int64; of float64 where there are floats, beside which every integer must fit a double."""
    from array import array

    if not {*map(type, flat)} <= {int, float}:
        flat = [_number(one) for one in flat]
    if float not in {*map(type, flat)}:
        try:
            return array("q", flat)
        except OverflowError:
            _check_range(min(flat), max(flat))
    largest = max((one for one in flat if type(one) is int), key=abs, default=0)
    if abs(largest) > 2**53:
        rule = "integers beside floats must be at most 2^53"
        fail("POSITION", "positions", f"{rule} but got {largest}, which no double holds for sure")
    return array("d", flat)
