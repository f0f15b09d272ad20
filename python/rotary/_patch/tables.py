# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""A model's own rotary modules beside the ropes of its config, and rotary's exact rows in their place."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from .. import _config, _core
from .._config import ModelRope, Ropes
from .._torch import ops
from .._torch.ropes import write_rope
from . import refuse
from .probes import Rows, doubled, forms

_NAME = re.compile(r"(Rotary|R[oO]P[eE]).*Embed\w*$")
_ANGLE = 4.1e-7  # of a float32 angle: inv_freq is rounded, and its product with the position
_ROW = 3e-7  # of cos and sin in float32
_PLACES = (0, 1, 2, 5, 17, 100, 403, 1021, 2039, 4093)


@dataclass(frozen=True)
class Agreement:
    """A rotary module, and the rope that makes the same rows.

    Attributes:
        path: of the module in the model.
        kind: its class; "Buffer" of a table that an attention keeps.
        layer_type: what it was asked for, "" where it has one table.
        ropes: of rotary.config; several where the columns of one follow those of another, as on the axes of an image.
        texts: the ropes as the ops of torch read them.
        positions: the form of its position_ids: "tokens" [batch, tokens], "axes first" [axes, batch, tokens],
            "axes last" [tokens, axes], "batched axes last"; order: which axis each coordinate is.
        rows: the form of its rows.
        ones: dimensions of size 1 that its rows have before those of position_ids.
        casts: the rows have the dtype of the module's first argument.
        difference: the largest difference of any cos or sin, of compared ones.
    """

    path: str
    kind: str
    layer_type: str
    ropes: tuple[ModelRope, ...]
    texts: tuple[str, ...]
    positions: str = ""
    order: tuple[int, ...] = (0,)
    rows: Rows = "single"
    ones: int = 0
    casts: bool = False
    difference: float = 0.0
    compared: int = 0

    @property
    def rope(self) -> ModelRope:
        return self.ropes[0]

    def __str__(self) -> str:
        told = " and ".join(rope._summary() for rope in self.ropes)
        numbers = f"{self.compared} numbers differ by {self.difference:.1e} at most"
        return f"{_where(self.path, self.kind, self.layer_type)}: {told}; rows {self.rows}, {numbers}"

    def exact(self, on_axes: Tensor) -> tuple[Tensor, Tensor]:
        """rotary's cos and sin [..., columns] at positions [axes, ...]."""
        made = []
        for rope, text in zip(self.ropes, self.texts):
            cos, sin = ops.rows(rope._first(on_axes), text, None)
            # rotary's own rows of a clockwise rope turn the other way, the model's do not
            made.append((doubled(cos, self.rows), doubled(-sin if rope.rope.clockwise else sin, self.rows)))
        cos, sin = (torch.cat(parts, -1) for parts in zip(*made))
        return cos, sin

    def on_axes(self, position_ids: Tensor) -> Tensor:
        """Positions [axes, ...] of what the module is given."""
        if self.positions.endswith("axes last"):
            return position_ids[..., list(self.order)].movedim(-1, 0)
        axes = len(self.order)  # positions [batch, tokens] are the same on every axis
        return position_ids if position_ids.dim() > 2 else position_ids.expand(axes, *position_ids.shape)


def _where(path: str, kind: str, layer_type: str) -> str:
    return f"{path} ({kind}){f' for layers of type {layer_type}' if layer_type else ''}"


def _ropes_of(ropes: Ropes, model: Module, own: Any) -> list[ModelRope]:
    """The ropes of the model's config whose part of it is own, or those that it has by itself."""
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
    """What a table for the layers of one type may be: one rope, or those of a head that is cut into blocks."""
    kinds = list(getattr(own, "layer_types", None) or ())
    used = {index for index, kind in enumerate(kinds) if kind == layer_type}
    there = [rope for rope in ropes if used & set(rope.layers)] or ropes
    yield from ((rope,) for rope in there)
    blocks = sorted((rope for rope in there if rope.layers == there[0].layers), key=lambda rope: rope.first)
    if len({rope.first for rope in blocks}) > 1:
        yield tuple(blocks)


