# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""rotary.patch: prove, compare, replace all or nothing, report."""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import dataclass

import torch

from .. import _config, _core
from . import PatchError
from .behaviours import Behaviour
from .exact import exact_forward
from .functions import Found, compiled_part, holders, home, reached_functions, rotating_methods, underlying
from .probes import Unproved, prove
from .replacing import replacement
from .report import PatchedFunction, Report
from .tables import Agreement, compared
from .turning import has_kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal

    from torch.nn import Module

    from .probes import Proof


@dataclass
class Place:
    """A function that is replaced, and by how many patches."""

    original: Any
    new: Callable[..., Any]
    proof: Proof
    count: int = 0


_places: dict[tuple[str, str], Place] = {}  # by module and name: the patch is one for the whole process


def _key(found: Found) -> tuple[str, str]:
    return found.module.__name__, found.name


def prove_found(found: Found) -> Place:
    """The proof of one function, and what shall take its place."""
    where = f"{found.module.__name__}.{found.name}"
    place = _places.get(_key(found))
    if place is not None and place.new is found.value:
        return place
    stranger = home(found)
    if stranger is not None:
        raise PatchError(
            "TORCH",
            f"[patch] {where} must be the modeling code's own function but is {stranger}: "
            "undo that patch first, or leave out one of the two",
        )
    try:
        proof = prove(found.value, underlying(found.value))
    except Unproved as reason:
        raise PatchError(
            "TORCH", f"[patch] {where} must do what numbers prove but {reason}: this model cannot be patched"
        ) from None
    new = replacement(found.value, proof, underlying(found.value))
    _check(where, proof, new)
    return Place(found.value, new, proof)


def _check(where: str, proof: Proof, new: Callable[..., Any]) -> None:
    """What takes the place of a function is proved in the same way."""
    again = prove(new)
    for name in ("behaviour", "shapes", "block", "dtypes", "without"):
        if getattr(again, name) != getattr(proof, name):
            raise PatchError("INTERNAL", f"[patch] what replaces {where} must do the same but does {again}")


def fit(model: Any, force: bool) -> None:
    """Refuses a model that is none, that was compiled, or for whose device rotary has no kernels."""
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise TypeError(f"model must be a model of transformers but got {type(model).__name__}")
    seen = compiled_part(model)
    if seen is not None:
        raise PatchError(
            "TORCH",
            f"[patch] the model must not be compiled yet but {seen}: patch before torch.compile "
            "(torch.compiler.reset() forgets what was compiled)",
        )
    devices = {tensor.device for tensor in (*model.parameters(), *model.buffers())}
    without = sorted(str(device) for device in devices if not has_kernels(device))
    if without and not force:
        raise PatchError(
            "DEVICE",
            f"[patch] the model must be on a device that rotary has kernels for but is on {', '.join(without)}: "
            "torch's own operations would rotate, which gains nothing; force=True patches all the same",
        )


def _ropes(model: Module) -> _config.Ropes:
    try:
        return _config.config(model.config)
    except _core.Error as error:
        raise PatchError(error.code, f"[patch] the config must be one that rotary.config reads but {error}") from error


def _agrees(found: list[Found], places: list[Place], tables: list[Agreement]) -> None:
    """Each rope must be turned by a function of its module's code that does what the rope says."""
    for table in tables:
        rope = table.rope.rope
        wanted = (Behaviour(rope.pairing, rope.clockwise, table.rows), len(table.ropes) > 1)
        if any((place.proof.behaviour, place.proof.convention.parts) == wanted for place in places):
            continue
        done = "; ".join(f"{f.name}: {place.proof.behaviour}" for f, place in zip(found, places))
        raise PatchError(
            "PAIRING",
            f"[patch] the rope of {table.path} must be turned as the config says ({wanted[0]}) but the functions do: {done}",
        )


def _kept(proof: Proof) -> str:
    return "it rotates in float64, which is more exact than rotary's float32" if proof.bits == "float64" else ""


def _put(found: Found, place: Place) -> Callable[[], None]:
    """Replaces one function; returns what takes that back."""
    key = _key(found)
    _places[key] = place
    place.count += 1
    if place.count == 1:
        setattr(found.module, found.name, place.new)

    def undo() -> None:
        place.count -= 1
        if place.count > 0:
            return
        _places.pop(key, None)
        if getattr(found.module, found.name) is not place.new:
            raise PatchError(
                "TORCH",
                f"[patch] {key[0]}.{key[1]} must still be rotary's when it is undone but somebody else has replaced it: "
                "undo patches in the reverse order",
            )
        setattr(found.module, found.name, place.original)

    return undo


