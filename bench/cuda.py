"""A cell on a CUDA device: several sets of its tensors, the time of calls on them."""

import gc
from functools import partial
from itertools import cycle
from statistics import median
from typing import Callable

import torch

from cells import Cell
from measure import all_agreeing, in_turn
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
    """Calls, one for each set, that take turns in a graph, which is replayed: the time of the device alone. Raises the
    library's own error if a graph cannot capture its calls."""

    def __init__(self, calls: list[Callable[[], object]]):
        self.turns, self.count, self.samples = cycle(calls), len(calls), []
        self.run()  # compiles, which no graph holds
        torch.cuda.synchronize()
        self.capture()
        while timed(self.replay) < SAMPLE and 2 * self.count <= max(MOST, len(calls)):
            self.count *= 2
            self.capture()

    def run(self) -> None:
        for _ in range(self.count):
            next(self.turns)()

    def capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.run()
        graph.replay()
        torch.cuda.synchronize()
        self.replay = graph.replay

    def sample(self) -> None:
        self.samples.append(timed(self.replay) / self.count)

    def seconds(self) -> float:
        """The median time of one call."""
        return median(self.samples)


@torch.inference_mode()
def measure_cell(cell: Cell, peers: list[Peer], results) -> None:
    at = cell.compared()

    def make(peer: Peer):
        sets = on_device(cell, "cuda", sets_of(cell))  # its own sets: heads that turn in place turn on and on
        source = sets[0].block.clone()
        calls = [peer.function(each) for each in sets]
        calls[0]()  # tuners run a kernel again and again, in place too
        sets[0].block.copy_(source)
        q, k = (rows(x, at) for x in calls[0]()[:2])
        return Timed(calls), q, k

    (_, rotary), *found = all_agreeing(cell, peers, results, make)
    copies = on_device(cell, "cuda", sets_of(cell))
    copy = Timed([partial(each.spare.copy_, each.block) for each in copies])
    gc.collect()
    for candidate in in_turn([rotary, copy, *(timing for _, timing in found)]):
        candidate.sample()
    for peer, timing in found:
        results.timed_on_device(cell, peer, timing.seconds(), rotary.seconds(), copy.seconds())