def exact_forward(known: dict[str, Agreement], x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
    """What a rotary module gives, of rotary's own rows and without its buffers. known: by layer_type."""
    one = known[layer_type if layer_type in known else ""]
    with torch.no_grad():
        on_axes = one.on_axes(position_ids.detach())
        cos, sin = (rows.reshape(*(1,) * one.ones, *on_axes.shape[1:], -1) for rows in one.exact(on_axes))
        if one.rows == "complex":
            return torch.complex(cos, sin)
        return (cos.to(x.dtype), sin.to(x.dtype)) if one.casts else (cos, sin)


def _tolerance(rope: ModelRope, on_axes: Tensor) -> Tensor:
    """By how much float32 arithmetic may miss cos and sin, [..., pairs]."""
    speeds = rope.frequencies(int(on_axes.max()) + 1)
    speed = torch.tensor(speeds.inv_freq.tolist(), dtype=torch.float64)
    angles = on_axes.double()[list(speeds.axis) or [0] * len(speed)].movedim(0, -1) * speed
    return speeds.attention_factor * (angles.abs() * _ANGLE + _ROW)


def _compare(one: Agreement, on_axes: Tensor, made: tuple[Tensor, ...]) -> Agreement | None:
    """The same with what was compared; None where a number of made is another than rotary's beyond the tolerance."""
    exact = one.exact(on_axes)
    tolerance = torch.cat([doubled(_tolerance(rope, on_axes), one.rows) for rope in one.ropes], -1)
    if any(rows.shape[-2:] != right.shape[-2:] or rows.numel() != right.numel() for rows, right in zip(made, exact)):
        return None
    apart = torch.stack([(a.double().reshape(b.shape) - b.double()).abs() for a, b in zip(made, exact)])
    agreed = replace(one, difference=float(apart.max()), compared=apart.numel())
    return agreed if bool((apart <= tolerance).all()) else None


def _asked(one: Agreement) -> Iterator[tuple[Agreement, Tensor]]:
    """(with a form of position_ids, such ids, which differ on every axis)."""
    axes = tuple(range(max(rope._axes for rope in one.ropes)))
    places = torch.tensor([place for place in _PLACES if place < (one.rope.context or 4096)])
    on_axes = torch.stack([places.roll(axis) for axis in axes])
    if not one.rope.coordinates:
        form = "tokens" if len(axes) == 1 else "axes first"
        yield replace(one, positions=form, order=axes), on_axes if len(axes) == 1 else on_axes[:, None]
        return
    for order in (axes, axes[::-1]):
        yield replace(one, positions="axes last", order=order), on_axes[list(order)].T
        yield replace(one, positions="batched axes last", order=order), on_axes[list(order)].T[None]


def _made(module: Module, ids: Tensor, layer_type: str, dtype: torch.dtype) -> tuple[Tensor, ...] | None:
    """(cos, sin), or (complex rows,), that a copy of the module makes on the CPU beside hidden states of that dtype."""
    module = copy.deepcopy(module).to("cpu").eval()
    words = {"layer_type": layer_type} if layer_type else {}
    with contextlib.suppress(Exception), torch.no_grad():
        out = module(torch.zeros(1, 1, 1, dtype=dtype), ids, **words)
        made = out if isinstance(out, tuple) else (out,)
        kinds = [rows.is_complex() if isinstance(rows, torch.Tensor) else None for rows in made]
        return made if kinds in ([True], [False, False]) else None
    return None


def _agreement(path: str, module: Module, layer_type: str, ropes: tuple[ModelRope, ...]) -> Agreement | None:
    texts = tuple(write_rope(rope.rope, "exact", "f32") for rope in ropes)
    for one, ids in _asked(Agreement(path, type(module).__name__, layer_type, ropes, texts)):
        made = _made(module, ids, layer_type, torch.float32)
        if made is None:
            continue
        narrow, on_axes = _made(module, ids, layer_type, torch.bfloat16), one.on_axes(ids)
        casts = narrow is not None and narrow[0].dtype == torch.bfloat16
        pair = (made[0].real, made[0].imag) if made[0].is_complex() else made
        for rows in forms(made[0].is_complex()):
            known = replace(one, rows=rows, ones=max(0, made[0].dim() - on_axes.dim()), casts=casts)
            agreed = _compare(known, on_axes, pair)
            if agreed is not None:
                return agreed
    return None


class Buffer(Module):
    """A table [positions, sin and cos] that an attention keeps, as GPT-J's, asked as a rotary module."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = rows.cpu()

    def forward(self, _: Tensor, position_ids: Tensor) -> tuple[Tensor, ...]:
        return self.rows[position_ids].float().chunk(2, -1)[::-1]


def _again(module: Module) -> Module | None:
    """The module as its class makes it of its config."""
    with contextlib.suppress(Exception), torch.device("cpu"):
        return type(module)(module.config)
    return None


def compared(model: Module, ropes: Ropes, exact: bool, rotating: set[str]) -> list[Agreement]:
    """Every rotary module of the model, by its class's name, with the rope that makes its rows.

    For exact tables, modules are made again of their config first: what happened to their buffers does not count.
    A module that no rope agrees with is refused where a function in its code rotates: where that is one of rotating.
    """
    found = []
    for path, part in model.named_modules():
        own, module, buffer = getattr(part, "config", None), part, getattr(part, "embed_positions", None)
        if isinstance(buffer, torch.Tensor) and buffer.dim() == 2:
            path, own, module = f"{path}.embed_positions", model.config, Buffer(buffer)
        elif not _NAME.search(type(module).__name__):
            continue
        known = _ropes_of(ropes, model, own)
        asked = (_again(module) if exact else None) or module
        kinds = dict.fromkeys(getattr(module, "layer_types", None) or getattr(own, "layer_types", None) or ())
        for layer_type in [kind for kind in kinds if hasattr(module, f"{kind}_inv_freq")] or [""]:
            there = list(_readings(known, own, layer_type))
            agreed = next(filter(None, (_agreement(path, asked, layer_type, one) for one in there)), None)
            if agreed is not None:
                found.append(agreed)
            elif type(part).__module__ in rotating:
                _refuse(path, module, layer_type, there)
    return found


def _refuse(path: str, module: Module, layer_type: str, readings: list[tuple[ModelRope, ...]]) -> None:
    where = _where(path, type(module).__name__, layer_type)
    told = "; ".join(ropes[0]._summary() for ropes in readings if len(ropes) == 1) or "no rope for it"
    again = _again(module)
    if again is not None and any(_agreement(path, again, layer_type, ropes) for ropes in readings):
        rule = f"the rows of {where} must be those of its config ({told})"
        hint = "its buffers were cast or never filled, or the config was changed since"
        hint += '; use tables="exact", or load the model again'
        refuse("ROPE", rule, "are others than a new module of it makes", hint)
    hint = "this model cannot be patched whole, but perhaps a part of it can, as rotary.patch(model.language_model)"
    rule = f"{where} must make the rows that rotary.config reads from the config"
    refuse("ROPE", rule, f"got others than {told}", hint)
