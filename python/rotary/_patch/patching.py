# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""rotary.patch: prove, compare, replace all or nothing, report."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import Module

from .. import _config, _core
from .._torch import cuda, entry
from .._torch.tables import TensorTable
from . import refuse
from .functions import Found, refuse_compiled, reached_functions, stranger, underlying
from .probes import Behaviour, Proof, Unproved, prove
from .tables import Agreement, compared, exact_forward


@dataclass(eq=False)
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
    reason: str
    _found: Found = field(repr=False)  # the original
    _new: Any = field(repr=False)  # what takes its place; the original where it is kept
    _count: int = field(default=0, repr=False)  # of patches that replace it

    def __str__(self) -> str:
        done = "replaced" if self.replaced else f"kept ({self.reason})"
        return f"{self.module}.{self.name} ({self.file}:{self.line}) {done}\n    {self.proof}"

    def _put(self) -> None:
        _replaced[self._found.where] = self
        self._count += 1
        setattr(self._found.module, self.name, self._new)

    def _undo(self) -> None:
        self._count -= 1
        if self._count > 0:
            return
        _replaced.pop(self._found.where, None)
        if getattr(self._found.module, self.name) is not self._new:
            rule = f"{self._found.where} must still be rotary's when it is undone"
            refuse("TORCH", rule, "somebody else has replaced it", "undo patches in the reverse order")
        setattr(self._found.module, self.name, self._found.value)


_replaced: dict[str, PatchedFunction] = {}  # by module and name: the patch is one for the whole process


@dataclass
class Report(contextlib.AbstractContextManager["Report"]):
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
    _undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)

    def undo(self) -> None:
        """Puts the originals back, once: a second call does nothing.

        Other patches of the same functions stay: the originals come back with the last one's undo().

        Raises:
            rotary.PatchError: TORCH, where somebody else has replaced a function since; theirs stays.
        """
        self.active = False
        self._undo.close()

    def __exit__(self, *_: object) -> None:
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


def why_kept(proof: Proof) -> str:
    """Why a proved function stays as it is; "" where it is of the usual shape, and replacement() is for it."""
    names, turns = proof.convention.names, proof.convention.turns
    if proof.bits == "float64":
        return "it rotates in float64, which is more exact than rotary's float32"
    if (
        len(turns) != 2
        or names[:4] != (turns[0][0], *turns[1])
        or proof.convention.gathers
        or proof.behaviour.rows not in ("halves", "neighbours")
        or (proof.behaviour.clockwise and proof.behaviour.pairing == "interleaved_to_half")
        or proof.block == "trailing"
        or not any(shape.rows == "bt" and "h" in shape.x for shape in proof.shapes)
    ):
        return "it is not of the usual shape, q and k by doubled rows, that rotary turns faster"
    return ""


