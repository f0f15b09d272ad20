"""PyTorch: the expression of the frameworks, eager code tuned by hand, torch.compile; and rotary-embedding-torch. On the
CPU and on a CUDA device: a peer binds a set of tensors and gives the call that turns them."""

from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch

from cells import BASE, HEAD_DIM, HEADS, PAIRS, Cell
from peer import Peer, Run, in_python


def tensor(values: np.ndarray) -> torch.Tensor:
    """The same memory."""
    shared = torch.from_numpy(values)
    return shared.view(torch.bfloat16) if values.dtype == np.uint16 else shared


def rows(x: torch.Tensor, at: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Tokens of a result, in storage type."""
    chosen = x.reshape(x.shape[-3:])[at if isinstance(at, slice) else torch.from_numpy(at).to(x.device)]
    chosen = chosen.contiguous().cpu()
    return (chosen.view(torch.uint16) if chosen.dtype == torch.bfloat16 else chosen).numpy()


@dataclass
class TensorSet:
    """A cell's tensors; [1, tokens, heads, 128]."""

    cell: Cell
    q: torch.Tensor
    k: torch.Tensor
    q_out: torch.Tensor  # in place: q
    k_out: torch.Tensor
    block: torch.Tensor | None = None  # on a device q and k as one,
    spare: torch.Tensor | None = None  # and as much memory

    def __post_init__(self):
        device = self.q.device
        self.cos, self.sin = (torch.from_numpy(x).to(device) for x in (self.cell.cos, self.cell.sin))  # [tokens, 64]
        self.positions = torch.from_numpy(self.cell.positions).to(device)

    def doubled_table(self) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin as wide as the head in q's dtype, as transformers makes them; [1, tokens, 1, 128]."""
        wide = lambda x: x.repeat_interleave(2, -1) if self.cell.interleaved else torch.cat([x, x], -1)  # noqa: E731
        return tuple(wide(x)[None, :, None].to(self.q.dtype).contiguous() for x in (self.cos, self.sin))

    def complex_table(self) -> torch.Tensor:
        return torch.complex(self.cos, self.sin)[None, :, None]


def on_cpu(cell: Cell) -> TensorSet:
    q, k = (tensor(cell.work(name) if cell.in_place else cell.source(name)) for name in ("q", "k"))
    return TensorSet(cell, q, k, *((q, k) if cell.in_place else (tensor(cell.work(name)) for name in ("q", "k"))))


def on_device(cell: Cell, device: str, count: int) -> list[TensorSet]:
    """So many sets of the same values, q and k neighbours in memory."""
    edge = cell.tokens * HEADS * HEAD_DIM
    views = lambda x: (part.view(1, cell.tokens, -1, HEAD_DIM) for part in (x[:edge], x[edge:]))  # noqa: E731
    source = torch.cat([tensor(cell.source(name)).flatten() for name in ("q", "k")]).to(device)
    sets = []
    for _ in range(count):
        block, spare = source.clone(), torch.zeros_like(source)
        q, k = views(block)
        sets.append(TensorSet(cell, q, k, *((q, k) if cell.in_place else views(spare)), block, spare))
    return sets


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def complex_pairs(x):
    return torch.view_as_complex(x.unflatten(-1, (PAIRS, 2)))


class TorchPeer(Peer):
    package = "torch"
    anew = False  # in an in-place cell: writes its result to new memory

    def compile(self, cell: Cell) -> None:
        """What is made once for all sets of a cell."""

    def bind(self, at: TensorSet) -> Callable[[], tuple]:
        """A call that turns the q and k of this set once, and returns them first."""
        raise NotImplementedError

    def prepare(self, cell: Cell) -> Run:
        torch.set_num_threads(cell.threads)
        self.compile(cell)
        call, last = self.bind(on_cpu(cell)), [None]

        def keep():
            last[0] = call()

        # inference_mode around the whole loop: entering it is none of the peer's work.
        return Run(torch.inference_mode()(in_python(keep)), lambda: tuple(rows(x) for x in last[0][:2]),
                   anew=cell.in_place and self.anew)  # fmt: skip


class TorchEager(TorchPeer):
    """half: q * cos + rotate_half(q) * sin. interleaved: the complex product of Meta's Llama, in float32."""

    name = "PyTorch eager"
    anew = True

    def bind(self, at):
        (cos, sin), turn = at.doubled_table(), at.complex_table()

        def half():
            return [x * cos + rotate_half(x) * sin for x in (at.q, at.k)]

        def interleaved():
            return [torch.view_as_real(complex_pairs(x.float()) * turn).flatten(3).type_as(x) for x in (at.q, at.k)]

        return interleaved if at.cell.interleaved else half


class TorchOut(TorchPeer):
    """The fewest passes that eager operations allow, into memory allocated before: mul and addcmul; a complex mul."""

    name = "PyTorch out="

    def bind(self, at):
        steps = [(x, out, torch.empty(x.shape, dtype=torch.float32, device=x.device), torch.empty_like(x[..., :PAIRS]))
                 for x, out in ((at.q, at.q_out), (at.k, at.k_out))]  # fmt: skip
        cos, sin = (values[None, :, None].to(at.q.dtype) for values in (at.cos, at.sin))
        turn = at.complex_table()

        def half():
            for x, out, _, spare in steps:
                first, second, out_first, out_second = *x.chunk(2, -1), *out.chunk(2, -1)
                torch.mul(first, sin, out=spare)
                torch.mul(first, cos, out=out_first).addcmul_(second, sin, value=-1)
                torch.mul(second, cos, out=out_second).add_(spare)
            return at.q_out, at.k_out

        def interleaved():
            for x, out, wide, _ in steps:
                if x.dtype == torch.float32:
                    torch.mul(complex_pairs(x), turn, out=complex_pairs(out))
                else:
                    complex_pairs(wide.copy_(x)).mul_(turn)
                    out.copy_(wide)
            return at.q_out, at.k_out

        return interleaved if at.cell.interleaved else half


class TorchCompile(TorchPeer):
    """torch.compile, one graph for q and k, every shape known to it. On the CPU, of the ways to write the rotation the
    ones that it vectorises best: up to four times faster than the expression of the frameworks."""

    name = "torch.compile"

    def compile(self, cell: Cell) -> None:
        torch._dynamo.reset()
        self.by_partners = cell.device == "cpu" and cell.interleaved and cell.dtype != "f32"

        def members(x, cos, sin):
            if cell.interleaved:
                first, second, cos, sin = x[..., 0::2], x[..., 1::2], cos[..., 0::2], sin[..., 0::2]
            else:
                (first, second), cos, sin = x.chunk(2, dim=-1), cos[..., :PAIRS], sin[..., :PAIRS]
            turned = first * cos - second * sin, second * cos + first * sin
            return torch.stack(turned, dim=-1).flatten(-2) if cell.interleaved else torch.cat(turned, dim=-1)

        def partners(x, cos, sin):
            return x * cos + x.unflatten(-1, (PAIRS, 2)).flip(-1).flatten(-2) * sin

        turn = partners if self.by_partners else members

        def anew(q, k, cos, sin):
            return turn(q, cos, sin), turn(k, cos, sin)

        def in_place(q, k, cos, sin):
            return tuple(x.copy_(y) for x, y in zip((q, k), anew(q, k, cos, sin)))

        self.compiled = torch.compile(in_place if cell.in_place else anew, dynamic=False, fullgraph=True)

    def bind(self, at):
        (cos, sin), compiled = at.doubled_table(), self.compiled
        if self.by_partners:
            sin[..., 0::2].neg_()
        return lambda: compiled(at.q, at.k, cos, sin)


class RotaryEmbeddingTorch(TorchPeer):
    """rotate_queries_or_keys with its cache of angles; cos and sin are its own at every call."""

    name = package = "rotary-embedding-torch"
    own_angles = anew = True

    def refuse(self, cell: Cell) -> str:
        return "" if cell.interleaved else "interleaved only"

    def bind(self, at):
        from rotary_embedding_torch import RotaryEmbedding

        offset = int(at.cell.positions[0])
        rope = RotaryEmbedding(HEAD_DIM, theta=BASE, seq_before_head_dim=True, cache_max_seq_len=16384)
        return lambda: [rope.rotate_queries_or_keys(x, offset=offset) for x in (at.q, at.k)]
