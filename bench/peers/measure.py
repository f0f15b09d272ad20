"""Agreement first, then time: rotary and a peer in turn, round after round. On the CPU here, on a device in cuda.py."""

import ctypes
import gc
from dataclasses import dataclass, field
from time import perf_counter, process_time

import numpy as np

import native
from cells import BASE, HEAD_DIM, PAIRS, Cell
from peer import Peer, Run, Unavailable

SLICE = 0.008  # seconds of one measurement
SLOW = 0.2  # a call as long as this is its own warm-up, and three rounds are enough


def agreeing(cell: Cell, peer: Peer, results, make):
    """What make() gives beside q and k of the compared tokens, if the peer has such a cell and agrees; else results
    hears why not, and None."""
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


def all_agreeing(cell: Cell, peers: list[Peer], results, make) -> list[tuple]:
    """(peer, what make(peer) gives) of those that agree. The first is rotary: nothing else matters if it does not."""
    found = [(peer, made) for peer in peers if (made := agreeing(cell, peer, results, lambda: make(peer))) is not None]
    if not found or found[0][0] is not peers[0]:
        raise SystemExit(f"peers.sh: rotary is wrong at {cell}; nothing else matters")
    return found


# ---- on the CPU ------------------------------------------------------------------------------------


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


def measure_cell(cell: Cell, peers: list[Peer], rounds: int, results) -> None:
    def make(peer: Peer):
        run = peer.prepare(cell)
        run.repeat(1)
        return run, *(x[cell.compared()] for x in run.result())

    own, *timings = (Timing(peer, run) for peer, run in all_agreeing(cell, peers, results, make))
    gc.collect()
    gc.disable()
    alternate(own, timings, rounds, results.processor_time)
    gc.enable()
    for timing in timings:
        results.timed(cell, timing)
    for timing in (own, *timings):
        timing.run.release()


# ---- cos and sin in float32: rotary's exact table beside the steps of the frameworks ----------------

TOKENS = 131072
INV_FREQ = BASE ** (-np.arange(PAIRS) / PAIRS)


def table_steps(module, dtype, empty):
    """angles, cos and sin of all positions by the functions of numpy or torch, into memory allocated before; a call, and
    its results in float32."""
    given = (np.arange(TOKENS, dtype=dtype), INV_FREQ.astype(dtype))
    positions, turns = given if module is np else map(module.from_numpy, given)
    angles, wide = (empty((TOKENS, PAIRS), dtype=positions.dtype) for _ in range(2))
    cos, sin = (empty((TOKENS, PAIRS), dtype=module.float32) for _ in range(2))

    def call():
        module.outer(positions, turns, out=angles)
        for function, out in ((module.cos, cos), (module.sin, sin)):
            if dtype == np.float32:
                function(angles, out=out)
            else:
                out[...] = function(angles, out=wide)

    return module.__version__, call, lambda: (np.asarray(cos), np.asarray(sin))


def torch_steps():
    import torch

    version, call, result = table_steps(torch, np.float32, torch.empty)
    return version, torch.inference_mode()(call), result


TABLES = {
    "PyTorch float32": torch_steps,
    "numpy float32": lambda: table_steps(np, np.float32, np.empty),
    "numpy float64, rounded": lambda: table_steps(np, np.float64, np.empty),
}


def largest_error(cos: np.ndarray, sin: np.ndarray) -> float:
    """Over every 64th position and the last."""
    at = np.append(np.arange(0, TOKENS, 64), TOKENS - 1)
    angles = np.outer(at, INV_FREQ)
    return float(max(np.abs(cos[at] - np.cos(angles)).max(), np.abs(sin[at] - np.sin(angles)).max()))


def measure_tables(names: list[str], rounds: int, results) -> None:
    """results gets a row a peer."""
    rows = [np.empty((TOKENS, PAIRS), np.float32) for _ in range(2)]
    pointers = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for array in rows]
    own = lambda: native.library.peers_table(TOKENS, HEAD_DIM, BASE, 1, *pointers)  # noqa: E731
    own()
    clock = process_time if results.processor_time else perf_counter
    keys = {"op": "table", "dtype": "f32", "pairing": "half", "layout": "", "tokens": TOKENS, "heads": 0, "kv_heads": 0,
            "head_dim": HEAD_DIM, "rotary_dim": HEAD_DIM, "in_place": False, "threads": 1}  # fmt: skip
    for peer, make in TABLES.items():
        if names and not any(name in peer.lower() for name in names):
            continue
        try:
            results.versions[peer], call, result = make()
        except ImportError as error:
            results.missing(peer, str(error))
            continue
        call()
        times = []
        for _ in range(rounds):
            start = clock()
            own()
            middle = clock()
            call()
            times.append((clock() - middle, middle - start))
        mine, rotary = (results.of(of_one) * 1e9 / (TOKENS * PAIRS) for of_one in zip(*times))
        results.row(keys, peer, mine, rotary, largest_error=largest_error(*result()), rotary_largest_error=largest_error(*rows))
