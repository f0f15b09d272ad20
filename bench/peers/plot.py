"""A plot of the ratios: a column a cell, a mark a peer, log scale, rotary at 1."""

from html import escape
from math import ceil, floor, log10

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#17becf", "#7f7f7f", "#bcbd22",
           "#003f5c", "#00a37a", "#a05195")  # fmt: skip
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 1180, 590, 60, 60, 200, 140


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def mark(shape: int, x: float, y: float, colour: str, words: str) -> str:
    """A circle, a square or a diamond, with its numbers when pointed at."""
    forms = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"',
        f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"',
        f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"',
    )
    return f'{forms[shape % 3]} fill="{colour}" fill-opacity="0.85"><title>{escape(words)}</title>{"</"}' + (
        ("circle>", "rect>", "path>")[shape % 3]
    )


def ratios(cells: list, rows: list[dict], peers: list[str], machine: str) -> str:
    """rows as in peers.jsonl, op rotate."""
    cells = sorted(cells, key=lambda cell: cell.tokens)
    rows = [row for row in rows if row["peer"] in peers]
    values = [row["ratio"] for row in rows] or [1.0]
    low, high = floor(log10(min(0.8, *values, 1))), ceil(log10(max(10, *values)))
    low = log10(0.5) if min(values) > 0.5 else low
    count = cells[0].threads if cells else 1
    threads = "" if count == 0 else ", 1 thread" if count == 1 else f", {count} threads"  # 0: a GPU
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    step = (right - LEFT) / max(1, len(cells))
    at_y = lambda ratio: bottom - (log10(ratio) - low) / (high - low) * (bottom - TOP)  # noqa: E731
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="11" fill="#222">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        text(LEFT, 24, "Time over rotary's for the same rotation", 'font-size="16" font-weight="bold"'),
        text(LEFT, 40, f"32 + 8 heads of 128{threads}; {machine}", 'fill="#666" font-size="10"'),
    ]
    for power in range(ceil(low), high + 1):
        for digit in (1, 2, 5):
            ratio = digit * 10.0**power
            if low <= log10(ratio) <= high:
                colour, width = ("#222", 1.5) if ratio == 1 else ("#ddd", 1)
                out.append(line(LEFT, at_y(ratio), right, at_y(ratio), colour, width))
                out.append(text(LEFT - 6, at_y(ratio) + 4, f"{ratio:g}×", 'text-anchor="end"'))
    for i, cell in enumerate(cells):
        x = LEFT + (i + 0.5) * step
        if i == 0 or cells[i - 1].tokens != cell.tokens:
            same = sum(other.tokens == cell.tokens for other in cells)
            out.append(line(LEFT + i * step, TOP, LEFT + i * step, bottom + 130, "#888"))
            words = f"{cell.tokens} token{'s' * (cell.tokens > 1)}"
            out.append(text(LEFT + (i + same / 2) * step, TOP - 4, words, 'text-anchor="middle" font-weight="bold"'))
        name = f"{cell.dtype} {cell.pairing} {'in' if cell.in_place else 'out'}"
        turned = f'text-anchor="end" transform="rotate(-90 {x + 4:.1f} {bottom + 8})"'
        out.append(text(x + 4, bottom + 8, name, turned))
    column = {(c.dtype, c.pairing, c.tokens, c.in_place): LEFT + (i + 0.5) * step for i, c in enumerate(cells)}
    for row in rows:
        i = peers.index(row["peer"])
        x = column[row["dtype"], row["pairing"], row["tokens"], row["in_place"]]
        words = f"{row['peer']}: {row['ratio']}x, {row['ns_per_element']} ns per element"
        out.append(mark(i, x, at_y(row["ratio"]), COLOURS[i % len(COLOURS)], words))
    for i, peer in enumerate(peers):
        out.append(mark(i, right + 24, TOP + 12 + 20 * i, COLOURS[i % len(COLOURS)], peer))
        out.append(text(right + 36, TOP + 16 + 20 * i, peer))
    out.append(line(LEFT, TOP, LEFT, bottom, "#888"))
    return "\n".join([*out, "</svg>"]) + "\n"
