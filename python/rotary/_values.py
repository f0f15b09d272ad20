"""The base class of values that are made of keyword arguments, and helpers of these."""

import operator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, dataclass_transform

from ._memory import flattened
from ._words import fail


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record:
    """A frozen dataclass of keyword arguments."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, public: str = "", repr: bool = True) -> None:
        """public: the module from which users import the class, for pickles."""
        dataclass(frozen=True, kw_only=True, repr=repr, match_args=False)(cls)
        cls.__replace__ = cls.replace  # type: ignore[attr-defined]  # for copy.replace
        for name, kind in cls.__annotations__.items():
            if name in vars(cls) and not kind.startswith("ClassVar"):
                delattr(cls, name)  # a default, which help() would show once more
        cls.__module__ = public or cls.__module__

    def replace(self, **changes: Any) -> Self:
        """The same value with other fields."""
        return type(self)(**{field.name: getattr(self, field.name) for field in fields(self)} | changes)


def listed(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


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
