"""rotary and the plain C loop, through librotary_peers.so (rotary_shim.cpp), which times its own repetitions; and its
interface, which librotary_peers_cuda.so has too."""

import ctypes
import os
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_float, c_int32, c_int64, c_void_p

from cells import BASE, HEAD_DIM, HEADS, KV_HEADS, Cell
from peer import Peer, Run, Unavailable, in_python


class Request(ctypes.Structure):
    """struct Request of rotary_shim.cpp."""

    _fields_ = [
        *((name, c_void_p) for name in ("q", "k", "q_out", "k_out", "positions", "device_positions", "cos", "sin")),
        ("base", c_double),
        *((name, c_int64) for name in ("tokens", "heads", "kv_heads")),
        *((name, c_int32) for name in ("head_dim", "dtype", "interleaved", "threads")),
    ]


def request(cell: Cell, q, k, q_out, k_out, positions, device_positions=None, cos=None, sin=None) -> Request:
    """All but the cell are addresses."""
    return Request(q, k, q_out, k_out, positions, device_positions, cos, sin, BASE, cell.tokens, HEADS, KV_HEADS, HEAD_DIM,
                   ("f32", "f16", "bf16").index(cell.dtype), cell.interleaved, cell.threads)  # fmt: skip


def load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(os.path.abspath(path))
    for name, result, arguments in (
        ("peers_error", c_char_p, []),
        ("peers_target", c_char_p, []),
        ("peers_prepare", c_void_p, [POINTER(Request), c_void_p]),
        ("peers_release", None, [c_void_p]),
        ("peers_rotate", c_double, [c_void_p, c_int64, c_bool, c_void_p]),
        ("peers_plain", c_double, [POINTER(Request), c_int64]),
        ("peers_table", c_double, [c_int64, c_int32, c_double, c_int64, POINTER(c_float), POINTER(c_float)]),
        ("peers_repeat", c_double, [c_void_p, c_void_p, c_void_p, c_int64]),
    ):
        if hasattr(library, name):  # on a device the first five
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    return library


def checked(library: ctypes.CDLL, seconds: float) -> float:
    if seconds < 0:
        raise Unavailable(library.peers_error().decode())
    return seconds


def prepared_by(library: ctypes.CDLL, asked: Request, stream=None) -> c_void_p:
    prepared = library.peers_prepare(byref(asked), stream)
    if not prepared:
        raise Unavailable(library.peers_error().decode())
    return c_void_p(prepared)


class NativePeer(Peer):
    needs_library = True

    def __init__(self, library: ctypes.CDLL):
        self.library = library

    def asked(self, cell: Cell):
        """The request, and the arrays that it points to."""
        q, k = (cell.work("q"), cell.work("k")) if cell.in_place else (cell.source("q"), cell.source("k"))
        q_out, k_out = (q, k) if cell.in_place else (cell.work("q"), cell.work("k"))
        held = (q, k, q_out, k_out, cell.positions, cell.cos, cell.sin)
        address = [array.ctypes.data for array in held]
        return request(cell, *address[:5], cos=address[5], sin=address[6]), held


class Rotary(NativePeer):
    name = "rotary"
    in_one_call = True

    def version(self) -> str:
        return self.library.peers_target().decode()

    def prepare(self, cell: Cell) -> Run:
        asked, held = self.asked(cell)
        prepared = prepared_by(self.library, asked)
        return Run(self.repeat(prepared), lambda: (held[2][0], held[3][0]),
                   release=lambda: self.library.peers_release(prepared))  # fmt: skip

    def repeat(self, prepared):
        function, once = self.library.peers_rotate, self.in_one_call
        return lambda repetitions: checked(self.library, function(prepared, repetitions, once, None))


class RotaryTwoCalls(Rotary):
    name, in_one_call, extra = "rotary, two calls", False, True


class RotaryFromPython(Rotary):
    """One ctypes call a repetition: what the other columns pay for their dispatch at the least."""

    name, extra = "rotary, from Python", True

    def repeat(self, prepared):
        function = self.library.peers_rotate
        return in_python(lambda: function(prepared, 1, True, None))


class PlainLoop(NativePeer):
    name = "plain C loop"

    def version(self) -> str:
        return "-O3 -march=native"

    def prepare(self, cell: Cell) -> Run:
        asked, held = self.asked(cell)
        return Run(
            repeat=lambda repetitions: checked(self.library, self.library.peers_plain(byref(asked), repetitions)),
            result=lambda: (held[2][0], held[3][0]),
        )
