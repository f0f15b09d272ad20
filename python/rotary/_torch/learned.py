# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""rotary.torch.RotaryEmbedding(learned="mixed"): where its directions begin, and the rows that they make."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .._tables import Frequencies, frequencies
from .._values import Rope
from .._words import fail


def mixed_rope(
    *, head_dim: int, heads: int, rotary_dim: int = 0, base: float = 10.0, phase: Any = False,
    generator: torch.Generator | None, **words: Any,
) -> Rope:  # fmt: skip
    """The distribution of rope-vit (arXiv:2403.13298) and of timm's RotaryEmbeddingMixed: pairs i and i + pairs / 2 of
    a head have the speed base^(-2i / pairs), along two directions at a right angle, which each head draws by itself.
    """
    pairs, where = (rotary_dim or head_dim) // 2, "cpu" if generator is None else generator.device
    if "scaling" in words:
        fail("SCALING", "RotaryEmbedding", "random directions must have no scaling but got one")
    if pairs % 2 != 0:
        fail("SHAPE", "RotaryEmbedding", f"a mixed rope must turn a multiple of 4 elements but got {2 * pairs}")
    speeds = base ** (-2 * torch.arange(pairs // 2, dtype=torch.float64, device=where) / pairs)
    drawn = torch.rand(heads, 1, generator=generator, dtype=torch.float32, device=where).double()
    angles = 2 * math.pi * torch.cat([drawn, drawn + 0.25], -1)
    start = torch.stack([angles.cos(), angles.sin()], 1).unsqueeze(-1).mul(speeds).flatten(2)
    words |= {"head_dim": head_dim, "rotary_dim": rotary_dim, "base": base, "inv_freq": start}
    return Rope(**words, phase=[0.0] * (heads * pairs) if phase is True else phase or ())


def start_of(source: Rope | Frequencies) -> Frequencies:
    """What the parameters begin with."""
    start = frequencies(source) if isinstance(source, Rope) else source
    if start.summed_axes == 0 or start.xpos.scale != 0:
        told = "[axes, pairs] or [heads, axes, pairs], and no xpos"
        fail("SHAPE", "RotaryEmbedding", f"what learns must have an inv_freq {told}, but got {start!r}")
    return start


def values_of(start: Any) -> dict[str, Any]:
    """The parameters as they begin, in torch's default type."""
    speeds = _tensor(start._inv_freq).reshape(start.heads, start.summed_axes, -1)
    phase = _tensor(start._phase).reshape(-1, speeds.shape[-1]) if start._phase else None
    return {"inv_freq": speeds, "phase": phase}


def _tensor(doubles: bytes) -> Tensor:
    return torch.tensor(memoryview(doubles).cast("d").tolist())


def rows(positions: Any, inv_freq: Tensor, phase: Tensor | None, start: Frequencies) -> tuple[Tensor, Tensor]:
    """cos and sin [batch, tokens, heads, pairs], computed by torch in float64 and differentiable; float64 where
    inv_freq is, else float32.
    """
    places = torch.as_tensor(positions, device=inv_freq.device).double()
    if places.dim() not in (2, 3) or places.shape[0] != start.summed_axes:
        rule = "positions must be [axes, tokens] or [axes, batch, tokens]"
        fail("SHAPE", "RotaryEmbedding", f"{rule} of {start.summed_axes} axes but got {list(places.shape)}")
    places = places.unsqueeze(1) if places.dim() == 2 else places
    terms = [place[..., None, None] * speeds.double() for place, speeds in zip(places, inv_freq.unbind(1))]
    if phase is not None:
        terms.append(phase.double())
    angles, dtype = sum(terms[1:], terms[0]), torch.float64 if inv_freq.dtype == torch.float64 else torch.float32
    factor = start.attention_factor
    return (angles.cos() * factor).to(dtype), (angles.sin() * (-factor if start.clockwise else factor)).to(dtype)
