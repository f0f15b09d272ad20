# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""A rope as text: an op takes no object, and an exported program is loaded where the object is not."""

from __future__ import annotations

import functools
import json
from typing import Any

from torch import Tensor

from .. import _core
from .._tables import Frequencies, Table, frequencies
from .._values import Rope, XPos, _rope


class ReadRope:
    """What the text says.

    Attributes:
        source: a rotary.Rope, or rotary.Frequencies.
        pairs: columns of its rows.
        axes: coordinates of a position.
        heads: rows per token.
    """

    def __init__(self, text: str) -> None:
        words = json.loads(text)
        self.source: Rope | Frequencies
        if "rope" in words:
            self.source = rope = _rope(words["rope"])
            speeds = frequencies(rope, 0)
            try:
                self.source = frequencies(rope)
            except _core.Error as error:  # Dynamic and LongRope take the length of each call
                if error.code != "LENGTH":
                    raise
            self._takes_length = True
        else:
            state, self._takes_length = words["frequencies"], False
            values: list[Any] = [bytes.fromhex(value[0]) if type(value) is list else value for value in state]
            self.source = speeds = Frequencies._of(*values[:-1], XPos(**values[-1]))
        self.pairs, self.axes, self.heads = speeds.rotary_dim // 2, speeds.axes, speeds.heads
        self.angles, self.rounding = words["angles"], words["rounding"]

    def table(self, positions: Any, length: int | None = None) -> Table:
        if self._takes_length and isinstance(self.source, Frequencies):
            length = None  # on which they do not depend
        return Table(self.source, positions, length, angles=self.angles, rounding=self.rounding)


def write_rope(source: Rope | Frequencies, angles: str, rounding: str) -> str:
    """The same text for the same rope."""
    words: dict[str, Any] = {"angles": angles, "rounding": rounding}
    if isinstance(source, Rope):
        words["rope"] = _core._check_rope(source)
    else:
        *state, xpos = source._values()
        words["frequencies"] = [[value.hex()] if isinstance(value, bytes) else value for value in state]
        words["frequencies"].append(dict(zip(xpos._fields, xpos._values())))
    return json.dumps(words)


def of_keys(source: Rope | Frequencies) -> Rope | Frequencies:
    """What turns the keys of queries that `source` turns: xPos's inverse."""
    turned = source.xpos.replace(reciprocal=not source.xpos.reciprocal)
    if isinstance(source, Frequencies):
        return Frequencies._of(*source._values()[:-1], turned)
    return source.replace(xpos=turned)


@functools.lru_cache(maxsize=64)
def read_rope(text: str) -> ReadRope:
    return ReadRope(text)


def rows_shape(positions: Tensor, read: ReadRope) -> tuple[int, ...]:
    """That of rotary.Table."""
    shape = tuple(positions.shape)
    if read.axes > 1 and len(shape) > 1:
        shape = shape[1:]
    shape = shape or (1,)
    if read.heads > 1:
        shape = (*((1,) if len(shape) == 1 else ()), *shape, read.heads)
    return (*shape, read.pairs)
