"""rotary.Frequencies and rotary.Table, whose state _core reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, final

from . import _core, _memory
from ._memory import view
from ._values import Rope, XPos, _Value, amplitude, listed, phases, shaped
from ._words import Angles, Pairing, Rounding, check_pairing, fail


@final
class Frequencies(_Value):
    """The angular speed of every pair, and the other values that determine an angle.

    Head h rotates pair i of token t by the sum over axes a of position[a, t] * inv_freq[h, a, i], plus phase[h, i].
    Usually rotary.frequencies(rope) returns it. Frequencies from elsewhere, such as learned ones, are given here:

    Args:
        inv_freq: radians per position of each pair, [pairs]; a pair with 0 does not rotate. With [axes, pairs] an angle
            is the sum over that many coordinates. With [head_rows, axes, pairs], or [head_rows, pairs] and head_rows=,
            each head has its own, or each group of heads of q that shares a head of k.
        pairing: "half", "interleaved" or "interleaved_to_half". No default.
        attention_factor: multiplies cos and sin.
        axis: the coordinate of a position by which each pair rotates, [pairs]. None: the first for all.
        clockwise: True rotates by minus the angle.
        inv_freq_float32: the frequencies as frameworks compute them in float32, for Table(..., angles="float32").
        head_rows, summed_axes: the first dimensions of inv_freq, given only where their number is not clear. head_rows
            is no number of the model: leave it 1 unless each head turns by its own frequencies.
        phase: radians that are added to the angle, [pairs] or [head_rows, pairs]; heads may share inv_freq. None: 0.
        xpos: the amplitude of cos and sin, a rotary.XPos.

    Attributes:
        inv_freq: float64 in the shape above, read-only.
        phase: float64 in one dimension, read-only.
        axis: a tuple; empty if all pairs use the first coordinate.
        axes: the number of coordinates of a position.
        rotary_dim: the number of elements that rotate, two for each pair.

    Raises:
        rotary.Error: PAIRING, SHAPE.
    """

    _inv_freq: bytes  # float64
    pairing: Pairing
    _axis: bytes  # uint8
    attention_factor: float
    clockwise: bool
    _inv_freq_float32: bytes  # float32
    head_rows: int
    summed_axes: int
    _phase: bytes  # float64
    xpos: XPos

    def __init__(
        self, inv_freq: Any, *, pairing: Pairing, attention_factor: float = 1.0, axis: Any = None,
        clockwise: bool = False, inv_freq_float32: Any = None, head_rows: int = 1, summed_axes: int = 0,
        phase: Any = None, xpos: XPos | None = None,
    ) -> None:  # fmt: skip
        check_pairing("Frequencies", pairing)
        inv_freq, head_rows, summed_axes = shaped("Frequencies", inv_freq, head_rows, summed_axes)
        phase, rows = phases("Frequencies", () if phase is None else phase, head_rows)
        narrow = () if inv_freq_float32 is None else inv_freq_float32
        if rows > 1:  # all heads rotate by the one row
            inv_freq, narrow = (listed(one) * rows for one in (inv_freq, narrow))
        xpos = amplitude(xpos)
        given = SimpleNamespace(
            inv_freq=inv_freq, inv_freq_float32=narrow, phase=phase, head_rows=head_rows * rows,
            summed_axes=summed_axes, pairing=pairing, axis=() if axis is None else listed(axis),
            attention_factor=attention_factor, clockwise=bool(clockwise), xpos=xpos,
        )  # fmt: skip
        self._fill(*_core._speeds(given), xpos)

    def _fill(self, handle: object, *state: Any) -> Frequencies:
        object.__setattr__(self, "_handle", handle)
        self._set(*state)
        return self

    @classmethod
    def _of(cls, *state: Any) -> Frequencies:
        given = {name.removeprefix("_"): value for name, value in zip(cls._fields, state, strict=True)}
        given |= {name: memoryview(given[name]).cast("d") for name in ("inv_freq", "phase")}
        given["inv_freq_float32"] = memoryview(given["inv_freq_float32"]).cast("f")
        return cls(**given)

    @property
    def inv_freq(self) -> Any:
        rows = [self.head_rows] if self.head_rows > 1 else []
        return view(self._inv_freq, "F64", (*rows, *([self.summed_axes] if self.summed_axes else []), self._pairs))

    @property
    def phase(self) -> Any:
        return view(self._phase, "F64", (len(self._phase) // 8,))

    @property
    def inv_freq_float32(self) -> Any:
        return view(self._inv_freq_float32, "F32", (len(self._inv_freq_float32) // 4,))

    @property
    def _pairs(self) -> int:
        return len(self._inv_freq) // 8 // (self.head_rows * max(1, self.summed_axes))

    @property
    def rotary_dim(self) -> int:
        return 2 * self._pairs

    @property
    def axis(self) -> tuple[int, ...]:
        return tuple(self._axis)

    @property
    def axes(self) -> int:
        return self.summed_axes or max(self._axis, default=0) + 1

    def __repr__(self) -> str:
        rows = f"{self.head_rows} heads of " if self.head_rows > 1 else ""
        axes = f" by {self.summed_axes} summed axes" if self.summed_axes else ""
        more = ", with phases" * bool(self._phase) + f", {self.xpos}" * (self.xpos.scale != 0)
        factor = f"attention_factor {self.attention_factor}"
        return f"<rotary.Frequencies of {rows}{self._pairs} pairs{axes}, {self.pairing}, {factor}{more}>"


def frequencies(rope: Rope, length: int | None = None) -> Frequencies:
    """The angular speed of every pair of a rope, in float64, within 1 ulp of the formula.

    Args:
        rope: a rotary.Rope.
        length: the length of the sequence, the largest position + 1. Only Dynamic and LongRope scaling need it.

    Raises:
        rotary.Error: LENGTH (needed and not given), SCALING, SHAPE.
    """
    return object.__new__(Frequencies)._fill(*_core._frequencies(rope, length), rope.xpos)


class Shaped:
    """The properties of a table that follow from the shape of its rows."""

    __slots__ = ()
    pairing: Pairing

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def pairs(self) -> int:
        return self.shape[-1]

    @property
    def rotary_dim(self) -> int:
        return 2 * self.shape[-1]

    @property
    def tokens(self) -> int:
        return self.shape[-2 if len(self.shape) < 4 else 1]

    @property
    def batch(self) -> int:
        return self.shape[0] if len(self.shape) > 2 else 1

    @property
    def head_rows(self) -> int:
        return self.shape[2] if len(self.shape) > 3 else 1

    def _summary(self) -> str:
        batch = "" if self.batch == 1 else f"{self.batch} x "
        heads = "" if self.head_rows == 1 else f" for {self.head_rows} heads"
        return f"{batch}{self.tokens} tokens{heads}, rotary_dim {self.rotary_dim}, {self.pairing}"


@final
class Table(_core._Rows, _Value, Shaped):
    """A row of cos and sin for each token, float32. One table serves all layers and heads of a step.

    A table has one column for each pair; from_doubled() reads the doubled columns of frameworks.

    Args:
        source: a rotary.Rope, or rotary.Frequencies.
        positions: the position of every token: an int, a range, a list, or an array of integers or floats. [tokens] or
            [batch, tokens]; for a rope of several axes [tokens] (text, whose axes are equal), [axes, tokens] or
            [axes, batch, tokens]. With summed axes, each axis needs its coordinate.
        length: the length of the sequence, for Dynamic and LongRope scaling. None: the largest position + 1.
        angles: "exact", the correctly rounded float32 at any position, or "float32", the steps of frameworks.
        rounding: "f32", "f16" or "bf16": the type to which the values are rounded.

    Attributes:
        cos, sin: float32 of .shape, read-only.
        positions: the given positions as int64 or float64, read-only; None for a table from rows.
        pairing: the two elements that rotate together.
        shape: (tokens, pairs), (batch, tokens, pairs) or, with rows for each head, (batch, tokens, head_rows, pairs).
        rotary_dim: the number of elements that rotate, 2 * pairs.
        batch: 1 if the rows serve any batch size.
        head_rows: 1 if all heads rotate alike, else the number of heads of q or of k.

    Raises:
        rotary.Error: PAIRING, SHAPE, SCALING, POSITION, LENGTH, VALUE.
    """

    __slots__ = ("shape", "pairing", "_positions")
    shape: tuple[int, ...]
    pairing: Pairing
    _positions: tuple[str, tuple[int, ...], bytes] | None  # type, shape, memory

    def __new__(
        cls, source: Rope | Frequencies, positions: Any, length: int | None = None, *,
        angles: Angles = "exact", rounding: Rounding = "f32",
    ) -> Table:  # fmt: skip
        places = _memory.positions(positions)
        rows, given = _core._rows_at(cls, source, places, length, angles, rounding)
        return cls._with(*rows, given)

    @classmethod
    def _of_rows(
        cls, operation: str, cos: Any, sin: Any, pairing: Any, doubled: str, positions: Any = None, xpos: bool = False
    ) -> Table:
        table = cls._with(*_core._rows_of(cls, operation, (cos, sin, pairing, doubled), xpos), positions)
        table.positions  # raises if they do not fill their shape
        return table

    @staticmethod
    def _with(table: Table, *state: Any) -> Table:
        table._set(*state)
        return table

    @classmethod
    def _of(cls, cos: Any, sin: Any, shape: tuple[int, ...], pairing: Any, positions: Any, xpos: bool = False) -> Table:
        return cls._of_rows("Table", view(cos, "F32", shape), view(sin, "F32", shape), pairing, "", positions, xpos)

    def _values(self) -> tuple[Any, ...]:
        cos, sin = (bytes(_core._memory(self, which)) for which in (False, True))
        return cos, sin, self.shape, self.pairing, self._positions, self._xpos

    @property
    def cos(self) -> Any:
        return view(_core._memory(self, False), "F32", self.shape)

    @property
    def sin(self) -> Any:
        return view(_core._memory(self, True), "F32", self.shape)

    @property
    def positions(self) -> Any:
        if self._positions is None:
            return None
        kind, shape, memory = self._positions
        return view(memory, kind, shape)

    def __repr__(self) -> str:
        return f"<rotary.Table of {self._summary()}>"


def between(
    from_: Rope | Frequencies, from_positions: Any, to: Rope | Frequencies, to_positions: Any, *,
    rounding: Rounding = "f32",
) -> Table:  # fmt: skip
    """The table that re-rotates keys, from `from_` at from_positions to `to` at to_positions.

    rotate(keys, between(...), layout=...) shifts a cache, or re-rotates it for another scaling or base. An angle is the
    difference of the new and the old one, rounded once. The attention factor is the ratio of the two, so that a shift
    does not apply it again. The pairing is that of rotated keys. The table's positions are None.

    Args:
        from_: a rotary.Rope, or rotary.Frequencies. With Dynamic and LongRope scaling the length of a Rope is its
            largest position + 1; pass rotary.frequencies(rope, length) for another length.
        from_positions: the present positions of the keys, as in rotary.Table.
        to: the rope or frequencies of the new rotation.
        to_positions: the new positions, for the same number of tokens.
        rounding: as in rotary.Table.

    Raises:
        rotary.Error: PAIRING (the pairs are laid out differently), SHAPE, SCALING, POSITION, VALUE.
    """
    places = [_memory.positions(given) for given in (from_positions, to_positions)]
    return Table._with(*_core._between(Table, from_, places[0], to, places[1], rounding), None)


def refuse_xpos(operation: str, table: Any) -> None:
    """Refuses a table with xPos where one table rotates q and k."""
    if getattr(table, "_xpos", False):
        fail("SCALING", operation, "a table of queries and keys must have no xPos, whose inverse keys take, but has it")
