"""docs/models.md: models.md.in filled in from files/tests/golden/sweep and, for other models, files/models/models.json.

page.py writes the page; page.py --check fails if the page differs. Standard library only.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "models.md"
HEADER = ("model_type", "part", "heads", "head_dim", "rotary_dim", "pairing", "axes", "layers", "what is surprising")
RIGHT = {"heads", "head_dim", "rotary_dim", "axes", "layers"}
PATCHES = ("first", "class_token", "frame_axis", "grid_of_blocks", "fixed_grid", "width_first", "clip")


def in_code(text):
    return f"`{text}`" if text else ""


def table(header, rows):
    lines = [header, ["--:" if name in RIGHT else "---" for name in header], *rows]
    return "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines)


# ---- ropes ----


def kind_of(models, name, part):
    """The model that a part of another is."""
    for step in part.split(".") if part else []:
        child = models["children"].get(name, {}).get(step, "")
        name = child if isinstance(child, str) else child["type"]
    return name


def remark_of(models, name, part):
    """The surprising facts about a model in files/models/models.json."""
    rows = models["models"] | models["remote_models"] | models["diffusers"]
    remark = rows.get(kind_of(models, name.split("+")[0], part), {}).get("remark", "")
    return remark["text"] if isinstance(remark, dict) else remark


def measured_rows(models, name, ropes):
    """A row for each rope; the remark of a part stands at its first."""
    seen = set()
    for rope in ropes:
        sisters = [other for other in ropes if other["part"] == rope["part"]]
        layers = len(rope["layers"])
        last = max(layer for other in sisters for layer in other["layers"] + other["layers_without_rope"])
        fewer = rope["kv_heads"] not in (0, rope["heads"])
        surprising = "" if rope["part"] in seen else remark_of(models, name, rope["part"])
        seen.add(rope["part"])
        yield (
            in_code(name),
            in_code(rope["part"]),
            f"{rope['heads']}/{rope['kv_heads']}" if fewer else str(rope["heads"]),
            str(rope["head_dim"]),
            str(rope["rotary_dim"]) + (f" from {rope['first']}" if rope["first"] else ""),
            rope["pairing"] + (", clockwise" if rope["clockwise"] else ""),
            str(1 + max(int(digit) for digit in rope["axis"])),
            str(layers) if layers == last + 1 else f"{layers} of {last + 1}",
            surprising,
        )


def unmeasured_rows(models, records):
    """A row for each model type and part that no record has."""
    rows = models["models"] | models["remote_models"]
    parts = [(name, "") for name in rows] + [(name, part) for name, held in models["children"].items() for part in held]
    for name, part in parts:
        row = rows.get(kind_of(models, name, part))
        if row is not None and name not in records and name not in models["our_names"]:
            yield in_code(name), in_code(part), row.get("pairing", "half"), remark_of(models, name, part)


# ---- position ids ----


def clauses_of(models):
    """{what the position ids of a model are: the model types}."""
    counts = {
        "seen": "words, where the mask shows them; others 0",
        "from_one": "words from 1, where the mask shows them; others 1",
        "every": "words, whatever the mask",
    }
    clauses = defaultdict(list)
    for word, names in models["counted"].items():
        for name in names:
            clauses[name].append(counts[word])
    for name, row in models["positions"].items():
        if "variant" in row:
            clauses[name].append("words, images and films: " + row["variant"])
        if "order" in row:
            facts = [field if value is True else f"{field} {value}" for field, value in row.items() if field in PATCHES]
            clauses[name].append("patches: " + ", ".join([row["order"], *facts]))
        if "inside" in row:
            clauses[name].append("those of its " + row["inside"])
    types = defaultdict(list)
    for name in sorted(clauses):
        types["; ".join(clauses[name])].append(in_code(name))
    return types


def page():
    models = json.loads((ROOT / "files/models/models.json").read_text(encoding="utf-8"))
    paths = sorted((ROOT / "files/tests/golden/sweep").glob("*.json"), key=lambda path: path.stem)
    records = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    versions = {key: record["made"][key] for record in records.values() for key in record["made"]}
    rows = [row for name, record in records.items() for row in measured_rows(models, name, record["ropes"])]
    none = [(in_code(name), in_code(part["part"]), part["why"].replace("|", "/"))
            for name, record in records.items() for part in record["none"]]
    none += [(in_code(name), "", why) for name, why in models["refused"].items()]
    return (ROOT / "files/models/sweep/models.md.in").read_text(encoding="utf-8").format(
        transformers=versions["transformers"],
        diffusers=versions["diffusers"],
        count=len(rows),
        types=len({name.split("+")[0] for name, record in records.items() if record["ropes"]}),
        ropes=table(HEADER, rows),
        others=table(("model_type", "part", "pairing", "what is surprising"), sorted(unmeasured_rows(models, records))),
        without=table(("model_type", "part", "why"), sorted(set(none))),
        positions=table(("positions", "model types"),
                        [(what, " ".join(names)) for what, names in sorted(clauses_of(models).items())]),
    )


def main(words):
    if words != ["--check"]:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/models.md is not what files/models/sweep/page.py writes: run it")


if __name__ == "__main__":
    main(sys.argv[1:])
