"""Peers called through ctypes. rotary and the plain C loop: librotary_peers.so (rotary_shim.cpp), which times its own
repetitions, and librotary_peers_cuda.so, with the same interface. ggml: the libraries of llama-cpp-python."""

import ctypes
import os
import weakref
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from cells import BASE, HEAD_DIM, Cell, aligned
from peer import Run, Unavailable

library: ctypes.CDLL = None  # set by load()


class Request(ctypes.Structure):
    """struct Request of rotary_shim.cpp."""

    _fields_ = [
        *((name, c_void_p) for name in ("q", "k", "q_out", "k_out", "positions")),
        ("base", c_double),
        ("tokens", c_int64),
        *((name, c_int32) for name in ("dtype", "interleaved", "variant")),
    ]


def request(cell: Cell, q: int, k: int, q_out: int, k_out: int, variant: int = 0) -> Request:
    """q to k_out are addresses."""
    dtype = ("f32", "f16", "bf16").index(cell.dtype)
    return Request(q, k, q_out, k_out, cell.positions.ctypes.data, BASE, cell.tokens, dtype, cell.interleaved, variant)


def declared(found: ctypes.CDLL, *functions: tuple) -> ctypes.CDLL:
    """Name, result, arguments; of a library for a device those that it has."""
    for name, result, *arguments in functions:
        if hasattr(found, name):
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    return found


def load(path: str) -> None:
    global library
    library = declared(
        ctypes.CDLL(os.path.abspath(path)),
        ("peers_error", c_char_p),
        ("peers_target", c_char_p),
        ("peers_prepare", c_void_p, POINTER(Request), c_void_p),
        ("peers_release", None, c_void_p),
        ("peers_rotate", c_double, c_void_p, c_int64, c_void_p),
        ("peers_repeat", c_double, c_void_p, c_void_p, c_void_p, c_int64),
    )


def target(_: str = "") -> str:
    return library.peers_target().decode()


def checked(found):
    """Seconds, or what was prepared."""
    if found is None or found < 0:
        raise Unavailable(library.peers_error().decode())
    return found


def prepared(asked: Request, stream=None) -> c_void_p:
    return c_void_p(checked(library.peers_prepare(byref(asked), stream)))


# ---- rotary, and the plain loop --------------------------------------------------------------------


def rotary(cell: Cell, variant: int = 0) -> Run:
    q, k, q_out, k_out = held = cell.tensors()
    own = prepared(request(cell, *(array.ctypes.data for array in held), variant))
    run = Run(lambda repetitions: checked(library.peers_rotate(own, repetitions, None)), lambda: (q_out[0], k_out[0]),
              keeps=held)
    weakref.finalize(run, library.peers_release, own)
    return run


plain_loop = partial(rotary, variant=1)
rotary.version, plain_loop.version = target, lambda _: "-O3 -march=native"


# ---- ggml ------------------------------------------------------------------------------------------

F32, F16, I32 = 0, 1, 26  # enum ggml_type
NORMAL, NEOX = 0, 2  # interleaved, half


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


class Plan(ctypes.Structure):
    """ggml_cplan: its first fields, and room for what later versions add."""

    _fields_ = [("work_size", c_size_t), ("work_data", c_void_p), ("n_threads", c_int), ("rest", c_void_p * 15)]


@cache
def ggml_library() -> ctypes.CDLL:
    """ggml-base and ggml-cpu in one name space."""
    folder = Path(find_spec("llama_cpp").origin).parent / "lib"
    ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    rope = [*[c_void_p] * 4, c_int, c_int, c_int, *[c_float] * 6]
    found = declared(
        ctypes.CDLL(str(folder / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL),
        ("ggml_init", c_void_p, InitParams),
        ("ggml_free", None, c_void_p),
        ("ggml_new_tensor_4d", c_void_p, c_void_p, c_int, *[c_int64] * 4),
        ("ggml_rope_ext", c_void_p, *rope),
        ("ggml_rope_ext_inplace", c_void_p, *rope),
        ("ggml_new_graph", c_void_p, c_void_p),
        ("ggml_build_forward_expand", None, c_void_p, c_void_p),
        ("ggml_graph_plan", Plan, c_void_p, c_int, c_void_p),
        ("ggml_backend_cpu_buffer_from_ptr", c_void_p, c_void_p, c_size_t),
        ("ggml_backend_buffer_free", None, c_void_p),
        ("ggml_backend_tensor_alloc", c_int, c_void_p, c_void_p, c_void_p),
        ("ggml_graph_compute", c_int, c_void_p, c_void_p),
        ("ggml_cpu_init", None),
        ("ggml_version", c_char_p),
    )
    found.ggml_cpu_init()
    return found


def ggml(cell: Cell) -> Run:
    """ggml_rope_ext of q and k in one graph, planned once, computed from C. Angles, sin and cos are its own."""
    if cell.dtype == "bf16":
        raise Unavailable("its rope has no bf16")
    lib, buffers = ggml_library(), []
    context = lib.ggml_init(InitParams(1 << 20, None, True))

    def place(tensor: int, memory: np.ndarray) -> int:
        """The tensor, with memory of ours."""
        buffers.append(lib.ggml_backend_cpu_buffer_from_ptr(memory.ctypes.data, memory.nbytes))
        lib.ggml_backend_tensor_alloc(buffers[-1], tensor, memory.ctypes.data)
        return tensor

    graph, positions = lib.ggml_new_graph(context), aligned(cell.positions.astype(np.int32))
    at = place(lib.ggml_new_tensor_4d(context, I32, cell.tokens, 1, 1, 1), positions)
    kind, mode = (F32 if cell.dtype == "f32" else F16), (NORMAL if cell.interleaved else NEOX)
    rope = lib.ggml_rope_ext_inplace if cell.in_place else lib.ggml_rope_ext
    q, k, q_out, k_out = tensors = cell.tensors()
    for source, out in ((q, q_out), (k, k_out)):
        x = place(lib.ggml_new_tensor_4d(context, kind, HEAD_DIM, source.shape[2], cell.tokens, 1), source)
        turned = rope(context, x, at, None, HEAD_DIM, mode, 0, BASE, 1.0, 0.0, 1.0, 32.0, 1.0)
        if not cell.in_place:  # in place it is a view of x
            place(turned, out)
        lib.ggml_build_forward_expand(graph, turned)
    plan = lib.ggml_graph_plan(graph, 1, None)
    work = np.zeros(max(64, plan.work_size), np.uint8)
    plan.work_data = work.ctypes.data
    compute, planned = ctypes.cast(lib.ggml_graph_compute, c_void_p), ctypes.addressof(plan)

    def release():
        for buffer in buffers:
            lib.ggml_backend_buffer_free(buffer)
        lib.ggml_free(context)

    run = Run(lambda repetitions: library.peers_repeat(compute, graph, planned, repetitions),
              lambda: (q_out[0], k_out[0]), keeps=(tensors, positions, work, plan))  # fmt: skip
    weakref.finalize(run, release)
    return run


ggml.version = lambda package: f"{ggml_library().ggml_version().decode()} (llama-cpp-python {package})"
