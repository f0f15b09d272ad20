"""What was found, as JSON lines and a Markdown page."""

import json
import sys
from datetime import date
from pathlib import Path
from statistics import median
from textwrap import fill

from cells import Cell

sys.path.insert(0, str(Path(__file__).parent.parent))
import machine  # noqa: E402

OWN = "rotary,"  # the names of rotary's other ways begin so
CELL = ("dtype", "pairing", "tokens", "in_place")


def times(ratio: float) -> str:
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


def table(head: list[str], rule: str, lines: list[list[str]]) -> str:
    """rule: of the first columns, l or r: aligned to the left or right; the others to the right."""
    sides = ["---" if side == "l" else "---:" for side in rule.ljust(len(head), "r")]
    row = lambda cells: "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"  # noqa: E731
    return "\n".join([row(head), "|" + "|".join(sides) + "|", *map(row, lines)])


class Results:
    def __init__(self, device: str = "cpu", fastest: bool = False, processor_time: bool = False):
        self.device, self.processor_time = device, processor_time
        self.of = min if fastest else median  # of the rounds
        self.target = ""
        self.rows: list[dict] = []  # one a cell and peer, as in peers.jsonl
        self.versions: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.reasons: dict[str, list[str]] = {}  # "peer: reason" -> cells
        self.largest: dict[str, float] = {}  # "peer: reason" -> of those that do not agree, the largest difference
        self.differences: dict[str, dict[str, float]] = {}  # peer -> dtype -> the largest
        self.busy: dict[str, list[float]] = {}  # peer -> threads that it kept busy at the most, threads asked for

    # -- what the measuring tells --------------------------------------------------------------------

    def missing(self, peer: str, reason: str) -> None:
        self.absent[peer] = reason
        print(f"{peer} is not here: {reason}", file=sys.stderr)

    def left_out(self, cell: Cell, peer: str, reason: str) -> None:
        where = self.reasons.setdefault(f"{peer}: {reason}", [])
        if not where:
            print(f"  {peer}: {reason}", file=sys.stderr)
        where.append(str(cell))

    def differs(self, peer: str, reason: str, difference: float) -> None:
        key = f"{peer}: {reason}"
        self.largest[key] = max(difference, self.largest.get(key, 0))

    def agrees(self, cell: Cell, peer: str, difference: float) -> None:
        largest = self.differences.setdefault(peer, {})
        largest[cell.dtype] = max(difference, largest.get(cell.dtype, 0))

    def timed(self, cell: Cell, timing) -> None:
        name, busy = timing.peer.name, timing.processor / timing.wall
        self.busy[name] = [max(busy, *self.busy.get(name, [0])[:1]), cell.threads]
        per_element = 1e9 / cell.elements
        self.row(cell.keys(), name, self.of(timing.mine) * per_element, self.of(timing.rotary) * per_element,
                 anew=timing.run.anew)  # fmt: skip

    def timed_on_device(self, cell: Cell, peer, mine, rotary, copy) -> None:
        """Ratios are of replayed graphs where the peer can be captured, else of calls one by one."""
        columns = {"": mine.seconds(), "rotary_": rotary.seconds(), "copy_": copy.seconds()}
        captured = columns[""][1] is not None and columns["rotary_"][1] is not None
        more = {"captured": captured, "anew": bool(cell.in_place and peer.anew), "sets": len(mine.calls)}
        for name, (events, graphs) in columns.items():
            more[f"{name}microseconds"] = round(events * 1e6, 3)
            more[f"{name}graph_microseconds"] = None if graphs is None else round(graphs * 1e6, 3)
        if mine.why_not:
            more["why_not"] = mine.why_not
        theirs, own = (columns[name][captured] * 1e9 / cell.elements for name in ("", "rotary_"))
        self.row(cell.keys(), peer.name, theirs, own, 7, **more)

    def row(self, keys: dict, peer: str, mine: float, rotary: float, digits: int = 5, **more) -> None:
        self.rows.append({
            **keys, "peer": peer, "version": self.versions.get(peer, ""), "ns_per_element": round(mine, digits),
            "rotary_ns_per_element": round(rotary, digits), "ratio": round(mine / rotary, 3), **more,
        })  # fmt: skip

    # -- from one process to another ------------------------------------------------------------------

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({k: v for k, v in vars(self).items() if k != "of"}))

    def merge(self, path: Path) -> None:
        for name, value in json.loads(path.read_text()).items():
            if isinstance(value, list):
                getattr(self, name).extend(value)
            elif isinstance(value, dict):
                getattr(self, name).update(value)
            elif name == "target":
                self.target = value

    # -- what is written ------------------------------------------------------------------------------

    def write(self, folder: Path, command: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = "peers" if self.device == "cpu" else "gpu"
        rows = [row | {"target": self.target} for row in self.rows]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        page = self.page(command)
        (folder / f"{name}.md").write_text(page)
        print(page)
        print(f"written: {folder}/{name}.md, {name}.jsonl", file=sys.stderr)

    def rotations(self) -> list[dict]:
        return [row for row in self.rows if row["op"] != "table"]

    def peers(self) -> list[str]:
        """rotary's other ways last."""
        names = dict.fromkeys(row["peer"] for row in self.rotations())
        return sorted(names, key=lambda name: name.startswith(OWN))

    def by_tokens(self, of) -> tuple[list[str], list[list[str]]]:
        """A head of the numbers of tokens, and of each peer what `of` makes of its rows of each."""
        counts = sorted({row["tokens"] for row in self.rotations()})
        found = lambda peer, n: [r for r in self.rotations() if r["peer"] == peer and r["tokens"] == n]  # noqa: E731
        lines = [[peer, *(of(rows) if (rows := found(peer, n)) else "—" for n in counts)] for peer in self.peers()]
        return [f"{n} token{'s' * (n > 1)}" for n in counts], lines

    def page(self, command: str) -> str:
        cpu = self.device == "cpu"
        how = ("the fastest" if self.of is min else "medians") + " by processor time" * self.processor_time
        ratios = "a peer's time over rotary's{}: 2.00× says that the peer takes twice as long."
        if cpu:
            words = (f"{machine.processor()}; {machine.system()}. `{command}`; rotary's target: {self.target}. Every number is "
                     + ratios.format(f" for the same work, {how} of alternated measurements"))  # fmt: skip
        else:
            words = (f"{self.target}. `{command}`. Times are medians of CUDA events, in turn with rotary's, in one process a "
                     "peer; of a graph of many calls, replayed, where the peer can be captured (else ‡: of calls one by one). "
                     f"Every ratio is {ratios.format('')} Up to 512 tokens the tensors stay in the device's cache, from 8192 "
                     "on they come from memory.")  # fmt: skip
        words = f"{date.today()}, {words} [README.md](README.md) says what each is given."
        parts = [f"# rotary beside its peers{'' if cpu else ' on a GPU'}", fill(words, 97)]
        if self.rotations():
            parts += ["## In short", self.summary(), "## Every cell", self.whole_table()]
        if self.rotations() and not cpu:
            head, lines = self.by_tokens(lambda rows: f"{median(r['microseconds'] for r in rows):.2f}")
            own = self.by_tokens(lambda rows: f"{median(r['rotary_microseconds'] for r in rows):.2f}")[1][0]
            parts += ["## Called from Python, one by one", table(["microseconds", *head], "l", [["rotary", *own[1:]], *lines]),
                      "Medians over the cells that each has."]  # fmt: skip
        parts += [*self.table_section(), "## Agreement", "The largest difference from float64, of inputs below 6 in magnitude.",
                  self.agreement(), "## Left out", self.remarks()]  # fmt: skip
        return "\n\n".join(parts) + "\n"

    def summary(self) -> str:
        """A row a peer, a column a number of tokens: the median ratio, and the smallest."""
        ratio = lambda rows, of: times(of([row["ratio"] for row in rows]))  # noqa: E731
        head, lines = self.by_tokens(lambda rows: f"{ratio(rows, median)} ({ratio(rows, min)})")
        lines = [[peer, self.versions.get(peer, ""), *entries] for peer, *entries in lines]
        return table(["peer", "version", *head], "ll", lines) + "\n\nMedian over the cells (the closest cell)."

    def whole_table(self) -> str:
        names, cells = self.peers(), {}
        for row in self.rotations():
            cells.setdefault(tuple(row[key] for key in CELL), {})[row["peer"]] = row
        mark = lambda r: "†" * (r["in_place"] and r.get("anew", False)) + "‡" * (not r.get("captured", True))  # noqa: E731
        lines = []
        for (dtype, pairing, tokens, in_place), found in cells.items():
            own = [f"{median(row['rotary_ns_per_element'] for row in found.values()):.4f}"]
            if self.device == "cuda":
                us = lambda name: median(r[f"{name}_graph_microseconds"] or r[f"{name}_microseconds"]  # noqa: E731
                                         for r in found.values())  # fmt: skip
                own = [f"{us('rotary'):.2f}", f"{100 * us('copy') / us('rotary'):.0f} %"]
            lines.append([dtype, pairing, str(tokens), "in place" if in_place else "out of place", *own,
                          *(times(found[n]["ratio"]) + mark(found[n]) if n in found else "—" for n in names)])  # fmt: skip
        own = ["rotary, ns per element"] if self.device == "cpu" else ["rotary, us", "of copy"]
        notes = ["† writes its result anew: it has no such operation in place."]
        if self.device == "cuda":
            notes.append("of copy: the time of a device-to-device copy of the same bytes over rotary's.")
        return table(["dtype", "pairing", "tokens", "", *own, *names], "llrl", lines) + "\n\n" + fill(" ".join(notes), 97)

    def table_section(self) -> list[str]:
        found = [row for row in self.rows if row["op"] == "table"]
        if not found:
            return []
        first, own = found[0], self.of([row["rotary_ns_per_element"] for row in found])
        lines = [["rotary, exact", "", f"{own:.3f}", "", f"{first['rotary_largest_error']:.2g}"]]
        lines += [[row["peer"], row["version"], f"{row['ns_per_element']:.3f}", times(row["ratio"]),
                   f"{row['largest_error']:.2g}"] for row in found]  # fmt: skip
        return [f"## A table of {first['tokens']} positions", "cos and sin of 64 pairs each, in float32; the "
                "error against a\nfloat64 angle formed with the same inv_freq.",
                table(["by", "version", "ns per pair", "ratio", "largest error"], "ll", lines)]  # fmt: skip

    def agreement(self) -> str:
        dtypes = [d for d in ("f32", "bf16", "f16") if any(d in largest for largest in self.differences.values())]
        return table(["", *dtypes], "l", [[peer, *(f"{largest[d]:.1e}" if d in largest else "—" for d in dtypes)]
                                        for peer, largest in self.differences.items()])  # fmt: skip

    def remarks(self) -> str:
        lines = [f"* {peer} is not here: {reason}" for peer, reason in self.absent.items()]
        for key, where in self.reasons.items():
            peer, _, reason = key.partition(": ")
            cells = f"{len(where)} cells" if len(where) > 1 else where[0]
            lines.append(f"* {peer} ({cells}): {reason}" + (f", by up to {self.largest[key]:.2g}" if key in self.largest else ""))
        lines += [f"* {peer} kept {busy:.1f} threads busy where {asked} was asked for"
                  for peer, (busy, asked) in self.busy.items() if busy > asked + 0.3]  # fmt: skip
        return "\n".join(lines) or "Nothing."
