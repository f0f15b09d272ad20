"""bench: that a wrong result is found, and what is reported. Needs numpy alone."""

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

import measure
import report
from cells import CUDA_TOKENS, DTYPES, OWN_ANGLES, PAIRINGS, TOLERANCE, Cell, from_storage, grid, to_storage
from peer import PEERS, Peer, Run, Unavailable, chosen_peers


def reference(name: str, seconds: float, factor: float = 1, **more) -> Peer:
    """Turns by complex numbers, and pretends to take as long as it is told."""

    def prepare(cell: Cell) -> Run:
        if name == "absent":
            raise Unavailable("has no such cell")
        turn = factor * np.exp(1j * cell.angles)[:, None]
        outs = []
        for tensor in ("q", "k"):
            first, second = cell.members(from_storage(cell.source(tensor)[0]))
            turned = (first + 1j * second) * turn
            out = np.empty((cell.tokens, first.shape[1], 128), np.float32)
            for member, values in zip(cell.members(out), (turned.real, turned.imag)):
                member[...] = values
            outs.append(to_storage(out, cell.dtype))
        return Run(lambda repetitions: repetitions * seconds, lambda: tuple(outs), anew=True)

    return Peer(name, "", "", function=prepare, **more)


def storage_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -2.5], np.float32)  # 1 + 2^-8 and 1 + 3 * 2^-8 are halfway
    assert from_storage(to_storage(values, "bf16")).tolist() == [1.0, 1.0, 1.015625, -2.5]
    assert from_storage(to_storage(values, "f32")).tolist() == values.tolist()


def rotated(peer: Peer, cell: Cell):
    return [x[cell.compared()] for x in peer.prepare(cell).result()]


def the_reference_turns_by_the_angle_of_its_own_pairing() -> None:
    for dtype in DTYPES:
        for pairing in PAIRINGS:
            cell = Cell(dtype, pairing, 5, False)
            assert cell.difference(*rotated(reference("r", 1), cell)) <= TOLERANCE[dtype]
    half, interleaved = Cell("f32", "half", 3, False), Cell("f32", "interleaved", 3, False)
    assert interleaved.difference(*rotated(reference("r", 1), half)) > TOLERANCE["f32"] + OWN_ANGLES


def inputs_are_not_shared_with_what_is_written() -> None:
    cell = Cell("f16", "half", 2, True)
    assert not np.shares_memory(cell.work("q"), cell.source("q"))
    assert cell.source("q").ctypes.data % 64 == 0


def the_grids_are_those_of_the_readme() -> None:
    assert len(grid("cpu")) == 48 and len(grid("cuda")) == 72
    assert {cell.tokens for cell in grid("cuda")} == set(CUDA_TOKENS)
    assert grid("cuda")[0].keys()["device"] == "cuda"
    for peer in PEERS:
        module, _, name = peer.place.partition(".")
        text = (HERE / f"{module}.py").read_text()
        assert f"\ndef {name}(" in text or f"\n{name} = " in text


def rotary_is_the_first_of_each_device() -> None:
    for device in ("cpu", "cuda"):
        for names in ([], ["eager"], ["compile"]):
            chosen = [peer.name for peer in chosen_peers(device, names)]
            assert chosen[0] == "rotary" and chosen.count("rotary") == 1
            assert ("PyTorch eager" in chosen) == (names != ["compile"])


def a_peer_that_is_not_in_the_table_is_refused() -> None:
    for device, names in (("cpu", ["nobody"]), ("cpu", ["eager", "flashinfer"]), ("cuda", ["ggml"])):
        try:
            chosen_peers(device, names)
        except SystemExit as refused:
            assert f"no peer of {device} is named {names[-1]}; there are: rotary, " in str(refused)
        else:
            raise AssertionError(names)


def written(results: report.Results) -> tuple[list[dict], str]:
    """The rows and the page."""
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            results.write(Path(folder), "self test")
        lines = (Path(folder) / f"{results.name}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines], (Path(folder) / f"{results.name}.md").read_text()


def a_run_measures_leaves_out_and_reports() -> None:
    results = report.Results()
    peers = [reference("twice", 2e-3), reference("wrong", 1e-3, 1.05), reference("absent", 1)]
    cells = [Cell("f32", "half", tokens, True) for tokens in (1, 4)]
    with contextlib.redirect_stderr(io.StringIO()):
        for cell in cells:
            measure.measure_cell(cell, [reference("rotary", 1e-3), *peers], results)
    rows, page = written(results)
    assert [row["ratio"] for row in rows] == [2.0] * len(cells)
    assert rows[0]["anew"] and rows[0]["peer"] == "twice"
    assert rows[0]["ns_per_element"] == 2 * rows[0]["rotary_ns_per_element"]
    shown = "2.00× (2.00×)", "wrong (2 cells): differs", "absent (2 cells): has no such cell"
    assert all(words in page for words in shown)


def the_page_of_a_device_has_all_peers_and_their_reasons() -> None:
    results = report.Results("cuda")
    with contextlib.redirect_stderr(io.StringIO()):
        for tokens in (1, 64):
            cell = Cell("bf16", "half", tokens, True, "cuda")
            results.timed_on_device(cell, reference("twice", 0, anew=True), 4e-6, 2e-6, 1e-6)
            results.left_out(cell, "twice", "half only")
        results.missing("gone", "no such package")
    rows, page = written(results)
    assert [(row["ratio"], row["anew"], row["copy_microseconds"]) for row in rows] == [(2.0, True, 1.0)] * 2
    assert all(words in page for words in ("2.00× (2.00×) |", "no such package", "half only"))


def the_pages_that_were_measured_follow_from_their_rows() -> None:
    for name, device in (("peers", "cpu"), ("gpu", "cuda")):
        results = report.Results(device)
        results.rows = [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text().splitlines()]
        results.versions = {row["peer"]: row["version"] for row in results.rows}
        committed = (HERE / f"{name}.md").read_text()
        assert results.summary() in committed


def main() -> None:
    for check in (storage_rounds_to_nearest_even, the_reference_turns_by_the_angle_of_its_own_pairing,
                  inputs_are_not_shared_with_what_is_written, the_grids_are_those_of_the_readme,
                  rotary_is_the_first_of_each_device, a_peer_that_is_not_in_the_table_is_refused,
                  a_run_measures_leaves_out_and_reports,
                  the_page_of_a_device_has_all_peers_and_their_reasons,
                  the_pages_that_were_measured_follow_from_their_rows):  # fmt: skip
        check()
    print("peers: all checks hold")


if __name__ == "__main__":
    main()