def _put_exact(model: Module, tables: list[Agreement]) -> list[Callable[[], None]]:
    by_path: dict[str, dict[str, Agreement]] = {}
    for table in tables:
        by_path.setdefault(table.path, {})[table.layer_type] = table
    undo: list[Callable[[], None]] = []
    for path, agreements in by_path.items():
        module = model.get_submodule(path)
        module.forward = exact_forward(agreements)
        undo.append(functools.partial(vars(module).pop, "forward", None))
    return undo


def _refuse_inexact(model: Module, tables: list[Agreement]) -> None:
    for table in tables:
        if table.positions == "buffer":
            raise PatchError(
                "TORCH",
                f'[patch] tables="exact" must replace a rotary module but the model keeps its rows in {table.path}: '
                'use tables="model"',
            )
        if "forward" in vars(model.get_submodule(table.path)):
            raise PatchError(
                "TORCH",
                f'[patch] tables="exact" must find {table.path} as its class made it but its forward was replaced '
                "already: undo that patch first",
            )


def _logits(model: Module, inputs: Mapping[str, Any]) -> torch.Tensor:
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        with torch.no_grad():
            out = model(**inputs)
    finally:
        for part in training:
            part.training = True
    for name in ("logits", "last_hidden_state"):
        if getattr(out, name, None) is not None:
            return getattr(out, name).detach().clone()
    return (out[0] if isinstance(out, (tuple, list)) else out).detach().clone()


def _told(found: Found, place: Place) -> PatchedFunction:
    function = inspect.unwrap(underlying(place.original))
    code = function.__code__
    reason = _kept(place.proof)
    return PatchedFunction(
        found.module.__name__, found.name, code.co_filename, code.co_firstlineno, place.proof, not reason, reason
    )


def _notes(found: list[Found], places: list[Place]) -> tuple[str, ...]:
    modules = ", ".join(dict.fromkeys(one.module.__name__ for one in found))
    notes = [f"the patch is one for the process: it changes every model that {modules} runs"]
    if any(place.proof.bits == "fused" for place in places):
        notes.append("float32 results differ in their last bit: torch's complex product fuses, rotary never does")
    if any(not place.proof.once for place in places):
        notes.append("16-bit q and k are rounded once, where the original rounds each product and the sum")
    return tuple(notes)


def _proved(model: Module) -> tuple[list[Found], list[Place]]:
    """The functions that the model's code can call, each with its proof."""
    methods = rotating_methods(model)
    if methods:
        raise PatchError(
            "TORCH",
            f"[patch] functions of a module must rotate but the model has the methods {', '.join(sorted(set(methods)))}: "
            "it cannot be patched",
        )
    found = reached_functions(model)
    if not found:
        raise PatchError(
            "TORCH",
            f"[patch] the modeling code of {type(model).__name__} must call a function that rotates but calls none that "
            "is named as one (apply_rotary...)",
        )
    for one in found:
        held = holders(model, one)
        if held:
            raise PatchError(
                "TORCH",
                f"[patch] the model must call {one.name} by its name but {held[0]} holds the function itself: it cannot be "
                "patched",
            )
    return found, [prove_found(one) for one in found]


def compare(model: Module, found: list[Found], places: list[Place], tables: str) -> list[Agreement]:
    """The model's rotary modules with the ropes of its config, and those with what the functions do."""
    replaced = {one.module for one, place in zip(found, places) if not _kept(place.proof)}
    if not replaced:
        raise PatchError(
            "TORCH", f"[patch] a function must gain by it but of {found[0].name}: {_kept(places[0].proof)}"
        )

    def matters(module: Module) -> bool:
        return sys.modules.get(type(module).__module__) in replaced

    agreed = compared(model, _ropes(model), tables, matters)
    if not agreed:
        raise PatchError(
            "ROPE",
            f"[patch] {type(model).__name__} must have tables that can be compared with its config but has no rotary module",
        )
    _agrees(found, places, agreed)
    return agreed


def patch(
    model: Any,
    *,
    tables: Literal["model", "exact"] = "model",
    check: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Report:
    """rotary.patch."""
    if tables not in ("model", "exact"):
        raise PatchError("VALUE", f'[patch] tables must be "model" or "exact" but got {tables!r}')
    fit(model, force)
    found, places = _proved(model)
    agreed = compare(model, found, places, tables)
    if tables == "exact":
        _refuse_inexact(model, agreed)
    before = None if check is None else _logits(model, check)
    report = Report(
        model.config.model_type,
        tuple(map(_told, found, places)),
        tuple(agreed),
        tables == "exact",
        notes=_notes(found, places),
    )
    for one, place in zip(found, places):
        if not _kept(place.proof):
            report._undo.append(_put(one, place))
    if tables == "exact":
        report._undo += _put_exact(model, agreed)
    if before is not None and check is not None:
        try:
            report.difference = float((_logits(model, check).double() - before.double()).abs().max())
        except BaseException:
            report.undo()
            raise
    return report
