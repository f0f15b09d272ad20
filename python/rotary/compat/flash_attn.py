# mypy: disable-error-code="import-not-found,no-any-return,no-untyped-call,misc"
"""flash-attn's rotary function, by its own signature."""

from __future__ import annotations

import torch
from torch import Tensor

from .._rotating import rotate, rotate_
from .._words import fail
from .._torch.guards import can_be_read
from .._torch.tables import TensorTable, rows_at

__all__ = ["apply_rotary_emb"]

_NAME = "apply_rotary_emb"


def apply_rotary_emb(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    interleaved: bool = False,
    inplace: bool = False,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """Rotate the first rotary_dim elements of each head, as flash_attn.layers.rotary.apply_rotary_emb.

    On any device; differentiable, in cos and sin too. cos and sin may be of another type than x.

    Args:
        x: [batch, seqlen, nheads, headdim], or with cu_seqlens [total_seqlen, nheads, headdim].
        cos: [seqlen_rotary, rotary_dim / 2]: a row for each position.
        sin: likewise.
        interleaved: pairs are (x[2i], x[2i + 1]), as GPT-J's, instead of halves, as GPT-NeoX's.
        inplace: writes to x, and returns it.
        seqlen_offsets: the position of the first token: an int, or [batch] integers.
        cu_seqlens: [batch + 1] integers: where each sequence of a packed x begins, and the end of the last.
        max_seqlen: of the packed sequences; only compared with seqlen_rotary.

    Returns:
        As x.

    Raises:
        rotary.Error: SHAPE, DTYPE, DEVICE, POSITION (a position without a row); TORCH (inplace, of a leaf that
            records a gradient).
    """
    packed = cu_seqlens is not None
    if x.dim() != (3 if packed else 4):
        wanted = "[total_seqlen, nheads, headdim]" if packed else "[batch, seqlen, nheads, headdim]"
        fail("SHAPE", _NAME, f"x must be {wanted} but got {list(x.shape)}")
    if cos.dim() != 2 or cos.shape != sin.shape:
        rule = "cos and sin must be [seqlen_rotary, rotary_dim / 2]"
        fail("SHAPE", _NAME, f"{rule} but got {list(cos.shape)} and {list(sin.shape)}")
    if cu_seqlens is not None:
        _check_length(0 if max_seqlen is None else max_seqlen, cos)
        if can_be_read(cu_seqlens):
            bounds = [0, *cu_seqlens.tolist(), x.shape[0]]
            if bounds[1] != 0 or bounds[-2] != bounds[-1] or bounds != sorted(bounds):
                rule = f"cu_seqlens must rise from 0 to the tokens of x, {x.shape[0]},"
                fail("SHAPE", _NAME, f"{rule} but goes from {bounds[1]} to {bounds[-2]}")
        cos, sin = rows_at(_NAME, _packed_positions(x.shape[0], cu_seqlens, seqlen_offsets), cos, sin)
    elif isinstance(seqlen_offsets, Tensor):
        _check_length(x.shape[1], cos)
        steps = torch.arange(x.shape[1], device=seqlen_offsets.device)
        cos, sin = rows_at(_NAME, seqlen_offsets.unsqueeze(-1) + steps, cos, sin)
    else:
        _check_length(seqlen_offsets + x.shape[1], cos)
        if seqlen_offsets < 0:
            fail("POSITION", _NAME, f"seqlen_offsets must not be negative but got {seqlen_offsets}")
        cos, sin = (rows[seqlen_offsets : seqlen_offsets + x.shape[1]] for rows in (cos, sin))
    table = TensorTable(cos, sin, "interleaved" if interleaved else "half")
    return (rotate_ if inplace else rotate)(x, table, layout="thd" if packed else "bthd")


def _check_length(needed: int, cos: Tensor) -> None:
    if needed > cos.shape[0]:
        fail("POSITION", _NAME, f"cos and sin must have a row for each position, {needed}, but have {cos.shape[0]}")


def _packed_positions(total: int, cu_seqlens: Tensor, offsets: int | Tensor) -> Tensor:
    """Of each token, its place in its sequence, and the offset of that."""
    starts, lengths = cu_seqlens[:-1] - offsets, cu_seqlens.diff()
    return torch.arange(total, device=cu_seqlens.device) - starts.repeat_interleave(lengths, output_size=total)
