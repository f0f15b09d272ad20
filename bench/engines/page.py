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
READINGS = {case["id"]: case["reading"] for case in CASES if "reading" in case}
CELLS = {(c["engine"], c["version"], c["case"]): c for c in RESULTS["cells"]}
DATE = max(e["date"] for e in RESULTS["engines"])

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
    """A row per case in which some engine is not right; the others, where a table of bf16 passes, are named below."""
    yield "| case | " + " | ".join(f"{name} {version}" for name, version in ENGINES) + " |"
    yield "|---|" + "---|" * len(ENGINES)
    right = []
    for case in CASES:
        row = [CELLS.get((*engine, case["id"])) for engine in ENGINES]
        passes = (c["result"] in ("equal", "float32") or c.get("cause") == "coarse_table" for c in row if c)
        if any(row) and all(passes):
            right.append(f"{case['id']} ({sum(cell is not None for cell in row)})")
        elif any(row):
            yield f"| {marked(case['id'])} | " + " | ".join(map(word, row)) + " |"
    for at, title in ("at_131071", "error at 131071"), ("at_1000000", "error at 1000000"):
        yield f"| {title} | " + " | ".join(worst(engine, at) for engine in ENGINES) + " |"
    yield ""
    yield from wrap("Right in every engine that has the model, tables of bf16 apart (how many engines that is): " +
                    ", ".join(right) + ".")


def marked(case):
    """The name of a case, with a sign where its file can be read in two ways."""
    return case + " †" * (case in READINGS)


def worst(engine, at):
    """The largest error of the engine's right cells at a position."""
    errors = [cell[at] for key, cell in CELLS.items()
              if key[:2] == engine and cell["result"] in ("equal", "float32") and at in cell]
    return f"{max(errors):.2g}" if errors else ""


def wrap(text):
    return textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False)


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
    """A table for each engine: a row for each finding, with the cases that show it."""
    by_case, found = collections.defaultdict(list), collections.defaultdict(list)
    for engine in ENGINES:
        for case in CASES:
            cell = CELLS.get((*engine, case["id"]))
            if cell and cell["result"] not in ("equal", "float32", "order"):
                kind = cell["result"] if cell["result"] != "differs" else cell["cause"]
                sentence = cell["sentence"].split(" (fits to")[0]  # without how well it fits
                by_case[engine[0], case["id"], kind, sentence].append(engine)
    for (name, case, kind, sentence), engines in by_case.items():
        upstream = [r["text"] for r in REMARKS if r["engine"] == name and case in r["cases"]
                    and any(version in r["versions"] for _, version in engines)]
        found[name, versions(engines), " ".join([f"{kind}. {sentence}.", *upstream])].append(marked(case))
    last = None
    for (name, which, sentence), cases in found.items():
        if name != last:
            yield f"\n### {name}\n\n| cases | versions | found |\n|---|---|---|"
            last = name
        yield f"| {', '.join(cases)} | {which} | {sentence} |"


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
        add(key, part.get(key))
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
    readings = wrap(" ".join(["† A matter of reading.", *(f"{case}: {text}." for case, text in READINGS.items())]))
    filled = {"date": DATE, "matrix": "\n".join(matrix()), "differences": "\n".join(differences()),
              "readings": "\n".join(readings), "cells": str(len(CELLS)), "cases": str(len(CASES)),
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
