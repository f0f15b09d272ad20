# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The functions of modeling code that rotate: which of them a model can reach, what torch.compile has seen."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from torch.nn import Module

from . import refuse

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


def _methods(kind: type) -> Iterator[CodeType]:
    """The code of what a class itself defines: methods of all kinds and what properties read."""
    for value in vars(kind).values():
        function = inspect.unwrap(getattr(value, "fget", value))
        if isinstance(function, FunctionType):
            yield function.__code__


def underlying(value: Any) -> Any:
    """The function itself, of one that Hugging Face's kernels made a module of."""
    if isinstance(value, FunctionType) or not hasattr(type(value), "kernel_layer_name"):
        return value
    inside = type(value).forward.__closure__ or ()
    return next((cell.cell_contents for cell in inside if isinstance(cell.cell_contents, FunctionType)), value)


def _reached(module: ModuleType, kinds: list[type]) -> set[str]:
    """The names in a module that methods of these classes mention, through the module's own functions."""
    left = [code for kind in kinds for code in _methods(kind)]
    reached: set[str] = set()
    while left:
        code = left.pop()
        left += [inside for inside in code.co_consts if isinstance(inside, CodeType)]
        for name in set(code.co_names) - reached:
            reached.add(name)
            function = underlying(vars(module).get(name))
            if isinstance(function, FunctionType):
                left.append(inspect.unwrap(function).__code__)  # of rotary's own: that of the original
    return reached


def reached_functions(model: Module) -> list[Found]:
    """The rotation functions that code of the model's classes can call, each by its name; refuses what else rotates."""
    found, classes = [], _modeling_classes(model)
    methods = {f"{kind.__name__}.{name}" for kinds in classes.values() for kind in kinds for name in vars(kind)}
    rotating = ", ".join(sorted(name for name in methods if _NAME.search(name.partition(".")[2])))
    if rotating:
        refuse("TORCH", "functions must rotate", f"the model has the methods {rotating}", "it cannot be patched")
    for module, kinds in classes.items():
        there = candidates(module)
        reached = _reached(module, kinds) if there else ()
        found += [Found(module, name, value) for name, value in there.items() if name in reached]
    if not found:
        rule = f"the modeling code of {type(model).__name__} must call a function that rotates"
        refuse("TORCH", rule, "calls none that is named as one (apply_rotary...)")
    for path, part in model.named_modules():
        for held in vars(part).items():
            for one in found:
                if held[1] is one.value or held[1] is underlying(one.value):
                    got = f"{path or type(model).__name__}.{held[0]} holds the function itself"
                    refuse("TORCH", f"the model must call {one.name} by its name", got, "it cannot be patched")
    return found


def stranger(found: Found) -> str | None:
    """None where the function is modeling code's own, else what it is.

    It and all that it wraps must be defined in files of the package of the modeling code that has it, or of
    transformers.
    """
    value, function = found.value, underlying(found.value)
    if not isinstance(function, FunctionType):
        return f"{type(value).__module__}.{type(value).__qualname__}"
    forward = vars(value).get("forward") if function is not value else None  # a module that kernels made of it
    if forward is not None and getattr(forward, "__func__", None) is not type(value).forward:
        return f"one of Hugging Face's kernels ({getattr(forward, '__module__', 'unknown')})"
    packages = (sys.modules.get(name) for name in (found.module.__name__.partition(".")[0], "transformers"))
    roots = tuple(root + os.sep for package in packages for root in getattr(package, "__path__", ()))
    layer: Any = function
    while layer is not None:  # what it says that it wraps
        code = getattr(layer, "__code__", None)
        if code is None:
            return repr(layer)
        if code.co_filename != getattr(found.module, "__file__", None) and not code.co_filename.startswith(roots):
            return f"{code.co_filename}:{code.co_firstlineno}"
        layer = getattr(layer, "__wrapped__", None)
    return None


def refuse_compiled(model: Module) -> None:
    """Refuses a model of which torch.compile has compiled anything."""
    seen = [path or "it" for path, part in model.named_modules() if hasattr(part, "_orig_mod")]
    seen += [path or "it" for path, part in model.named_modules() if getattr(part, "_compiled_call_impl", None)]
    with contextlib.suppress(ImportError):  # dynamo's own debugging function, which may leave
        from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

        for kind in (kind for kinds in _modeling_classes(model).values() for kind in kinds):
            forward: Any = vars(kind).get("forward")
            code = getattr(forward, "__code__", None)
            if code is not None and _debug_get_cache_entry_list(code):
                wrapped = code is not inspect.unwrap(forward).__code__  # by a decorator's code, of all that it wraps
                seen.append(f"what wraps {kind.__name__}.forward, or another's," if wrapped else f"{kind.__name__}.forward")
    if seen:
        hint = "patch before torch.compile (torch.compiler.reset() forgets what was compiled)"
        refuse("TORCH", "the model must not be compiled yet", f"{seen[0]} was", hint)
