"""Compares the tables of a transformers model with its config's ropes, and replaces them by rotary's exact rows."""

import contextlib
import copy
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor
from torch.nn import Module

from .. import _config, _core
from .._config import ModelRope, Ropes
from .._tables import frequencies
from .._words import fail
from .rows import RowMaker


def refuse(code: str, rule: str, got: str, hint: str = "") -> NoReturn:
    fail(code, "patch", f"{rule} but {got}{': ' if hint else ''}{hint}")


# The forms in which a table keeps cos and sin of pairs 0 and 1: [c0 c1 c0 c1], [c0 c0 c1 c1], [c0 c1], and c + i s.
Rows = Literal["halves", "neighbours", "single", "complex"]
_ANGLE = 4.1e-7  # the error of a float32 angle: inv_freq and its product with the position are rounded
_ROW = 3e-7  # the error of cos and sin in float32
_ROTARY = re.compile("rotary|rope", re.IGNORECASE)
_IN_PARTS = "this model cannot be patched whole, but perhaps a part of it can, as rotary.patch(model.language_model)"
_PLACES = (0, 1, 2, 5, 17, 100, 403, 1021, 2039, 4093)


@dataclass(frozen=True)
class Agreement:
    """A table of the model, and the rope that makes the same rows.

    Attributes:
        path: the place of the rotary module in the model.
        kind: the module's class.
        layer_type: the type of the layers that use the table, "" if the module has one table.
        ropes: entries of rotary.config: one, or several whose columns follow each other, as of the axes of an image.
        makers: each makes the rows of one of the ropes.
        positions: the form of the module's position_ids: "tokens" [batch, tokens], "axes first" [axes, batch, tokens],
            "axes last" [tokens, axes], "batched axes last" [batch, tokens, axes].
        order: the axis of each coordinate.
        rows: the form of the table's rows.
        ones: the number of dimensions of size 1 that the rows have before those of position_ids.
        casts: True if the rows have the dtype of the module's first argument.
        difference: the largest difference of a cos or sin from the exact one.
    """

    path: str
    kind: str
    layer_type: str
    ropes: tuple[ModelRope, ...]
    makers: tuple[RowMaker, ...] = field(repr=False, compare=False)
    positions: str = ""
    order: tuple[int, ...] = (0,)
    rows: Rows = "single"
    ones: int = 0
    casts: bool = False
    difference: float = 0.0

    def __str__(self) -> str:
        ropes = " and ".join(rope._summary() for rope in self.ropes)
        where = _where(self.path, self.kind, self.layer_type)
        return f"{where}: {ropes}; rows {self.rows}, {self.difference:.1e} from the exact ones at most"

    def exact(self, on_axes: Tensor) -> tuple[Tensor, Tensor]:
        """rotary's cos and sin [..., columns] at positions [axes, ...]."""
        blocks = []
        for rope, maker in zip(self.ropes, self.makers):
            table = maker.table(rope._first(on_axes))
            cos, sin = table._torch_cos, table._torch_sin
            # the sin of a clockwise rope is negated in rotary's rows, not in the model's
            blocks.append((_doubled(cos, self.rows), _doubled(-sin if rope.rope.clockwise else sin, self.rows)))
        cos, sin = (torch.cat(parts, -1) for parts in zip(*blocks))
        return cos, sin

    def on_axes(self, position_ids: Tensor) -> Tensor:
        """The module's position_ids as positions [axes, ...]."""
        if self.positions.endswith("axes last"):
            return position_ids[..., list(self.order)].movedim(-1, 0)
        axes = len(self.order)  # positions [batch, tokens] are the same on every axis
        return position_ids if position_ids.dim() > 2 else position_ids.expand(axes, *position_ids.shape)


