# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""A model's own rotary modules beside the ropes of its config, and rotary's exact rows in their place."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from .. import _config, _core
from .._config import ModelRope, Ropes
from .._torch import ops  # noqa: F401 (defines torch.ops.rotary_python)
from .._torch.ropes import write_rope
from . import PatchError
from .conventions import REAL_ROWS, Rows, doubled

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
        positions: the form of its position_ids: "tokens" [batch, tokens], "axes first" [axes, batch, tokens],
            "axes last" [tokens, axes], "batched axes last"; or "buffer": it is none, but a table.
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
        numbers = f"{self.compared} numbers differ by {self.difference:.1e} at most"
        return f"{self.path} ({self.kind}){of}: {told}; rows {self.rows}, {numbers}"


# ---- ropes of the config ----


def _part(config: Any, wanted: Any) -> str | None:
    """The dotted path of a sub-config in a config; "" for the config itself."""
    if config is wanted:
        return ""
    for name, value in vars(config).items():
        inside = _part(value, wanted) if hasattr(value, "to_dict") and name != "_parent" else None
        if inside is not None:
            return f"{name}.{inside}" if inside else name
    return None


def _ropes_of(ropes: Ropes, model: Module, own: Any) -> list[ModelRope]:
    part = _part(model.config, own)
    found = [rope for rope in ropes if rope.part == part]
    try:
        return found or (list(_config.config(own)) if own is not None else [])
    except _core.Error:
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


def _axes(rope: ModelRope) -> int:
    """Coordinates of a position that the rope reads."""
    return max(rope.rope.axis, default=0) + 1


def _coordinates(rope: ModelRope, on_axes: Tensor) -> Tensor:
    """Of positions [axes, ...], what rotary.Table takes for that rope."""
    return on_axes[: _axes(rope)] if _axes(rope) > 1 else on_axes[0]


# ---- comparing ----


def _places(rope: ModelRope) -> list[int]:
    return [place for place in _PLACES if place < (rope.context or 4096)]


def _position_forms(ropes: tuple[ModelRope, ...]) -> Iterator[tuple[str, tuple[int, ...], Tensor, Tensor]]:
    """(form, order, position_ids, the same as [axes, tokens]), of ids that differ on every axis."""
    rope, axes = ropes[0], max(map(_axes, ropes))
    places, order = torch.tensor(_places(rope)), tuple(range(axes))
    on_axes = torch.stack([places.roll(axis) for axis in order])
    if not rope.coordinates:
        one = axes == 1
        yield "tokens" if one else "axes first", order, places[None] if one else on_axes[:, None], on_axes
        return
    for order in (order, order[::-1]):
        ids = on_axes[list(order)].T
        yield "axes last", order, ids, on_axes
        yield "batched axes last", order, ids[None], on_axes


def _made(module: Module, ids: Tensor, layer_type: str, dtype: torch.dtype) -> tuple[Tensor, ...] | None:
    """(cos, sin), or (complex rows,), that a copy of the module makes on the CPU beside hidden states of that dtype."""
    module = copy.deepcopy(module).to("cpu").eval()
    words = {"layer_type": layer_type} if layer_type else {}
    try:
        with torch.no_grad():
            out = module(torch.zeros(1, 1, 1, dtype=dtype), ids, **words)
    except Exception:
        return None
    made = out if isinstance(out, tuple) else (out,)
    if not all(isinstance(rows, torch.Tensor) for rows in made):
        return None
    return made if len(made) == (1 if made[0].is_complex() else 2) else None


