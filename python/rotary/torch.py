"""RoPE as a module of torch, and tables of torch's tensors.

Tensors are rotated by the functions of rotary itself, such as rotary.rotate_qk(q, k, table, layout=...), also under
torch.func, torch.compile and torch.export.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor

from ._config import ModelRope
from ._rope import Rope, RopeWords
from ._rotating import rotate, rotate_qk
from ._tables import Frequencies, frequencies, one_rope
from ._torch import entry
from ._torch.plain import check_dense, is_quiet
from ._torch.rows import RowMaker, as_tensor, tensor_of
from ._torch.tables import TensorTable, of_keys
from ._types import AnyRope, AnyTable, Positions
from ._words import Angles, Layout, Pairing, Rounding, check_layout, check_pairing, fail

__all__ = ["RotaryEmbedding", "TensorTable"]


class _How(TypedDict, total=False):
    layout: Layout | None
    first: int | None
    angles: Angles
    rounding: Rounding


class _Words(RopeWords, _How, total=False):
    pass


class RotaryEmbedding(torch.nn.Module):
    """RoPE of q and k, with cos and sin of exact angles computed for the positions of each call.

    It has no buffers, no cache and, unless it learns, no parameters, so .to(), .half(), to_empty(), FSDP and
    state_dict() find nothing to change. A table for several layers is cheaper: make it with table() once per step and
    pass it to rotary.rotate_qk.

    Args:
        rope: a rotary.Rope, an entry of rotary.config(...), a config with one rope, or rotary.makers.Frequencies. None:
            rotary.Rope(**words).
        layout: the layout of q and k, "bhtd", "bthd", ..., unless the call gets it.
        first: the element of each head where the rotated block begins. None: the entry's, or 0.
        angles: "exact", or "float32", the steps of frameworks.
        rounding: "f32", "f16" or "bf16": the type to which cos and sin are rounded.
        learned: "mixed" makes the directions the parameter inv_freq [heads, axes, pairs], and the phases, if the rope
            has any, the parameter phase [heads, pairs]. Positions are [axes, tokens] or [axes, batch, tokens]. Initial
            values are the rope's, or random directions along two axes for the words head_dim=, heads=, pairing=, base=
            (10, as in rope-vit and timm) and phase=True for phases of 0. reset_parameters() restores them, for example
            after to_empty(). cos and sin are torch's, of angles in float64.
        generator: a torch.Generator for random values. None: torch's own.
        **words: head_dim=, base=, pairing=, scaling= and the other arguments of rotary.Rope.

    Raises:
        rotary.Error: PAIRING, SHAPE, SCALING, VALUE, and what rotary.config raises; ROPE for a config of several ropes.
        TypeError: a rope and words of a rope, or neither.

    Example:
        >>> rope = rotary.RotaryEmbedding(head_dim=64, base=10000, pairing="half")
        >>> q, k = rope(q, k, offset=cache_len, layout="bhtd")
    """

    @overload
    def __init__(
        self, rope: AnyRope, *, learned: Literal["mixed"] | None = None, **how: Unpack[_How]
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(self, **words: Unpack[_Words]) -> None: ...

    @overload
    def __init__(
        self, *, learned: Literal["mixed"], head_dim: int, heads: int, pairing: Pairing, rotary_dim: int = 0,
        base: float = 10.0, phase: bool = False, generator: torch.Generator | None = None, **how: Unpack[_How],
    ) -> None: ...  # fmt: skip

    def __init__(
        self, rope: Any = None, *, layout: Any = None, first: int | None = None, angles: Any = "exact",
        rounding: Any = "f32", learned: Any = None, generator: torch.Generator | None = None, **words: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if learned not in (None, "mixed"):
            fail("VALUE", "RotaryEmbedding", f"learned must be 'mixed' or None but got {learned!r}")
        if learned and (angles, rounding) != ("exact", "f32"):
            fail("VALUE", "RotaryEmbedding", f"what learns must have exact f32 rows but got {angles}, {rounding}")
        if (rope is None) == (not words):
            raise TypeError("RotaryEmbedding takes a rope, or the words of rotary.Rope, such as head_dim= and pairing=")
        if rope is None:
            words["pairing"] = check_pairing("RotaryEmbedding", words.get("pairing"))
            if learned and not {"head_dim", "heads"} <= words.keys():
                rule = "takes a rope, or head_dim=, heads= and pairing= for random directions, but got"
                raise TypeError(f"RotaryEmbedding(learned='mixed') {rule} {', '.join(words)}")
            rope = _mixed_rope(generator=generator, **words) if learned else Rope(**words)
        rope = one_rope("RotaryEmbedding", rope)
        self._entry = rope if isinstance(rope, ModelRope) and rope._axes < len(rope.axis_names) else None
        if isinstance(rope, ModelRope):
            first = rope.first if first is None else first
            rope = rope.rope
        self.rope: Rope | Frequencies = rope
        self.layout: Layout | None = None if layout is None else check_layout("RotaryEmbedding", layout)
        self.first = first or 0
        self._rows = RowMaker(rope, angles, rounding)
        self._rows_of_keys = RowMaker(of_keys(rope), angles, rounding) if rope.xpos.scale else None
        self._start = _start_of(rope) if learned else None
        self._is_usual = (self._entry, self._rows_of_keys, self._start) == (None, None, None)
        if self._start is not None:
            self.inv_freq: torch.nn.Parameter
            self.phase: torch.nn.Parameter | None
            for name, values in _values_of(self._start).items():
                self.register_parameter(name, None if values is None else torch.nn.Parameter(values))

    def reset_parameters(self) -> None:
        """Sets the learned parameters to their initial values."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(_values_of(self._start)[name])

    def table(
        self, positions: Positions | Tensor, length: int | Tensor | None = None, *, dtype: torch.dtype = torch.float32
    ) -> AnyTable:
        """The table for these positions, one for all layers of a step.

        Args:
            positions: positions as in rotary.Table: [tokens] or [batch, tokens], or with the axes in front. A tensor
                may be on any device, and traced by torch.compile or torch.export.
            length: the length of the sequence, for Dynamic and LongRope scaling. None: the largest position + 1.
            dtype: torch.float64 for rows good to 1e-15.

        Returns:
            A rotary.Table; in float64, in a graph, or for a tensor that is not in the CPU's memory, a TensorTable whose
            rows torch's own operations make on the device of the positions; for learned directions, a TensorTable that
            carries their gradient. With xPos the table is for queries only.
        """
        return self._table(self._rows, self._own(positions), length, None, dtype)

    def _own(self, positions: Any) -> Any:
        """The positions on the entry's own axes, where an entry was given."""
        if self._entry is None:
            return positions
        return self._entry._own(positions, positions.shape if isinstance(positions, Tensor) else None)

    def _table(
        self, rows: RowMaker, positions: Any, length: Any, device: torch.device | None, dtype: torch.dtype
    ) -> AnyTable:
        if self._start is not None:
            places = as_tensor(positions, self.inv_freq.device)
            return TensorTable(*_learned_rows(places, self.inv_freq, self.phase, self._start), self._start.pairing)
        return rows.table(positions, length, device, dtype)

    if TYPE_CHECKING:

        @overload
        def __call__(
            self, q: Tensor, k: None = None, positions: Positions | Tensor | None = None, *, offset: int | Tensor = 0,
            layout: Layout | None = None, length: int | Tensor | None = None,
        ) -> Tensor: ...  # fmt: skip

        @overload
        def __call__(
            self, q: Tensor, k: Tensor, positions: Positions | Tensor | None = None, *, offset: int | Tensor = 0,
            layout: Layout | None = None, length: int | Tensor | None = None,
        ) -> tuple[Tensor, Tensor]: ...  # fmt: skip

        def __call__(self, *given: Any, **words: Any) -> Any: ...

    def forward(
        self, q: Tensor, k: Tensor | None = None, positions: Any = None, *, offset: int | Tensor = 0,
        layout: Layout | None = None, length: int | Tensor | None = None,
    ) -> Any:  # fmt: skip
        """Rotate q and k.

        Args:
            q: [batch, heads, tokens, head_dim] with layout "bhtd"; float32, float16, bfloat16 or float64.
            k: keys in the same layout. None: only q is rotated and returned. With xPos k gets the inverse amplitude.
            positions: the positions of the tokens, as in table(). None: offset, offset + 1, ...
            offset: the position of the first token, which is the cache's length: an int, or a tensor of integers, a
                scalar or [batch].
            layout: the order of the dimensions. None: the module's.
            length: see table().

        Returns:
            (q, k), or q: new tensors.

        Raises:
            rotary.Error: what rotary.rotate_qk and rotary.Table raise; SHAPE if there is no layout.
        """
        layout = self.layout if layout is None else check_layout("RotaryEmbedding", layout)
        if layout is None:
            fail("SHAPE", "RotaryEmbedding", 'layout must be given, here or to the module, as "bhtd"')
        if positions is None:
            positions = self._positions(q, offset, layout)
        elif not isinstance(offset, int) or offset != 0:
            fail("VALUE", "RotaryEmbedding", "positions or offset must be given but got both")
        else:
            positions = self._own(positions)
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        if k is not None and self._is_usual and q.dim() == len(layout) and torch.compiler.is_dynamo_compiling():
            # This branch does what the lines below do, with fewer guards.
            cos, sin = self._rows.at(as_tensor(positions, q.device), length, wide)
            return entry.turned(q, k, cos, sin, self._rows.pairing, layout, self.first)
        table = self._table(self._rows, positions, length, q.device, wide)
        if k is None:
            return rotate(q, table, layout=layout, first=self.first)
        if self._rows_of_keys is not None:
            inverse = self._table(self._rows_of_keys, positions, length, q.device, wide)
            turned = rotate(q, table, layout=layout, first=self.first)
            return turned, rotate(k, inverse, layout=layout, first=self.first)
        return rotate_qk(q, k, table, layout=layout, first=self.first)

    def _positions(self, q: Tensor, offset: int | Tensor, layout: str) -> Any:
        check_dense("RotaryEmbedding", q)
        tokens = q.shape[layout.index("t") - len(layout)] if "t" in layout else 1
        if isinstance(offset, Tensor):
            steps = torch.arange(tokens, device=offset.device)
            rows = offset + steps if offset.dim() == 0 else offset.unsqueeze(-1) + steps
            return rows[None] if rows.dim() > 1 and self._rows.axes > 1 else rows  # one for all axes
        if not isinstance(offset, int) and not hasattr(offset, "__index__"):
            rule = "offset must be an int, or a tensor of integers"
            raise TypeError(f"[RotaryEmbedding] {rule}, but got {type(offset).__name__}")
        if torch.compiler.is_dynamo_compiling() or not isinstance(tokens, int) or not is_quiet():
            return torch.arange(offset, offset + tokens, device=q.device)
        return range(offset, offset + tokens)

    def extra_repr(self) -> str:
        rope = f"{self._start!r}, learned='mixed'" if self._start is not None else repr(self.rope)
        layout = "" if self.layout is None else f", layout={self.layout!r}"
        return rope + layout + (f", first={self.first}" if self.first else "")


