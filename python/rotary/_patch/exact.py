"""tables="exact": rotary modules whose forward gives rotary's own rows."""

from __future__ import annotations

import torch

from .._torch import ops  # noqa: F401 (defines torch.ops.rotary_python)
from .._torch.ropes import write_rope
from .behaviours import doubled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch import Tensor

    from .tables import Agreement


def _length(agreement: Agreement, positions: Tensor) -> int | None:
    """Of a scaling that depends on it, the length up to the last position, as the model's own module takes it."""
    if agreement.rope.scaling.name in ("dynamic", "longrope"):
        return int(positions.max().item()) + 1
    return None


def _rows(agreement: Agreement, text: str, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin [..., pairs] of positions [...], or [axes, ...] where the rope has several."""
    cos, sin = torch.ops.rotary_python.rows(positions.detach(), text, _length(agreement, positions))
    return cos, -sin if agreement.rope.rope.clockwise else sin


def _as_table_takes(agreement: Agreement, position_ids: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """(positions for rotary.Table, the shape of the rows before their columns)."""
    axes = len(agreement.order)
    if agreement.positions == "tokens":
        return position_ids, tuple(position_ids.shape)
    if agreement.positions == "axes first":
        if position_ids.dim() == 2:  # the same on every axis
            position_ids = position_ids.expand(axes, *position_ids.shape)
        return position_ids, tuple(position_ids.shape[1:])
    by_axis = torch.stack([position_ids[..., agreement.order.index(axis)] for axis in range(axes)])
    shape = tuple(by_axis.shape[1:])
    ones = agreement.leading - (1 if agreement.positions == "batched axes last" else 0)
    return (by_axis if axes > 1 else by_axis[0]), (1,) * ones + shape


def exact_forward(agreements: dict[str, Agreement]) -> Callable[..., Any]:
    """The forward of a rotary module, without its buffers. agreements: by layer_type."""
    texts = {kind: write_rope(agreement.rope.rope, "exact", "f32") for kind, agreement in agreements.items()}

    def forward(x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        agreement = agreements[layer_type or ""]
        with torch.no_grad():
            positions, shape = _as_table_takes(agreement, position_ids)
            cos, sin = _rows(agreement, texts[layer_type or ""], positions)
            if agreement.rows == "complex":
                return torch.complex(cos, sin).reshape(*shape, -1)
            rows = [doubled(part, agreement.rows).reshape(*shape, -1) for part in (cos, sin)]
            return tuple(part.to(x.dtype) if agreement.casts else part for part in rows)

    return forward
