"""Agreement first, then time: rotary and a peer in turn, round after round."""

import gc
from dataclasses import dataclass, field
from time import perf_counter, process_time

from cells import Cell
from peer import Peer, Run, Unavailable

SLICE = 0.008  # seconds of one measurement
SLOW = 0.2  # a call as long as this is its own warm-up, and three rounds are enough


@dataclass
class Timing:
    """A peer beside rotary: seconds per repetition, one of each a round."""

    peer: Peer
    run: Run
    repetitions: int
    slow: bool
    mine: list[float] = field(default_factory=list)
    rotary: list[float] = field(default_factory=list)
    wall: float = 0
    processor: float = 0  # seconds of all threads meanwhile

    def busy_threads(self) -> float:
        return self.processor / self.wall


def calibrated(peer: Peer, run: Run) -> Timing:
    once = run.repeat(1)
    if once < SLOW:
        once = min(run.repeat(1) for _ in range(3))
    return Timing(peer, run, max(1, min(1_000_000, round(SLICE / once))), once >= SLOW)


def sample(timing: Timing, processor_time: bool) -> float:
    if not timing.slow:
        timing.run.repeat(1)
    start = process_time()
    seconds = timing.run.repeat(timing.repetitions)
    return (process_time() - start if processor_time else seconds) / timing.repetitions


def alternate(rotary: Timing, timings: list[Timing], rounds: int, processor_time: bool) -> None:
    """Before each peer's measurement one of rotary's, so that a slow moment of the machine hits both."""
    for turn in range(rounds):
        for timing in timings[turn % len(timings) :] + timings[: turn % len(timings)]:
            if timing.slow and turn >= 3:
                continue
            timing.rotary.append(sample(rotary, processor_time))
            wall, processor = perf_counter(), process_time()
            timing.mine.append(sample(timing, processor_time))
            timing.wall += perf_counter() - wall
            timing.processor += process_time() - processor


def ready(cell: Cell, peer: Peer, results) -> Timing | None:
    """The peer's timing, if it has such a cell and agrees; else results hears why not."""
    reason = peer.refuse(cell)
    if not reason:
        try:
            run = peer.prepare(cell)
            run.repeat(1)
            difference, allowed = cell.difference(*run.result()), cell.tolerance(peer.own_angles)
            if difference <= allowed:
                results.agrees(cell, peer.name, difference)
                return calibrated(peer, run)
            run.release()
            results.differs(cell, peer.name, difference, allowed)
            return None
        except Unavailable as error:
            reason = str(error)
        except Exception as error:  # a peer that breaks in one cell is left out of it; the others go on
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    results.left_out(cell, peer.name, reason)
    return None


def measure_cell(cell: Cell, rotary: Peer, peers: list[Peer], rounds: int, results) -> None:
    own = ready(cell, rotary, results)
    if own is None:
        raise SystemExit(f"peers.sh: rotary is wrong at {cell}; nothing else matters")
    timings = [timing for timing in (ready(cell, peer, results) for peer in peers) if timing]
    gc.collect()
    gc.disable()
    alternate(own, timings, rounds, results.processor_time)
    gc.enable()
    for timing in timings:
        results.timed(cell, timing)
        timing.run.release()
    own.run.release()
