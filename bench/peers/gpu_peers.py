"""The peers on a CUDA device: rotary through librotary_peers_cuda.so, PyTorch, and kernels from PyPI."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_void_p
from importlib import metadata

import torch

from cells import BASE, HEAD_DIM, HEADS, KV_HEADS, PAIRS, GpuCell
from gpu_work import PRETEND, Call, Work
from peer import Unavailable
from torch_peers import TorchCompile, complex_pairs, rotate_half


class GpuPeer:
    name = ""
    package = "torch"
    own_angles = False
    anew = False  # in an in-place cell: writes its result to new memory

    def version(self) -> str:
        return metadata.version(self.package)

    def refuse(self, cell: GpuCell) -> str:
        """Why it cannot do this cell, or nothing."""
        return ""

    def prepare(self, cell: GpuCell) -> None:
        """What is made once for all sets of a cell."""

    def bind(self, work: Work) -> Call:
        """A call that turns the q and k of this set once, and returns them."""
        raise NotImplementedError


# ---- rotary ----


class RotaryWork(ctypes.Structure):
    """struct Work of rotary_cuda_shim.cpp."""

    _fields_ = [
        *((name, c_void_p) for name in ("q", "k", "q_out", "k_out", "positions", "device_positions")),
        ("base", c_double),
        *((name, c_int64) for name in ("tokens", "heads", "kv_heads")),
        *((name, c_int32) for name in ("head_dim", "dtype", "interleaved")),
    ]


def load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(os.path.abspath(path))
    for name, result, arguments in (
        ("peers_cuda_error", c_char_p, []),
        ("peers_cuda_device", c_char_p, []),
        ("peers_cuda_prepare", c_void_p, [POINTER(RotaryWork), c_void_p]),
        ("peers_cuda_release", None, [c_void_p]),
        ("peers_cuda_fused", c_int32, [c_void_p, c_void_p]),
        ("peers_cuda_two_calls", c_int32, [c_void_p, c_void_p]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Rotary(GpuPeer):
    """rotate_qk, a table made before."""

    name = "rotary"
    call = "peers_cuda_fused"
    with_table = True

    def __init__(self, library: ctypes.CDLL):
        self.library = library

    def version(self) -> str:
        return (self.library.peers_cuda_device() or b"no device").decode()

    def bind(self, work: Work) -> Call:
        cell, positions = work.cell, work.cell.positions
        request = RotaryWork(
            *(x.data_ptr() for x in (work.q, work.k, work.q_out, work.k_out)), positions.ctypes.data,
            None if self.with_table else work.positions32.data_ptr(), BASE, cell.tokens, HEADS, KV_HEADS, HEAD_DIM,
            ("f32", "f16", "bf16").index(cell.dtype), cell.interleaved,
        )  # fmt: skip
        stream = lambda: torch.cuda.current_stream().cuda_stream  # noqa: E731
        prepared = self.library.peers_cuda_prepare(byref(request), stream())
        if not prepared:
            raise Unavailable(self.library.peers_cuda_error().decode())
        function, handle = getattr(self.library, self.call), c_void_p(prepared)
        held = Held(self.library, prepared)

        def call():
            if function(handle, stream()) != 0:
                raise RuntimeError(self.library.peers_cuda_error().decode())
            return work.q_out, work.k_out, held

        return call


class Held:
    """Releases what the library prepared when the call is forgotten."""

    def __init__(self, library: ctypes.CDLL, prepared: int):
        self.library, self.prepared = library, prepared

    def __del__(self):
        self.library.peers_cuda_release(self.prepared)


class RotaryTwoCalls(Rotary):
    name = "rotary, two calls"
    call = "peers_cuda_two_calls"


class RotaryNoTable(Rotary):
    """Angles computed where they are needed."""

    name = "rotary, no table"
    with_table = False
    own_angles = True


class PretendedRotary(GpuPeer):
    """In its place where there is no device."""

    name = "rotary"

    def __init__(self, library=None):
        pass

    def bind(self, work: Work) -> Call:
        return TorchOut().bind(work)


# ---- PyTorch ----


class TorchEager(GpuPeer):
    """half: q * cos + rotate_half(q) * sin. interleaved: the complex product of Meta's Llama, in float32."""

    name = "PyTorch eager"
    anew = True

    def bind(self, work: Work) -> Call:
        cos, sin, turn = work.doubled(work.cos), work.doubled(work.sin), torch.complex(work.cos, work.sin)[None, :, None]

        def half():
            return tuple(x * cos + rotate_half(x) * sin for x in (work.q, work.k))

        def interleaved():
            return tuple(torch.view_as_real(complex_pairs(x.float()) * turn).flatten(3).type_as(x)
                         for x in (work.q, work.k))  # fmt: skip

        return torch.inference_mode()(interleaved if work.cell.interleaved else half)


class TorchOut(GpuPeer):
    """The fewest passes that eager operations allow, into memory allocated before."""

    name = "PyTorch out="

    def bind(self, work: Work) -> Call:
        steps = [(x, out, torch.empty(x.shape, dtype=torch.float32, device=x.device), torch.empty_like(x[..., :PAIRS]))
                 for x, out in ((work.q, work.q_out), (work.k, work.k_out))]  # fmt: skip
        cos, sin = (values[None, :, None].to(work.q.dtype) for values in (work.cos, work.sin))
        turn = torch.complex(work.cos, work.sin)[None, :, None]

        def half():
            for x, out, _, spare in steps:
                first, second, out_first, out_second = *x.chunk(2, -1), *out.chunk(2, -1)
                torch.mul(first, sin, out=spare)
                torch.mul(first, cos, out=out_first).addcmul_(second, sin, value=-1)
                torch.mul(second, cos, out=out_second).add_(spare)
            return work.q_out, work.k_out

        def interleaved():
            for x, out, wide, _ in steps:
                if x.dtype == torch.float32:
                    torch.mul(complex_pairs(x), turn, out=complex_pairs(out))
                else:
                    complex_pairs(wide.copy_(x)).mul_(turn)
                    out.copy_(wide)
            return work.q_out, work.k_out

        return torch.inference_mode()(interleaved if work.cell.interleaved else half)