def _exact(rope: ModelRope, on_axes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(cos, sin, by how much float32 arithmetic may miss them), [tokens, pairs]."""
    length = int(on_axes.max()) + 1
    table, speeds = rope.table(_coordinates(rope, on_axes).numpy(), length), rope.frequencies(length)
    speed = torch.tensor(speeds.inv_freq.tolist(), dtype=torch.float64)
    axis = torch.tensor(list(speeds.axis) or [0] * len(speed))
    angles = (on_axes.double()[axis].T * speed).abs()
    cos, sin = torch.tensor(table.cos), torch.tensor(table.sin)
    # rotary's own rows of a clockwise rope turn the other way, the model's do not
    return cos, -sin if speeds.clockwise else sin, speeds.attention_factor * (angles * _ANGLE + _ROW)


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


def _agreement(path: str, module: Module, layer_type: str, ropes: tuple[ModelRope, ...]) -> Agreement | None:
    for form, order, ids, on_axes in _position_forms(ropes):
        made = _made(module, ids, layer_type, torch.float32)
        if made is None:
            continue
        narrow = _made(module, ids, layer_type, torch.bfloat16)
        casts = narrow is not None and narrow[0].dtype == torch.bfloat16
        known: tuple[Rows, ...] = ("complex",) if made[0].is_complex() else REAL_ROWS
        pair = (made[0].real, made[0].imag) if made[0].is_complex() else made
        exact = [_exact(rope, on_axes) for rope in ropes]
        for rows in known:
            cos, sin, tolerance = (torch.cat([doubled(part, rows) for part in parts], -1) for parts in zip(*exact))
            worst = _worst(pair, (cos, sin), tolerance)
            if worst is not None:
                kind, leading, count = type(module).__name__, made[0].dim() - 2, 2 * made[0].numel()
                return Agreement(path, kind, layer_type, ropes, rows, form, order, leading, casts, worst, count)
    return None


def _in_buffers(model: Module, ropes: Ropes) -> Iterator[Agreement]:
    """Tables that attentions keep as a buffer [positions, sin and cos]."""
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
                count = 2 * cos.numel()
                yield Agreement(path, "buffer", "", (rope,), "single", "buffer", (0,), 0, False, worst, count)
                break
        else:
            _refuse(path, part, "", [(rope,) for rope in ropes])


def _layer_types(module: Module, own: Any) -> list[str]:
    """What the module is asked for, where it has a table for each type of layer."""
    if "layer_type" not in inspect.signature(type(module).forward).parameters:
        return [""]
    kinds = getattr(module, "layer_types", None) or dict.fromkeys(getattr(own, "layer_types", None) or ())
    return [kind for kind in kinds if hasattr(module, f"{kind}_inv_freq")] or [""]


def _again(module: Module) -> Module | None:
    """The module as its class makes it of its config."""
    with torch.device("cpu"):
        try:
            return type(module)(module.config)
        except Exception:
            return None


def compared(model: Module, ropes: Ropes, tables: str, matters: Callable[[Module], bool]) -> list[Agreement]:
    """Every rotary module of the model, by its class's name, with the rope that makes its rows.

    With tables="exact", modules are made again of their config first: what happened to their buffers does not count.

    Args:
        matters: of a module that no rope agrees with, whether a function in its code rotates.

    Raises:
        PatchError: ROPE, for such a module.
    """
    found = list(_in_buffers(model, ropes))
    for path, module in model.named_modules():
        if not _NAME.search(type(module).__name__):
            continue
        own = getattr(module, "config", None)
        known = _ropes_of(ropes, model, own)
        asked = (_again(module) if tables == "exact" else None) or module
        for layer_type in _layer_types(module, own):
            there = list(_readings(known, own, layer_type))
            agreed = next(filter(None, (_agreement(path, asked, layer_type, one) for one in there)), None)
            if agreed is not None:
                found.append(agreed)
            elif matters(module):
                _refuse(path, module, layer_type, there)
    return found


def _refuse(path: str, module: Module, layer_type: str, readings: list[tuple[ModelRope, ...]]) -> None:
    of = f" for layers of type {layer_type}" if layer_type else ""
    where = f"{path} ({type(module).__name__}){of}"
    told = "; ".join(ropes[0]._summary() for ropes in readings if len(ropes) == 1) or "no rope for it"
    again = _again(module)
    if again is not None and any(_agreement(path, again, layer_type, ropes) for ropes in readings):
        rule = f"the rows of {where} must be those of its config ({told}) but are others than a new module of it makes"
        hint = "its buffers were cast or never filled, or the config was changed since"
        raise PatchError("ROPE", f'[patch] {rule}: {hint}; use tables="exact", or load the model again')
    rule = f"{where} must make the rows that rotary.config reads from the config but got others than {told}"
    hint = "this model cannot be patched whole, but perhaps a part of it can, as rotary.patch(model.language_model)"
    raise PatchError("ROPE", f"[patch] {rule}: {hint}")


# ---- tables="exact" ----


def _rows(agreement: Agreement, rope: ModelRope, text: str, on_axes: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin [..., columns] of positions [axes, ...]."""
    positions = _coordinates(rope, on_axes)
    cos, sin = torch.ops.rotary_python.rows(positions, text, None)  # the length: up to the last position
    return doubled(cos, agreement.rows), doubled(-sin if rope.rope.clockwise else sin, agreement.rows)


def _on_axes(agreement: Agreement, position_ids: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """(positions [axes, ...], the shape of the rows before their columns)."""
    axes = len(agreement.order)
    if agreement.positions == "tokens":
        return position_ids[None], tuple(position_ids.shape)
    if agreement.positions == "axes first":
        if position_ids.dim() == 2:  # the same on every axis
            position_ids = position_ids.expand(axes, *position_ids.shape)
        return position_ids, tuple(position_ids.shape[1:])
    on_axes = torch.stack([position_ids[..., agreement.order.index(axis)] for axis in range(axes)])
    ones = agreement.leading - (1 if agreement.positions == "batched axes last" else 0)
    return on_axes, (1,) * ones + tuple(on_axes.shape[1:])


def exact_forward(agreements: dict[str, Agreement]) -> Callable[..., Any]:
    """The forward of a rotary module that gives rotary's own rows, without its buffers. agreements: by layer_type."""
    texts = {
        kind: [(rope, write_rope(rope.rope, "exact", "f32")) for rope in agreement.ropes]
        for kind, agreement in agreements.items()
    }

    def forward(x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        kind = layer_type if layer_type in agreements else ""
        agreement = agreements[kind]
        with torch.no_grad():
            on_axes, shape = _on_axes(agreement, position_ids.detach())
            made = [_rows(agreement, rope, text, on_axes) for rope, text in texts[kind]]
            cos, sin = (torch.cat(parts, -1).reshape(*shape, -1) for parts in zip(*made))
            if agreement.rows == "complex":
                return torch.complex(cos, sin)
            return (cos.to(x.dtype), sin.to(x.dtype)) if agreement.casts else (cos, sin)

    return forward
