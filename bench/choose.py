"""Which rule of walking through memory is never far from the best: choose.py [FOLDER], by default docs/speed/walks.

For each layout and rule: its time over that of the best rule of the same cell (page, type, tokens, width, and what
stands in front of the name), worst and median over all cells, and the worst by vendor. Best rule first. A rule that
some page lacks is not worse for it: see the number of cells. In a cache (less than 2048 tokens) is apart.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

LINE = re.compile(r"(\w+) (\d+) (\d+)-bit +((?:(?:2M|d64|2t|2h) )*)"
                  r"(bhtd out|bthd|bhtd|out) (?!as today|memcpy)(.*\S) +([\d.]+)")  # fmt: skip
SHOWN = 12  # rules of a layout


def cells(folder: Path) -> dict[tuple, dict[str, float]]:
    """Of each cell, a layout of a page among what names it, the time of every rule."""
    found: dict[tuple, dict[str, float]] = defaultdict(dict)
    for page in sorted(folder.glob("*.txt")):
        for match in filter(None, map(LINE.fullmatch, page.read_text().splitlines())):
            dtype, tokens, width, front, layout, rule, ns = match.groups()
            place = "in a cache" if int(tokens) < 2048 else "from memory"
            found[f"{layout}, {place}", page.stem, dtype, tokens, width, front][rule] = float(ns)
    return found


def table(layout: str, found: dict[tuple, dict[str, float]]) -> list[str]:
    losses: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for key, times in found.items():
        if key[0] != layout:
            continue
        for rule, ns in times.items():
            losses[rule].append((ns / min(times.values()), " ".join(key[1:]).strip()))
    lines = [f"{layout}:"]
    for rule in sorted(losses, key=lambda rule: max(losses[rule]))[:SHOWN]:
        worst, where = max(losses[rule])
        vendors: dict[str, float] = {}
        for loss, cell in losses[rule]:
            vendor = cell.split("-")[0]
            vendors[vendor] = max(loss, vendors.get(vendor, 0))
        by_vendor = ", ".join(f"{vendor} {loss:.2f}" for vendor, loss in vendors.items())
        lines.append(f"  {rule:<24} {worst:.2f} worst, {median(loss for loss, _ in losses[rule]):.2f} median of "
                     f"{len(losses[rule])}; {by_vendor}; {where}")  # fmt: skip
    return lines


def main() -> None:
    default = Path(__file__).parent.parent / "docs" / "speed" / "walks"
    found = cells(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
    for layout in sorted({key[0] for key in found}):
        print("\n".join(table(layout, found)))


if __name__ == "__main__":
    main()
