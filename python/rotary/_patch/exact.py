# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""tables="exact": rotary modules whose forward gives rotary's own rows."""

from __future__ import annotations

import torch

from .._torch import ops  # noqa: F401 (defines torch.ops.rotary_python)
from .._torch.ropes import write_rope
from .behaviours import doubled
from .tables import coordinates_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch import Tensor

    from .._config import ModelRope
    from .tables import Agreement


def _length(agreement: Agreement, positions: Tensor) -> int | None:
    """Of a scaling that depends on it, the length up to the last position, as the model's own module takes it."""
    if agreement.rope.scaling.name in ("dynamic", "longrope"):
        return int(positions.max().item()) + 1
    return None


def _rows(agreement: Agreement, rope: ModelRope, text: str, on_axes: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin [..., columns] of positions [axes, ...]."""
    positions = coordinates_of(rope, on_axes)
    cos, sin = torch.ops.rotary_python.rows(positions, text, _length(agreement, positions))
    sin = -sin if rope.rope.clockwise else sin
    return doubled(cos, agreement.rows), doubled(sin, agreement.rows)


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
    """The forward of a rotary module, without its buffers. agreements: by layer_type."""
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
