"""Agreement first, then time: rotary and a peer in turn, round after round. On the CPU here, on a device in cuda.py."""

import gc
from dataclasses import dataclass, field
from statistics import median

from cells import OWN_ANGLES, TOLERANCE, Cell
from peer import Peer, Run, Unavailable

SLICE = 0.008  # seconds of one measurement
ROUNDS = 7  # measurements of each, whose median counts


def all_agreeing(cell: Cell, peers: list[Peer], results, make) -> list[tuple]:
    """(peer, what make(peer) returns beside q and k of the compared tokens) for each peer that has such a cell and
    agrees; `results` records why a peer is left out. The first is rotary: nothing else matters if it is wrong."""
    found = []
    for peer in peers:
        try:
            prepared, q, k = make(peer)
            allowed = TOLERANCE[cell.dtype] + OWN_ANGLES * peer.own_angles
            if cell.difference(q, k) > allowed:
                raise Unavailable(f"differs from float64 by more than {allowed:.2g}")
            found.append((peer, prepared))
        except Unavailable as error:
            results.left_out(cell, peer.name, str(error))
        except Exception as error:  # a peer that breaks in one cell is left out of it; the others go on
            words = str(error).splitlines()[0] if str(error) else ""
            results.left_out(cell, peer.name, f"{type(error).__name__}: {words}")
        if not found:
            raise SystemExit(f"peers.sh: rotary is wrong at {cell}; nothing else matters")
    return found


def in_turn(candidates: list):
    """Each of them ROUNDS times; another one begins in every round."""
    for first in range(ROUNDS if candidates else 0):
        yield from (candidates[(first + i) % len(candidates)] for i in range(len(candidates)))


# ---- on the CPU ------------------------------------------------------------------------------------


@dataclass
class Timing:
    """A peer beside rotary: seconds per repetition, one of each a round."""

    peer: Peer
    run: Run
    mine: list[float] = field(default_factory=list)
    rotary: list[float] = field(default_factory=list)

    def __post_init__(self):
        once = min(self.run.repeat(1) for _ in range(3))
        self.repetitions = max(1, min(1_000_000, round(SLICE / once)))

    def sample(self) -> float:
        self.run.repeat(1)
        return self.run.repeat(self.repetitions) / self.repetitions


def measure_cell(cell: Cell, peers: list[Peer], results) -> None:
    def make(peer: Peer):
        run = peer.prepare(cell)
        run.repeat(1)
        return run, *(x[cell.compared()] for x in run.result())

    own, *timings = (Timing(peer, run) for peer, run in all_agreeing(cell, peers, results, make))
    gc.collect()
    gc.disable()
    for timing in in_turn(timings):  # rotary before each, so that a slow moment of the machine hits both
        timing.rotary.append(own.sample())
        timing.mine.append(timing.sample())
    gc.enable()
    for timing in timings:
        results.row(cell, timing.peer.name, median(timing.mine), median(timing.rotary), anew=timing.run.anew)
