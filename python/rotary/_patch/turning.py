"""q and k turned by a model's own rows: what a replacement calls."""

from __future__ import annotations

import torch

from .behaviours import formula, single

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torch import Tensor

    from .._values import Layout
    from .behaviours import Behaviour

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def has_kernels(device: torch.device) -> bool:
    """Whether rotary has kernels for tensors there."""
    return device.type == "cpu"


def turned(
    xs: tuple[Tensor, ...], cos: Tensor, sin: Tensor, behaviour: Behaviour, layout: Layout, first: int
) -> tuple[Tensor, ...]:
    """Each of xs rotated; elements outside of the block are copied.

    Args:
        xs: of layout, float32, bfloat16 or float16.
        cos, sin: rows of behaviour.rows (complex rows as their parts), [tokens, w] or [batch, tokens, w].
        first: where the rotated block begins in the head.
    """
    cos, sin = single(cos, behaviour.rows).float(), single(sin, behaviour.rows).float()
    heads = layout.find("h") if "h" in layout else None
    if heads is not None:
        at = heads - len(layout)  # the rows have all later dimensions, and d
        cos, sin = cos.unsqueeze(at), sin.unsqueeze(at)
    width = 2 * cos.shape[-1]
    results = []
    for x in xs:
        block = x[..., first : first + width]
        out = formula(block.float(), cos, sin, behaviour.pairing, behaviour.clockwise).to(x.dtype)
        if width != x.shape[-1]:
            out = torch.cat((x[..., :first], out, x[..., first + width :]), -1)
        results.append(out)
    return tuple(results)
