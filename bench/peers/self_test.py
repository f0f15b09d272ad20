"""Checks of the checks, with numpy alone: run.py --self-test."""

import contextlib
import io
import json
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np

import gpu_report
import gpu_run
import measure
import report
from cells import BLOCK, DTYPES, PAIRINGS, Cell, GpuCell, from_storage, gpu_grid, grid, to_storage
from peer import Peer, Run, Unavailable


class Reference(Peer):
    """Turns by complex numbers, and pretends to take as long as it is told."""

    def __init__(self, name: str, seconds: float, broken: bool = False):
        self.name, self.seconds, self.broken = name, seconds, broken

    def version(self) -> str:
        return "1"

    def prepare(self, cell: Cell) -> Run:
        if self.name == "absent":
            raise Unavailable("has no such cell")
        turn = np.exp(1j * cell.angles)[:, None] * (1.05 if self.broken else 1)
        outs = []
        for name in ("q", "k"):
            first, second = cell.members(from_storage(cell.source(name)[0]))
            turned = (first + 1j * second) * turn
            out = np.empty((cell.tokens, first.shape[1], 128), np.float32)
            for member, values in zip(cell.members(out), (turned.real, turned.imag)):
                member[...] = values
            outs.append(to_storage(out, cell.dtype))
        return Run(lambda repetitions: repetitions * self.seconds, lambda: tuple(outs), anew=True)


def storage_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -2.5], np.float32)  # 1 + 2^-8 and 1 + 3 * 2^-8 are halfway
    assert from_storage(to_storage(values, "bf16")).tolist() == [1.0, 1.0, 1.015625, -2.5]
    assert from_storage(to_storage(values, "f32")).tolist() == values.tolist()


def the_reference_turns_by_the_angle() -> None:
    for dtype in DTYPES:
        for pairing in PAIRINGS:
            for tokens in (1, 5):
                cell = Cell(dtype, pairing, tokens, False)
                assert cell.difference(*Reference("r", 1).prepare(cell).result()) <= cell.tolerance(False)


def the_other_pairing_does_not_agree() -> None:
    half, interleaved = Cell("f32", "half", 3, False), Cell("f32", "interleaved", 3, False)
    assert interleaved.difference(*Reference("r", 1).prepare(half).result()) > interleaved.tolerance(True)


def inputs_are_not_shared_with_what_is_written() -> None:
    cell = Cell("f16", "half", 2, True)
    assert not np.shares_memory(cell.work("q"), cell.source("q"))
    assert cell.source("q").ctypes.data % 64 == 0


def a_run_measures_leaves_out_and_reports() -> None:
    results = report.Results()
    peers = [Reference("twice", 2e-3), Reference("wrong", 1e-3, broken=True), Reference("absent", 1)]
    cells = grid(1, dtypes=("f32",), pairings=("half",), tokens=(1, 4))
    with contextlib.redirect_stderr(io.StringIO()):
        for cell in cells:
            results.begin(cell)
            measure.measure_cell(cell, Reference("rotary", 1e-3), peers, 3, results)
    assert [row["ratio"] for row in results.rows] == [2.0] * len(cells)
    assert {peer for peer, _ in results.reasons} == {"wrong", "absent"}
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            results.write(Path(folder), "self test", "none")
        rows = [json.loads(line) for line in (Path(folder) / "peers.jsonl").read_text().splitlines()]
        assert rows[0]["peer"] == "twice" and rows[0]["ns_per_element"] == 2 * rows[0]["rotary_ns_per_element"]
        assert "2.00×†" in (Path(folder) / "peers.md").read_text()
        assert xml.fromstring((Path(folder) / "peers.svg").read_text()).tag.endswith("svg")


# ---- on a GPU: what needs none ----


class Seconds:
    """As gpu_work's Timed, with the times that it is told."""

    def __init__(self, events: float, graphs: float | None):
        self.events, self.graphs, self.calls, self.why_not = events, graphs, [None], "" if graphs else "no graph: why"

    def event_seconds(self) -> float:
        return self.events

    def graph_seconds(self) -> float | None:
        return self.graphs


def the_cells_of_a_gpu_are_those_of_the_issue() -> None:
    cells = gpu_grid()
    assert len(cells) == 60 and len({str(cell) for cell in cells}) == 60
    assert cells[0].keys()["device"] == "cuda" and cells[0].keys()["threads"] is None
    long = GpuCell("bf16", "half", BLOCK + 3, False)
    assert long.source("k").shape == (1, BLOCK + 3, 8, 128)
    assert np.array_equal(long.source("k")[0, BLOCK:], long.source("k")[0, :3])
    rotated = Reference("r", 1).prepare(long).result()
    assert long.difference(*rotated) <= long.tolerance(False)
    assert long.difference_at(*(x[long.compared()] for x in rotated)) == long.difference(*rotated)


def the_page_of_a_gpu_has_all_peers_and_their_reasons() -> None:
    cells = gpu_grid(dtypes=("bf16",), pairings=("half",), tokens=(1, 64))
    outcomes = []
    for peer, graphs in ((Reference("twice", 0), 4e-6), (Reference("uncaptured", 0), None)):
        rows = [gpu_run.row_of(cell, peer_with(peer), Seconds(8e-6, graphs), Seconds(4e-6, 2e-6), Seconds(3e-6, 1e-6))
                for cell in cells]  # fmt: skip
        outcomes.append({"peer": peer.name, "device": "a GPU", "versions": {peer.name: "1"}, "rows": rows, "absent": "",
                         "left_out": {"half only": ["bf16 interleaved 1 in place"]},
                         "differences": {peer.name: {"bf16": 0.01}}})  # fmt: skip
    outcomes.append({"peer": "gone", "absent": "its process ended with -6"})
    assert [row["ratio"] for row in outcomes[0]["rows"] + outcomes[1]["rows"]] == [2.0] * 2 * len(cells)
    with tempfile.TemporaryDirectory() as folder:
        for outcome in outcomes:
            gpu_run.file_of(Path(folder), outcome["peer"]).write_text(json.dumps(outcome))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            gpu_report.write(Path(folder), "self test")
        page = (Path(folder) / "gpu.md").read_text()
        assert all(words in page for words in ("2.00×† |", "2.00×†‡ |", "| 2.00 | 50 % |", "ended with -6", "half only"))
        assert len((Path(folder) / "gpu.jsonl").read_text().splitlines()) == 2 * len(cells)
        assert xml.fromstring((Path(folder) / "gpu.svg").read_text()).tag.endswith("svg")


def peer_with(peer: Reference) -> Reference:
    peer.anew = True
    return peer


def main() -> int:
    for check in (storage_rounds_to_nearest_even, the_reference_turns_by_the_angle, the_other_pairing_does_not_agree,
                  inputs_are_not_shared_with_what_is_written, a_run_measures_leaves_out_and_reports,
                  the_cells_of_a_gpu_are_those_of_the_issue,
                  the_page_of_a_gpu_has_all_peers_and_their_reasons):  # fmt: skip
        check()
    print("peers: all checks hold")
    return 0
