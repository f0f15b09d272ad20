"""rotary and the plain C loop, through librotary_peers.so (rotary_shim.cpp), which times its own repetitions."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_void_p

from cells import BASE, HEAD_DIM, HEADS, KV_HEADS, Cell
from peer import Peer, Run, Unavailable, in_python


class Work(ctypes.Structure):
    """struct Work of rotary_shim.cpp."""

    _fields_ = [
        *((name, c_void_p) for name in ("q", "k", "q_out", "k_out", "positions", "cos", "sin")),
        ("base", c_double),
        *((name, c_int64) for name in ("tokens", "heads", "kv_heads")),
        *((name, c_int32) for name in ("head_dim", "dtype", "interleaved", "threads")),
    ]


def load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(os.path.abspath(path))
    for name, result, arguments in (
        ("peers_error", c_char_p, []),
        ("peers_target", c_char_p, []),
        ("peers_prepare", c_void_p, [POINTER(Work)]),
        ("peers_release", None, [c_void_p]),
        ("peers_fused", c_double, [c_void_p, c_int64]),
        ("peers_two_calls", c_double, [c_void_p, c_int64]),
        ("peers_plain", c_double, [POINTER(Work), c_int64]),
        ("peers_table", c_double, [c_int64, c_int32, c_double, c_int64, POINTER(c_float), POINTER(c_float)]),
        ("peers_repeat", c_double, [c_void_p, c_void_p, c_void_p, c_int64]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def checked(library: ctypes.CDLL, seconds: float) -> float:
    if seconds < 0:
        raise Unavailable(library.peers_error().decode())
    return seconds


class NativePeer(Peer):
    def __init__(self, library: ctypes.CDLL):
        self.library = library

    def arrays(self, cell: Cell):
        """The request, and the arrays that it points to."""
        q, k = (cell.work("q"), cell.work("k")) if cell.in_place else (cell.source("q"), cell.source("k"))
        q_out, k_out = (q, k) if cell.in_place else (cell.work("q"), cell.work("k"))
        held = (q, k, q_out, k_out, cell.positions, cell.cos, cell.sin)
        work = Work(*(array.ctypes.data for array in held), BASE, cell.tokens, HEADS, KV_HEADS, HEAD_DIM,
                    ("f32", "f16", "bf16").index(cell.dtype), cell.interleaved, cell.threads)  # fmt: skip
        return work, held


class Rotary(NativePeer):
    name = "rotary"
    call = "peers_fused"

    def version(self) -> str:
        return self.library.peers_target().decode()

    def prepare(self, cell: Cell) -> Run:
        work, held = self.arrays(cell)
        prepared = self.library.peers_prepare(byref(work))
        if not prepared:
            raise Unavailable(self.library.peers_error().decode())
        return Run(
            repeat=self.repeat(prepared),
            result=lambda: (held[2][0], held[3][0]),
            release=lambda: self.library.peers_release(prepared),
        )

    def repeat(self, prepared: int):
        function = getattr(self.library, self.call)
        return lambda repetitions: checked(self.library, function(prepared, repetitions))


class RotaryTwoCalls(Rotary):
    name = "rotary, two calls"
    call = "peers_two_calls"
    extra = True


class RotaryFromPython(Rotary):
    """One ctypes call a repetition: what the other columns pay for their dispatch at the least."""

    name = "rotary, from Python"
    extra = True

    def repeat(self, prepared: int):
        function, handle = self.library.peers_fused, c_void_p(prepared)
        return in_python(lambda: function(handle, 1))


class PlainLoop(NativePeer):
    name = "plain C loop"

    def version(self) -> str:
        return "-O3 -march=native"

    def prepare(self, cell: Cell) -> Run:
        work, held = self.arrays(cell)
        return Run(
            repeat=lambda repetitions: checked(self.library, self.library.peers_plain(byref(work), repetitions)),
            result=lambda: (held[2][0], held[3][0]),
        )
