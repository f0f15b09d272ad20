"""What was found, as JSON lines, a Markdown page and a plot."""

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from statistics import median
from textwrap import fill

import plot
from cells import Cell

EXTRAS = ("rotary, two calls", "rotary, from Python")


def machine() -> str:
    """The processor, its caches and the system, in a line."""
    plain = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    text = subprocess.run(["lscpu"], capture_output=True, text=True, env=plain).stdout
    found = dict(re.findall(r"^([^:\n]+):\s+(.*)$", text, re.M))
    system = re.findall(r'PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text())[0]
    caches = ", ".join(f"{level} {found[level]}" for level in ("L1d cache", "L2 cache", "L3 cache") if level in found)
    return (f"{found.get('Model name', 'unknown processor')} (family {found.get('CPU family')}, model "
            f"{found.get('Model')}), {found.get('CPU(s)')} CPUs, {caches}; {system}")  # fmt: skip


def times(ratio: float) -> str:
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


class Results:
    def __init__(self, fastest: bool = False, processor_time: bool = False):
        self.of = min if fastest else median  # of the rounds
        self.processor_time = processor_time
        self.rows: list[dict] = []  # one a cell and peer, as in peers.jsonl
        self.cells: list[Cell] = []
        self.versions: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.reasons: dict[tuple[str, str], list[str]] = {}  # (peer, reason) -> cells
        self.disagreements: dict[tuple[str, str], float] = {}  # of those that do not agree, the largest
        self.differences: dict[str, dict[str, float]] = {}  # peer -> dtype -> the largest
        self.anew: set[str] = set()
        self.busy: dict[str, float] = {}

    # -- what the measuring tells --------------------------------------------------------------------

    def begin(self, cell: Cell) -> None:
        self.cells.append(cell)

    def version(self, peer: str, version: str) -> None:
        self.versions[peer] = version

    def missing(self, peer: str, reason: str) -> None:
        self.absent[peer] = reason
        print(f"{peer} is not here: {reason}", file=sys.stderr)

    def left_out(self, cell: Cell, peer: str, reason: str) -> None:
        where = self.reasons.setdefault((peer, reason), [])
        if not where:
            print(f"  {peer}: {reason}", file=sys.stderr)
        where.append(str(cell))

    def differs(self, cell: Cell, peer: str, difference: float, allowed: float) -> None:
        key = (peer, f"differs from float64 by more than {allowed:.2g}")
        self.disagreements[key] = max(difference, self.disagreements.get(key, 0))
        self.left_out(cell, *key)

    def agrees(self, cell: Cell, peer: str, difference: float) -> None:
        largest = self.differences.setdefault(peer, {})
        largest[cell.dtype] = max(difference, largest.get(cell.dtype, 0))

    def timed(self, cell: Cell, timing) -> None:
        per_element = 1e9 / cell.elements
        name = timing.peer.name
        self.row(cell.keys(), name, self.of(timing.mine) * per_element, self.of(timing.rotary) * per_element)
        self.busy[name] = max(self.busy.get(name, 0), timing.busy_threads())
        if timing.run.anew:
            self.anew.add(name)

    def row(self, keys: dict, peer: str, mine: float, rotary: float, **more) -> None:
        self.rows.append({
            **keys, "peer": peer, "version": self.versions.get(peer, ""), "ns_per_element": round(mine, 5),
            "rotary_ns_per_element": round(rotary, 5), "ratio": round(mine / rotary, 3), **more,
        })  # fmt: skip

    # -- what is written ------------------------------------------------------------------------------

    def write(self, folder: Path, command: str, target: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for row in self.rows:
            row["target"] = target
        page = self.page(command, target)
        (folder / "peers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        (folder / "peers.md").write_text(page)
        (folder / "peers.svg").write_text(plot.ratios(self.cells, self.rotations(), self.peers(), machine()))
        print(page)
        print(f"written: {folder}/peers.md, peers.jsonl, peers.svg", file=sys.stderr)

    def rotations(self) -> list[dict]:
        return [row for row in self.rows if row["op"] == "rotate"]

    def own(self) -> list[str]:
        """rotary's other ways."""
        return list(EXTRAS)

    def peers(self) -> list[str]:
        return [name for name in dict.fromkeys(row["peer"] for row in self.rotations()) if name not in EXTRAS]

    def page(self, command: str, target: str) -> str:
        chosen = "the fastest" if self.of is min else "medians"
        chosen += " by processor time" if self.processor_time else ""
        parts = [
            "# rotary beside its peers",
            fill(f"{date.today()}, {machine()}. `{command}`; rotary's target: {target}. Every number is a peer's time "
                 f"over rotary's for the same work, {chosen} of alternated measurements: 2.00× says that the peer takes "
                 "twice as long. [README.md](README.md) says what each is given.", 100),
            *([] if not self.rotations() else ["## In short", self.summary(), "![ratios](peers.svg)",
                                               "## Every cell", self.whole_table()]),
            *self.table_section(),
            "## Agreement",
            "The largest difference from float64, of inputs below 6 in magnitude.",
            self.agreement(),
            "## Left out",
            self.remarks(),
        ]  # fmt: skip
        return "\n\n".join(parts) + "\n"

    def summary(self) -> str:
        """A row a peer, a column a number of tokens: the median ratio, and the smallest."""
        counts = sorted({cell.tokens for cell in self.cells})
        lines = ["| peer | version | " + " | ".join(f"{n} token{'s' * (n > 1)}" for n in counts) + " |",
                 "|---|---|" + "---:|" * len(counts)]  # fmt: skip
        for peer in (*self.peers(), *self.own()):
            entries = []
            for count in counts:
                found = [r["ratio"] for r in self.rotations() if r["peer"] == peer and r["tokens"] == count]
                entries.append(f"{times(median(found))} ({times(min(found))})" if found else "—")
            lines.append(f"| {peer} | {self.versions.get(peer, '')} | " + " | ".join(entries) + " |")
        return "\n".join([*lines, "", "Median over the cells (the closest cell)."])

    def whole_table(self) -> str:
        names = [*self.peers(), *EXTRAS]
        by_cell = {}
        for row in self.rotations():
            by_cell[row["dtype"], row["pairing"], row["tokens"], row["in_place"], row["peer"]] = row
        lines = ["| dtype | pairing | tokens | | rotary, ns per element | " + " | ".join(names) + " |",
                 "|---|---|---:|---|---:|" + "---:|" * len(names)]  # fmt: skip
        for cell in self.cells:
            key = (cell.dtype, cell.pairing, cell.tokens, cell.in_place)
            found = [by_cell.get((*key, name)) for name in names]
            own = [row["rotary_ns_per_element"] for row in found if row]
            mark = lambda row: "†" if cell.in_place and row["peer"] in self.anew else ""  # noqa: E731
            entries = [times(row["ratio"]) + mark(row) if row else "—" for row in found]
            place = "in place" if cell.in_place else "out of place"
            lines.append(f"| {cell.dtype} | {cell.pairing} | {cell.tokens} | {place} | "
                         f"{median(own) if own else 0:.4f} | " + " | ".join(entries) + " |")  # fmt: skip
        return "\n".join([*lines, "", "† writes its result anew: it has no such operation in place."])

    def table_section(self) -> list[str]:
        found = [row for row in self.rows if row["op"] == "table"]
        if not found:
            return []
        lines = ["| by | version | ns per pair | ratio | largest error |", "|---|---|---:|---:|---:|"]
        first, own = found[0], self.of([row["rotary_ns_per_element"] for row in found])
        lines.append(f"| rotary, exact | | {own:.3f} | | "
                     f"{first['rotary_largest_error']:.2g} |")  # fmt: skip
        for row in found:
            lines.append(f"| {row['peer']} | {row['version']} | {row['ns_per_element']:.3f} | {times(row['ratio'])} | "
                         f"{row['largest_error']:.2g} |")  # fmt: skip
        return [f"## A table of {first['tokens']} positions", "cos and sin of 64 pairs each, in float32; the "
                "error against a\nfloat64 angle formed with the same inv_freq.", "\n".join(lines)]  # fmt: skip

    def agreement(self) -> str:
        dtypes = [d for d in ("f32", "bf16", "f16") if any(d in largest for largest in self.differences.values())]
        lines = ["| | " + " | ".join(dtypes) + " |", "|---|" + "---:|" * len(dtypes)]
        for peer, largest in self.differences.items():
            entries = [f"{largest[d]:.1e}" if d in largest else "—" for d in dtypes]
            lines.append(f"| {peer} | " + " | ".join(entries) + " |")
        return "\n".join(lines)

    def remarks(self) -> str:
        lines = [f"* {peer} is not here: {reason}" for peer, reason in self.absent.items()]
        for (peer, reason), where in self.reasons.items():
            cells = f"{len(where)} cells" if len(where) > 1 else where[0]
            most = self.disagreements.get((peer, reason))
            lines.append(f"* {peer} ({cells}): {reason}" + (f", by up to {most:.2g}" if most else ""))
        threads = self.cells[0].threads if self.cells else 1
        for peer, busy in self.busy.items():
            if busy > threads + 0.3:
                lines.append(f"* {peer} kept {busy:.1f} threads busy where {threads} was asked for")
        return "\n".join(lines) or "Nothing."
