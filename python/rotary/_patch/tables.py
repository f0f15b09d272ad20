# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""Compares a model's own rotary modules with the ropes that rotary.config reads from its config."""

from __future__ import annotations

import copy
import inspect
import re
from dataclasses import dataclass

import torch

from .. import _config, _core
from . import PatchError
from .behaviours import ROWS, doubled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from torch import Tensor
    from torch.nn import Module

    from .._config import ModelRope, Ropes
    from .behaviours import Rows

_NAME = re.compile(r"(Rotary|R[oO]P[eE]).*Embed\w*$")
_TABLE = "embed_positions"  # GPT-J and its kin keep [positions, sin and cos] in each attention
_ANGLE = 4.1e-7  # of a float32 angle: inv_freq is rounded, and its product with the position
_ROW = 3e-7  # of cos and sin in float32
_PLACES = (0, 1, 2, 5, 17, 100, 403, 1021, 2039, 4093)


@dataclass(frozen=True)
class Agreement:
    """A rotary module, and the rope that makes the same rows.

    Attributes:
        path: of the module in the model.
        kind: its class.
        layer_type: what it was asked for, "" where it has one table.
        ropes: of rotary.config; several where the columns of one follow those of another, as on the axes of an image.
        rows: the form of its rows.
        positions: the form of its position_ids: "tokens" [batch, tokens], "axes first" [axes, batch, tokens], "axes last"
            [tokens, axes], "batched axes last".
        order: which axis of the rope each coordinate of position_ids is.
        leading: dimensions of size 1 before [tokens, columns], of which one is the batch where the form has it.
        casts: the rows have the dtype of the module's first argument.
        difference: the largest difference of any cos or sin, of compared ones.
    """

    path: str
    kind: str
    layer_type: str
    ropes: tuple[ModelRope, ...]
    rows: Rows
    positions: str
    order: tuple[int, ...]
    leading: int
    casts: bool
    difference: float
    compared: int

    @property
    def rope(self) -> ModelRope:
        return self.ropes[0]

    def __str__(self) -> str:
        of = f" for {self.layer_type}" if self.layer_type else ""
        told = " and ".join(rope._summary() for rope in self.ropes)
        return (
            f"{self.path} ({self.kind}){of}: {told}; rows {self.rows}, "
            f"{self.compared} numbers differ by {self.difference:.1e} at most"
        )


def rotary_modules(model: Module) -> Iterator[tuple[str, Module]]:
    """Modules that make cos and sin, by their class's name."""
    for path, part in model.named_modules():
        name = type(part).__name__
        if _NAME.search(name):
            yield path, part


def _part(config: Any, wanted: Any) -> str | None:
    """The dotted path of a sub-config in a config; "" for the config itself."""
    if config is wanted:
        return ""
    for name, value in vars(config).items():
        if hasattr(value, "to_dict") and name != "_parent":
            inside = _part(value, wanted)
            if inside is not None:
                return f"{name}.{inside}" if inside else name
    return None


def _ropes_of(ropes: Ropes, model: Module, own: Any) -> list[ModelRope]:
    part = _part(model.config, own)
    found = [rope for rope in ropes if rope.part == part]
    if not found and own is not None:
        try:
            found = list(_config.config(own))
        except _core.Error:
            found = []
    return found


def _readings(ropes: list[ModelRope], own: Any, layer_type: str) -> Iterator[tuple[ModelRope, ...]]:
    """What a table for the layers of one type may be: one rope, or those of a head that is cut into blocks."""
    kinds = list(getattr(own, "layer_types", None) or ())
    used = {index for index, kind in enumerate(kinds) if kind == layer_type}
    there = [rope for rope in ropes if used & set(rope.layers)] or ropes
    for rope in there:
        yield (rope,)
    blocks = sorted((rope for rope in there if rope.layers == there[0].layers), key=lambda rope: rope.first)
    if len({rope.first for rope in blocks}) > 1:
        yield tuple(blocks)


def _places(rope: ModelRope) -> list[int]:
    return [place for place in _PLACES if place < (rope.context or 4096)]


