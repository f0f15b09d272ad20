"""Finds the functions of modeling code that rotate, and which of them a model can reach."""

from __future__ import annotations

import inspect
import re
import sys
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from torch.nn import Module

_NAME = re.compile(r"apply_?\w*(rotary|rope|rotate)|(rotary|rope)\w*_apply|rotate_queries", re.IGNORECASE)
_FRAMEWORKS = ("torch", "builtins", "accelerate", "peft")


def rotates_by_name(name: str) -> bool:
    return _NAME.search(name) is not None


def candidates(module: ModuleType) -> dict[str, Any]:
    """The attributes of a module whose names say that they rotate: functions, and what took their place."""
    return {
        name: value
        for name, value in vars(module).items()
        if rotates_by_name(name) and callable(value) and not isinstance(value, type)
    }


class Found(NamedTuple):
    """A rotation function that a model reaches: getattr(module, name), seen from module."""

    module: ModuleType
    name: str
    value: Any


def modeling_classes(model: Module) -> dict[ModuleType, list[type]]:
    """Every class that the model's modules inherit methods from, by the Python module that they run in."""
    found: dict[ModuleType, list[type]] = {}
    for kind in dict.fromkeys(kind for part in model.modules() for kind in type(part).__mro__):
        module = sys.modules.get(kind.__module__)
        if module is not None and kind.__module__.partition(".")[0] not in _FRAMEWORKS:
            found.setdefault(module, []).append(kind)
    return found


def _methods(kind: type) -> Iterator[FunctionType]:
    for value in vars(kind).values():
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, property):
            value = value.fget
        value = inspect.unwrap(value) if callable(value) else value
        if isinstance(value, FunctionType):
            yield value


def _names(code: CodeType) -> Iterator[str]:
    """Global names and attributes that code, and the functions inside it, mention."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def underlying(value: Any) -> Any:
    """The function itself, of one that Hugging Face's kernels made a module of."""
    if isinstance(value, FunctionType) or not hasattr(type(value), "kernel_layer_name"):
        return value
    inside = type(value).forward.__closure__ or ()
    return next((cell.cell_contents for cell in inside if isinstance(cell.cell_contents, FunctionType)), value)


def _reached(module: ModuleType, kinds: Iterable[type]) -> set[str]:
    """The names in a module that methods of these classes mention, through the module's own functions."""
    left = [method.__code__ for kind in kinds for method in _methods(kind)]
    reached: set[str] = set()
    while left:
        for name in _names(left.pop()):
            if name in reached:
                continue
            reached.add(name)
            value = vars(module).get(name)
            function = underlying(getattr(value, "__rotary_original__", value))
            if isinstance(function, FunctionType):
                left.append(inspect.unwrap(function).__code__)
    return reached


def reached_functions(model: Module) -> list[Found]:
    """The rotation functions that code of the model's classes can call."""
    found = []
    for module, kinds in modeling_classes(model).items():
        there = candidates(module)
        if there:
            reached = _reached(module, kinds)
            found += [Found(module, name, value) for name, value in there.items() if name in reached]
    return found


def rotating_methods(model: Module) -> list[str]:
    """Methods that rotate by their name: nothing takes their place."""
    classes = [kind for kinds in modeling_classes(model).values() for kind in kinds]
    return [f"{kind.__name__}.{name}" for kind in classes for name in vars(kind) if rotates_by_name(name)]


def home(found: Found) -> str | None:
    """None where the function is modeling code's own, else who put it there.

    It must be defined in the modeling module that has it, or in one of the same package that still has it by its name.
    """
    function: Callable[..., Any] = underlying(found.value)
    code = getattr(inspect.unwrap(function), "__code__", None)
    said = sys.modules.get(getattr(function, "__module__", None) or "")
    if not isinstance(function, FunctionType) or code is None or said is None:
        return f"{type(found.value).__module__}.{type(found.value).__qualname__}"
    file = getattr(said, "__file__", None)
    same_package = said.__name__.partition(".")[0] == found.module.__name__.partition(".")[0]
    if code.co_filename != file and file is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    if said is not found.module and not (same_package and vars(said).get(function.__name__) is not None):
        return f"{said.__name__}.{function.__qualname__}"
    if found.value is not function and "forward" in vars(found.value):  # kernelized
        forward = vars(found.value)["forward"]
        if getattr(forward, "__func__", None) is not type(found.value).forward:
            return f"Hugging Face's kernels ({getattr(forward, '__module__', 'unknown')})"
    return None
