"""A plot of the ratios: a row a peer, its median and range over the cells, log scale, rotary at 1."""

from html import escape
from math import ceil, floor, log10
from statistics import median, quantiles

WIDTH, LEFT, RIGHT, TOP, ROW = 900, 220, 190, 98, 26
COLOUR, PALE = "#0072b2", "#9ecae9"
DARK = """<style>@media (prefers-color-scheme:dark){
rect{fill:#0d1117}text{fill:#e6edf3}text[fill="#666"]{fill:#a9b1ba}
path[stroke="#ddd"]{stroke:#2b323b}path[stroke="#222"]{stroke:#e6edf3}
path[stroke="#9ecae9"]{stroke:#2a5f8a}circle{fill:#4ba3e3;stroke:#0d1117}
}</style>"""


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def machine_lines(machine: str, most: int = 140) -> list[str]:
    """In two lines where one would leave the picture."""
    if len(machine) <= most:
        return [machine]
    end = max(machine.rfind(", ", 0, most), machine.rfind("; ", 0, most)) + 1
    return [machine[:end], machine[end + 1 :]] if end > 0 else [machine[:most], machine[most:]]


def quartiles(values: list[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2g}" if ratio < 10 else f"{ratio:.3g}"


def ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade from 10^low to 10^high; of a long axis the decades only."""
    digits = (1, 2, 5) if high - low < 4 else (1,)
    found = [digit * 10.0**power for power in range(floor(low), ceil(high) + 1) for digit in digits]
    return [tick for tick in found if low <= log10(tick) <= high]


def peer_row(peer: str, values: list[float], y: float, at_x) -> list[str]:
    least, middle, most = min(values), median(values), max(values)
    low, high = quartiles(values)
    words = f"{peer}: median {short(middle)}x, {short(least)}x to {short(most)}x, {len(values)} cells"
    return [
        f"<g><title>{escape(words)}</title>",
        line(at_x(least), y, at_x(most), y, PALE, 2),
        line(at_x(low), y, at_x(high), y, PALE, 9),
        f'<circle cx="{at_x(middle):.1f}" cy="{y:.1f}" r="5" fill="{COLOUR}" stroke="#fff"/>',
        text(LEFT - 10, y + 4, peer, 'text-anchor="end" font-size="12"'),
        text(WIDTH - RIGHT + 14, y + 4, f"{short(middle)}×", 'font-weight="bold"'),
        text(WIDTH - RIGHT + 60, y + 4, f"{short(least)}× to {short(most)}×", 'fill="#666"'),
        "</g>",
    ]


def ratios(cells: list, rows: list[dict], peers: list[str], machine: str) -> str:
    """rows as in peers.jsonl, op rotate."""
    of_peer = {peer: [row["ratio"] for row in rows if row["peer"] == peer] for peer in peers}
    of_peer = {peer: values for peer, values in of_peer.items() if values}
    everything = [ratio for values in of_peer.values() for ratio in values] or [1.0]
    low, high = log10(min(0.8, *everything) * 0.9), log10(max(10, *everything) * 1.1)
    count = cells[0].threads if cells else 1
    threads = "" if count == 0 else ", 1 thread" if count == 1 else f", {count} threads"  # 0: a GPU
    right, bottom = WIDTH - RIGHT, TOP + ROW * len(of_peer) + 4
    at_x = lambda ratio: LEFT + (log10(ratio) - low) / (high - low) * (right - LEFT)  # noqa: E731
    height = bottom + 44
    many = f"{len(cells)} cells" if len(cells) != 1 else "1 cell"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="11" fill="#222">',
        DARK,
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        text(16, 26, "Time over rotary's for the same rotation", 'font-size="16" font-weight="bold"'),
        text(16, 44, f"32 + 8 heads of 128{threads}, {many}", 'fill="#666"'),
        *[
            text(16, 60 + 13 * i, words, 'fill="#666" font-size="10"')
            for i, words in enumerate(machine_lines(machine))
        ],
        text(right + 14, TOP - 12, "median", 'fill="#666"'),
        text(right + 60, TOP - 12, "range", 'fill="#666"'),
    ]
    for ratio in ticks(low, high):
        colour, width = ("#222", 1.5) if ratio == 1 else ("#ddd", 1)
        out.append(line(at_x(ratio), TOP - 6, at_x(ratio), bottom, colour, width))
        out.append(text(at_x(ratio), bottom + 16, f"{ratio:g}×", 'text-anchor="middle"'))
    words = "dot: the median of the cells; bar: half of them; line: all"
    out.append(text((LEFT + right) / 2, bottom + 34, words, 'text-anchor="middle" fill="#666"'))
    for i, peer in enumerate(sorted(of_peer, key=lambda peer: median(of_peer[peer]))):
        out += peer_row(peer, of_peer[peer], TOP + ROW * (i + 0.5), at_x)
    return "\n".join([*out, "</svg>"]) + "\n"
