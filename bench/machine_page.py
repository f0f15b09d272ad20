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

# The least: the loop's time over rotary's, everywhere; the percentage of the ceiling from memory, by layout.
LOOP_GOAL, CEILING_GOALS = 0.97, {"bthd": 88, "bhtd": 80}
# From memory: what is moved exceeds the last cache, of which so many bytes count at most: guests are told too many.
MOST_LAST_CACHE = 32 << 20
HEADS, SAME, SHOWN = 40, 1.15, 30  # SAME: times as long is as long; SHOWN: cells below the goals on the page
FLAGS = r"sse2|avx|avx2|f16c|fma|avx512\w*|amx_\w+|avx_vnni|asimd\w*|bf16|fphp|sve\w*"

PAGE = """# Speed: {name}

{date}, commit {commit}. {processor}. {system}, {compiler}. rotary's target: {target}.

Flags: {flags}.

Written by `scripts/machine_report.sh {name}`. Every figure is a median.

## Beside the memory's own speed

Nanoseconds per element and, in parentheses, the percentage of the ceiling: the fastest update in place (1, 4 and 16 runs at once), or copy out of place (memcpy; 1, 2 and 4 runs past the caches), of the same bytes in the same run. One thread, 32 + 8 heads of 128 in two calls, 2 MiB pages: `rotary bench --filter op=rotate,layout=bthd,head_dim=128 --threads 1`.

{rotate}

![percent of the ceiling]({name}-ceiling.svg)
"""  # noqa: E501
LOOP_PART = """## Goals

No cell below {goal} of the plain loop; from memory (what is moved exceeds the last cache, of which {cache} MiB count at most) at least {ceilings}. {held}

{below}

## Beside the plain loop

The loop's time over rotary's, the loop compiled for the same instruction set (`-O3 -march=native`; for avx2 `-march=haswell`): `beside_loop`, built with `-DROTARY_BENCH=ON`. 40 heads in one call, head_dim 64 to 256 in 2 MiB pages, 128 in 4 KiB pages. g++ 12 converts f16 one by one. With several threads the loop is OpenMP's, whose threads spin for milliseconds after each loop; those of rotary's ThreadPool sleep after 10 to 100 microseconds. The ceiling runs on the same pool.

{loop}

The percentage of the ceiling in the same runs:

{ceiling}

What small pages cost, with heads of 128:

{pages}
"""  # noqa: E501


def filled(template: str, **values: str) -> str:
    """The template, its prose in lines of 100 columns."""
    parts = template.format(**values).split("\n\n")
    prose = lambda part: "\n" not in part.strip() and not part.startswith(("#", "|", "!", "*"))  # noqa: E731
    return "\n\n".join(fill(part, 100) if prose(part) else part.rstrip() for part in parts)


def rows_of(folder: Path, pattern: str) -> list[dict]:
    lines = [line for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines if line]


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout


def cache_sizes() -> dict[str, int]:
    found = re.findall(r"^(L1d|L2|L3|L4) +(\d+)$", output("lscpu", "-B", "-C=NAME,ONE-SIZE"), re.M)
    return {cache: int(size) for cache, size in found}


