# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The functions of modeling code that rotate: which of them a model can reach, what torch.compile has seen."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from torch.nn import Module

_NAME = re.compile(r"apply_?\w*(rotary|rope|rotate)|(rotary|rope)\w*_apply|rotate_queries", re.IGNORECASE)
_FRAMEWORKS = ("torch", "builtins", "accelerate", "peft")


class Found(NamedTuple):
    """A rotation function that a model reaches: getattr(module, name), seen from module."""

    module: ModuleType
    name: str
    value: Any

    @property
    def where(self) -> str:
        return f"{self.module.__name__}.{self.name}"


def candidates(module: ModuleType) -> dict[str, Any]:
    """The attributes of a module whose names say that they rotate: functions, and what took their place."""
    return {
        name: value
        for name, value in vars(module).items()
        if _NAME.search(name) and callable(value) and not isinstance(value, type)
    }


def _modeling_classes(model: Module) -> dict[ModuleType, list[type]]:
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
        for name in set(_names(left.pop())) - reached:
            reached.add(name)
            value = vars(module).get(name)
            function = underlying(getattr(value, "__rotary_original__", value))
            if isinstance(function, FunctionType):
                left.append(inspect.unwrap(function).__code__)
    return reached


def reached_functions(model: Module) -> list[Found]:
    """The rotation functions that code of the model's classes can call."""
    found = []
    for module, kinds in _modeling_classes(model).items():
        there = candidates(module)
        reached = _reached(module, kinds) if there else ()
        found += [Found(module, name, value) for name, value in there.items() if name in reached]
    return found


def rotating_methods(model: Module) -> list[str]:
    """Methods that rotate by their name: nothing takes their place."""
    classes = [kind for kinds in _modeling_classes(model).values() for kind in kinds]
    return sorted({f"{kind.__name__}.{name}" for kind in classes for name in vars(kind) if _NAME.search(name)})


def _is_in(code: CodeType, package: str) -> bool:
    """Whether code comes from a file of a top-level package."""
    roots = list(getattr(sys.modules.get(package), "__path__", ()))
    return any(code.co_filename.startswith(root + os.sep) for root in roots)


def stranger(found: Found) -> str | None:
    """None where the function is modeling code's own, else what it is.

    It and all that it wraps must be defined in files of the package of the modeling code that has it, or of
    transformers, and its own module must still have it.
    """
    value = found.value
    function = underlying(value)
    said = sys.modules.get(getattr(function, "__module__", None) or "")
    if not isinstance(function, FunctionType) or said is None:
        return f"{type(value).__module__}.{type(value).__qualname__}"
    forward = vars(value).get("forward") if function is not value else None  # a module that kernels made of it
    if forward is not None and getattr(forward, "__func__", None) is not type(value).forward:
        return f"one of Hugging Face's kernels ({getattr(forward, '__module__', 'unknown')})"
    own = {found.module.__name__.partition(".")[0], "transformers"}
    layer: Any = function
    while layer is not None:  # what it says that it wraps
        code = getattr(layer, "__code__", None)
        if code is None:
            return repr(layer)
        if code.co_filename != getattr(found.module, "__file__", None) and not any(_is_in(code, p) for p in own):
            return f"{code.co_filename}:{code.co_firstlineno}"
        layer = getattr(layer, "__wrapped__", None)
    foreign = said.__name__.partition(".")[0] not in own
    if said is not found.module and (foreign or underlying(vars(said).get(function.__name__)) is not function):
        return f"{said.__name__}.{function.__qualname__}"
    return None


def holders(model: Module, found: Found) -> list[str]:
    """Parts of a model that hold the function itself, so that replacing the name would not reach them."""
    held = {id(found.value), id(underlying(found.value))}
    return [
        f"{path or type(model).__name__}.{name}"
        for path, part in model.named_modules()
        for name, value in vars(part).items()
        if id(value) in held
    ]


def compiled_part(model: Module) -> str | None:
    """What of the model torch.compile has compiled, in words; None: nothing."""
    for path, part in model.named_modules():
        where = path or type(part).__name__
        if type(part).__name__ == "OptimizedModule" or hasattr(part, "_orig_mod"):
            return f"{where} is what torch.compile returned"
        if getattr(part, "_compiled_call_impl", None) is not None:
            return f"{where} was compiled by its method compile()"
    try:  # dynamo's own debugging function, which may leave
        from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
    except ImportError:
        return None
    for kind in [kind for kinds in _modeling_classes(model).values() for kind in kinds]:
        code = getattr(vars(kind).get("forward"), "__code__", None)
        if code is not None and len(_debug_get_cache_entry_list(code)) > 0:
            return f"{kind.__name__}.forward has been compiled in this process"
    return None
