"""A cell on a CUDA device: several sets of its tensors, the time of calls on them."""

import gc
from functools import partial
from statistics import median
from typing import Callable

import torch

from cells import Cell
from measure import all_agreeing
from peer import Peer
from torch_peers import on_device, rows

SAMPLE = 400e-6  # seconds of a measurement at the least
MOST = 200  # calls of a measurement


def missing_device() -> str:
    """Why there is nothing to measure on, or nothing."""
    return "" if torch.cuda.is_available() else "PyTorch finds no CUDA device"


def sets_of(cell: Cell) -> int:
    """One where the cell's tensors stay in the cache, as what the layer before wrote does; else so many that none is in
    the cache when its turn comes again."""
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    touched = cell.elements * (4 if cell.dtype == "f32" else 2) * (1 if cell.in_place else 2)
    return 1 if touched < cache / 2 else max(1, -(-4 * cache // touched))


def timed(run: Callable[[], object]) -> float:
    """Seconds, by events."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


class Timed:
    """Calls, one a set, which take turns; seconds of one call as samples."""

    def __init__(self, calls: list[Callable[[], object]]):
        self.calls, self.next = calls, 0
        self.events: list[float] = []
        self.graphs: list[float] = []
        self.graph, self.why_not, self.count, self.most = None, "", len(calls), max(MOST, len(calls))
        self.run(self.count)
        torch.cuda.synchronize()
        while timed(lambda: self.run(self.count)) < SAMPLE and 2 * self.count <= self.most:
            self.count *= 2
        self.graphed = self.count

    def run(self, count: int) -> None:
        for _ in range(count):
            self.calls[self.next]()
            self.next = (self.next + 1) % len(self.calls)

    def capture(self) -> None:
        """A graph of calls, of more than are made one by one where these take long to enqueue: the start of a graph takes
        as long as several short calls, and should count alike for all peers. why_not says why there is none."""
        try:
            self.graph = self.graph_of(self.graphed)
            while timed(self.graph) < SAMPLE and 2 * self.graphed <= self.most:
                self.graphed *= 2
                self.graph = self.graph_of(self.graphed)
        except Exception as error:  # whatever a library does that no graph holds
            self.graph, words = None, str(error).splitlines()[0] if str(error) else ""
            self.why_not = f"no graph: {type(error).__name__}: {words}"

    def graph_of(self, count: int) -> Callable[[], object]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.run(count)
        graph.replay()
        torch.cuda.synchronize()
        return graph.replay

    def sample(self) -> None:
        self.events.append(timed(lambda: self.run(self.count)) / self.count)
        if self.graph:
            self.graphs.append(timed(self.graph) / self.graphed)

    def seconds(self) -> tuple[float, float | None]:
        """Called one by one; replayed."""
        return median(self.events), median(self.graphs) if self.graphs else None


def alternate(candidates: list[Timed], rounds: int) -> None:
    for candidate in candidates:
        candidate.capture()
    for turn in range(rounds):
        for candidate in candidates[turn % len(candidates) :] + candidates[: turn % len(candidates)]:
            candidate.sample()


@torch.inference_mode()
def measure_cell(cell: Cell, peers: list[Peer], rounds: int, results) -> None:
    at = cell.compared()

    def make(peer: Peer):
        sets = on_device(cell, "cuda", sets_of(cell))  # of its own: what turns in place turns on and on
        source = sets[0].block.clone()
        calls = [peer.function(each) for each in sets]
        calls[0]()  # tuners run a kernel again and again, in place too
        sets[0].block.copy_(source)
        q, k = calls[0]()[:2]
        torch.cuda.synchronize()
        return calls, rows(q, at), rows(k, at)

    own, *found = ((peer, Timed(calls)) for peer, calls in all_agreeing(cell, peers, results, make))
    copies = on_device(cell, "cuda", len(own[1].calls))
    copy = Timed([partial(each.spare.copy_, each.block) for each in copies])
    gc.collect()
    alternate([own[1], copy, *(timing for _, timing in found)], rounds)
    for peer, timing in found:
        results.timed_on_device(cell, peer, timing, own[1], copy)
