"""Frequencies, axes and ropes by the names that papers and libraries give them, as in rotary/makers.h.

docs/variants.md lists the models that use them. Arguments are arrays, lists and numbers. Results are read-only float64
arrays of numpy for inv_freq= of rotary.Rope, numbers for base=, tuples for axis=, and ropes. Errors are rotary.Error,
SHAPE for sizes and VALUE for numbers for which the formula is not defined.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from . import _core
from ._memory import view
from ._rope import Rope, _rope
from ._tables import Frequencies
from ._values import Record
from ._words import Pairing
from .scalings import Scaling, Unscaled, XPos  # noqa: F401  XPos: an annotation of Frequencies

__all__ = [
    *("Axis", "Frequencies", "axial", "clipped", "ernie_axes", "geometric_frequencies", "glm_axes"),
    *("golden_directions", "interleaved_axes", "mixed_directions", "ntk_base", "openpangu_axes", "pixel_frequencies"),
    *("random_angles", "sectioned_axes", "videorope_axes"),
]


def _array(function: str, words: dict[str, Any], *row: int) -> Any:
    """The result of a maker. words: its arguments, named and ordered as in C++. row: all dimensions but the first."""
    memory = _core._make(function, words)
    return view(memory, "F64", (len(memory) // 8 // math.prod(row), *row))


def mixed_directions(head_dim: int, angles: Any, base: float = 10.0) -> Any:
    """The directions of RoPE-Mixed, arXiv 2403.13298, as timm's init_random_2d_freqs: [heads, 2, pairs].

    angles: for each head the direction, in radians, of its first head_dim / 4 pairs; the others turn square to it.
    """
    return _array("mixed_directions", {"head_dim": head_dim, "angles": angles, "base": base}, 2, head_dim // 2)


def random_angles(heads: int, seed: int) -> Any:
    """A random angle in [0, 2 pi) for each head, [heads]: the same on every machine, but other than torch's.

    seed: from 0 to 2^64 - 1.
    """
    return _array("random_angles", {"heads": heads, "seed": seed})


def golden_directions(head_dim: int, heads: int, axes: int, least: float, most: float, still: float = 0.0) -> Any:
    """The directions of golden gate RoPE, jerryxio.ng/posts/nd-rope: [heads, axes, pairs], axes from 1 to 16.

    still: the share of the first pairs, which do not rotate. The others' speeds are geometric, from least to most.
    """
    words = {"head_dim": head_dim, "heads": heads, "axes": axes, "least": least, "most": most, "still": still}
    return _array("golden_directions", words, axes, head_dim // 2)


def geometric_frequencies(pairs: int, first: float, last: float) -> Any:
    """Geometric frequencies from first to last, in radians per position, [pairs]. LTX-Video: pi / 2 to base pi / 2."""
    return _array("geometric_frequencies", {"pairs": pairs, "first": first, "last": last})


def pixel_frequencies(pairs: int, most: float) -> Any:
    """pi linspace(1, most / 2), [pairs], for positions in [-1, 1]; rotary-embedding-torch's "pixel"."""
    return _array("pixel_frequencies", {"pairs": pairs, "most": most})


def clipped(inv_freq: Any, last: int = 20, hard: bool = False) -> Any:
    """inv_freq with its last pairs times (1 + cos u) / 2, u from 0 to pi; hard: 0. CoPE-clip, arXiv 2602.05258."""
    return _array("clipped", {"inv_freq": inv_freq, "last": last, "hard": hard})


def glm_axes(sections: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of SGLang's mrope_interleaved_glm: thw thw ... of the axes that have pairs left.

    sections: numbers of pairs for time, height and width.
    """
    return tuple(_core._make("glm_axes", {"sections": sections}))


def openpangu_axes(sections: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of openPangu VL in vLLM: each pair takes the axis of whose pairs the smallest share is placed, and
    the same axis twice in a row only if no other has pairs left. sections: as in glm_axes.
    """
    return tuple(_core._make("openpangu_axes", {"sections": sections}))


def videorope_axes(sections: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of VideoRoPE, arXiv 2502.05173, and of Ming: hwhw... ttt. sections: as in glm_axes."""
    return tuple(_core._make("videorope_axes", {"sections": sections}))


def ntk_base(base: float, scale: float, width: int, strength: float = 1.0) -> float:
    """The base of NTK by resolution for an axis of width elements: base * scale^(strength * width / (width - 2))."""
    return float(_core._make("ntk_base", {"base": base, "scale": scale, "width": width, "strength": strength}))


def sectioned_axes(sections: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of consecutive sections, such as Qwen2-VL's ttt hhh www. sections: the number of pairs of each axis."""
    return tuple(_core._make("sectioned_axes", {"sections": sections}))


def interleaved_axes(sections: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of interleaved sections, such as Qwen3-VL's thw thw ... ttt. sections: as in sectioned_axes."""
    return tuple(_core._make("interleaved_axes", {"sections": sections}))


def ernie_axes(height_width_time: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of Ernie 4.5 VL: hwhw... ttt. height_width_time: the number of pairs of each axis."""
    return tuple(_core._make("ernie_axes", {"height_width_time": height_width_time}))


class Axis(Record):
    """An axis of axial().

    Args:
        width: the number of elements of the head, even, that it rotates; it may be 0.
        base: the base of its frequencies.
        stretch: multiplies its wavelengths.
        scaling: scales its own frequencies. All axes must have the same attention factor.
    """

    width: int
    base: float = 10000.0
    stretch: float = 1.0
    scaling: Scaling = Unscaled()


def axial(*, head_dim: int, axes: int | Iterable[Axis | int], base: float = 10000.0, pairing: Pairing) -> Rope:
    """A vision rope of several axes, each with its own run of frequencies.

    Args:
        axes: the number of axes, which get equal shares of the head; or each of them, as an Axis or a width. The first
            pairs use axis 0, and so on; elements beyond the last axis do not rotate.
        base: the base of axes that do not have their own.

    Raises:
        rotary.Error: PAIRING, SHAPE, SCALING; LENGTH for a scaling that needs a length.
    """
    if not isinstance(axes, Iterable):
        return _rope(_core._make("axial", {"head_dim": head_dim, "axes": axes, "base": base, "pairing": pairing}))
    each = [one if isinstance(one, Axis) else Axis(width=one, base=base) for one in axes]
    return _rope(_core._make("axial_widths", {"head_dim": head_dim, "axes": each, "pairing": pairing}))
