"""rotary.makers.Frequencies and rotary.Table, whose state _core reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

from . import _core, _memory
from ._memory import view
from ._config import ModelRope, Ropes, config, is_config
from ._rope import Rope
from ._types import AnyRope, Device, Dtype, Positions, Tensor
from ._values import listed, phases, shaped
from ._words import Angles, Pairing, Rounding, check_pairing, check_word, fail
from .scalings import XPos


@dataclass(frozen=True, init=False, repr=False)
class Frequencies:
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
        xpos: the amplitude of cos and sin, a rotary.scalings.XPos.

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
    axis: tuple[int, ...]
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
        given = {"inv_freq": inv_freq, "inv_freq_float32": () if inv_freq_float32 is None else inv_freq_float32}
        given |= {"head_rows": head_rows, "summed_axes": summed_axes, "phase": () if phase is None else phase}
        given |= {"pairing": check_pairing("Frequencies", pairing), "axis": () if axis is None else listed(axis)}
        given |= {"attention_factor": attention_factor, "clockwise": bool(clockwise)}
        given |= {"xpos": XPos() if xpos is None else xpos}
        given |= shaped("Frequencies", given)
        given["phase"], rows = phases("Frequencies", given)
        if rows > 1:  # all heads rotate by the one row
            given |= {name: listed(given[name]) * rows for name in ("inv_freq", "inv_freq_float32")}
            given["head_rows"] *= rows
        self._fill(*_core._speeds(SimpleNamespace(**given)), given["xpos"])

    def _fill(self, handle: object, *state: Any) -> Frequencies:
        vars(self).update(zip((field.name for field in fields(self)), state, strict=True), _handle=handle)
        return self

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Frequencies._of, self._values()  # checks the value of a pickle like a new one

    @classmethod
    def _of(cls, *state: Any) -> Frequencies:
        given = {field.name.removeprefix("_"): value for field, value in zip(fields(cls), state, strict=True)}
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
    def axes(self) -> int:
        return self.summed_axes or max(self.axis, default=0) + 1

    def __repr__(self) -> str:
        rows = f"{self.head_rows} heads of " if self.head_rows > 1 else ""
        axes = f" by {self.summed_axes} summed axes" if self.summed_axes else ""
        more = ", with phases" * bool(self._phase) + f", {self.xpos}" * (self.xpos.scale != 0)
        factor = f"attention_factor {self.attention_factor}"
        return f"<rotary.makers.Frequencies of {rows}{self._pairs} pairs{axes}, {self.pairing}, {factor}{more}>"


Frequencies.__module__ = "rotary.makers"  # from which users import it


def one_rope(operation: str, source: Any) -> Any:
    """The Rope, Frequencies or ModelRope that the source is, or the one rope of the config that it is."""
    if isinstance(source, Rope | Frequencies | ModelRope):
        return source
    if not isinstance(source, Ropes):
        if not is_config(source):
            rule = "a rope must be a rotary.Rope, Frequencies, or one that rotary.config reads or returns,"
            raise TypeError(f"[{operation}] {rule} but got {type(source).__name__}")
        source = config(source)
    if len(source) != 1:
        fail("ROPE", operation, f"a model must have one rope here but has {len(source)}: choose one, as for_layer(0)")
    return source[0]


def frequencies(source: AnyRope, length: int | None = None) -> Frequencies:
    """The angular speed of every pair of a rope, in float64, within 1 ulp of the formula.

    Args:
        source: as in rotary.Table.
        length: the length of the sequence, the largest position + 1. Only Dynamic and LongRope scaling need it.

    Raises:
        rotary.Error: LENGTH (needed and not given), SCALING, SHAPE.
    """
    rope = one_rope("frequencies", source)
    if isinstance(rope, Frequencies):
        if length is not None:
            fail("LENGTH", "frequencies", "length must go to the rope, which made these frequencies")
        return rope
    rope = rope if isinstance(rope, Rope) else rope.rope
    return object.__new__(Frequencies)._fill(*_core._frequencies(rope, length), rope.xpos)


class Shaped:
    """The properties of a table that follow from the shape of its rows."""

    __slots__ = ()
    shape: tuple[int, ...]
    pairing: Pairing

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


class Table(_core._Rows, Shaped):
    """A row of cos and sin for each token, float32. One table serves all layers and heads of a step.

    Args:
        source: a rotary.Rope, Frequencies, an entry of rotary.config, or a config with one rope.
        positions: the position of every token: an int, a range, a list, or an array of integers or floats. [tokens] or
            [batch, tokens]; for a rope of several axes [tokens] (text, whose axes are equal), [axes, tokens] or
            [axes, batch, tokens]. With summed axes, each axis needs its coordinate.
        length: the length of the sequence, for Dynamic and LongRope scaling. None: the largest position + 1.
        angles: "exact", the correctly rounded float32 at any position, or "float32", the steps of frameworks.
        rounding: "f32", "f16" or "bf16": the type to which the values are rounded.

    Attributes:
        cos, sin: float32 of .shape, read-only. positions: as int64 or float64; None for a table from rows.
        pairing, rotary_dim: as of the rope.
        shape: (tokens, pairs), (batch, tokens, pairs) or, with rows for each head, (batch, tokens, head_rows, pairs).
        batch, head_rows: 1 if the rows serve any batch size, and all heads; else their number in q or k.

    Raises:
        rotary.Error: PAIRING, SHAPE, SCALING, POSITION, LENGTH, VALUE.
    """

    __module__ = "rotary"  # from which users import it
    __slots__ = ("shape", "pairing", "_positions")
    shape: tuple[int, ...]
    pairing: Pairing
    _positions: tuple[str, tuple[int, ...], bytes] | None  # type, shape, memory

    def __new__(
        cls, source: AnyRope, positions: Positions, length: int | None = None, *, angles: Angles = "exact",
        rounding: Rounding = "f32",
    ) -> Table:  # fmt: skip
        rope, places = _at("Table", source, positions)
        check_word("Table", "angles", angles)
        check_word("Table", "rounding", rounding)
        rows, given = _core._rows_at(cls, rope, places, length, angles, rounding)
        return cls._with(*rows, given)

    @classmethod
    def between(
        cls, from_: AnyRope, from_positions: Positions, to: AnyRope, to_positions: Positions, *,
        rounding: Rounding = "f32",
    ) -> Table:  # fmt: skip
        """The table that re-rotates keys, from `from_` at from_positions to `to` at to_positions.

        rotate(keys, Table.between(...), layout=...) shifts a cache, or re-rotates it for another scaling or base. An
        angle is the difference of the new and the old one, rounded once; the attention factor is the ratio of the two.
        With Dynamic and LongRope scaling pass rotary.frequencies(rope, length), unless length is the last position + 1.
        """
        check_word("Table.between", "rounding", rounding)
        before, after = _at("Table.between", from_, from_positions), _at("Table.between", to, to_positions)
        return cls._with(*_core._between(cls, *before, *after, rounding), None)

    def __len__(self) -> int:
        """The number of tokens."""
        return self.tokens

    __iter__ = None

    def __getitem__(self, index: Any) -> Table:
        """The table of some tokens: of a slice, or of numbers [tokens] of tokens; of a table without a batch also
        [batch, tokens].
        """
        if hasattr(index, "__index__") and not getattr(index, "shape", ()):
            index = slice(index, index + 1 or None)
        elif not isinstance(index, slice):
            index = getattr(index, "tolist", lambda: index)()
        places = self.positions
        if places is not None:
            places = places.reshape(-1)[index] if places.ndim == 0 else places[..., index]
            places = ("F64" if places.dtype.kind == "f" else "I64", places.shape, places.tobytes())
        whole = (slice(None),) * (len(self.shape) > 2)
        rows = self.cos[(*whole, index)], self.sin[(*whole, index)]
        if rows[0].ndim > max(3, len(self.shape)):
            rule = "the numbers of tokens must be [tokens], or [batch, tokens] of a table without a batch,"
            fail("SHAPE", "Table", f"{rule} but got {rows[0].ndim - len(self.shape) + 1} dimensions")
        return Table._of_rows("Table", *rows, self.pairing, "", places, self._xpos)

    def tensors(self, device: Device | str | None = None, dtype: Dtype | None = None) -> tuple[Tensor, Tensor]:
        """cos and sin as new tensors of torch."""
        cos, sin = self._torch_cos, self._torch_sin
        return cos.to(device, dtype, copy=True), sin.to(device, dtype, copy=True)

    @classmethod
    def _of_rows(
        cls, operation: str, cos: Any, sin: Any, pairing: Any, doubled: str, positions: Any = None, xpos: bool = False
    ) -> Table:
        table = cls._with(*_core._rows_of(cls, operation, (cos, sin, pairing, doubled), xpos), positions)
        table.positions  # raises if they do not fill their shape
        return table

    def _with(self, *state: Any) -> Table:
        for name, value in zip(Table.__slots__, state, strict=True):
            object.__setattr__(self, name, value)
        return self

    @classmethod
    def _of(cls, cos: Any, sin: Any, shape: tuple[int, ...], pairing: Any, positions: Any, xpos: bool = False) -> Table:
        if type(xpos) is not bool:
            raise TypeError(f"xpos must be a bool but got {type(xpos).__name__}")
        rows = view(cos, "F32", shape), view(sin, "F32", shape)
        table = cls._of_rows("Table", *rows, pairing, "", positions, xpos)
        places = (table.tokens,) if positions is None else positions[1] or (1,)
        if places[-1] != table.tokens or len(places) > 3:
            fail("SHAPE", "Table", f"positions must be those of {table.tokens} tokens but got {places}")
        return table

    def _values(self) -> tuple[Any, ...]:
        cos, sin = (bytes(_core._memory(self, which)) for which in (False, True))
        return cos, sin, self.shape, self.pairing, self._positions, self._xpos

    def __reduce__(self) -> tuple[Any, ...]:
        return Table._of, self._values()

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(f"a Table is frozen: {name} cannot change")

    __delattr__ = __setattr__

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is Table else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

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


def _at(operation: str, source: Any, positions: Any) -> tuple[Rope | Frequencies, Any]:
    """The rope of a source, and the positions as _core reads them."""
    rope = one_rope(operation, source)
    if not isinstance(rope, Rope | Frequencies):
        rope, positions = rope.rope, rope._own(positions)
    return rope, _memory.positions(positions)


def refuse_xpos(operation: str, table: Any) -> None:
    """Refuses a table with xPos where one table rotates q and k."""
    if getattr(table, "_xpos", False):
        fail("SCALING", operation, "a table of queries and keys must have no xPos, whose inverse keys take, but has it")
