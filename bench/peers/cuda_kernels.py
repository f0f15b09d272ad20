"""rotary on a CUDA device, and kernels from PyPI."""

import torch

from cells import HEAD_DIM, Cell
from native import checked, prepared_by, request
from torch_peers import TorchPeer


class Rotary(TorchPeer):
    """rotate_qk, a table made before."""

    name, needs_library = "rotary", True
    in_one_call = with_table = True

    def __init__(self, library):
        self.library = library

    def version(self) -> str:
        return self.library.peers_target().decode() or "no device"

    def bind(self, at):
        positions32 = None if self.with_table else at.positions.to(torch.int32)
        address = [x.data_ptr() for x in (at.q, at.k, at.q_out, at.k_out)]
        asked = request(at.cell, *address, at.cell.positions.ctypes.data, None if self.with_table else positions32.data_ptr())
        stream = lambda: torch.cuda.current_stream().cuda_stream  # noqa: E731
        held = Held(self.library, prepared_by(self.library, asked, stream()))

        def call():
            checked(self.library, self.library.peers_rotate(held.prepared, 1, self.in_one_call, stream()))
            return at.q_out, at.k_out, held, positions32

        return call


class Held:
    """Releases what the library prepared when the call is forgotten."""

    def __init__(self, library, prepared):
        self.library, self.prepared = library, prepared

    def __del__(self):
        self.library.peers_release(self.prepared)


class RotaryTwoCalls(Rotary):
    name, in_one_call, extra = "rotary, two calls", False, True


class RotaryNoTable(Rotary):
    """Angles computed where they are needed."""

    name, with_table, own_angles, extra = "rotary, no table", False, True, True


class Liger(TorchPeer):
    """liger_rotary_pos_emb: one Triton kernel for q and k, in place, half pairing; cos and sin in q's dtype."""

    name, package = "Liger", "liger-kernel"

    def __init__(self):
        from liger_kernel.ops.rope import LigerRopeFunction

        self.function = LigerRopeFunction

    def refuse(self, cell: Cell) -> str:
        if cell.interleaved:
            return "half pairing only"
        return "" if cell.in_place else "writes in place only"

    def bind(self, at):
        cos, sin = (values.view(1, -1, HEAD_DIM) for values in at.doubled_table())
        q, k = at.q.transpose(1, 2), at.k.transpose(1, 2)  # as a model has them; the kernel sees [B, S, H, D]

        def call():
            self.function.apply(q, k, cos, sin)
            return at.q, at.k

        return call


class FlashInfer(TorchPeer):
    """apply_rope_with_cos_sin_cache: one CUDA kernel, compiled at its first call; a float32 table by position."""

    name, package = "flashinfer", "flashinfer-python"

    def __init__(self):
        from flashinfer import rope

        self.rope = rope

    def refuse(self, cell: Cell) -> str:
        return "has no f32" if cell.dtype == "f32" else ""

    def bind(self, at):
        # Of every position up to the last: it takes rows by position.
        table = torch.zeros(int(at.cell.positions[-1]) + 1, HEAD_DIM, device=at.q.device)
        table[at.positions] = torch.cat([at.cos, at.sin], -1)
        q, k = (x.view(at.cell.tokens, -1) for x in (at.q, at.k))
        arguments = (at.positions, q, k, HEAD_DIM, table, not at.cell.interleaved)

        def in_place():
            self.rope.apply_rope_with_cos_sin_cache_inplace(*arguments)
            return at.q, at.k

        def anew():
            pair = self.rope.apply_rope_with_cos_sin_cache(*arguments)
            return tuple(x.view(at.cell.tokens, -1, HEAD_DIM) for x in pair)

        return in_place if at.cell.in_place else anew


class Fla(TorchPeer):
    """rotary_embedding of flash-linear-attention, the descendant of flash-attention's Triton kernel; q, then k."""

    name, package = "fla", "fla-core"

    def __init__(self):
        from fla.modules.rotary.ops import rotary_embedding

        self.function = rotary_embedding

    def bind(self, at):
        cos, sin = (values.to(at.q.dtype) for values in (at.cos, at.sin))
        how = {"interleaved": at.cell.interleaved, "inplace": at.cell.in_place}
        return lambda: tuple(self.function(x, cos, sin, **how) for x in (at.q, at.k))


class FlagGems(TorchPeer):
    """apply_rotary_pos_emb of FlagGems: one Triton kernel; rows of the table in order."""

    name, package = "FlagGems", "flag-gems"

    def __init__(self):
        from flag_gems.fused.rotary_embedding import apply_rotary_pos_emb

        self.function = apply_rotary_pos_emb

    def bind(self, at):
        cos, sin = (values.to(at.q.dtype) for values in (at.cos, at.sin))
        how = {"rotary_interleaved": at.cell.interleaved, "inplace": at.cell.in_place}
        return lambda: self.function(at.q, at.k, cos, sin, **how)
