"""A cell on a CUDA device: its tensors in several sets, and the time of calls on them. ROTARY_PEERS_PRETEND=1 does all
this on the CPU by the clock, to try the code where there is no device."""

import os
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Callable

import numpy as np
import torch

from cells import HEAD_DIM, PAIRS, GpuCell
from torch_peers import KINDS, tensor

PRETEND = os.environ.get("ROTARY_PEERS_PRETEND") == "1"
DEVICE = "cpu" if PRETEND else "cuda"
SAMPLE = 400e-6  # seconds of a measurement at the least
MOST = 200  # calls of a measurement

Call = Callable[[], object]


def l2_bytes() -> int:
    return 1 << 20 if PRETEND else torch.cuda.get_device_properties(0).L2_cache_size


def device_name() -> str:
    if PRETEND:
        return "a pretended device"
    major, minor = torch.cuda.get_device_capability()
    return f"{torch.cuda.get_device_name()}, compute capability {major}.{minor}"


@dataclass
class Work:
    """One set of a cell's tensors; [1, tokens, heads, 128], q and k neighbours in memory."""

    cell: GpuCell
    q: torch.Tensor
    k: torch.Tensor
    q_out: torch.Tensor  # in place: q
    k_out: torch.Tensor
    block: torch.Tensor  # q and k as one
    spare: torch.Tensor  # as large
    source: torch.Tensor  # what block was at first; of all sets
    cos: torch.Tensor  # float32 [tokens, 64]
    sin: torch.Tensor
    positions: torch.Tensor  # int64
    positions32: torch.Tensor

    def doubled(self, values: torch.Tensor) -> torch.Tensor:
        """A table as wide as the head in q's dtype, as transformers makes it; [1, tokens, 1, 128]."""
        wide = values.repeat_interleave(2, -1) if self.cell.interleaved else torch.cat([values, values], -1)
        return wide[None, :, None].to(self.q.dtype).contiguous()


def sets_of(cell: GpuCell) -> int:
    """One where the cell's tensors stay in the cache, as what the layer before wrote does; else so many that none is in
    the cache when its turn comes again. As in `rotary bench --device cuda`."""
    touched = cell.elements * (4 if cell.dtype == "f32" else 2) * (1 if cell.in_place else 2)
    return 1 if touched < l2_bytes() / 2 else max(1, -(-4 * l2_bytes() // touched))


def works_of(cell: GpuCell) -> list[Work]:
    cos, sin = (torch.from_numpy(values).to(DEVICE) for values in (cell.cos, cell.sin))
    positions = torch.from_numpy(cell.positions).to(DEVICE)
    source = torch.cat([tensor(cell.source(name)).flatten() for name in ("q", "k")]).to(DEVICE)
    works = []
    for _ in range(sets_of(cell)):
        block = source.clone()
        spare = torch.zeros_like(block)
        q, k = views(cell, block)
        q_out, k_out = (q, k) if cell.in_place else views(cell, spare)
        works.append(Work(cell, q, k, q_out, k_out, block, spare, source, cos, sin, positions, positions.to(torch.int32)))
    return works


def views(cell: GpuCell, block: torch.Tensor):
    from cells import HEADS, KV_HEADS

    edge = cell.tokens * HEADS * HEAD_DIM
    return (block[:edge].view(1, cell.tokens, HEADS, HEAD_DIM),
            block[edge:].view(1, cell.tokens, KV_HEADS, HEAD_DIM))  # fmt: skip


def rows(x: torch.Tensor, at: np.ndarray) -> np.ndarray:
    """Tokens of a result, in storage type."""
    chosen = x.reshape(x.shape[-3:])[torch.from_numpy(at).to(x.device)].contiguous().cpu()
    return (chosen.view(torch.uint16) if chosen.dtype == torch.bfloat16 else chosen).numpy()


# ---- time ----


def synchronize() -> None:
    if not PRETEND:
        torch.cuda.synchronize()


def timed(run: Call) -> float:
    """Seconds, by events."""
    if PRETEND:
        start = perf_counter()
        run()
        return perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


class Timed:
    """Calls, one a set, which take turns; seconds of one call as samples."""

    def __init__(self, name: str, calls: list[Call]):
        self.name, self.calls, self.next = name, calls, 0
        self.events: list[float] = []
        self.graphs: list[float] = []
        self.why_not = ""
        self.count, self.graph = self.calibrated(), None

    def run(self, count: int) -> None:
        for _ in range(count):
            self.calls[self.next]()
            self.next = (self.next + 1) % len(self.calls)

    def calibrated(self) -> int:
        count = len(self.calls)
        self.run(count)
        synchronize()
        while timed(lambda: self.run(count)) < SAMPLE and 2 * count <= max(MOST, len(self.calls)):
            count *= 2
        return count

    def capture(self) -> None:
        """A graph of as many calls; why_not says why there is none."""
        if PRETEND:
            self.graph = lambda: self.run(self.count)
            return
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.run(self.count)
            graph.replay()
            synchronize()
            self.graph = graph.replay
        except Exception as error:  # whatever a library does that no graph holds
            self.why_not = f"no graph: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"

    def sample(self) -> None:
        self.events.append(timed(lambda: self.run(self.count)) / self.count)
        if self.graph:
            self.graphs.append(timed(self.graph) / self.count)

    def event_seconds(self) -> float:
        return median(self.events)

    def graph_seconds(self) -> float | None:
        return median(self.graphs) if self.graphs else None


def alternate(candidates: list[Timed], rounds: int) -> None:
    for candidate in candidates:
        candidate.capture()
    for turn in range(rounds):
        for candidate in candidates[turn % len(candidates) :] + candidates[: turn % len(candidates)]:
            candidate.sample()


__all__ = ["KINDS", "PAIRS", "Call", "Timed", "Work", "alternate", "device_name", "rows", "synchronize", "works_of"]
