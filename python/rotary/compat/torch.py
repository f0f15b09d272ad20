# mypy: disable-error-code="import-not-found,no-any-return,no-untyped-call,misc"
"""torch's proposed functional (https://github.com/pytorch/pytorch/pull/187286), by its own signature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from .._rotating import rotate
from .._torch.checks import fail
from .._torch.tables import TensorTable, rows_at

if TYPE_CHECKING:
    from .._values import Pairing

__all__ = ["rotary_embedding"]

_NAME = "rotary_embedding"


def rotary_embedding(
    x: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor | None = None, *, interleaved: bool = False
) -> Tensor:
    """Rotate all elements of each head, as the proposed torch.nn.functional.rotary_embedding.

    On any device, differentiable in x, cos and sin. cos and sin may be of another type than x.

    Args:
        x: [batch, heads, tokens, head_dim], as scaled_dot_product_attention has it.
        cos: with position_ids [positions, head_dim / 2], else any shape that broadcasts to
            [batch, heads, tokens, head_dim / 2], as [tokens, head_dim / 2].
        sin: likewise.
        position_ids: [batch, tokens] integers: the rows of cos and sin.
        interleaved: pairs are (x[2i], x[2i + 1]) instead of (x[i], x[i + head_dim / 2]).

    Returns:
        As x.

    Raises:
        rotary.Error: SHAPE, DTYPE, DEVICE, POSITION (a position without a row).
    """
    if x.dim() != 4:
        fail("SHAPE", _NAME, f"x must be [batch, heads, tokens, head_dim] but got {list(x.shape)}")
    if cos.shape != sin.shape or cos.dim() == 0 or 2 * cos.shape[-1] != x.shape[-1]:
        fail(
            "SHAPE",
            _NAME,
            f"cos and sin must have head_dim / 2 = {x.shape[-1] // 2} columns but got {list(cos.shape)} and "
            f"{list(sin.shape)}: frameworks' rows are doubled, rotary.from_doubled reads them",
        )
    pairing: Pairing = "interleaved" if interleaved else "half"
    batch, heads, tokens, _ = x.shape
    if position_ids is not None:
        if cos.dim() != 2 or position_ids.shape != (batch, tokens):
            fail(
                "SHAPE",
                _NAME,
                f"position_ids must be [{batch}, {tokens}] and cos and sin [positions, {x.shape[-1] // 2}] but got "
                f"{list(position_ids.shape)} and {list(cos.shape)}",
            )
        return rotate(x, TensorTable(*rows_at(_NAME, position_ids, cos, sin), pairing), layout="bhtd")
    if cos.dim() > 4 or any(have not in (1, want) for have, want in zip(cos.shape[-2::-1], (tokens, heads, batch))):
        fail("SHAPE", _NAME, f"cos and sin must broadcast to {[batch, heads, tokens]} but got {list(cos.shape[:-1])}")
    if cos.dim() < 3 or cos.shape[-3] == 1:  # of all heads alike
        rows = [one.squeeze(-3) if one.dim() > 2 else one for one in (cos, sin)]
        shape = (*rows[0].shape[:-2], tokens, cos.shape[-1])
        table = TensorTable(rows[0].expand(shape), rows[1].expand(shape), pairing)
        return rotate(x, table, layout="bhtd")
    shape = (batch, heads, tokens, cos.shape[-1])
    table = TensorTable(cos.expand(shape).flatten(0, 1), sin.expand(shape).flatten(0, 1), pairing)
    return rotate(x.flatten(0, 1), table, layout="btd").unflatten(0, (batch, heads))
