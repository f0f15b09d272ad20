"""A page of at most 36 lines: how the records of a sweep differ from the sheet before it. For sweep.py."""
import itertools
import re

LINES, WIDTH = 36, 150
ROPE_KEY = re.compile(r"rope|rotary|theta|partial|position", re.IGNORECASE)


def facts(rope):
    """{word: what the page shows of it, what is compared} of one rope of a record."""
    start = f" from {rope['first']}" if rope["first"] else ""
    layers, whole = len(rope["layers"]), len(rope["layers"]) + len(rope["layers_without_rope"])
    return {"pairing": (rope["pairing"] + ", clockwise" * rope["clockwise"],) * 2,
            "rotated": (f"{rope['rotary_dim']} of {rope['head_dim']}{start}",) * 2,
            "axes": (str(len(set(rope["axis"]))), rope["axis"]),
            "heads": (f"{rope['heads']}/{rope['kv_heads']}",) * 2,
            "layers": (f"{layers} of {whole}", [rope["layers"], rope["layers_without_rope"]])}


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 4e-6 * abs(x) for x, y in zip(a, b))


def turns(old, new):
    """["base"], or ["scaling"], where the frequencies or the factor of two ropes differ; [] where neither does."""
    start = [[rope["inv_freq"][1] / rope["inv_freq"][0]] for rope in (old, new) if len(rope["inv_freq"]) > 1]
    if len(start) == 2 and old["rotary_dim"] == new["rotary_dim"] and not near(*start):
        return ["base"]
    same = near(old["inv_freq"], new["inv_freq"]) and near([old["attention_factor"]], [new["attention_factor"]])
    return [] if same or old["rotary_dim"] != new["rotary_dim"] else ["scaling"]


def flat(value, path=""):
    """{dotted key: value} of the config's rope keys."""
    if not isinstance(value, dict):
        return {path: value} if ROPE_KEY.search(path) else {}
    return {k: v for name, inner in value.items() for k, v in flat(inner, f"{path}.{name}".lstrip(".")).items()}


def differences(old, new):
    """In words, how a record differs from the one before: "text_config: layers 30 of 40 -> 40 of 40"."""
    found = []
    for a, b in itertools.zip_longest(old["ropes"], new["ropes"]):
        if not a or not b or a["part"] != b["part"]:
            found.append(f"ropes {len(old['ropes'])} -> {len(new['ropes'])}")
            break
        before, after = facts(a), facts(b)
        words = [f"{word} {before[word][0]} -> {after[word][0]}" for word in before if before[word] != after[word]]
        if words + turns(a, b):
            found.append(f"{a['part'] or 'it'}: {', '.join(words + turns(a, b))}")
    found += [f"{part['part'] or 'it'}: {part['why']}" for part in new["none"] if part not in old["none"]]
    a, b = flat(old["config"]), flat(new["config"])
    keys = [f"{key} {a.get(key)} -> {b.get(key)}" for key in {**a, **b} if a.get(key) != b.get(key)]
    return "; ".join([*dict.fromkeys(found), *keys])


def described(record):
    """A new record in words."""
    ropes = [", ".join([rope["part"] or "it", *(f"{word} {shown}" for word, (shown, _) in facts(rope).items())])
             for rope in record["ropes"]]
    return "; ".join(ropes + [f"{part['part'] or 'it'}: {part['why']}" for part in record["none"]])


def page(head, sections):
    """The lines: as many of each section (title, lines) as all have room for."""
    sections = [(title, lines) for title, lines in sections if lines]
    out, most = [head], (LINES - 1) // max(len(sections), 1) - 2
    for title, lines in sections:
        out += [f"{title} ({len(lines)}):", *(f"  {line}"[:WIDTH] for line in lines[:most])]
        out += [f"  and {len(lines) - most} more"] * (most < len(lines))
    return "\n".join(out)
