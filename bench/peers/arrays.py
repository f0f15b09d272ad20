"""numpy and numba."""

from time import perf_counter

import numpy as np

from cells import HEAD_DIM, PAIRS, Cell
from peer import Peer, Run, in_python


class Numpy(Peer):
    """Every ufunc with out=, so that nothing is allocated."""

    name = package = "numpy"

    def refuse(self, cell: Cell) -> str:
        return "has no bf16" if cell.dtype == "bf16" else "one thread only" if cell.threads > 1 else ""

    def prepare(self, cell: Cell) -> Run:
        kind = np.float32 if cell.dtype == "f32" else np.float16
        cos, sin = (table.astype(kind)[:, None] for table in (cell.cos, cell.sin))
        steps, outputs = [], []
        for name in ("q", "k"):
            x = cell.work(name) if cell.in_place else cell.source(name)
            out = x if cell.in_place else cell.work(name)
            spare = [np.empty(x.shape[:-1] + (PAIRS,), kind) for _ in range(2)]
            steps.append((*cell.members(x[0]), *cell.members(out[0]), spare[0][0], spare[1][0]))
            outputs.append(out[0])

        def call():
            for first, second, out_first, out_second, one, two in steps:
                np.multiply(first, sin, out=one)
                np.multiply(second, sin, out=two)
                np.multiply(first, cos, out=out_first)
                np.multiply(second, cos, out=out_second)
                np.subtract(out_first, two, out=out_first)
                np.add(out_second, one, out=out_second)

        return Run(in_python(call), lambda: tuple(outputs))


class Numba(Peer):
    """The plain loop in Python, compiled; repeated inside, without dispatch."""

    name = package = "numba"

    def __init__(self):
        import numba

        self.numba = numba

    def refuse(self, cell: Cell) -> str:
        return "has no f16 on the CPU" if cell.dtype == "f16" else ""

    def prepare(self, cell: Cell) -> Run:
        from numba_loop import loops

        self.numba.set_num_threads(cell.threads)
        rotate = loops(cell.dtype == "bf16", cell.interleaved, cell.in_place, cell.threads > 1)
        q, k = (cell.work("q"), cell.work("k")) if cell.in_place else (cell.source("q"), cell.source("k"))
        q_out, k_out = (q, k) if cell.in_place else (cell.work("q"), cell.work("k"))
        flat = [x.reshape(-1, x.shape[2], HEAD_DIM) for x in (q, k, q_out, k_out)]
        rotate(0, *flat, cell.cos, cell.sin)  # compiles

        def repeat(repetitions: int) -> float:
            start = perf_counter()
            rotate(repetitions, *flat, cell.cos, cell.sin)
            return perf_counter() - start

        return Run(repeat, lambda: (q_out[0], k_out[0]))