def axes_of(rope: ModelRope) -> int:
    """Coordinates of a position that the rope reads."""
    return max(rope.rope.axis, default=0) + 1


def coordinates_of(rope: ModelRope, on_axes: Tensor) -> Tensor:
    """Of positions [axes, ...], what rotary.Table takes for that rope."""
    axes = axes_of(rope)
    return on_axes[:axes] if axes > 1 else on_axes[0]


def _position_forms(ropes: tuple[ModelRope, ...]) -> Iterator[tuple[str, tuple[int, ...], Tensor, Tensor]]:
    """(form, order, position_ids, the same as [axes, tokens]), of ids that differ on every axis."""
    rope, axes = ropes[0], max(map(axes_of, ropes))
    places = torch.tensor(_places(rope))
    on_axes = torch.stack([places.roll(axis) for axis in range(axes)])
    if axes == 1 and not rope.coordinates:
        yield "tokens", (0,), places[None], on_axes
        return
    if not rope.coordinates:
        yield "axes first", tuple(range(axes)), on_axes[:, None], on_axes
        return
    for order in (tuple(range(axes)), tuple(reversed(range(axes)))):
        ids = on_axes[list(order)].T
        yield "axes last", order, ids, on_axes
        yield "batched axes last", order, ids[None], on_axes


def _made(module: Module, ids: Tensor, layer_type: str, dtype: torch.dtype = torch.float32) -> list[Tensor] | None:
    """[cos, sin], or [complex rows], that a copy of the module makes on the CPU beside hidden states of that dtype."""
    module = copy.deepcopy(module).to("cpu").eval()
    words = {"layer_type": layer_type} if layer_type else {}
    try:
        with torch.no_grad():
            out = module(torch.zeros(1, 1, 1, dtype=dtype), ids, **words)
    except Exception:
        return None
    if isinstance(out, torch.Tensor):
        return [out] if out.is_complex() else None
    pair = isinstance(out, tuple) and len(out) == 2 and all(isinstance(rows, torch.Tensor) for rows in out)
    return list(out) if pair else None


def _worst(made: tuple[Tensor, ...], exact: tuple[Tensor, ...], tolerance: Tensor) -> float | None:
    """The largest difference; None where one is beyond the tolerance."""
    worst = 0.0
    for rows, right in zip(made, exact):
        if rows.shape[-2:] != right.shape[-2:] or rows.numel() != right.numel():
            return None
        difference = (rows.double().reshape(right.shape) - right.double()).abs()
        if not bool((difference <= tolerance).all()):
            return None
        worst = max(worst, float(difference.max()))
    return worst