@dataclass
class Report(contextlib.AbstractContextManager["Report"]):
    """The result of rotary.patch. It can be printed, and undone by undo() or as a context manager.

    Attributes:
        model_type: the model_type of the config.
        tables: the tables of the model, each with the rope that makes the same rows.
        unread: the paths of modules whose rows are not looked up by position, as of Llama 4's images and GPT-J's
            attention. Their buffers equal those of a new module of their config; no rope was compared with them.
        exact: True if the rotary modules return rotary's exact rows.
        active: False after undo().
    """

    model_type: str
    tables: tuple[Agreement, ...]
    unread: tuple[str, ...]
    exact: bool
    active: bool = True
    _undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)

    def undo(self) -> None:
        """Restores the rotary modules' own rows; a second call does nothing."""
        self.active = False
        self._undo.close()

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = [f"rotary.patch of {self.model_type or 'a model'}{'' if self.active else ', undone'}"]
        lines += [f"  {table}" for table in self.tables]
        lines += [f"  {path}: its buffers are those of a new module" for path in self.unread]
        lines.append(f"  the rows are {'exact, by rotary' if self.exact else 'those of the model'}")
        return "\n".join(lines)


def patch(model: Any, tables: str) -> Report:
    """Does what rotary.patch describes."""
    if not isinstance(model, Module) or not hasattr(model, "config"):
        raise TypeError(f"model must be a model of transformers but got {type(model).__name__}")
    if tables not in ("model", "exact"):
        refuse("VALUE", 'tables must be "model" or "exact"', f"got {tables!r}")
    exact = tables == "exact"
    try:
        ropes = _config.config(model)
    except _core.Error as error:
        refuse(error.code, "the config must be one that rotary.config reads", str(error))
    agreed, unread = _compared(model, ropes, exact)
    if not agreed and not unread:
        rule = f"{type(model).__name__} must have tables that can be compared with its config"
        refuse("ROPE", rule, "has no rotary module")
    for path in [table.path for table in agreed] if exact else ():
        if "forward" in vars(model.get_submodule(path)):
            rule = f'tables="exact" must find {path} as its class made it'
            refuse("TORCH", rule, "its forward was replaced already", "undo that patch first")
    if exact and not agreed:
        rule = 'tables="exact" must replace a module that gives rows by position'
        refuse("TORCH", rule, f"{unread[0]} gives none", 'use tables="model"')
    report = Report(str(getattr(model.config, "model_type", "")), tuple(agreed), tuple(unread), exact)
    for path in dict.fromkeys(table.path for table in agreed) if exact else ():
        module = model.get_submodule(path)
        by_type = {table.layer_type: table for table in agreed if table.path == path}
        module.forward = functools.partial(exact_forward, by_type)
        report._undo.callback(vars(module).pop, "forward", None)
    return report


