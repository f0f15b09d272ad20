"""Writes the page of one machine from what scripts/machine_report.sh measured: machine_page.py NAME FOLDER.

The page goes to stdout, the cells below the goals to stderr as well.
"""

import json
import re
import sys
from pathlib import Path
from statistics import median
from textwrap import fill

import machine

# The least: the loop's time over rotary's, everywhere; the percentage of the ceiling from memory, by layout.
LOOP_GOAL, CEILING_GOALS = 0.97, {"bthd": 88, "bhtd": 80}
MOST_LAST_CACHE = 32 << 20  # bytes that count of the last cache: guests are told too many
HEADS, SAME, SHOWN = 40, 1.15, 30  # SAME: times as long is as long; SHOWN: cells below the goals on the page
FLAGS = r"sse2|avx|avx2|f16c|fma|avx512\w*|amx_\w+|avx_vnni|asimd\w*|bf16|fphp|sve\w*"

PAGE = """# Speed: {name}

{date}, commit {commit}. {processor}. {system}, {compiler}. rotary's target: {target}.

Flags: {flags}.

Written by `scripts/machine_report.sh {name}`. Every figure is a median.

## Beside the memory's own speed

Nanoseconds per element and, in parentheses, the percentage of the ceiling: the fastest update in place (1, 4 and 16 runs at once), or copy out of place (memcpy; 1, 2 and 4 runs past the caches), of the same bytes in the same run. One thread, 32 + 8 heads of 128 in two calls, 2 MiB pages: `rotary bench --filter op=rotate,layout=bthd,head_dim=128 --threads 1`.

{rotate}

"""  # noqa: E501
LOOP_PART = """## Goals

No cell below {goal} of the plain loop; from memory (what is moved exceeds the last cache, of which {cache} MiB count at most) at least {ceilings}. {held}

{below}

## Beside the plain loop

The loop's time over rotary's, the loop compiled for the same instruction set (`-O3 -march=native`; for avx2 `-march=haswell`): `beside_loop`, built with `-DROTARY_BENCH=ON`. 40 heads in one call, head_dim 64 to 256 in 2 MiB pages, 128 in 4 KiB pages. g++ 12 converts f16 one by one. With several threads the loop is OpenMP's, whose threads spin for milliseconds after each loop; those of rotary's ThreadPool sleep after 10 to 100 microseconds. The ceiling runs on the same pool.

{loop}

The percentage of the ceiling in the same runs:

{ceiling}

"""  # noqa: E501


def filled(template: str, **values: object) -> str:
    """The template, its prose in lines of 100 columns."""
    prose = lambda part: "\n" not in part.strip() and not part.startswith(("#", "|", "!", "*"))  # noqa: E731
    return "\n\n".join(fill(part, 100) if prose(part) else part for part in template.format(**values).split("\n\n"))


def rows_of(folder: Path, pattern: str) -> list[dict]:
    """The rows of these files with the words of the page, small numbers of tokens and bthd first."""
    rows = [json.loads(line) for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()]
    for row in rows:
        row["place"] = "in place" if row["in_place"] else "out of place"
        row["kind"] = f"{row['dtype']} {row['pairing']}"
    return sorted(rows, key=lambda row: (row["threads"], row["layout"] != "bthd", row["tokens"], row["place"]))


def table(rows: list[dict], keys: list[str], columns: dict) -> str:
    """A line for each combination of the keys' values: these, and what each column makes of the rows that have them."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    lines = [[*keys, *columns], ["---"] * len(keys) + ["---:"] * len(columns)]
    lines += [[*key, *(column(group) for column in columns.values())] for key, group in groups.items()]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def cell_words(row: dict) -> str:
    layout = f", {row['layout']}" * (row["layout"] != "bthd")
    threads = f", {row['threads']} threads" * (row["threads"] > 1)
    return (f"{row['kind']} {row['place']}, {row['tokens']} token{'s' * (row['tokens'] > 1)}, head_dim {row['head_dim']}"
            f"{layout}, {row['pages']} pages{threads}")  # fmt: skip


def below_goals(rows: list[dict], last_cache: int) -> list[str]:
    """How many goals hold; a line for each cell below a goal that arithmetic does not explain, the farthest first."""
    of_arithmetic = lambda r: tuple(r[k] for k in ("target", "threads", "kind", "head_dim", "place"))  # noqa: E731
    moved = lambda r: r["tokens"] * HEADS * r["head_dim"] * (4 if r["dtype"] == "f32" else 2) * (2 - r["in_place"])  # noqa: E731
    # Nanoseconds per element of 64 tokens, which lie in a cache: what the arithmetic takes.
    near = {of_arithmetic(r): r["ns_per_element"] for r in rows if r["tokens"] == 64 and r["pages"] == "2 MiB"}
    goals = [(r["ratio_to_loop"], LOOP_GOAL, " of the plain loop", r) for r in rows if r["ratio_to_loop"] is not None]
    goals += [(r["percent_of_ceiling"], CEILING_GOALS[r["layout"]], " % of the ceiling", r) for r in rows if moved(r) > last_cache]
    below = sorted((goal for goal in goals if goal[0] < goal[1]), key=lambda goal: goal[0] / goal[1])
    bound, lines = 0, []
    for reached, least, what, r in below:
        ns, arithmetic = r["ns_per_element"], near.get(of_arithmetic(r), 0)
        if what.startswith(" %") and ns <= max(SAME * arithmetic, arithmetic + ns * reached / 100):
            bound += 1
        else:
            lines.append(f"* {reached:.2f}{what}, not {least}: {r['target']}, {cell_words(r)}")
    return [f"{len(goals) - len(below)} of {len(goals)} goals hold. {bound} cells more are kept from the ceiling by their "
            f"arithmetic: they take as long per element (within {SAME}) at 64 tokens, in a cache, or no longer than that and "
            "the move of their bytes one after the other.", *lines]  # fmt: skip


def of(which, key: str, form: str):
    """A column: the median, say, of the rows' values."""
    return lambda group: form.format(which(row[key] for row in group))


