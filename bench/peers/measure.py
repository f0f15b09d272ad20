"""Agreement first, then time: rotary and a peer in turn, round after round. On the CPU here, on a device in cuda.py."""

import gc
from dataclasses import dataclass, field
from time import perf_counter, process_time

from cells import Cell
from peer import Peer, Run, Unavailable

SLICE = 0.008  # seconds of one measurement
SLOW = 0.2  # a call as long as this is its own warm-up, and three rounds are enough


def agreeing(cell: Cell, peer: Peer, results, make):
    """What make() gives beside q and k of the compared tokens, if the peer has such a cell and agrees; else results
    hears why not, and None."""
    reason = peer.refuse(cell)
    if not reason:
        try:
            made, q, k = make()
            difference, allowed = cell.difference(q, k), cell.tolerance(peer.own_angles)
            if difference <= allowed:
                results.agrees(cell, peer.name, difference)
                return made
            reason = f"differs from float64 by more than {allowed:.2g}"
            results.differs(peer.name, reason, difference)
        except Unavailable as error:
            reason = str(error)
        except Exception as error:  # a peer that breaks in one cell is left out of it; the others go on
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    results.left_out(cell, peer.name, reason)
    return None


@dataclass
class Timing:
    """A peer beside rotary: seconds per repetition, one of each a round."""

    peer: Peer
    run: Run
    mine: list[float] = field(default_factory=list)
    rotary: list[float] = field(default_factory=list)
    wall: float = 0
    processor: float = 0  # seconds of all threads meanwhile

    def __post_init__(self):
        once = self.run.repeat(1)
        if once < SLOW:
            once = min(self.run.repeat(1) for _ in range(3))
        self.repetitions, self.slow = max(1, min(1_000_000, round(SLICE / once))), once >= SLOW

    def sample(self, processor_time: bool) -> float:
        if not self.slow:
            self.run.repeat(1)
        start = process_time()
        seconds = self.run.repeat(self.repetitions)
        return (process_time() - start if processor_time else seconds) / self.repetitions


def alternate(rotary: Timing, timings: list[Timing], rounds: int, processor_time: bool) -> None:
    """Before each peer's measurement one of rotary's, so that a slow moment of the machine hits both."""
    for turn in range(rounds):
        for timing in timings[turn % len(timings) :] + timings[: turn % len(timings)]:
            if timing.slow and turn >= 3:
                continue
            timing.rotary.append(rotary.sample(processor_time))
            wall, processor = perf_counter(), process_time()
            timing.mine.append(timing.sample(processor_time))
            timing.wall += perf_counter() - wall
            timing.processor += process_time() - processor


def measure_cell(cell: Cell, rotary: Peer, peers: list[Peer], rounds: int, results) -> None:
    def ready(peer: Peer) -> Timing | None:
        def make():
            run = peer.prepare(cell)
            run.repeat(1)
            at = cell.compared()
            return run, *(x[at] for x in run.result())

        run = agreeing(cell, peer, results, make)
        return Timing(peer, run) if run else None

    own = ready(rotary)
    if own is None:
        raise SystemExit(f"peers.sh: rotary is wrong at {cell}; nothing else matters")
    timings = [timing for timing in map(ready, peers) if timing]
    gc.collect()
    gc.disable()
    alternate(own, timings, rounds, results.processor_time)
    gc.enable()
    for timing in timings:
        results.timed(cell, timing)
        timing.run.release()
    own.run.release()