def _exact(rope: ModelRope, on_axes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(cos, sin, by how much float32 arithmetic may miss them), [tokens, pairs]."""
    length = int(on_axes.max()) + 1
    table = rope.table(coordinates_of(rope, on_axes).numpy(), length)
    speeds = rope.frequencies(length)
    speed = torch.tensor(speeds.inv_freq.tolist(), dtype=torch.float64)
    axis = torch.tensor(list(speeds.axis) or [0] * len(speed))
    angles = (on_axes.double()[axis].T * speed).abs()
    tolerance = speeds.attention_factor * (angles * _ANGLE + _ROW)
    cos, sin = torch.tensor(table.cos), torch.tensor(table.sin)
    return cos, -sin if speeds.clockwise else sin, tolerance  # rotary's own rows turn the other way, the model's do not


def _agreement(path: str, module: Module, layer_type: str, ropes: tuple[ModelRope, ...]) -> Agreement | None:
    for form, order, ids, on_axes in _position_forms(ropes):
        made = _made(module, ids, layer_type)
        if made is None:
            continue
        narrow = _made(module, ids, layer_type, torch.bfloat16)
        casts = narrow is not None and narrow[0].dtype == torch.bfloat16
        known: tuple[Rows, ...] = ("complex",) if made[0].is_complex() else ROWS[:3]
        pair = (made[0].real, made[0].imag) if made[0].is_complex() else (made[0], made[1])
        exact = [_exact(rope, on_axes) for rope in ropes]
        for rows in known:
            cos, sin, tolerance = (torch.cat([doubled(part, rows) for part in parts], -1) for parts in zip(*exact))
            worst = _worst(pair, (cos, sin), tolerance)
            if worst is not None:
                kind, leading = type(module).__name__, made[0].dim() - 2
                count = 2 * made[0].numel()
                return Agreement(path, kind, layer_type, ropes, rows, form, order, leading, casts, worst, count)
    return None


def _in_buffers(model: Module, ropes: Ropes) -> list[Agreement]:
    """Tables that attentions keep as a buffer [positions, sin and cos]."""
    found = []
    for within, part in model.named_modules():
        buffer, path = getattr(part, _TABLE, None), f"{within}.{_TABLE}"
        if not isinstance(buffer, torch.Tensor) or buffer.dim() != 2:
            continue
        for rope in ropes:
            places = torch.tensor([place for place in _places(rope) if place < buffer.shape[0]])
            sin, cos = buffer[places.to(buffer.device)].float().cpu().chunk(2, -1)
            exact = _exact(rope, places[None])
            worst = _worst((cos, sin), exact[:2], exact[2])
            if worst is not None:
                found.append(
                    Agreement(path, "buffer", "", (rope,), "single", "buffer", (0,), 0, False, worst, 2 * cos.numel())
                )
                break
        else:
            _refuse(path, part, "", [(rope,) for rope in ropes])
    return found


def _layer_types(module: Module, own: Any) -> list[str]:
    """What the module is asked for, where it has a table for each type of layer."""
    if "layer_type" not in inspect.signature(type(module).forward).parameters:
        return [""]
    kinds = getattr(module, "layer_types", None) or dict.fromkeys(getattr(own, "layer_types", None) or ())
    with_rope = [kind for kind in kinds if hasattr(module, f"{kind}_inv_freq")]
    return with_rope or [""]


def _again(module: Module) -> Module | None:
    """The module as its class makes it of its config."""
    with torch.device("cpu"):
        try:
            return type(module)(module.config)
        except Exception:
            return None


def compared(model: Module, ropes: Ropes, tables: str, matters: Callable[[Module], bool]) -> list[Agreement]:
    """Every rotary module of the model with the rope that makes its rows.

    With tables="exact", modules are made again of their config first: what happened to their buffers does not count.

    Args:
        matters: of a module that no rope agrees with, whether a function in its code is replaced.

    Raises:
        PatchError: ROPE, for such a module.
    """
    found = _in_buffers(model, ropes)
    for path, module in rotary_modules(model):
        own = getattr(module, "config", None)
        known = _ropes_of(ropes, model, own)
        asked = _again(module) if tables == "exact" else module
        for layer_type in _layer_types(module, own):
            there = list(_readings(known, own, layer_type))
            agreed = next(filter(None, (_agreement(path, asked or module, layer_type, one) for one in there)), None)
            if agreed is not None:
                found.append(agreed)
            elif matters(module):
                _refuse(path, module, layer_type, there)
    return found


def _refuse(path: str, module: Module, layer_type: str, readings: list[tuple[ModelRope, ...]]) -> None:
    of = f" for layers of type {layer_type}" if layer_type else ""
    where = f"{path} ({type(module).__name__}){of}"
    told = "; ".join(rope._summary() for ropes in readings if len(ropes) == 1 for rope in ropes) or "no rope for it"
    again = _again(module)
    if again is not None and any(_agreement(path, again, layer_type, ropes) for ropes in readings):
        raise PatchError(
            "ROPE",
            f"[patch] the rows of {where} must be those of its config ({told}) but are others than a new module of that "
            "config makes: its buffers were cast or never filled, or the config was changed since; use "
            'tables="exact", or load the model again',
        )
    raise PatchError(
        "ROPE",
        f"[patch] {where} must make the rows that rotary.config reads from the config but got others than {told}: "
        "this model cannot be patched whole, but perhaps a part of it can, as rotary.patch(model.language_model)",
    )
