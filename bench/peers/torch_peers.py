"""PyTorch: the expression of the frameworks, eager code tuned by hand, torch.compile; and rotary-embedding-torch."""

import numpy as np
import torch

from cells import BASE, HEAD_DIM, PAIRS, Cell
from peer import Peer, Run, in_python

KINDS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def tensor(values: np.ndarray) -> torch.Tensor:
    """The same memory."""
    shared = torch.from_numpy(values)
    return shared.view(torch.bfloat16) if values.dtype == np.uint16 else shared


def array(x: torch.Tensor) -> np.ndarray:
    return (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy()[0]


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def complex_pairs(x):
    return torch.view_as_complex(x.unflatten(-1, (PAIRS, 2)))


class TorchPeer(Peer):
    package = "torch"

    def sources(self, cell: Cell):
        torch.set_num_threads(cell.threads)
        return [tensor(cell.work(name) if cell.in_place else cell.source(name)) for name in ("q", "k")]

    def doubled_table(self, cell: Cell):
        """cos and sin in the dtype of q, as the models of transformers cast them; [1, tokens, 1, head_dim]."""
        tables = (cell.doubled(values)[None, :, None] for values in (cell.cos, cell.sin))
        return [torch.from_numpy(table).to(KINDS[cell.dtype]) for table in tables]

    def complex_table(self, cell: Cell):
        return torch.from_numpy((cell.cos + 1j * cell.sin).astype(np.complex64))[None, :, None]


class TorchEager(TorchPeer):
    """half: q * cos + rotate_half(q) * sin. interleaved: the complex product of Meta's Llama, in float32."""

    name = "PyTorch eager"

    def prepare(self, cell: Cell) -> Run:
        xs, outs = self.sources(cell), [None, None]
        (cos, sin), turn = self.doubled_table(cell), self.complex_table(cell)

        def half():
            for i, x in enumerate(xs):
                outs[i] = x * cos + rotate_half(x) * sin

        def interleaved():
            for i, x in enumerate(xs):
                outs[i] = torch.view_as_real(complex_pairs(x.float()) * turn).flatten(3).type_as(x)

        call = torch.inference_mode()(interleaved if cell.interleaved else half)
        return Run(in_python(call), lambda: tuple(array(x) for x in outs), anew=cell.in_place)


class TorchOut(TorchPeer):
    """The fewest passes that eager operations allow, into memory allocated before: mul and addcmul; a complex mul."""

    name = "PyTorch out="

    def prepare(self, cell: Cell) -> Run:
        xs = self.sources(cell)
        outs = xs if cell.in_place else [tensor(cell.work(name)) for name in ("q", "k")]
        steps = list(zip(xs, outs, [torch.empty(x.shape, dtype=torch.float32) for x in xs]))
        spares = [torch.empty_like(x[..., :PAIRS]) for x in xs]
        (cos, sin), turn = (table[..., :PAIRS] for table in self.doubled_table(cell)), self.complex_table(cell)

        def half():
            for (x, out, _), spare in zip(steps, spares):
                first, second, out_first, out_second = *x.chunk(2, -1), *out.chunk(2, -1)
                torch.mul(first, sin, out=spare)
                torch.mul(first, cos, out=out_first).addcmul_(second, sin, value=-1)
                torch.mul(second, cos, out=out_second).add_(spare)

        def interleaved_f32():
            for x, out, _ in steps:
                torch.mul(complex_pairs(x), turn, out=complex_pairs(out))

        def interleaved_16_bits():
            for x, out, wide in steps:
                complex_pairs(wide.copy_(x)).mul_(turn)
                out.copy_(wide)

        call = half if not cell.interleaved else interleaved_f32 if cell.dtype == "f32" else interleaved_16_bits
        return Run(in_python(torch.inference_mode()(call)), lambda: tuple(array(x) for x in outs))


class TorchCompile(TorchPeer):
    """torch.compile, one graph for q and k, every shape known to it. Of the ways to write the rotation the ones that it
    vectorises best: up to four times faster than the expression of the frameworks."""

    name = "torch.compile"

    def members(self, cell: Cell):
        def members(x, cos, sin):
            if cell.interleaved:
                first, second, cos, sin = x[..., 0::2], x[..., 1::2], cos[..., 0::2], sin[..., 0::2]
            else:
                (first, second), cos, sin = x.chunk(2, dim=-1), cos[..., :PAIRS], sin[..., :PAIRS]
            turned = first * cos - second * sin, second * cos + first * sin
            return torch.stack(turned, dim=-1).flatten(-2) if cell.interleaved else torch.cat(turned, dim=-1)

        return members

    def turn(self, cell: Cell):
        def partners(x, cos, sin):
            return x * cos + x.unflatten(-1, (PAIRS, 2)).flip(-1).flatten(-2) * sin

        return partners if cell.interleaved and cell.dtype != "f32" else self.members(cell)

    def prepare(self, cell: Cell) -> Run:
        torch._dynamo.reset()
        turn = self.turn(cell)

        def anew(q, k, cos, sin):
            return turn(q, cos, sin), turn(k, cos, sin)

        def in_place(q, k, cos, sin):
            return tuple(x.copy_(y) for x, y in zip((q, k), anew(q, k, cos, sin)))

        compiled = torch.compile(in_place if cell.in_place else anew, dynamic=False, fullgraph=True)
        (cos, sin), outs = self.doubled_table(cell), [None]
        if turn.__name__ == "partners":
            sin[..., 0::2].neg_()
        inputs = [*self.sources(cell), cos, sin]

        def call():
            outs[0] = compiled(*inputs)

        # inference_mode around the whole loop: entering it is none of the compiled code's work.
        repeat = torch.inference_mode()(in_python(call))
        return Run(repeat, lambda: tuple(array(x) for x in outs[0]))


class RotaryEmbeddingTorch(TorchPeer):
    """rotate_queries_or_keys with its cache of angles; cos and sin are its own at every call."""

    name = package = "rotary-embedding-torch"
    own_angles = True

    def refuse(self, cell: Cell) -> str:
        return "" if cell.interleaved else "interleaved only"

    def prepare(self, cell: Cell) -> Run:
        from rotary_embedding_torch import RotaryEmbedding

        xs, outs, offset = self.sources(cell), [None, None], int(cell.positions[0])
        rope = RotaryEmbedding(HEAD_DIM, theta=BASE, seq_before_head_dim=True, cache_max_seq_len=16384)

        @torch.inference_mode()
        def call():
            for i, x in enumerate(xs):
                outs[i] = rope.rotate_queries_or_keys(x, offset=offset)

        return Run(in_python(call), lambda: tuple(array(x) for x in outs), anew=cell.in_place)