def machine() -> dict[str, str]:
    found = dict(re.findall(r"^\s*([^:\n]+):\s+(.*)$", output("lscpu"), re.M))
    guest = f", a guest of {found['Hypervisor vendor']}" if "Hypervisor vendor" in found else ""
    caches = ", ".join(f"{cache} {size // 1024} KiB" for cache, size in cache_sizes().items())
    return {
        "processor": f"{found.get('Model name', 'unknown processor')} (family {found.get('CPU family')}, model "
        f"{found.get('Model')}{guest}), {found.get('CPU(s)')} CPUs. Caches as the system says: {caches}",
        "system": re.findall(r'PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text())[0],
        "compiler": output("c++", "--version").split("\n")[0],
        "flags": " ".join(flag for flag in found.get("Flags", "").split() if re.fullmatch(FLAGS, flag)),
    }


def place_of(row: dict) -> str:
    return "in place" if row["in_place"] else "out of place"


def cell_words(row: dict, pages: bool = True) -> str:
    words = [f"{row['tokens']} token{'s' * (row['tokens'] > 1)}", f"head_dim {row['head_dim']}"]
    words += [row["layout"]] * (row["layout"] != "bthd") + [f"{row['pages']} pages"] * pages
    return f"{row['dtype']} {row['pairing']} {place_of(row)}, {', '.join(words)}"


def table(head: str, rule: str, lines: list[list]) -> str:
    return "\n".join([head, rule, *("| " + " | ".join(map(str, line)) + " |" for line in lines)])


def groups(rows: list[dict], *keys: str) -> dict[tuple, list[dict]]:
    found: dict[tuple, list[dict]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def below_goals(rows: list[dict], last_cache: int) -> list[str]:
    """How many goals hold; a line for each cell below a goal that arithmetic does not explain, the farthest first."""
    kind = lambda r: tuple(r[k] for k in ("target", "threads", "dtype", "pairing", "head_dim", "in_place"))  # noqa: E731
    moved = lambda r: (r["tokens"] * HEADS * r["head_dim"] * (4 if r["dtype"] == "f32" else 2)  # noqa: E731
                       * (1 if r["in_place"] else 2))  # fmt: skip
    # Nanoseconds per element of 64 tokens, which lie in a cache: what the arithmetic takes.
    near = {kind(r): r["ns_per_element"] for r in rows if r["tokens"] == 64 and r["pages"] == "2 MiB"}
    goals = [(r["ratio_to_loop"], LOOP_GOAL, "of the plain loop", r) for r in rows if r["ratio_to_loop"] is not None]
    goals += [(r["percent_of_ceiling"], CEILING_GOALS[r["layout"]], "% of the ceiling", r) for r in rows
              if moved(r) > last_cache]  # fmt: skip
    below = sorted((goal for goal in goals if goal[0] < goal[1]), key=lambda goal: goal[0] / goal[1])
    bound, serial, lines = 0, 0, []
    for reached, least, what, r in below:
        ns, arithmetic = r["ns_per_element"], near.get(kind(r), 0)
        if what[0] == "%" and ns <= SAME * arithmetic:
            bound += 1
        elif what[0] == "%" and ns <= arithmetic + ns * reached / 100:
            serial += 1
        else:
            threads = f", {r['threads']} threads" if r["threads"] > 1 else ""
            lines.append(f"* {reached:.2f} {what}, not {least}: {r['target']}, {cell_words(r)}{threads}")
    return [f"{len(goals) - len(below)} of {len(goals)} goals hold. {bound} cells more are kept from the ceiling by their "
            f"arithmetic: they take as long per element (within {SAME}) at 64 tokens, in a cache. {serial} take no longer "
            "than that and the move of their bytes one after the other: the two do not overlap.", *lines]  # fmt: skip


def rotate_table(rows: list[dict]) -> str:
    lines, kinds = [], [(dtype, pairing) for dtype in ("f32", "bf16", "f16") for pairing in ("half", "interleaved")]
    for (tokens, in_place), group in sorted(groups(rows, "tokens", "in_place").items(), key=lambda g: (g[0][0], not g[0][1])):
        cells = {(r["dtype"], r["pairing"]): f"{r['ns_per_element']:.3f} ({r['percent_of_ceiling']:.0f} %)" for r in group}
        lines.append([tokens, place_of({"in_place": in_place}), *(cells[kind] for kind in kinds)])
    return table("| tokens | | " + " | ".join(map(" ".join, kinds)) + " |", "|---:|---|" + "---:|" * len(kinds), lines)


def ceiling_table(rows: list[dict]) -> str:
    """Median and worst percent of the ceiling."""
    lines = []
    for (target, threads, layout, tokens, out), group in sorted(
        groups([r | {"out": not r["in_place"]} for r in rows], "target", "threads", "layout", "tokens", "out").items(),
        key=lambda g: (*g[0][:2], g[0][2] == "bhtd", *g[0][3:]),
    ):
        percent = lambda r: r["percent_of_ceiling"]  # noqa: E731
        worst = min(group, key=percent)
        lines.append([target, threads, layout, tokens, place_of({"in_place": not out}), f"{median(map(percent, group)):.0f} %",
                      f"{percent(worst):.0f} %", f"{worst['dtype']} {worst['pairing']}, {worst['head_dim']}"])  # fmt: skip
    return table("| target | threads | layout | tokens | | median | worst | which |", "|---|---:|---|---:|---|---:|---:|---|", lines)


def loop_table(rows: list[dict]) -> str:
    """Median and worst ratio to the plain loop."""
    lines = []
    for key, group in groups([r for r in rows if r["ratio_to_loop"] is not None], "target", "pages", "threads", "dtype").items():
        ratios = [r["ratio_to_loop"] for r in group]
        worst = min(group, key=lambda r: r["ratio_to_loop"])
        lines.append([*key, len(group), f"{median(ratios):.2f}", f"{min(ratios):.2f}", sum(x < LOOP_GOAL for x in ratios),
                      cell_words(worst, pages=False).replace(f"{worst['dtype']} ", "", 1)])  # fmt: skip
    return table("| target | pages | threads | dtype | cells | median | worst | below the goal | the worst cell |",
                 "|---|---|---:|---|---:|---:|---:|---:|---|", lines)  # fmt: skip


def page_table(rows: list[dict]) -> str:
    """Heads of 128 in large and in small pages: what small ones cost, and what is left of the ceiling."""
    lines = []
    of_128 = [r for r in rows if r["head_dim"] == 128 and r["threads"] == 1 and r["layout"] == "bthd"]
    for (target, tokens, in_place), group in groups(of_128, "target", "tokens", "in_place").items():
        line, ns = [target, tokens, place_of({"in_place": in_place})], {}
        for pages in ("2 MiB", "4 KiB"):
            percent = [r["percent_of_ceiling"] for r in group if r["pages"] == pages]
            line += [f"{median(percent):.0f} %", f"{min(percent):.0f} %"]
            ns[pages] = {(r["dtype"], r["pairing"]): r["ns_per_element"] for r in group if r["pages"] == pages}
        lines.append([*line, f"{median(ns['4 KiB'][k] / ns['2 MiB'][k] for k in ns['4 KiB']):.2f}"])
    return table("| target | tokens | | 2 MiB: median | worst | 4 KiB: median | worst | time, 4 KiB over 2 MiB |",
                 "|---|---:|---|---:|---:|---:|---:|---:|", lines)  # fmt: skip


def main() -> int:
    name, folder = sys.argv[1], Path(sys.argv[2])
    rows = rows_of(folder, "rows.jsonl")
    if not rows:
        sys.exit(f"machine_page.py: {folder}/rows.jsonl must exist: scripts/machine_report.sh measures it")
    read = {key: (folder / key).read_text().strip() for key in ("date", "commit")}
    parts = [filled(PAGE, name=name, target=rows[0]["target"], rotate=rotate_table(rows), **read, **machine())]
    loop = [*rows_of(folder, "loop-native-*.jsonl"), *rows_of(folder, "loop-avx2-*.jsonl")]
    if loop:
        held, *below = below_goals(loop, min(list(cache_sizes().values() or [MOST_LAST_CACHE])[-1], MOST_LAST_CACHE))
        print("\n".join([held, *below]), file=sys.stderr)
        shown = below[:SHOWN] + [f"* and {len(below) - SHOWN} more"] * (len(below) > SHOWN)
        parts.append(filled(LOOP_PART, goal=str(LOOP_GOAL), cache=str(MOST_LAST_CACHE >> 20), held=held,
                            ceilings=" and ".join(f"{least} % of the ceiling in {at}" for at, least in CEILING_GOALS.items()),
                            below="\n".join(fill(line, 100, subsequent_indent="  ") for line in shown) or "None is below.",
                            loop=loop_table(loop), ceiling=ceiling_table(loop), pages=page_table(loop)))  # fmt: skip
    peers = folder / "peers" / "peers.md"
    parts.append("## Beside other libraries\n\n" + (peers.read_text().split("## In short")[1].split("\n## ")[0].strip()
                 if peers.exists() else "Not measured on this machine (`--with-peers`)."))  # fmt: skip
    print("\n\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
