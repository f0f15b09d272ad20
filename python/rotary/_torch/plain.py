# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The rotation by torch's own ops: for float64, for devices without kernels, and for gradients of cos and sin.

Float32 arithmetic (float64 for float64): product, product, sum, then one rounding to the tensor's type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class How(NamedTuple):
    """What is said beside the tensors."""

    pairing: Any  # a str
    layout: Any
    first: int = 0
    backward: bool = False
    kv_heads: int = -1  # 0 or more: the last 2 * kv_heads are k and v of a packed tensor, of which v keeps its bits

    @property
    def reads_interleaved(self) -> bool:
        return self.pairing == "interleaved" or (self.pairing == "interleaved_to_half" and not self.backward)

    @property
    def writes_interleaved(self) -> bool:
        return self.pairing == "interleaved" or (self.pairing == "interleaved_to_half" and self.backward)


def parts(inputs: tuple[Any, ...]) -> tuple[list[Tensor], Tensor, Tensor, How]:
    """Of what the ops take, (x, cos, sin, *how) or (q, k, cos, sin, *how): (tensors, cos, sin, how)."""
    count = 2 if isinstance(inputs[3], Tensor) else 1
    return list(inputs[:count]), inputs[count], inputs[count + 1], How(*inputs[count + 2 :])


def turning(x: Tensor, how: How) -> Tensor:
    """The heads that turn."""
    if how.kv_heads < 0:
        return x
    at = how.layout.index("h")
    return x.narrow(at, 0, x.shape[at] - how.kv_heads)


def _wide(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _members(x: Tensor, pairs: int, first: int, interleaved: bool) -> tuple[Tensor, Tensor]:
    block = x.narrow(-1, first, 2 * pairs).to(_wide(x))
    if interleaved:
        return block[..., ::2], block[..., 1::2]
    return block[..., :pairs], block[..., pairs:]


def _joined(a: Tensor, b: Tensor, interleaved: bool) -> Tensor:
    return torch.stack((a, b), -1).flatten(-2) if interleaved else torch.cat((a, b), -1)


def _spread(rows: Tensor, how: How, dtype: torch.dtype) -> Tensor:
    """Rows [tokens, pairs] or [batch, tokens, pairs] as the layout has them, with 1 for what they do not know."""
    layout, wide = how.layout, rows.to(dtype)
    if wide.dim() == 2:
        wide = wide.unsqueeze(0)
    if "b" in layout and "t" in layout and layout.index("t") < layout.index("b"):
        wide = wide.transpose(0, 1)
    if "t" not in layout:
        wide = wide.squeeze(1)
    if "b" not in layout:
        wide = wide.squeeze(0)
    return wide.unsqueeze(layout.index("h")) if "h" in layout else wide


def _gathered(spread: Tensor, rows: Tensor, how: How) -> Tensor:
    """The reverse of _spread: of what has its shape, what has the shape and the type of rows."""
    layout = how.layout
    if "h" in layout:
        spread = spread.squeeze(layout.index("h"))
    if "b" not in layout:
        spread = spread.unsqueeze(0)
    if "t" not in layout:
        spread = spread.unsqueeze(1)
    if "b" in layout and "t" in layout and layout.index("t") < layout.index("b"):
        spread = spread.transpose(0, 1)
    if rows.dim() == 2:
        spread = spread.squeeze(0)
    return spread.to(rows.dtype)


def rotated(x: Tensor, cos: Tensor, sin: Tensor, how: How, keeps: bool = True) -> Tensor:
    """x rotated, differentiable. What does not turn is kept, or 0."""
    c, s = _spread(cos, how, _wide(x)), _spread(sin, how, _wide(x))
    if how.backward:
        s = -s
    heads, pairs = turning(x, how), c.shape[-1]
    a, b = _members(heads, pairs, how.first, how.reads_interleaved)
    block = _joined(a * c - b * s, b * c + a * s, how.writes_interleaved).to(x.dtype)
    rest = [heads[..., : how.first], heads[..., how.first + 2 * pairs :]]
    at = how.layout.index("h") if how.kv_heads > 0 else -1
    others = [x.narrow(at, heads.shape[at], how.kv_heads)] if how.kv_heads > 0 else []
    if not keeps:
        rest, others = ([torch.zeros_like(one) for one in ones] for ones in (rest, others))
    turned = torch.cat((rest[0], block, rest[1]), -1)
    return torch.cat((turned, *others), at) if others else turned


def gradients_of_rows(x: Tensor, grad: Tensor, cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, Tensor]:
    """Those of cos and sin, differentiable."""
    c = _spread(cos, how, _wide(x))
    a, b = _members(turning(x, how), c.shape[-1], how.first, how.reads_interleaved)
    u, v = _members(turning(grad, how), c.shape[-1], how.first, how.writes_interleaved)
    d_cos = (u * a + v * b).sum_to_size(c.shape)
    d_sin = (u * b - v * a if how.backward else v * a - u * b).sum_to_size(c.shape)
    return _gathered(d_cos, cos, how), _gathered(d_sin, sin, how)
