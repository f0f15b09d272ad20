"""Rows of cos and sin that are torch's tensors."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from .. import _core
from .._tables import Frequencies, Shaped, Table
from .._rope import Rope
from .._words import Pairing, fail
from .plain import TYPES, check_dense, check_rows

is_dynamo_compiling = torch.compiler.is_dynamo_compiling


class TensorTable(Shaped):
    """Rows that are torch's tensors: a result of rotary.from_rows or rotary.from_doubled.

    The table holds the tensors themselves, on any device: a gradient reaches them, torch.compile traces them, and a
    write to them changes the table.

    Attributes:
        cos, sin: [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs]; of doubled rows a view of
            the columns that are read.
        pairing: the two elements that rotate together.
    """

    positions = None

    def __init__(self, cos: Tensor, sin: Tensor, pairing: Pairing, doubled: str = "", xpos: bool = False) -> None:
        if doubled:
            columns = slice(cos.shape[-1] // 2) if doubled == "halves" else slice(None, None, 2)
            cos, sin = cos[..., columns], sin[..., columns]
        self.cos = self._torch_cos = cos
        self.sin = self._torch_sin = sin
        self.shape = tuple(cos.shape)
        self.pairing: Pairing = pairing
        self._xpos = xpos
        self._rows = (cos, sin, pairing, "")

    def __repr__(self) -> str:
        where = f"{self.cos.device}, {str(self.cos.dtype).removeprefix('torch.')}"
        return f"<rotary.torch.TensorTable of {self._summary()}, {where}>"


def tensors_of(table: Table) -> tuple[Tensor, Tensor, dict[torch.device, tuple[Tensor, Tensor]]]:
    """Tensors over the memory of a rotary.Table's rows, and a dict for their copies on other devices.

    They keep the memory alive, not the table.
    """
    batched = len(table.shape) == 3
    cos, sin = (from_dlpack(_core._dlpack(table, which, batched)) for which in (False, True))
    return cos, sin, {}


def rows_beside(table: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a rotary.Table on the device of x: fake ones for a fake tensor, else copies that the table keeps."""
    cos, sin = table._torch_cos, table._torch_sin
    if cos.device == x.device and (is_dynamo_compiling() or type(x) in TYPES):
        return cos, sin
    mode = None if is_dynamo_compiling() else getattr(x, "fake_mode", None)
    if mode is not None and not mode.allow_non_fake_inputs:
        cos, sin = mode.from_tensor(cos), mode.from_tensor(sin)
    if is_dynamo_compiling() or type(x) not in TYPES:
        return cos.to(x.device), sin.to(x.device)
    copies: dict[torch.device, tuple[Tensor, Tensor]] = table._torch_copies
    moved = copies.get(x.device) or (cos.to(x.device), sin.to(x.device))
    if type(moved[0]) is Tensor:  # else it comes from a mode, and must not outlive the call
        copies[x.device] = moved
    return moved


def check_tensors(operation: str, cos: Any, sin: Any, doubled: str) -> None:
    if not isinstance(cos, Tensor) or not isinstance(sin, Tensor):
        wrong = sin if isinstance(cos, Tensor) else cos
        raise TypeError(f"[{operation}] cos and sin must both be tensors but got {type(wrong).__name__}")
    for rows in (cos, sin):
        check_dense(operation, rows)
    check_rows(operation, cos, sin)
    if doubled and cos.shape[-1] % 2 != 0:
        columns = cos.shape[-1]
        fail("SHAPE", operation, f"doubled rows must have two columns for each pair but got {columns} columns")


def of_keys(source: Rope | Frequencies) -> Rope | Frequencies:
    """The rope or frequencies for keys, with xPos's inverse amplitude. source: those for queries."""
    turned = source.xpos.replace(reciprocal=not source.xpos.reciprocal)
    if isinstance(source, Frequencies):
        return Frequencies._of(*source._values()[:-1], turned)
    return source.replace(xpos=turned)
