# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""Rows of cos and sin as torch's tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from .._tables import Shaped, Table
from .._words import Pairing, fail
from .checks import check_rows

is_dynamo_compiling = torch.compiler.is_dynamo_compiling


def single(rows: Tensor, doubled: str) -> Tensor:
    """One column for each pair."""
    if doubled == "halves":
        return rows[..., : rows.shape[-1] // 2]
    return rows[..., ::2] if doubled == "neighbours" else rows


class TensorTable(Shaped):
    """Rows that are torch's tensors: what rotary.from_rows and rotary.from_doubled make of them.

    It holds the tensors themselves, on any device: a gradient reaches them, torch.compile traces them, and what is
    written to them changes the table.

    Attributes:
        cos: [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs]; of doubled rows the columns that
            are read, a view.
        sin: likewise.
        pairing: which two elements turn together.
        doubled: how the given rows hold each column twice: "halves", "neighbours", or "": they do not.
    """

    positions = None

    def __init__(self, cos: Tensor, sin: Tensor, pairing: Pairing, doubled: str = "", xpos: bool = False) -> None:
        self._torch_cos = cos
        self._torch_sin = sin
        self.pairing: Pairing = pairing
        self.doubled = doubled
        self._xpos = xpos  # has its amplitude
        self._rows = (cos, sin, pairing, doubled)
        self._checked: tuple[Tensor, Tensor] | None = None  # rows that entry.py found to be plain

    @property
    def cos(self) -> Tensor:
        return single(self._torch_cos, self.doubled)

    @property
    def sin(self) -> Tensor:
        return single(self._torch_sin, self.doubled)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.cos.shape)

    def __repr__(self) -> str:
        where = f"{self._torch_cos.device}, {str(self._torch_cos.dtype).removeprefix('torch.')}"
        return f"<rotary.torch.TensorTable of {self._told()}, {where}>"


def tensors_of(table: Table) -> tuple[Tensor, Tensor, dict[torch.device, tuple[Tensor, Tensor]]]:
    """Of a rotary.Table: tensors that see its rows' memory, and keep that and not the table; a place for copies on
    other devices.
    """
    batched = len(table.shape) == 3
    return from_dlpack(table._dlpack(False, batched)), from_dlpack(table._dlpack(True, batched)), {}


def rows_beside(table: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Of a rotary.Table, rows for a tensor of a subclass: fake ones beside a fake tensor."""
    mode = getattr(x, "fake_mode", None)
    if mode is None or mode.allow_non_fake_inputs:
        return table._torch_cos.to(x.device), table._torch_sin.to(x.device)
    return mode.from_tensor(table._torch_cos).to(x.device), mode.from_tensor(table._torch_sin).to(x.device)


def rows_on(table: Any, device: torch.device) -> tuple[Tensor, Tensor]:
    """Of a rotary.Table, which never changes, copies that are kept."""
    if is_dynamo_compiling():
        return table._torch_cos.to(device), table._torch_sin.to(device)
    copies: dict[torch.device, tuple[Tensor, Tensor]] = table._torch_copies
    found = copies.get(device)
    if found is None:
        found = table._torch_cos.to(device), table._torch_sin.to(device)
        if not _is_special(found[0]):
            copies[device] = found
    return found


def _is_special(x: Tensor) -> bool:
    """Whether somebody's mode made it, and it must not outlive the call."""
    return type(x) is not Tensor


def check_tensors(operation: str, cos: Any, sin: Any, doubled: str) -> None:
    if not isinstance(cos, Tensor) or not isinstance(sin, Tensor):
        wrong = sin if isinstance(cos, Tensor) else cos
        raise TypeError(f"[{operation}] cos and sin must both be tensors but got {type(wrong).__name__}")
    check_rows(operation, cos, sin)
    if doubled and cos.shape[-1] % 2 != 0:
        columns = cos.shape[-1]
        fail("SHAPE", operation, f"doubled rows must have two columns for each pair but got {columns} columns")
