"""The results, as JSON lines and a Markdown page."""

import json
import platform
import re
import sys
from datetime import date
from pathlib import Path
from statistics import median
from textwrap import fill

from cells import Cell


def processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


def times(ratio: float) -> str:
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Two columns of words, then numbers, which are aligned to the right."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    lines.insert(1, "|---|---|" + "---:|" * (len(head) - 2))
    return "\n".join(lines)


class Results:
    def __init__(self, device: str = "cpu"):
        self.device = device
        self.name = "peers" if device == "cpu" else "gpu"  # the stem of both files
        self.target = ""
        self.rows: list[dict] = []  # one a cell and peer, as in peers.jsonl
        self.versions: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.reasons: dict[str, list[str]] = {}  # "peer: reason" -> cells

    # -- results of measuring ------------------------------------------------------------------------

    def missing(self, peer: str, reason: str) -> None:
        self.absent[peer] = reason
        print(f"{peer} is not here: {reason}", file=sys.stderr)

    def left_out(self, cell: Cell, peer: str, reason: str) -> None:
        where = self.reasons.setdefault(f"{peer}: {reason}", [])
        if not where:
            print(f"  {peer}: {reason}", file=sys.stderr)
        where.append(str(cell))

    def timed_on_device(self, cell: Cell, peer, mine: float, rotary: float, copy: float) -> None:
        microseconds = {"microseconds": mine, "rotary_microseconds": rotary, "copy_microseconds": copy}
        self.row(cell, peer.name, mine, rotary, anew=bool(cell.in_place and peer.anew),
                 **{name: round(seconds * 1e6, 3) for name, seconds in microseconds.items()})  # fmt: skip

    def row(self, cell: Cell, peer: str, mine: float, rotary: float, **more) -> None:
        self.rows.append({
            **cell.keys(), "peer": peer, "version": self.versions.get(peer, ""),
            "ns_per_element": round(mine * 1e9 / cell.elements, 7),
            "rotary_ns_per_element": round(rotary * 1e9 / cell.elements, 7), "ratio": round(mine / rotary, 3), **more,
        })  # fmt: skip

    # -- the files --------------------------------------------------------------------------------------

    def write(self, folder: Path, command: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rows = [row | {"target": self.target} for row in self.rows]
        (folder / f"{self.name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        page = self.page(command)
        (folder / f"{self.name}.md").write_text(page)
        print(page)
        print(f"written: {folder}/{self.name}.md, {self.name}.jsonl", file=sys.stderr)

    def page(self, command: str) -> str:
        where = f"{processor()}; rotary's target: {self.target}" if self.device == "cpu" else self.target
        words = (f"{date.today()}, {where}. `{command}`. Every ratio is a peer's time over rotary's, of medians "
                 "measured in turn: 2.00× says that the peer takes twice as long. "
                 "[README.md](README.md) says what each is given.")  # fmt: skip
        parts = [f"# rotary beside its peers{'' if self.device == 'cpu' else ' on a GPU'}", fill(words, 97)]
        if self.rows:
            parts.append(self.summary())
        parts += ["## Left out", self.remarks()]
        return "\n\n".join(parts) + "\n"

    def peers(self) -> list[str]:
        return list(dict.fromkeys(row["peer"] for row in self.rows))

    def summary(self) -> str:
        """A row a peer, a column a number of tokens: the median ratio, and the smallest."""
        counts = sorted({row["tokens"] for row in self.rows})
        lines = []
        for peer in self.peers():
            line = [peer, self.versions.get(peer, "")]
            for count in counts:
                ratios = [row["ratio"] for row in self.rows if row["peer"] == peer and row["tokens"] == count]
                line.append(f"{times(median(ratios))} ({times(min(ratios))})" if ratios else "—")
            lines.append(line)
        head = ["peer", "version", *(f"{count} token{'s' * (count > 1)}" for count in counts)]
        rows = f"[{self.name}.jsonl]({self.name}.jsonl)"
        return table(head, lines) + f"\n\nMedian over the cells (the closest cell); {rows} has each."

    def remarks(self) -> str:
        lines = [f"* {peer} is not here: {reason}" for peer, reason in self.absent.items()]
        for key, where in self.reasons.items():
            peer, _, reason = key.partition(": ")
            lines.append(f"* {peer} ({f'{len(where)} cells' if len(where) > 1 else where[0]}): {reason}")
        return "\n".join(lines) or "Nothing."