class TorchCompiled(GpuPeer):
    """torch.compile, one graph for q and k, every shape known to it."""

    name = "torch.compile"

    def prepare(self, cell: GpuCell) -> None:
        torch._dynamo.reset()
        turn = TorchCompile().turn(cell) if PRETEND else TorchCompile().members(cell)

        def anew(q, k, cos, sin):
            return turn(q, cos, sin), turn(k, cos, sin)

        def in_place(q, k, cos, sin):
            return tuple(x.copy_(y) for x, y in zip((q, k), anew(q, k, cos, sin)))

        self.partners = turn.__name__ == "partners"
        self.compiled = torch.compile(in_place if cell.in_place else anew, dynamic=False, fullgraph=True)

    def bind(self, work: Work) -> Call:
        cos, sin, compiled = work.doubled(work.cos), work.doubled(work.sin), self.compiled
        if self.partners:
            sin[..., 0::2].neg_()
        return torch.inference_mode()(lambda: compiled(work.q, work.k, cos, sin))


# ---- kernels from PyPI ----


class Liger(GpuPeer):
    """liger_rotary_pos_emb: one Triton kernel for q and k, in place, half pairing; cos and sin in q's dtype."""

    name = "Liger"
    package = "liger-kernel"

    def __init__(self):
        from liger_kernel.ops.rope import LigerRopeFunction

        self.function = LigerRopeFunction

    def refuse(self, cell: GpuCell) -> str:
        if cell.interleaved:
            return "half pairing only"
        return "" if cell.in_place else "writes in place only"

    def bind(self, work: Work) -> Call:
        cos, sin = (work.doubled(values).view(1, -1, HEAD_DIM) for values in (work.cos, work.sin))
        q, k = work.q.transpose(1, 2), work.k.transpose(1, 2)  # as a model has them; the kernel sees [B, S, H, D]

        @torch.inference_mode()
        def call():
            self.function.apply(q, k, cos, sin)
            return work.q, work.k

        return call


class FlashInfer(GpuPeer):
    """apply_rope_with_cos_sin_cache: one CUDA kernel, compiled at its first call; a float32 table by position."""

    name = "flashinfer"
    package = "flashinfer-python"

    def __init__(self):
        from flashinfer import rope

        self.rope = rope

    def refuse(self, cell: GpuCell) -> str:
        return "has no f32" if cell.dtype == "f32" else ""

    def bind(self, work: Work) -> Call:
        # Of every position up to the last: it takes rows by position.
        count = int(work.cell.positions[-1]) + 1
        table = torch.zeros(count, HEAD_DIM, device=work.q.device)
        table[work.positions] = torch.cat([work.cos, work.sin], -1)
        q, k, half = (*(x.view(work.cell.tokens, -1) for x in (work.q, work.k)), not work.cell.interleaved)
        arguments = (work.positions, q, k, HEAD_DIM, table, half)
        shaped = lambda pair: tuple(x.view(work.cell.tokens, -1, HEAD_DIM) for x in pair)  # noqa: E731

        def in_place():
            self.rope.apply_rope_with_cos_sin_cache_inplace(*arguments)
            return work.q, work.k

        def anew():
            return shaped(self.rope.apply_rope_with_cos_sin_cache(*arguments))

        return torch.inference_mode()(in_place if work.cell.in_place else anew)


class Fla(GpuPeer):
    """rotary_embedding of flash-linear-attention, the descendant of flash-attention's Triton kernel; q, then k."""

    name = "fla"
    package = "fla-core"

    def __init__(self):
        from fla.modules.rotary.ops import rotary_embedding

        self.function = rotary_embedding

    def bind(self, work: Work) -> Call:
        cos, sin = (values.to(work.q.dtype) for values in (work.cos, work.sin))
        interleaved, in_place = work.cell.interleaved, work.cell.in_place

        @torch.inference_mode()
        def call():
            return tuple(self.function(x, cos, sin, interleaved=interleaved, inplace=in_place) for x in (work.q, work.k))

        return call


class FlagGems(GpuPeer):
    """apply_rotary_pos_emb of FlagGems: one Triton kernel; rows of the table in order."""

    name = "FlagGems"
    package = "flag-gems"

    def __init__(self):
        from flag_gems.fused.rotary_embedding import apply_rotary_pos_emb

        self.function = apply_rotary_pos_emb

    def bind(self, work: Work) -> Call:
        cos, sin = (values.to(work.q.dtype) for values in (work.cos, work.sin))
        interleaved, in_place = work.cell.interleaved, work.cell.in_place
        return torch.inference_mode()(
            lambda: self.function(work.q, work.k, cos, sin, rotary_interleaved=interleaved, inplace=in_place)
        )


class DeviceCopy(GpuPeer):
    """q and k, as one block, to other memory by the runtime's own copy."""

    name = "device copy"

    def bind(self, work: Work) -> Call:
        return lambda: work.spare.copy_(work.block)


PEERS = (TorchEager, TorchOut, TorchCompiled, Liger, FlashInfer, Fla, FlagGems)
OWN = (RotaryTwoCalls, RotaryNoTable)
