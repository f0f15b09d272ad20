"""What a peer is: something that prepares a cell once, then repeats the same work."""

from dataclasses import dataclass
from importlib import metadata
from time import perf_counter
from typing import Callable

import numpy as np

from cells import Cell


class Unavailable(Exception):
    """Why a peer is not there, or has no such cell: one line."""


@dataclass
class Run:
    """A cell, ready: tables made, outputs allocated where the peer's API takes them, compiled."""

    repeat: Callable[[int], float]  # seconds of so many repetitions
    result: Callable[[], tuple[np.ndarray, np.ndarray]]  # q and k of the last, [tokens, heads, head_dim], storage type
    anew: bool = False  # in an in-place cell: the peer writes its result to new memory
    release: Callable[[], None] = lambda: None
    keeps: object = None  # memory that the peer holds by address alone


def in_python(call: Callable[[], object]) -> Callable[[int], float]:
    """Repeats a Python call: the dispatch is the peer's own."""

    def repeat(repetitions: int) -> float:
        start = perf_counter()
        for _ in range(repetitions):
            call()
        return perf_counter() - start

    return repeat


class Peer:
    name = ""
    package = ""  # on PyPI
    layout = "bthd"
    own_angles = False  # forms its angles itself, in float32
    extra = False  # another way of calling rotary: shown, not counted as a peer

    def version(self) -> str:
        return metadata.version(self.package)

    def refuse(self, cell: Cell) -> str:
        """Why it cannot do this cell, or nothing."""
        return ""

    def prepare(self, cell: Cell) -> Run:
        raise NotImplementedError
