"""PyTorch: the expression of the frameworks, torch.compile; libraries on its tensors; and rotary on a CUDA device. Each
function binds a set of tensors and gives the call that turns them and returns q and k."""

import weakref
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

import native
from cells import HEAD_DIM, HEADS, PAIRS, Cell
from peer import Peer, Run, Unavailable, in_python


def tensor(values: np.ndarray) -> torch.Tensor:
    """The same memory."""
    shared = torch.from_numpy(values)
    return shared.view(torch.bfloat16) if values.dtype == np.uint16 else shared


def rows(x: torch.Tensor, at: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Tokens of a result, in storage type."""
    chosen = x.reshape(x.shape[-3:]).cpu()[at].contiguous()
    return (chosen.view(torch.uint16) if chosen.dtype == torch.bfloat16 else chosen).numpy()


@dataclass
class TensorSet:
    """A cell's tensors; [1, tokens, heads, 128]."""

    cell: Cell
    q: torch.Tensor
    k: torch.Tensor
    q_out: torch.Tensor  # in place: q
    k_out: torch.Tensor
    once: dict  # objects that are made once for all sets of a cell
    block: torch.Tensor | None = None  # on a device q and k as one,
    spare: torch.Tensor | None = None  # and as much memory

    def __post_init__(self):
        device = self.q.device
        self.cos, self.sin = (torch.from_numpy(x).to(device) for x in self.cell.table)
        self.positions = torch.from_numpy(self.cell.positions).to(device)

    def doubled_table(self) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin as wide as the head in q's dtype, as transformers makes them; [1, tokens, 1, 128]."""
        wide = [x.repeat_interleave(2, -1) if self.cell.interleaved else torch.cat([x, x], -1)
                for x in (self.cos, self.sin)]
        return tuple(x[None, :, None].to(self.q.dtype).contiguous() for x in wide)


def on_cpu(peer: Peer, cell: Cell) -> Run:
    torch.set_num_threads(1)
    call, last = peer.function(TensorSet(cell, *map(tensor, cell.tensors()), {})), [None]

    def keep():
        last[0] = call()

    # inference_mode around the whole loop: entering it is none of the peer's work.
    return Run(torch.inference_mode()(in_python(keep)), lambda: tuple(rows(x) for x in last[0][:2]),
               anew=cell.in_place and peer.anew)  # fmt: skip


def on_device(cell: Cell, device: str, count: int) -> list[TensorSet]:
    """So many sets of the same values, q and k neighbours in memory."""
    edge = cell.tokens * HEADS * HEAD_DIM

    def views(x):
        return (part.view(1, cell.tokens, -1, HEAD_DIM) for part in (x[:edge], x[edge:]))

    source = torch.cat([tensor(cell.source(name)).flatten() for name in ("q", "k")]).to(device)
    sets, once = [], {}
    for _ in range(count):
        block, spare = source.clone(), torch.zeros_like(source)
        q, k = views(block)
        sets.append(TensorSet(cell, q, k, *((q, k) if cell.in_place else views(spare)), once, block, spare))
    return sets


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def complex_pairs(x):
    return torch.view_as_complex(x.unflatten(-1, (PAIRS, 2)))


# ---- PyTorch ---------------------------------------------------------------------------------------


def eager(at: TensorSet):
    """half: q * cos + rotate_half(q) * sin. interleaved: the complex product of Meta's Llama, in float32."""
    (cos, sin), turn = at.doubled_table(), torch.complex(at.cos, at.sin)[None, :, None]

    def half():
        return [x * cos + rotate_half(x) * sin for x in (at.q, at.k)]

    def interleaved():
        return [torch.view_as_real(complex_pairs(x.float()) * turn).flatten(3).type_as(x) for x in (at.q, at.k)]

    return interleaved if at.cell.interleaved else half


def compiled(at: TensorSet):
    """torch.compile, one graph for q and k, every shape known to it. On the CPU, of the ways to write the rotation the
    ones that it vectorises best: up to four times faster than the expression of the frameworks."""
    cell = at.cell
    by_partners = cell.device == "cpu" and cell.interleaved and cell.dtype != "f32"

    def members(x, cos, sin):
        if cell.interleaved:
            first, second, cos, sin = x[..., 0::2], x[..., 1::2], cos[..., 0::2], sin[..., 0::2]
        else:
            (first, second), cos, sin = x.chunk(2, dim=-1), cos[..., :PAIRS], sin[..., :PAIRS]
        turned = first * cos - second * sin, second * cos + first * sin
        return torch.stack(turned, dim=-1).flatten(-2) if cell.interleaved else torch.cat(turned, dim=-1)

    def partners(x, cos, sin):
        return x * cos + x.unflatten(-1, (PAIRS, 2)).flip(-1).flatten(-2) * sin

    turn = partners if by_partners else members

    def anew(q, k, cos, sin):
        return turn(q, cos, sin), turn(k, cos, sin)

    def in_place(q, k, cos, sin):
        return tuple(x.copy_(y) for x, y in zip((q, k), anew(q, k, cos, sin)))

    if not at.once:
        torch._dynamo.reset()
        at.once["graph"] = torch.compile(in_place if cell.in_place else anew, dynamic=False, fullgraph=True)
    (cos, sin), graph = at.doubled_table(), at.once["graph"]
    if by_partners:
        sin[..., 0::2].neg_()
    return lambda: graph(at.q, at.k, cos, sin)


# ---- on a CUDA device ------------------------------------------------------------------------------


def rotary(at: TensorSet, variant: int = 0):
    """rotate_qk by a table made before, on PyTorch's current stream. Variant 1 launches overlapped."""
    address = [x.data_ptr() for x in (at.q, at.k, at.q_out, at.k_out)]
    own = native.prepared(native.request(at.cell, *address, variant), torch.cuda.current_stream().cuda_stream)

    def call():
        native.checked(native.library.peers_rotate(own, 1, torch.cuda.current_stream().cuda_stream))
        return at.q_out, at.k_out

    weakref.finalize(call, native.library.peers_release, own)
    return call


overlapped = partial(rotary, variant=1)
rotary.version = overlapped.version = native.target


def liger(at: TensorSet):
    """liger_rotary_pos_emb: one Triton kernel for q and k, in place, half pairing; cos and sin in q's dtype."""
    if at.cell.interleaved:
        raise Unavailable("half pairing only")
    if not at.cell.in_place:
        raise Unavailable("writes in place only")
    from liger_kernel.ops.rope import LigerRopeFunction

    cos, sin = (values.view(1, -1, HEAD_DIM) for values in at.doubled_table())
    q, k = at.q.transpose(1, 2), at.k.transpose(1, 2)  # as a model has them; the kernel sees [B, S, H, D]

    def call():
        LigerRopeFunction.apply(q, k, cos, sin)
        return at.q, at.k

    return call


def flashinfer(at: TensorSet):
    """apply_rope_with_cos_sin_cache: one CUDA kernel, compiled at its first call; a float32 table by position."""
    if at.cell.dtype == "f32":
        raise Unavailable("has no f32")
    from flashinfer import rope

    # A row for every position up to the last: it takes rows by position.
    table = torch.zeros(int(at.cell.positions[-1]) + 1, HEAD_DIM, device=at.q.device)
    table[at.positions] = torch.cat([at.cos, at.sin], -1)
    q, k = (x.view(at.cell.tokens, -1) for x in (at.q, at.k))
    arguments = (at.positions, q, k, HEAD_DIM, table, not at.cell.interleaved)

    def in_place():
        rope.apply_rope_with_cos_sin_cache_inplace(*arguments)
        return at.q, at.k

    def anew():
        pair = rope.apply_rope_with_cos_sin_cache(*arguments)
        return tuple(x.view(at.cell.tokens, -1, HEAD_DIM) for x in pair)

    return in_place if at.cell.in_place else anew
