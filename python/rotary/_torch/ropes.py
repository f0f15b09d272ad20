# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""A rope as text: an op takes no object, and an exported program is loaded where the object is not."""

from __future__ import annotations

import functools
import json
from typing import Any

from torch import Tensor

from .. import _core
from .._tables import Frequencies, Table, frequencies
from .._values import Rope, _rope


class ReadRope:
    """What the text says.

    Attributes:
        source: a rotary.Rope, or rotary.Frequencies.
        pairs: columns of its rows.
        axes: coordinates of a position.
    """

    def __init__(self, text: str) -> None:
        words = json.loads(text)
        self.source: Rope | Frequencies
        if "rope" in words:
            self.source = rope = _rope(words["rope"])
            try:
                self.source = frequencies(rope)
            except _core.Error as error:  # Dynamic and LongRope take the length of each call
                if error.code != "LENGTH":
                    raise
            self._takes_length = True
            self.pairs, self.axes = rope.rotary_dim // 2, max(rope.axis, default=0) + 1
        else:
            state, self._takes_length = words["frequencies"], False
            self.source = speeds = Frequencies._of(*(bytes.fromhex(v[0]) if type(v) is list else v for v in state))
            self.pairs, self.axes = speeds.rotary_dim // 2, speeds.axes
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
        state = source._values()
        words["frequencies"] = [[value.hex()] if isinstance(value, bytes) else value for value in state]
    return json.dumps(words)


@functools.lru_cache(maxsize=64)
def read_rope(text: str) -> ReadRope:
    return ReadRope(text)


def positions_shape(positions: Tensor, axes: int) -> tuple[int, ...]:
    """[tokens] or [batch, tokens] of what rotary.Table takes."""
    shape = tuple(positions.shape)
    if axes > 1 and len(shape) > 1:
        shape = shape[1:]
    return shape or (1,)
