"""Finds the functions of modeling code that rotate."""

from __future__ import annotations

import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_NAME = re.compile(r"apply_?\w*(rotary|rope|rotate)|(rotary|rope)\w*_apply|rotate_queries", re.IGNORECASE)


def rotates_by_name(name: str) -> bool:
    return _NAME.search(name) is not None


def candidates(module: ModuleType) -> dict[str, Any]:
    """The attributes of a module whose names say that they rotate: functions, and what took their place."""
    return {
        name: value
        for name, value in vars(module).items()
        if rotates_by_name(name) and callable(value) and not isinstance(value, type)
    }