def worst_cell(key: str):
    return lambda group: cell_words(min(group, key=lambda row: row[key]))


def memory_part(name: str, folder: Path, rows: list[dict]) -> str:
    def own(kind: str):
        return lambda group: next("{ns_per_element:.3f} ({percent_of_ceiling:.0f} %)".format_map(row) for row in group if row["kind"] == kind)

    kinds = [f"{dtype} {pairing}" for dtype in ("f32", "bf16", "f16") for pairing in ("half", "interleaved")]
    flags = " ".join(flag for flag in machine.lscpu().get("Flags", "").split() if re.fullmatch(FLAGS, flag))
    return filled(PAGE, name=name, processor=machine.processor(), system=machine.system(), flags=flags, target=rows[0]["target"],
                  compiler=machine.output("c++", "--version").split("\n")[0],
                  rotate=table(rows, ["tokens", "place"], {kind: own(kind) for kind in kinds}),
                  **{key: (folder / key).read_text().strip() for key in ("date", "commit")})  # fmt: skip


def loop_part(loop: list[dict]) -> str:
    held, *below = below_goals(loop, min([*machine.caches().values(), MOST_LAST_CACHE][-2:]))
    print("\n".join([held, *below]), file=sys.stderr)
    shown = below[:SHOWN] + [f"* and {len(below) - SHOWN} more"] * (len(below) > SHOWN)
    ratio, percent = "ratio_to_loop", "percent_of_ceiling"
    ratios = {"cells": len, "median": of(median, ratio, "{:.2f}"), "worst": of(min, ratio, "{:.2f}"),
              "below the goal": lambda group: sum(row[ratio] < LOOP_GOAL for row in group), "the worst cell": worst_cell(ratio)}  # fmt: skip
    percents = {"median": of(median, percent, "{:.0f} %"), "worst": of(min, percent, "{:.0f} %"), "the worst cell": worst_cell(percent)}
    return filled(LOOP_PART, goal=LOOP_GOAL, cache=MOST_LAST_CACHE >> 20, held=held,
                  ceilings=" and ".join(f"{goal} % of the ceiling in {layout}" for layout, goal in CEILING_GOALS.items()),
                  below="\n".join(fill(line, 100, subsequent_indent="  ") for line in shown) or "None is below.",
                  loop=table([row for row in loop if row[ratio] is not None], ["target", "pages", "threads", "dtype"], ratios),
                  ceiling=table(loop, ["target", "pages", "threads", "layout", "tokens", "place"], percents))  # fmt: skip


def main() -> int:
    name, folder = sys.argv[1], Path(sys.argv[2])
    rows = rows_of(folder, "rows.jsonl")
    if not rows:
        sys.exit(f"machine_page.py: {folder}/rows.jsonl must exist: scripts/machine_report.sh measures it")
    loop = rows_of(folder, "loop-native-*.jsonl") + rows_of(folder, "loop-avx2-*.jsonl")
    peers, others = folder / "peers" / "peers.md", "Not measured on this machine (`--with-peers`)."
    if peers.exists():
        others = peers.read_text().split("## In short")[1].split("\n## ")[0].strip()
    print(memory_part(name, folder, rows) + (loop_part(loop) if loop else "") + "## Beside other libraries\n\n" + others)
    return 0


if __name__ == "__main__":
    sys.exit(main())
