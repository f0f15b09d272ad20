"""Writes the page of one machine from what scripts/machine_report.sh measured: machine_page.py NAME FOLDER.

The page goes to stdout, the cells below the goals to stderr as well.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from textwrap import fill

DTYPES = ("f32", "bf16", "f16")
PAIRINGS = ("half", "interleaved")
HEADS = 40
# From memory: what is moved exceeds the last cache, of which so many bytes count at most: guests are told too many.
MOST_LAST_CACHE = 32 << 20
# The least: the loop's time over rotary's, everywhere; the percentage of the ceiling from memory, by layout.
LOOP_GOAL, CEILING_GOALS = 0.97, {"bthd": 88, "bhtd": 80}
LOOP, CEILING = "of the plain loop", "% of the ceiling"
SAME = 1.15  # times as long is as long
SHOWN = 30  # cells below the goals on the page
FLAGS = r"sse2|avx|avx2|f16c|fma|avx512\w*|amx_\w+|avx_vnni|asimd\w*|bf16|fphp|sve\w*"


def rows_of(folder: Path, pattern: str) -> list[dict]:
    lines = [line for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines if line]


def lscpu() -> dict[str, str]:
    plain = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    text = subprocess.run(["lscpu"], capture_output=True, text=True, env=plain).stdout
    return dict(re.findall(r"^\s*([^:\n]+):\s+(.*)$", text, re.M))


def cache_sizes() -> dict[str, int]:
    sizes = subprocess.run(["lscpu", "-B", "-C=NAME,ONE-SIZE"], capture_output=True, text=True).stdout
    return {cache: int(size) for cache, size in re.findall(r"^(L1d|L2|L3|L4) +(\d+)$", sizes, re.M)}


def head(name: str, folder: Path, target: str) -> str:
    found = lscpu()
    flags = " ".join(flag for flag in found.get("Flags", "").split() if re.fullmatch(FLAGS, flag))
    caches = ", ".join(f"{cache} {size // 1024} KiB" for cache, size in cache_sizes().items())
    system = re.findall(r'PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text())[0]
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    guest = f", a guest of {found['Hypervisor vendor']}" if "Hypervisor vendor" in found else ""
    words = (f"{(folder / 'date').read_text().strip()}, commit {(folder / 'commit').read_text().strip()}. "
             f"{found.get('Model name', 'unknown processor')} (family {found.get('CPU family')}, model "
             f"{found.get('Model')}{guest}), {found.get('CPU(s)')} CPUs. Caches as the system says: {caches}. "
             f"{system}, {compiler}. rotary's target: {target}.")  # fmt: skip
    return "\n\n".join([f"# Speed: {name}", fill(words, 100), fill(f"Flags: {flags}.", 100),
                        f"Written by `scripts/machine_report.sh {name}`. Every figure is a median."])  # fmt: skip


def place_of(out: bool) -> str:
    return "out of place" if out else "in place"


def cell_words(row: dict) -> str:
    place = place_of(not row["in_place"])
    extra = [f"{row['rotary_dim']} of {row['head_dim']}" if row.get("rotary_dim", row["head_dim"]) != row["head_dim"]
             else f"head_dim {row['head_dim']}"]  # fmt: skip
    extra += [row["layout"]] if row.get("layout", "bthd") != "bthd" else []
    extra += [row["pages"] + " pages"] if "pages" in row else []
    tokens = f"{row['tokens']} token{'s' * (row['tokens'] > 1)}"
    return f"{row['dtype']} {row['pairing']} {place}, {tokens}, {', '.join(extra)}"


# ---- goals ----


def moved(row: dict) -> int:
    size = 4 if row["dtype"] == "f32" else 2
    return row["tokens"] * HEADS * row["head_dim"] * size * (1 if row["in_place"] else 2)


def judged(rows: list[dict], last_cache: int) -> list[tuple[float, float, str, dict]]:
    """Of each goal that a row has: what it reached, the goal, of what it is, the row."""
    found = [(r["ratio_to_loop"], LOOP_GOAL, LOOP, r) for r in rows if r["ratio_to_loop"] is not None]
    found += [(r["percent_of_ceiling"], CEILING_GOALS[r["layout"]], CEILING, r) for r in rows
              if moved(r) > last_cache]  # fmt: skip
    return found


def near_of(rows: list[dict]) -> dict[tuple, float]:
    """Nanoseconds per element of 64 tokens, which lie in a cache: what the arithmetic takes."""
    return {arithmetic_of(r): r["ns_per_element"] for r in rows if r["tokens"] == 64 and r["pages"] == "2 MiB"}


def arithmetic_of(row: dict) -> tuple:
    return tuple(row[key] for key in ("target", "threads", "dtype", "pairing", "head_dim", "in_place"))


def below_goals(rows: list[dict], last_cache: int) -> list[str]:
    """A line for each cell below a goal that arithmetic does not explain, the farthest first, under one that counts."""
    goals = judged(rows, last_cache)
    below = sorted((goal for goal in goals if goal[0] < goal[1]), key=lambda goal: goal[0] / goal[1])
    near = near_of(rows)
    bound, serial, shown = 0, 0, []
    for goal in below:
        ns, arithmetic = goal[3]["ns_per_element"], near.get(arithmetic_of(goal[3]), 0)
        if goal[2] == CEILING and ns <= SAME * arithmetic:
            bound += 1
        elif goal[2] == CEILING and ns <= arithmetic + ns * goal[3]["percent_of_ceiling"] / 100:
            serial += 1
        else:
            shown.append(goal)
    lines = [f"{len(goals) - len(below)} of {len(goals)} goals hold. {bound} cells more are kept from the ceiling by "
             f"their arithmetic: they take as long per element (within {SAME}) at 64 tokens, in a cache. {serial} take "
             "no longer than that and the move of their bytes one after the other: the two do not overlap."]  # fmt: skip
    for reached, least, what, r in shown:
        threads = f", {r['threads']} threads" if r["threads"] > 1 else ""
        lines.append(f"* {reached:.2f} {what}, not {least}: {r['target']}, {cell_words(r)}{threads}")
    return lines


# ---- tables ----


def rotate_table(rows: list[dict]) -> str:
    """Nanoseconds per element and percent of the ceiling, of heads of 128."""
    by_cell = {(r["tokens"], r["in_place"], r["dtype"], r["pairing"]): r for r in rows}
    lines = ["| tokens | | " + " | ".join(f"{d} {p}" for d in DTYPES for p in PAIRINGS) + " |",
             "|---:|---|" + "---:|" * 6]  # fmt: skip
    for tokens in sorted({r["tokens"] for r in rows}):
        for in_place in (True, False):
            cells = [by_cell[tokens, in_place, d, p] for d in DTYPES for p in PAIRINGS]
            words = [f"{c['ns_per_element']:.3f} ({c['percent_of_ceiling']:.0f} %)" for c in cells]
            lines.append(f"| {tokens} | {place_of(not in_place)} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def ceiling_table(rows: list[dict]) -> str:
    """Median and worst percent of the ceiling."""
    lines = ["| target | threads | layout | tokens | | median | worst | which |",
             "|---|---:|---|---:|---|---:|---:|---|"]  # fmt: skip
    key_of = lambda r: (r["target"], r["threads"], r["layout"] == "bhtd", r["tokens"], not r["in_place"])  # noqa: E731
    for target, threads, by_head, tokens, out in sorted(set(map(key_of, rows))):
        group = [r for r in rows if key_of(r) == (target, threads, by_head, tokens, out)]
        worst = min(group, key=lambda r: r["percent_of_ceiling"])
        lines.append(f"| {target} | {threads} | {'bhtd' if by_head else 'bthd'} | {tokens} | {place_of(out)} "
                     f"| {median(r['percent_of_ceiling'] for r in group):.0f} % | {worst['percent_of_ceiling']:.0f} % "
                     f"| {worst['dtype']} {worst['pairing']}, {worst['head_dim']} |")  # fmt: skip
    return "\n".join(lines)


def loop_table(rows: list[dict]) -> str:
    """Median and worst ratio to the plain loop, by target, pages, threads and dtype."""
    lines = ["| target | pages | threads | dtype | cells | median | worst | below the goal | the worst cell |",
             "|---|---|---:|---|---:|---:|---:|---:|---|"]  # fmt: skip
    key_of = lambda r: (r["target"], r["pages"], r["threads"], r["dtype"])  # noqa: E731
    for key in dict.fromkeys(map(key_of, rows)):
        group = [r for r in rows if key_of(r) == key and r["ratio_to_loop"] is not None]
        if not group:
            continue
        worst = min(group, key=lambda r: r["ratio_to_loop"])
        words = cell_words({k: v for k, v in worst.items() if k != "pages"}).replace(f"{worst['dtype']} ", "", 1)
        lines.append(f"| {key[0]} | {key[1]} | {key[2]} | {key[3]} | {len(group)} | "
                     f"{median(r['ratio_to_loop'] for r in group):.2f} | {worst['ratio_to_loop']:.2f} | "
                     f"{sum(r['ratio_to_loop'] < LOOP_GOAL for r in group)} | {words} |")  # fmt: skip
    return "\n".join(lines)


def page_table(rows: list[dict]) -> str:
    """Heads of 128 in large and in small pages: what small ones cost, and what is left of the ceiling."""
    lines = ["| target | tokens | | 2 MiB: median | worst | 4 KiB: median | worst | time, 4 KiB over 2 MiB |",
             "|---|---:|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    of_128 = [r for r in rows if r["head_dim"] == 128 and r["threads"] == 1 and r["layout"] == "bthd"]
    for target, tokens, out in dict.fromkeys((r["target"], r["tokens"], not r["in_place"]) for r in of_128):
        cells = lambda pages: {(r["dtype"], r["pairing"]): r for r in of_128 if r["pages"] == pages and  # noqa: E731
                               (r["target"], r["tokens"], not r["in_place"]) == (target, tokens, out)}  # fmt: skip
        large, small = cells("2 MiB"), cells("4 KiB")
        percent = lambda group: [r["percent_of_ceiling"] for r in group.values()]  # noqa: E731
        cost = median(small[k]["ns_per_element"] / large[k]["ns_per_element"] for k in small)
        lines.append(f"| {target} | {tokens} | {place_of(out)} | {median(percent(large)):.0f} % | "
                     f"{min(percent(large)):.0f} % | {median(percent(small)):.0f} % | {min(percent(small)):.0f} % | "
                     f"{cost:.2f} |")  # fmt: skip
    return "\n".join(lines)


# ---- the page ----


def beside_ceiling(name: str, rows: list[dict]) -> list[str]:
    return ["## Beside the memory's own speed",
            fill("Nanoseconds per element and, in parentheses, the percentage of the ceiling: the fastest update in "
                 "place (1, 4 and 16 runs at once), or copy out of place (memcpy; 1, 2 and 4 runs past the caches), "
                 "of the same bytes in the same run. One thread, 32 + 8 heads of 128 in two calls, 2 MiB pages: "
                 "`rotary bench --filter op=rotate,layout=bthd,head_dim=128 --threads 1`.", 100),
            rotate_table(rows), f"![percent of the ceiling]({name}-ceiling.svg)"]  # fmt: skip


def beside_loop(rows: list[dict], below: list[str]) -> list[str]:
    if not rows:
        return []
    more = [f"* and {len(below) - 1 - SHOWN} more"] if len(below) - 1 > SHOWN else []
    ceilings = " and ".join(f"{least} % of the ceiling in {layout}" for layout, least in CEILING_GOALS.items())
    return ["## Goals",
            fill(f"No cell below {LOOP_GOAL} of the plain loop; from memory (what is moved exceeds the last "
                 f"cache, of which {MOST_LAST_CACHE >> 20} MiB count at most) at least {ceilings}. {below[0]}", 100),
            "\n".join(fill(line, 100, subsequent_indent="  ") for line in below[1 : SHOWN + 1] + more) or "None is below.",
            "## Beside the plain loop",
            fill("The loop's time over rotary's, the loop compiled for the same instruction set (`-O3 -march=native`; "
                 "for avx2 `-march=haswell`): `beside_loop`, built with `-DROTARY_BENCH=ON`. 40 heads in one call, "
                 "head_dim 64 to 256 in 2 MiB pages, 128 in 4 KiB pages. g++ 12 converts f16 one by one. "
                 "With several threads the loop is OpenMP's, whose threads spin for milliseconds after each loop; "
                 "those of rotary's ThreadPool sleep after 10 to 100 microseconds. The ceiling runs on the same pool.",
                 100),
            loop_table(rows), "The percentage of the ceiling in the same runs:", ceiling_table(rows),
            "What small pages cost:", page_table(rows)]  # fmt: skip


def peers(name: str, folder: Path) -> list[str]:
    path = folder / "peers" / "peers.md"
    if not path.exists():
        return ["## Beside other libraries", "Not measured on this machine (`--with-peers`)."]
    summary = path.read_text().split("## In short")[1].split("![")[0].strip()
    return ["## Beside other libraries", summary, f"![ratios]({name}-peers.svg)"]


def main() -> int:
    name, folder = sys.argv[1], Path(sys.argv[2])
    rows = rows_of(folder, "rows.jsonl")
    if not rows:
        sys.exit(f"machine_page.py: {folder}/rows.jsonl must exist: scripts/machine_report.sh measures it")
    loop = [*rows_of(folder, "loop-native-*.jsonl"), *rows_of(folder, "loop-avx2-*.jsonl")]
    below = below_goals(loop, min(list(cache_sizes().values() or [MOST_LAST_CACHE])[-1], MOST_LAST_CACHE))
    if loop:
        print("\n".join(below), file=sys.stderr)
    parts = [head(name, folder, rows[0]["target"]), *beside_ceiling(name, rows), *beside_loop(loop, below),
             *peers(name, folder)]  # fmt: skip
    print("\n\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
