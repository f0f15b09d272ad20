#!/usr/bin/env python3
"""page.py: writes docs/engines.md and cli/data/engines.json from results.json and remarks.json."""
import collections
import json
import pathlib
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CASES = json.loads((ROOT / "conformance/cases.json").read_text())
RESULTS = json.loads((HERE / "results.json").read_text())
REMARKS = json.loads((HERE / "remarks.json").read_text())
ENGINES = [(e["name"], e["version"]) for e in RESULTS["engines"]]
CELLS = {(c["engine"], c["version"], c["case"]): c for c in RESULTS["cells"]}
DATE = max(e["date"] for e in RESULTS["engines"])
RIGHT = "equal", "float32", "order"

# The keys that say how a model turns, and the sub-configs that a text model's keys may stand in, for
# cli/inspect/engines.cpp too.
KEYS = """rope_theta rope_scaling rope_parameters partial_rotary_factor rotary_pct rotary_emb_base rotary_dim head_dim
    rope_local_base_freq global_rope_theta local_rope_theta original_max_position_embeddings rope_ratio rope_base
    qk_rope_head_dim""".split()
PARTS = "text_config", "language_config", "llm_config"


def word(cell):
    """One cell of the matrix."""
    if cell is None:
        return ""
    return {"equal": "=", "float32": "ok", "order": "order", "differs": f"**{cell.get('cause', '')}**"}.get(
        cell["result"], cell["result"])


def matrix():
    """A row per case in which some engine is not right; the cases that all have right are named below."""
    yield "| case | " + " | ".join(f"{name} {version}" for name, version in ENGINES) + " |"
    yield "|---|" + "---|" * len(ENGINES)
    right = []
    for case in CASES:
        row = [CELLS.get((*engine, case["id"])) for engine in ENGINES]
        if any(row) and all(cell is None or cell["result"] in ("equal", "float32") for cell in row):
            right.append(f"{case['id']} ({sum(cell is not None for cell in row)})")
            continue
        if any(row):
            yield f"| {case['id']}{' †' if 'reading' in case else ''} | " + " | ".join(map(word, row)) + " |"
    yield ""
    yield from wrap("Right in every engine that has the model (how many engines that is): " + ", ".join(right) + ".")


def wrap(text, first="", rest=""):
    return textwrap.wrap(text, 98, initial_indent=first, subsequent_indent=rest, break_long_words=False,
                         break_on_hyphens=False)


def versions(found):
    """The versions of one engine as ranges of those that were measured next to each other."""
    order, ranges = [version for name, version in ENGINES if name == found[0][0]], []
    for place in sorted(order.index(version) for _, version in found):
        if ranges and ranges[-1][1] == place - 1:
            ranges[-1][1] = place
        else:
            ranges.append([place, place])
    return ", ".join(order[a] if a == b else f"{order[a]} to {order[b]}" for a, b in ranges)


def differences():
    """A sentence for each case, engine and finding."""
    grouped = collections.defaultdict(list)
    for engine in ENGINES:
        for case in CASES:
            cell = CELLS.get((*engine, case["id"]))
            if cell and cell["result"] not in RIGHT:
                kind = cell["result"] if cell["result"] != "differs" else cell["cause"]
                sentence = cell["sentence"].split(" (fits to")[0]  # without how well it fits
                grouped[engine[0], case["id"], kind, sentence].append(engine)
    last = None
    for (name, case, kind, sentence), found in grouped.items():
        if name != last:
            yield f"\n### {name}\n"
            last = name
        reads = next((c["reading"] for c in CASES if c["id"] == case and "reading" in c), "")
        more = [f"A matter of reading: {reads}."] if reads else []
        more += [r["text"] for r in REMARKS if r["engine"] == name and case in r["cases"]
                 and any(version in r["versions"] for _, version in found)]
        how = f"`--case {case} {name}-{found[-1][1]}`"
        yield from wrap(f"**{case}**, {versions(found)}: {kind}. {sentence}. {' '.join(more)} {how}".replace("  ", " "),
                        "- ", "  ")


def accuracy():
    yield "| engine | at 131071 | at 1000000 |"
    yield "|---|--:|--:|"
    for engine in ENGINES:
        cells = [CELLS[key] for key in CELLS if key[:2] == engine and CELLS[key]["result"] in ("equal", "float32")]
        worst = [max((c[at] for c in cells if at in c), default=None) for at in ("at_131071", "at_1000000")]
        yield f"| {' '.join(engine)} | " + " | ".join("" if w is None else f"{w:.2g}" for w in worst) + " |"


def keys_of(config):
    """model_type and rope keys of a config's text part, each key a path, with the value of a word."""
    part = next((config[p] for p in PARTS if isinstance(config.get(p), dict)), config)
    found = set()

    def add(path, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                add(f"{path}.{key}", inner)
        elif value is not None:
            found.add(f"{path}={value}" if isinstance(value, str) else path)
    for key in KEYS:
        if key in part:
            add(key, part[key])
    return part.get("model_type", config.get("model_type", "")), sorted(found)


def facts():
    """By case: model_type, keys, and what each engine's versions made of it."""
    rows = []
    for case in CASES:
        model_type, keys = keys_of(json.loads((ROOT / "conformance" / case["config"]).read_text()))
        found = collections.defaultdict(list)
        for engine in ENGINES:
            cell = CELLS.get((*engine, case["id"]))
            if cell:
                found[engine[0], cell["result"], cell.get("cause", "")].append(engine)
        said = [[name, versions(which), result, cause] for (name, result, cause), which in found.items()]
        rows.append({"case": case["id"], "model_type": model_type, "keys": keys, "engines": said})
    return {"date": DATE, "parts": PARTS, "keys": KEYS, "cases": [row for row in rows if row["engines"]]}


def main():
    template = (HERE / "engines.md.in").read_text()
    counts = collections.Counter(cell["result"] for cell in CELLS.values())
    filled = {"date": DATE, "matrix": "\n".join(matrix()), "differences": "\n".join(differences()),
              "accuracy": "\n".join(accuracy()), "cells": str(len(CELLS)), "cases": str(len(CASES)),
              "wrong": str(counts["differs"]), "refused": str(counts["refused"]), "crashed": str(counts["crashed"])}
    for name, text in filled.items():
        template = template.replace(f"@{name}@", text)
    (ROOT / "docs/engines.md").write_text(template)
    data = facts()
    rows = ",\n".join(json.dumps(row) for row in data["cases"])
    head = json.dumps(data | {"cases": []})[:-2]
    (ROOT / "cli/data/engines.json").write_text(f"{head}\n{rows}\n]}}\n")


if __name__ == "__main__":
    main()
