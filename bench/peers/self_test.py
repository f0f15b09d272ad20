"""Checks of the checks, with numpy alone: run.py --self-test."""

import contextlib
import io
import json
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np

import measure
import report
from cells import DTYPES, PAIRINGS, Cell, from_storage, grid, to_storage
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


def main() -> int:
    for check in (storage_rounds_to_nearest_even, the_reference_turns_by_the_angle, the_other_pairing_does_not_agree,
                  inputs_are_not_shared_with_what_is_written, a_run_measures_leaves_out_and_reports):  # fmt: skip
        check()
    print("peers: all checks hold")
    return 0