def replacement(original: Callable[..., Any], proof: Proof, named_as: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does what original was proved to do, by rotary; itself proved, without the original.

    Calls outside of what was proved (another dtype, rows that are broadcast in another way, an option that is not at
    its default) run the original.

    Args:
        named_as: whose name, docstring and signature it keeps.
    """
    again = prove(_closure(None, proof, named_as))
    same = again.behaviour == proof.behaviour and again.block == proof.block
    if not same or not set(again.shapes) <= set(proof.shapes) or not again.dtypes.items() <= proof.dtypes.items():
        refuse("INTERNAL", f"what replaces {named_as.__module__}.{named_as.__name__} must do the same", f"does {again}")
    return _closure(original, proof, named_as)


def _closure(original: Any, proof: Proof, named_as: Callable[..., Any]) -> Callable[..., Any]:
    unsqueeze, whole = proof.convention.unsqueeze, proof.block == "whole"
    usual, words = proof.convention.defaults.get(unsqueeze), {unsqueeze}
    pairing, doubled = proof.behaviour.pairing, proof.behaviour.rows
    direction = "backward" if proof.behaviour.clockwise else "forward"
    # Rows [batch, tokens, columns] may have a batch of 1.
    layouts = {
        (len(shape.x), len(shape.rows) + 1, shape.unsqueeze): shape.x
        for shape in proof.shapes
        if shape.rows in ("bt", "t") and "h" in shape.x and not shape.prefix
    }
    dtypes = {(x, x, rows) for (x, rows), result in proof.dtypes.items() if result == x}

    @functools.wraps(named_as, updated=())
    def by_rotary(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 4 and (not kwargs or kwargs.keys() == words) and args[1] is not None:
            q, k, cos, sin = args
            layout = layouts.get((q.dim(), cos.dim(), kwargs.get(unsqueeze, usual)))
            if layout is not None and (q.dtype, k.dtype, cos.dtype) in dtypes:
                if not whole or q.shape[-1] == cos.shape[-1] == k.shape[-1]:
                    table = TensorTable(cos, sin, pairing, doubled)
                    try:
                        return entry.rotate_qk("rotate_qk", q, k, table, layout, None, None, 0, direction, "automatic")
                    except _core.Error:  # rows of other shapes
                        pass
        return original(*args, **kwargs)

    return by_rotary


def _proved(found: Found) -> PatchedFunction:
    """The proof of one function, and what shall take its place."""
    known = _replaced.get(found.where)
    if known is not None and known._new is found.value:
        return known
    other = stranger(found)
    if other is not None:
        hint = "undo that patch first, or leave out one of the two"
        refuse("TORCH", f"{found.where} must be the modeling code's own function", f"is {other}", hint)
    function = underlying(found.value)
    try:
        proof = prove(found.value, function)
    except Unproved as reason:
        refuse("TORCH", f"{found.where} must do what numbers prove", str(reason), "this model cannot be patched")
    kept = why_kept(proof)
    new = found.value if kept else replacement(found.value, proof, function)
    code = inspect.unwrap(function).__code__
    where = found.module.__name__, found.name, code.co_filename, code.co_firstlineno
    return PatchedFunction(*where, proof, not kept, kept, found, new)


def _fit(model: Any, tables: str, force: bool) -> None:
    """Refuses a model that is none, that was compiled, or for whose device rotary has no kernels."""
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise TypeError(f"model must be a model of transformers but got {type(model).__name__}")
    if tables not in ("model", "exact"):
        refuse("VALUE", 'tables must be "model" or "exact"', f"got {tables!r}")
    refuse_compiled(model)
    kernels = {"cpu", "cuda"} if cuda.BUILT else {"cpu"}
    devices = {tensor.device for tensor in (*model.parameters(), *model.buffers())}
    without = ", ".join(sorted(str(device) for device in devices if device.type not in kernels))
    if without and not force:
        hint = "torch's own operations would rotate, which gains nothing; force=True patches all the same"
        refuse("DEVICE", "the model must be on a device that rotary has kernels for", f"is on {without}", hint)


def _agreed(model: Module, functions: list[PatchedFunction], tables: str) -> list[Agreement]:
    """The model's rotary modules with the ropes of its config, and those with what the functions do."""
    try:
        ropes = _config.config(model.config)
    except _core.Error as error:
        refuse(error.code, "the config must be one that rotary.config reads", str(error))
    rotating = {function.module for function in functions if function.proof.bits != "float64"}
    agreed = compared(model, ropes, tables == "exact", rotating)
    if not agreed:
        rule = f"{type(model).__name__} must have tables that can be compared with its config"
        refuse("ROPE", rule, "has no rotary module")
    done = [(function.proof.behaviour, function.proof.convention.parts) for function in functions]
    for table in agreed:
        rope = table.rope.rope
        wanted = Behaviour(rope.pairing, rope.clockwise, table.rows)
        if (wanted, len(table.ropes) > 1) not in done:
            told = "; ".join(f"{function.name}: {function.proof.behaviour}" for function in functions)
            rule = f"the rope of {table.path} must be turned as the config says ({wanted})"
            refuse("PAIRING", rule, f"the functions do: {told}")
        if tables == "exact" and table.kind == "Buffer":
            rule = 'tables="exact" must replace a rotary module'
            refuse("TORCH", rule, f"the model keeps its rows in {table.path}", 'use tables="model"')
        if tables == "exact" and "forward" in vars(model.get_submodule(table.path)):
            rule = f'tables="exact" must find {table.path} as its class made it'
            refuse("TORCH", rule, "its forward was replaced already", "undo that patch first")
    return agreed


def _logits(model: Module, inputs: Mapping[str, Any]) -> torch.Tensor:
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        with torch.no_grad():
            out = model(**inputs)
    finally:
        for part in training:
            part.training = True
    logits = getattr(out, "logits", None)
    if logits is None:
        logits = out if isinstance(out, torch.Tensor) else out[0]  # as last_hidden_state
    return logits.detach().to(torch.float64, copy=True)


def patch(model: Any, *, tables: str, check: Mapping[str, Any] | None, force: bool) -> Report:
    """rotary.patch."""
    _fit(model, tables, force)
    functions = [_proved(found) for found in reached_functions(model)]
    agreed = _agreed(model, functions, tables)
    before = None if check is None else _logits(model, check)
    exact, replaced = tables == "exact", [function for function in functions if function.replaced]
    modules = ", ".join(dict.fromkeys(function.module for function in replaced))
    notes = [f"the patch is one for the process: it changes every model that {modules} runs"]
    if not replaced:
        notes = ["every function is proved and stays as it is"]
    if not all(function.proof.once for function in replaced):
        notes.append("16-bit q and k are rounded once, where the original rounds each product and the sum")
    report = Report(model.config.model_type, tuple(functions), tuple(agreed), exact, notes=tuple(notes))
    with contextlib.ExitStack() as undo:
        for function in replaced:
            undo.callback(function._undo)
            function._put()
        for path in dict.fromkeys(table.path for table in agreed) if exact else ():
            module = model.get_submodule(path)
            by_type = {table.layer_type: table for table in agreed if table.path == path}
            module.forward = functools.partial(exact_forward, by_type)
            undo.callback(vars(module).pop, "forward", None)
        if before is not None and check is not None:
            report.difference = float((_logits(model, check) - before).abs().max())
        report._undo = undo.pop_all()
    return report
