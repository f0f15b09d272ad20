# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""rotary.patch: prove, compare, replace all or nothing, report."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch
from torch.nn import Module

from .. import _config, _core
from . import PatchError
from .conventions import Behaviour
from .functions import Found, compiled_part, holders, reached_functions, rotating_methods, stranger, underlying
from .probes import Proof, Unproved, prove
from .replacing import has_kernels, replacement, why_kept
from .tables import Agreement, compared, exact_forward


# ---- the report ----


@dataclass(frozen=True)
class PatchedFunction:
    """A rotation function of modeling code.

    Attributes:
        module, name: where it is, as "transformers.models.llama.modeling_llama", "apply_rotary_pos_emb".
        file, line: of the original.
        proof: what it was proved to do, and by which numbers.
        replaced: rotary is in its place.
        reason: why not, where it is kept.
    """

    module: str
    name: str
    file: str
    line: int
    proof: Proof
    replaced: bool
    reason: str = ""

    def __str__(self) -> str:
        done = "replaced" if self.replaced else f"kept ({self.reason})"
        return f"{self.module}.{self.name} ({self.file}:{self.line}) {done}\n    {self.proof}"


@dataclass
class Report:
    """What rotary.patch did: print it, undo() it, or use it in a with statement, which undoes.

    Attributes:
        model_type: as the config says.
        functions: the functions that rotate, and what they were proved to do.
        tables: each rotary module of the model, and the rope that makes the same rows.
        exact: the rotary modules give rotary's exact rows.
        difference: the largest difference of logits on check, None where none was given.
        notes: what to know.
        active: False after undo().
    """

    model_type: str
    functions: tuple[PatchedFunction, ...]
    tables: tuple[Agreement, ...]
    exact: bool
    difference: float | None = None
    notes: tuple[str, ...] = ()
    active: bool = True
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def undo(self) -> None:
        """Puts the originals back, once: a second call does nothing.

        Other patches of the same functions stay: the originals come back with the last one's undo().

        Raises:
            rotary.PatchError: TORCH, where somebody else has replaced a function since; theirs stays.
        """
        self.active, refused = False, None
        while self._undo:
            try:
                self._undo.pop()()
            except PatchError as error:
                refused = error
        if refused is not None:
            raise refused

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = [f"rotary.patch of {self.model_type or 'a model'}{'' if self.active else ', undone'}"]
        lines += [f"  {function}" for function in self.functions]
        lines += [f"  tables: {table}" for table in self.tables]
        lines.append(f"  the rows are {'exact, by rotary' if self.exact else 'those of the model'}")
        if self.difference is not None:
            lines.append(f"  largest difference of logits: {self.difference:g}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


# ---- functions ----


@dataclass
class _Place:
    """A function that was proved, what replaces it (None: it is kept), and by how many patches."""

    original: Any
    proof: Proof
    new: Callable[..., Any] | None
    count: int = 0


_places: dict[str, _Place] = {}  # by module and name: the patch is one for the whole process


def _refuse(code: str, sentence: str) -> PatchError:
    return PatchError(code, f"[patch] {sentence}")


def _proved(found: Found) -> _Place:
    """The proof of one function, and what shall take its place."""
    place = _places.get(found.where)
    if place is not None and place.new is found.value:
        return place
    other = stranger(found)
    if other is not None:
        hint = "undo that patch first, or leave out one of the two"
        raise _refuse("TORCH", f"{found.where} must be the modeling code's own function but is {other}: {hint}")
    function = underlying(found.value)
    try:
        proof = prove(found.value, function)
    except Unproved as reason:
        rule = f"{found.where} must do what numbers prove but {reason}: this model cannot be patched"
        raise _refuse("TORCH", rule) from None
    if why_kept(proof):
        return _Place(found.value, proof, None)
    _check(found.where, proof, function)
    return _Place(found.value, proof, replacement(found.value, proof, function))


def _check(where: str, proof: Proof, function: Callable[..., Any]) -> None:
    """What takes the place of a function is proved in the same way, without the original."""

    def nothing(*_: Any, **__: Any) -> None:
        raise TypeError("rotary alone is proved")

    again = prove(replacement(nothing, proof, function))
    same = again.behaviour == proof.behaviour and again.block == proof.block
    if not same or not set(again.shapes) <= set(proof.shapes) or not again.dtypes.items() <= proof.dtypes.items():
        raise _refuse("INTERNAL", f"what replaces {where} must do the same but does {again}")


def _all_proved(model: Module) -> dict[Found, _Place]:
    """The functions that the model's code can call, each with its proof."""
    methods = rotating_methods(model)
    if methods:
        names = ", ".join(methods)
        raise _refuse("TORCH", f"functions must rotate but the model has the methods {names}: it cannot be patched")
    found = reached_functions(model)
    if not found:
        rule = f"the modeling code of {type(model).__name__} must call a function that rotates"
        raise _refuse("TORCH", f"{rule} but calls none that is named as one (apply_rotary...)")
    for one in found:
        held = holders(model, one)
        if held:
            rule = f"the model must call {one.name} by its name but {held[0]} holds the function itself"
            raise _refuse("TORCH", f"{rule}: it cannot be patched")
    return {one: _proved(one) for one in found}


def _put(found: Found, place: _Place) -> Callable[[], None]:
    """Replaces one function; returns what takes that back."""
    _places[found.where] = place
    place.count += 1
    setattr(found.module, found.name, place.new)

    def undo() -> None:
        place.count -= 1
        if place.count > 0:
            return
        _places.pop(found.where, None)
        if getattr(found.module, found.name) is not place.new:
            rule = f"{found.where} must still be rotary's when it is undone but somebody else has replaced it"
            raise _refuse("TORCH", f"{rule}: undo patches in the reverse order")
        setattr(found.module, found.name, place.original)

    return undo


# ---- the model ----


def _fit(model: Any, force: bool) -> None:
    """Refuses a model that is none, that was compiled, or for whose device rotary has no kernels."""
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise TypeError(f"model must be a model of transformers but got {type(model).__name__}")
    seen = compiled_part(model)
    if seen is not None:
        hint = "patch before torch.compile (torch.compiler.reset() forgets what was compiled)"
        raise _refuse("TORCH", f"the model must not be compiled yet but {seen}: {hint}")
    devices = {tensor.device for tensor in (*model.parameters(), *model.buffers())}
    without = sorted(str(device) for device in devices if not has_kernels(device))
    if without and not force:
        rule = f"the model must be on a device that rotary has kernels for but is on {', '.join(without)}"
        hint = "torch's own operations would rotate, which gains nothing; force=True patches all the same"
        raise _refuse("DEVICE", f"{rule}: {hint}")


def _agreed(model: Module, places: dict[Found, _Place], tables: str) -> list[Agreement]:
    """The model's rotary modules with the ropes of its config, and those with what the functions do."""
    try:
        ropes = _config.config(model.config)
    except _core.Error as error:
        raise _refuse(error.code, f"the config must be one that rotary.config reads but {error}") from error
    within = {found.module for found, place in places.items() if place.proof.bits != "float64"}
    agreed = compared(model, ropes, tables, lambda part: sys.modules.get(type(part).__module__) in within)
    if not agreed:
        rule = f"{type(model).__name__} must have tables that can be compared with its config"
        raise _refuse("ROPE", f"{rule} but has no rotary module")
    done = [(place.proof.behaviour, place.proof.convention.parts) for place in places.values()]
    for table in agreed:
        rope = table.rope.rope
        wanted = Behaviour(rope.pairing, rope.clockwise, table.rows)
        if (wanted, len(table.ropes) > 1) not in done:
            told = "; ".join(f"{found.name}: {place.proof.behaviour}" for found, place in places.items())
            rule = f"the rope of {table.path} must be turned as the config says ({wanted})"
            raise _refuse("PAIRING", f"{rule} but the functions do: {told}")
    return agreed


def _put_exact(model: Module, tables: list[Agreement]) -> list[Callable[[], None]]:
    undo: list[Callable[[], None]] = []
    for path in dict.fromkeys(table.path for table in tables):
        module = model.get_submodule(path)
        module.forward = exact_forward({table.layer_type: table for table in tables if table.path == path})
        undo.append(functools.partial(vars(module).pop, "forward", None))
    return undo


def _refuse_inexact(model: Module, tables: list[Agreement]) -> None:
    for table in tables:
        if table.positions == "buffer":
            rule = f"must replace a rotary module but the model keeps its rows in {table.path}"
            raise _refuse("TORCH", f'tables="exact" {rule}: use tables="model"')
        if "forward" in vars(model.get_submodule(table.path)):
            rule = f"must find {table.path} as its class made it but its forward was replaced already"
            raise _refuse("TORCH", f'tables="exact" {rule}: undo that patch first')


def _logits(model: Module, inputs: Mapping[str, Any]) -> torch.Tensor:
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        with torch.no_grad():
            out = model(**inputs)
    finally:
        for part in training:
            part.training = True
    named = (getattr(out, name, None) for name in ("logits", "last_hidden_state"))
    first = out[0] if isinstance(out, (tuple, list)) else out
    return next((one for one in named if one is not None), first).detach().clone()


def _told(found: Found, place: _Place) -> PatchedFunction:
    code = inspect.unwrap(underlying(place.original)).__code__
    where = found.module.__name__, found.name, code.co_filename, code.co_firstlineno
    return PatchedFunction(*where, place.proof, place.new is not None, why_kept(place.proof))


def _notes(places: dict[Found, _Place]) -> tuple[str, ...]:
    replaced = {found: place.proof for found, place in places.items() if place.new is not None}
    if not replaced:
        return ("every function is proved and stays as it is",)
    modules = ", ".join(dict.fromkeys(found.module.__name__ for found in replaced))
    notes = [f"the patch is one for the process: it changes every model that {modules} runs"]
    if not all(proof.once for proof in replaced.values()):
        notes.append("16-bit q and k are rounded once, where the original rounds each product and the sum")
    return tuple(notes)


def patch(model: Any, *, tables: str, check: Mapping[str, Any] | None, force: bool) -> Report:
    """rotary.patch."""
    if tables not in ("model", "exact"):
        raise _refuse("VALUE", f'tables must be "model" or "exact" but got {tables!r}')
    _fit(model, force)
    places = _all_proved(model)
    agreed = _agreed(model, places, tables)
    exact = tables == "exact"
    if exact:
        _refuse_inexact(model, agreed)
    before = None if check is None else _logits(model, check)
    functions = tuple(_told(found, place) for found, place in places.items())
    report = Report(model.config.model_type, functions, tuple(agreed), exact, notes=_notes(places))
    report._undo = [_put(found, place) for found, place in places.items() if place.new is not None]
    report._undo += _put_exact(model, agreed) if exact else []
    if before is not None and check is not None:
        try:
            report.difference = float((_logits(model, check).double() - before.double()).abs().max())
        except BaseException:
            report.undo()
            raise
    return report
