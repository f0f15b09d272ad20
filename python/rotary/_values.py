# mypy: disable-error-code="no-any-return"
"""The base classes of frozen values, and helpers of these."""

from __future__ import annotations

import operator
from typing import Any, ClassVar, Self, dataclass_transform

from ._memory import flattened
from ._words import fail


class _Value:
    """A frozen value that compares, hashes and pickles as its fields."""

    __slots__ = ()
    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, public: str = "") -> None:
        """Makes the annotations of the class its fields. public: the module that users import it from, for pickles."""
        if public or cls.__module__.startswith("rotary._"):
            cls.__module__ = public or "rotary"
        cls._names = tuple(name for name, kind in cls.__annotations__.items() if not kind.startswith("ClassVar"))

    def _set(self, *values: object) -> None:
        for name, value in zip(self._names, values, strict=True):
            object.__setattr__(self, name, value)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._names)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: make another one, as by replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._names, self._values()))
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, self._values()  # checks the value of a pickle like a new one

    @classmethod
    def _of(cls, *values: Any) -> Self:
        return cls(**dict(zip(cls._names, values, strict=True)))


class _Signature:
    """The signature of a class of _Record for help() and inspect: its fields by name, with their defaults."""

    def __get__(self, value: object, kind: type[_Record]) -> Any:
        from inspect import Parameter, Signature

        defaults = {name: kind._defaults.get(name, Parameter.empty) for name in kind._names}
        fields = [Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind.__annotations__[name])
                  for name, default in defaults.items()]  # fmt: skip
        return Signature(fields, return_annotation="None")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Record(_Value):
    """A value whose class annotates its fields, with their defaults if they have one.

    Sequences of floats become tuples. Dataclasses would make the import of the package two thirds longer.
    """

    __signature__ = _Signature()
    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, public: str = "") -> None:
        """Keeps the defaults of the fields apart from the class."""
        super().__init_subclass__(public)
        cls._defaults = {name: vars(cls)[name] for name in cls._names if name in vars(cls)}
        for name in cls._defaults:
            delattr(cls, name)

    def __init__(self, **given: Any) -> None:
        kinds = type(self).__annotations__
        values = self._filled(given).items()
        self._set(*(tuple(map(_real, listed(x))) if kinds[name] == "Sequence[float]" else x for name, x in values))

    def _filled(self, given: dict[str, Any]) -> dict[str, Any]:
        """The values of all fields in their order, by default the class's own."""
        values, kind = self._defaults | given, type(self).__name__
        for name in self._names:
            if name not in values:
                raise TypeError(f"{kind}.__init__() missing the required keyword-only argument '{name}'")
        for name in given.keys() - {*self._names}:
            raise TypeError(f"{kind}.__init__() got an unexpected keyword argument '{name}'")
        return {name: values[name] for name in self._names}

    def replace(self, **changes: Any) -> Self:
        """The same value with other fields."""
        return type(self)(**dict(zip(self._names, self._values())) | changes)


def _real(value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"each must be a number but got {type(value).__name__}")
    return float(value)


def listed(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def loaded(text: str) -> Any:
    import json  # here, so that an import of the package does without it

    return json.loads(text)


def shaped(operation: str, given: dict[str, Any]) -> dict[str, Any]:
    """inv_freq in one dimension, head_rows and summed_axes. Given as 1 and 0, the two are read from the dimensions."""
    inv_freq, shape = flattened(operation, given["inv_freq"])
    found = head_rows, summed_axes = operator.index(given["head_rows"]), operator.index(given["summed_axes"])
    if head_rows < 1 or summed_axes < 0:
        rule = "head_rows must be at least 1, and summed_axes 0, but got"
        fail("SHAPE", operation, f"{rule} {head_rows} and {summed_axes}")
    if len(shape) > 1:
        found = shape[:2] if len(shape) == 3 else (1, shape[0]) if head_rows == 1 else (shape[0], 0)
    if head_rows not in (1, found[0]) or summed_axes not in (0, found[1]):
        rule = "inv_freq must be [pairs], [axes, pairs], [rows, axes, pairs] or, with head_rows, [rows, pairs]"
        fail("SHAPE", operation, f"{rule}, but got {list(shape)}, head_rows {head_rows} and summed_axes {summed_axes}")
    return {"inv_freq": inv_freq, "head_rows": found[0], "summed_axes": found[1]}


def phases(operation: str, given: dict[str, Any]) -> tuple[Any, int]:
    """phase in one dimension, and how often one row of frequencies must be repeated for its rows."""
    phase, shape = flattened(operation, given["phase"])
    return phase, shape[0] if given["head_rows"] == 1 and len(shape) == 2 else 1