def exact_forward(known: dict[str, Agreement], x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
    """The result of a rotary module from rotary's own rows, without its buffers. known: its tables by layer_type."""
    one = known[layer_type if layer_type in known else ""]
    with torch.no_grad():
        on_axes = one.on_axes(position_ids.detach())
        cos, sin = (rows.reshape(*(1,) * one.ones, *on_axes.shape[1:], -1) for rows in one.exact(on_axes))
        if one.rows == "complex":
            return torch.complex(cos, sin).to(x.device)
        dtype = x.dtype if one.casts else cos.dtype
        return cos.to(x.device, dtype), sin.to(x.device, dtype)


# ---- the tables of a model ----


def _compared(model: Module, ropes: Ropes, exact: bool) -> tuple[list[Agreement], list[str]]:
    """The tables of the model with the ropes that make their rows, and the paths of modules without rows by position.

    If the tables are to become exact, new modules of the same config are asked, so that damaged buffers do no harm.
    """
    agreed, unread = [], []
    for path, module in model.named_modules():
        kept = dict(module.named_buffers(recurse=False))
        has_rows = "embed_positions" in kept  # in an attention, as GPT-J's
        if not has_rows and not any("freq" in name for name in kept):
            continue
        if not exact and any(one.is_meta for one in kept.values()):
            hint = 'load the weights first, or use tables="exact"'
            refuse("DEVICE", f"{path} must have memory", "is on the device meta", hint)
        own = getattr(module, "config", model.config if has_rows else None)
        asked = (_again(module, own) if exact else None) or module
        kinds = dict.fromkeys(getattr(module, "layer_types", None) or getattr(own, "layer_types", None) or ())
        for layer_type in [kind for kind in kinds if hasattr(module, f"{kind}_inv_freq")] or [""]:
            there = list(_readings(_ropes_of(ropes, model, own), own, layer_type))
            found = next(filter(None, (_agreement(path, asked, layer_type, one) for one in there)), None)
            if found is not None:
                agreed.append(found)
            elif _gives_rows(asked, layer_type):
                _refuse_table(path, module, own, layer_type, there)
            elif has_rows or _ROTARY.search(type(module).__name__):
                _check_buffers(path, module, own, kept)
                unread.append(path)
    return agreed, unread


def _ropes_of(ropes: Ropes, model: Module, own: Any) -> list[ModelRope]:
    """The ropes of the part of the model's config that is `own`; if there is no such part, those of `own` by itself."""
    found = []
    for rope in ropes if own is not None else ():
        part: Any = model.config
        for name in filter(None, rope.part.split(".")):
            part = getattr(part, name, None)
        found += [rope] if part is own else []
    with contextlib.suppress(_core.Error):
        return found or (list(_config.config(own)) if own is not None else [])
    return []


def _readings(ropes: list[ModelRope], own: Any, layer_type: str) -> Iterator[tuple[ModelRope, ...]]:
    """The candidates for the ropes of a table for layers of one type: each rope, and the blocks of a head together."""
    kinds = list(getattr(own, "layer_types", None) or ())
    used = {index for index, kind in enumerate(kinds) if kind == layer_type}
    there = [rope for rope in ropes if used & set(rope.layers)] or ropes
    yield from ((rope,) for rope in there)
    blocks = sorted((rope for rope in there if rope.layers == there[0].layers), key=lambda rope: rope.first)
    if len({rope.first for rope in blocks}) > 1:
        yield tuple(blocks)


def _agreement(path: str, module: Module, layer_type: str, ropes: tuple[ModelRope, ...]) -> Agreement | None:
    makers = tuple(RowMaker(rope.rope, "exact", "f32") for rope in ropes)
    for one, ids in _asked(Agreement(path, type(module).__name__, layer_type, ropes, makers)):
        found = _rows_of(module, ids, layer_type, torch.float32)
        if found is None:
            continue
        narrow, on_axes = _rows_of(module, ids, layer_type, torch.bfloat16), one.on_axes(ids)
        casts = narrow is not None and narrow[0].dtype == torch.bfloat16
        is_complex = found[0].is_complex()
        pair = (found[0].real, found[0].imag) if is_complex else found
        forms: tuple[Rows, ...] = ("complex",) if is_complex else ("halves", "neighbours", "single")
        for rows in forms:
            known = replace(one, rows=rows, ones=max(0, found[0].dim() - on_axes.dim()), casts=casts)
            agreed = _compare(known, on_axes, pair)
            if agreed is not None:
                return agreed
    return None


def _asked(one: Agreement) -> Iterator[tuple[Agreement, Tensor]]:
    """The agreement with each form of position_ids, and ids of that form which differ by axis."""
    axes = tuple(range(max(rope._axes for rope in one.ropes)))
    places = torch.tensor([place for place in _PLACES if place < (one.ropes[0].context or 4096)])
    on_axes = torch.stack([places.roll(axis) for axis in axes])
    if not one.ropes[0].coordinates:
        form = "tokens" if len(axes) == 1 else "axes first"
        yield replace(one, positions=form, order=axes), on_axes if len(axes) == 1 else on_axes[:, None]
        return
    for order in (axes, axes[::-1]):
        yield replace(one, positions="axes last", order=order), on_axes[list(order)].T
        yield replace(one, positions="batched axes last", order=order), on_axes[list(order)].T[None]


def _rows_of(module: Module, ids: Tensor, layer_type: str, dtype: torch.dtype) -> tuple[Tensor, ...] | None:
    """cos and sin, or complex rows, from a copy of the module on the CPU, for hidden states of that dtype."""
    words = {"layer_type": layer_type} if layer_type else {}
    with contextlib.suppress(Exception), torch.no_grad():
        module = copy.deepcopy(module).to("cpu").eval()
        out = module(torch.zeros(1, 1, 1, dtype=dtype), ids, **words)
        rows = out if isinstance(out, tuple) else (out,)
        kinds = [one.is_complex() if isinstance(one, Tensor) else None for one in rows]
        return rows if kinds in ([True], [False, False]) else None
    return None


def _gives_rows(module: Module, layer_type: str) -> bool:
    """Whether the module returns cos and sin for any form of position_ids."""
    places = torch.arange(4)
    forms = places[None], places.expand(3, 1, -1), places[:, None].expand(-1, 2)
    return any(_rows_of(module, ids, layer_type, torch.float32) is not None for ids in forms)


def _compare(one: Agreement, on_axes: Tensor, found: tuple[Tensor, ...]) -> Agreement | None:
    """The agreement with the difference of the rows that were found; None if it is above the tolerance somewhere."""
    exact = one.exact(on_axes)
    tolerance = torch.cat([_doubled(_tolerance(rope, on_axes), one.rows) for rope in one.ropes], -1)
    if any(rows.shape[-2:] != right.shape[-2:] or rows.numel() != right.numel() for rows, right in zip(found, exact)):
        return None
    apart = torch.stack([(a.double().reshape(b.shape) - b.double()).abs() for a, b in zip(found, exact)])
    agreed = replace(one, difference=float(apart.max()))
    return agreed if bool((apart <= tolerance).all()) else None


def _tolerance(rope: ModelRope, on_axes: Tensor) -> Tensor:
    """The largest error that float32 arithmetic makes in cos and sin, [..., pairs]."""
    speeds = frequencies(rope.rope, int(on_axes.max()) + 1)
    speed = torch.frombuffer(bytearray(speeds._inv_freq), dtype=torch.float64)
    angles = on_axes.double()[list(speeds.axis) or [0] * len(speed)].movedim(0, -1) * speed
    return speeds.attention_factor * (angles.abs() * _ANGLE + _ROW)


def _doubled(single: Tensor, rows: Rows) -> Tensor:
    """Rows of one column for each pair in another form; complex ones stay."""
    if rows == "halves":
        return torch.cat((single, single), -1)
    return single.repeat_interleave(2, -1) if rows == "neighbours" else single


def _again(module: Module, own: Any) -> Module | None:
    """A new module of the same class and config; None if the class takes no config."""
    with contextlib.suppress(Exception), torch.device("cpu"):
        return type(module)(own)
    return None


def _where(path: str, kind: str, layer_type: str) -> str:
    return f"{path} ({kind}){f' for layers of type {layer_type}' if layer_type else ''}"


def _check_buffers(path: str, module: Module, own: Any, kept: dict[str, Tensor]) -> None:
    """Refuses a module whose buffers are not those of a new one."""
    again, where = _again(module, own), _where(path, type(module).__name__, "")
    if again is None:
        refuse("ROPE", f"{where} must make rows by position", "cannot be compared", _IN_PARTS)
    new = dict(again.named_buffers(recurse=False))
    if new.keys() != kept.keys() or not all(torch.equal(new[name], kept[name].cpu()) for name in new):
        rule = f"the buffers of {where} must be those of a new module of its config"
        refuse("ROPE", rule, "are others", "they were cast or never filled: load the model again")


def _refuse_table(path: str, module: Module, own: Any, layer_type: str, readings: list[tuple[ModelRope, ...]]) -> None:
    where = _where(path, type(module).__name__, layer_type)
    expected = "; ".join(ropes[0]._summary() for ropes in readings if len(ropes) == 1) or "no rope for it"
    again = _again(module, own)
    if again is not None and any(_agreement(path, again, layer_type, ropes) for ropes in readings):
        rule = f"the rows of {where} must be those of its config ({expected})"
        hint = "its buffers were cast or never filled, or the config was changed since"
        hint += '; use tables="exact", or load the model again'
        refuse("ROPE", rule, "are others than a new module of it makes", hint)
    rule = f"{where} must make the rows that rotary.config reads from the config"
    refuse("ROPE", rule, f"got others than {expected}", _IN_PARTS)
