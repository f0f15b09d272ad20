"""ggml, by the shared libraries that llama-cpp-python brings."""

import ctypes
from ctypes import c_bool, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from cells import BASE, HEAD_DIM, HEADS, KV_HEADS, Cell, aligned
from peer import Peer, Run

F32, F16, I32 = 0, 1, 26  # enum ggml_type
NORMAL, NEOX = 0, 2  # interleaved, half


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


class Plan(ctypes.Structure):
    """ggml_cplan: its first fields, and room for what later versions add."""

    _fields_ = [("work_size", c_size_t), ("work_data", c_void_p), ("n_threads", c_int), ("rest", c_void_p * 15)]


def library() -> ctypes.CDLL:
    """ggml-base and ggml-cpu in one name space, declared."""
    found = find_spec("llama_cpp")
    if found is None:
        raise ModuleNotFoundError("No module named 'llama_cpp' (llama-cpp-python)")
    folder = Path(found.origin).parent / "lib"
    ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    ggml = ctypes.CDLL(str(folder / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
    rope = [*[c_void_p] * 4, c_int, c_int, c_int, *[c_float] * 6]
    for name, result, arguments in (
        ("ggml_init", c_void_p, [InitParams]),
        ("ggml_free", None, [c_void_p]),
        ("ggml_new_tensor_4d", c_void_p, [c_void_p, c_int, *[c_int64] * 4]),
        ("ggml_rope_ext", c_void_p, rope),
        ("ggml_rope_ext_inplace", c_void_p, rope),
        ("ggml_new_graph", c_void_p, [c_void_p]),
        ("ggml_build_forward_expand", None, [c_void_p, c_void_p]),
        ("ggml_graph_plan", Plan, [c_void_p, c_int, c_void_p]),
        ("ggml_backend_cpu_buffer_from_ptr", c_void_p, [c_void_p, c_size_t]),
        ("ggml_backend_buffer_free", None, [c_void_p]),
        ("ggml_backend_tensor_alloc", c_int, [c_void_p, c_void_p, c_void_p]),
        ("ggml_graph_compute", c_int, [c_void_p, c_void_p]),
        ("ggml_cpu_init", None, []),
        ("ggml_version", c_char_p, []),
    ):
        function = getattr(ggml, name)
        function.restype, function.argtypes = result, arguments
    ggml.ggml_cpu_init()
    return ggml


class Ggml(Peer):
    """ggml_rope_ext of q and k in one graph, planned once, computed from C. Angles, sin and cos are its own."""

    name, package, own_angles, needs_library = "ggml", "llama-cpp-python", True, True

    def __init__(self, timer: ctypes.CDLL):
        self.ggml, self.timer = library(), timer

    def version(self) -> str:
        return f"{self.ggml.ggml_version().decode()} ({self.package} {super().version()})"

    def refuse(self, cell: Cell) -> str:
        return "its rope has no bf16" if cell.dtype == "bf16" else ""

    def prepare(self, cell: Cell) -> Run:
        ggml, buffers = self.ggml, []
        context = ggml.ggml_init(InitParams(1 << 20, None, True))

        def place(made: int, memory: np.ndarray) -> int:
            """The tensor, with memory of ours."""
            buffers.append(ggml.ggml_backend_cpu_buffer_from_ptr(memory.ctypes.data, memory.nbytes))
            ggml.ggml_backend_tensor_alloc(buffers[-1], made, memory.ctypes.data)
            return made

        graph, outs, kept = ggml.ggml_new_graph(context), [], []
        positions = aligned(cell.tokens, np.int32)
        positions[:] = cell.positions
        at = place(ggml.ggml_new_tensor_4d(context, I32, cell.tokens, 1, 1, 1), positions)
        kind, mode = (F32 if cell.dtype == "f32" else F16), (NORMAL if cell.interleaved else NEOX)
        rope = ggml.ggml_rope_ext_inplace if cell.in_place else ggml.ggml_rope_ext
        for name, heads in (("q", HEADS), ("k", KV_HEADS)):
            source = cell.work(name) if cell.in_place else cell.source(name)
            out = source if cell.in_place else cell.work(name)
            x = place(ggml.ggml_new_tensor_4d(context, kind, HEAD_DIM, heads, cell.tokens, 1), source)
            turned = rope(context, x, at, None, HEAD_DIM, mode, 0, BASE, 1.0, 0.0, 1.0, 32.0, 1.0)
            if not cell.in_place:  # in place it is a view of x
                place(turned, out)
            ggml.ggml_build_forward_expand(graph, turned)
            outs.append(out)
            kept.append(source)
        plan = ggml.ggml_graph_plan(graph, cell.threads, None)
        work = np.zeros(max(64, plan.work_size), np.uint8)
        plan.work_data = work.ctypes.data
        compute, planned = ctypes.cast(ggml.ggml_graph_compute, c_void_p), ctypes.addressof(plan)

        def release():
            for buffer in buffers:
                ggml.ggml_backend_buffer_free(buffer)
            ggml.ggml_free(context)

        return Run(lambda repetitions: self.timer.peers_repeat(compute, graph, planned, repetitions),
                   lambda: (outs[0][0], outs[1][0]), release=release, keeps=(kept, positions, work, plan))  # fmt: skip
