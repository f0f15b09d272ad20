"""What was found on a GPU, from the files of all peers: JSON lines, a Markdown page and a plot."""

import json
import sys
from datetime import date
from pathlib import Path
from statistics import median

import plot
from cells import GpuCell
from report import Results, times


class GpuResults(Results):
    def __init__(self, outcomes: list[dict]):
        super().__init__()
        self.device = next((o["device"] for o in outcomes if o.get("device")), "no device")
        for outcome in outcomes:
            if outcome.get("absent"):
                self.absent[outcome["peer"]] = outcome["absent"]
            self.versions |= outcome.get("versions", {})
            self.differences |= outcome.get("differences", {})
            self.rows += outcome.get("rows", [])
            for reason, where in outcome.get("left_out", {}).items():
                self.reasons[outcome["peer"], reason] = where
        keys = dict.fromkeys((r["dtype"], r["pairing"], r["tokens"], r["in_place"]) for r in self.rows)
        order = {name: i for i, name in enumerate(("bf16", "f16", "f32"))}
        self.cells = [GpuCell(*key) for key in sorted(keys, key=lambda k: (order[k[0]], k[2], k[1], not k[3]))]
        self.anew = {row["peer"] for row in self.rows if row["anew"]}
        for row in self.rows:
            row |= {"version": self.versions.get(row["peer"], ""), "target": self.device}

    def rotations(self) -> list[dict]:
        return self.rows

    def own(self) -> list[str]:
        return [name for name in dict.fromkeys(row["peer"] for row in self.rows) if name.startswith("rotary")]

    def peers(self) -> list[str]:
        return [name for name in dict.fromkeys(row["peer"] for row in self.rows) if not name.startswith("rotary")]

    def page(self, command: str, target: str) -> str:
        parts = [
            "# rotary beside its peers on a GPU",
            f"{date.today()}, {target}. `{command}`. Times are medians of CUDA events, in turn with rotary's, in one "
            "process a peer; of a graph of many calls, replayed, where the peer can be captured (else ‡: of calls one "
            "by one). Every ratio is a peer's time over rotary's: 2.00× says that the peer takes twice as long. Up to "
            "512 tokens the tensors stay in the device's cache, from 8192 on they come from memory. "
            "[README.md](README.md) says what each is given.",
            *([] if not self.rows else ["## In short", self.summary(), "![ratios](gpu.svg)", "## Every cell",
                                        self.whole_table(), "## Called from Python, one by one", self.calls()]),
            "## Agreement",
            "The largest difference from float64, of inputs below 6 in magnitude.",
            self.agreement(),
            "## Left out",
            self.remarks(),
        ]  # fmt: skip
        return "\n\n".join(parts) + "\n"

    def whole_table(self) -> str:
        names = [*self.peers(), *self.own()]
        lines = ["| dtype | pairing | tokens | | rotary, us | of copy | " + " | ".join(names) + " |",
                 "|---|---|---:|---|---:|---:|" + "---:|" * len(names)]  # fmt: skip
        for cell in self.cells:
            found = {row["peer"]: row for row in self.of_cell(cell)}
            mark = lambda r: ("†" if r["anew"] else "") + ("" if r["captured"] else "‡")  # noqa: E731
            entries = [times(found[n]["ratio"]) + mark(found[n]) if n in found else "—" for n in names]
            own = median([row["rotary_graph_microseconds"] or row["rotary_microseconds"] for row in found.values()])
            copy = median([row["copy_graph_microseconds"] or row["copy_microseconds"] for row in found.values()])
            place = "in place" if cell.in_place else "out of place"
            lines.append(f"| {cell.dtype} | {cell.pairing} | {cell.tokens} | {place} | {own:.2f} | "
                         f"{100 * copy / own:.0f} % | " + " | ".join(entries) + " |")  # fmt: skip
        return "\n".join([*lines, "", "of copy: the time of a device-to-device copy of the same bytes over rotary's. "
                          "† writes its result anew: it has no such operation in place."])  # fmt: skip

    def of_cell(self, cell: GpuCell) -> list[dict]:
        key = (cell.dtype, cell.pairing, cell.tokens, cell.in_place)
        return [r for r in self.rows if (r["dtype"], r["pairing"], r["tokens"], r["in_place"]) == key]

    def calls(self) -> str:
        """Microseconds of a call, the device kept busy: where they are short, what the caller's side takes."""
        counts = sorted({cell.tokens for cell in self.cells})
        lines = ["| microseconds | " + " | ".join(f"{n} token{'s' * (n > 1)}" for n in counts) + " |",
                 "|---|" + "---:|" * len(counts)]  # fmt: skip
        for peer, key in [("rotary", "rotary_microseconds"), *((name, "microseconds") for name in self.peers())]:
            found = [[r[key] for r in self.rows if r["tokens"] == n and peer in ("rotary", r["peer"])] for n in counts]
            lines.append(f"| {peer} | " + " | ".join(f"{median(f):.2f}" if f else "—" for f in found) + " |")
        return "\n".join([*lines, "", "Medians over the cells that each has."])


def write(folder: Path, command: str) -> None:
    outcomes = [json.loads(path.read_text()) for path in sorted(folder.glob("gpu_*.json"))]
    results = GpuResults(outcomes)
    page = results.page(command, results.device)
    (folder / "gpu.jsonl").write_text("".join(json.dumps(row) + "\n" for row in results.rows))
    (folder / "gpu.md").write_text(page)
    (folder / "gpu.svg").write_text(plot.ratios(results.cells, results.rows, results.peers(), results.device))
    print(page)
    print(f"written: {folder}/gpu.md, gpu.jsonl, gpu.svg", file=sys.stderr)