# ---- learned="mixed": the initial directions, and the rows of the learned ones ----


def _mixed_rope(
    *, head_dim: int, heads: int, rotary_dim: int = 0, base: float = 10.0, phase: Any = False,
    generator: torch.Generator | None, **words: Any,
) -> Rope:  # fmt: skip
    """A rope of random directions, as rope-vit (arXiv:2403.13298) and timm's RotaryEmbeddingMixed draw them.

    Pairs i and i + pairs / 2 of a head have the speed base^(-2i / pairs), along two directions at a right angle, which
    are drawn for each head.
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


def _start_of(source: Rope | Frequencies) -> Frequencies:
    """The initial values of the parameters."""
    start = frequencies(source) if isinstance(source, Rope) else source
    if start.summed_axes == 0 or start.xpos.scale != 0:
        rule = "what learns must have an inv_freq [axes, pairs] or [heads, axes, pairs], and no xpos"
        fail("SHAPE", "RotaryEmbedding", f"{rule}, but got {start!r}")
    return start


def _values_of(start: Any) -> dict[str, Any]:
    """The initial parameters, in torch's default type."""
    speeds, phase = (tensor_of(numbers).to(torch.get_default_dtype()) for numbers in (start._inv_freq, start._phase))
    speeds = speeds.reshape(start.head_rows, start.summed_axes, -1)
    return {"inv_freq": speeds, "phase": phase.reshape(-1, speeds.shape[-1]) if start._phase else None}


def _learned_rows(places: Tensor, inv_freq: Tensor, phase: Tensor | None, start: Frequencies) -> tuple[Tensor, Tensor]:
    """cos and sin [batch, tokens, heads, pairs] by torch in float64, differentiable; rounded to float32 unless inv_freq
    is float64.
    """
    places = places.double()
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
