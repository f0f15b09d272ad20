"""files/models/models.json: what the classes of transformers say, written into its rows, and the file as text.

A row's fields are those of Family in files/models/families.h. The sweep writes the fields that a class states
and the sub-configs with ropes that a parent makes ("children"). A new row also gets
what was measured of its axes, its pattern of layers and its rope_parameters; these and everything else in a row are
written by hand later and stay, and so does a field that the row's "by_hand" names.
"""
import json
import re

from transformers import PreTrainedConfig

from files import ROOT, folded
from run import modeling_files

PATH = ROOT / "files/models/models.json"
WIDTH = 120
SHAPE = {"layers": "num_hidden_layers", "heads": "num_attention_heads", "kv_heads": "num_key_value_heads",
         "hidden": "hidden_size", "head_dim": "head_dim"}
DEFAULTS = {"pairing": "half", "base": 10000, "partial": 1, "reads_partial": False}
PARTIAL = re.compile(r"def compute_default_rope_parameters.*?return inv_freq", re.DOTALL)


def listed(row, key):
    """The values of a field that holds a list, or its only value."""
    value = row.get(key, [])
    return value if isinstance(value, list) else [value] if value else []


# ---- facts of a class ----


def stated(kind, name):
    """The class's own default; None where it has none, or makes it of others."""
    value = getattr(kind, kind.attribute_map.get(name, name), None)
    return value if isinstance(value, (int, float, str, dict)) else None


def plain(value):
    return int(value) if isinstance(value, float) and value.is_integer() else value


def default_parameters(kind):
    """The rope_parameters of an instance, where they are one rope's."""
    try:
        parameters = getattr(kind(), "rope_parameters", None) or {}
    except Exception:  # some classes make nothing of nothing
        return {}
    return {} if any(isinstance(value, dict) for value in parameters.values()) else parameters


def reads_partial(config):
    """Whether the default rope of the model's code honours a partial_rotary_factor."""
    return any("partial_rotary_factor" in code for path in modeling_files(config)
               for code in PARTIAL.findall(path.read_text()))


def shape_of(kind):
    names = {key: stated(kind, name) for key, name in SHAPE.items()}
    if stated(kind, "qk_rope_head_dim"):
        names["head_dim"] = None  # the rope's part of it
    return {key: value for key, value in names.items() if value}


def facts(config, pairings, row):
    """The swept fields of a row; None: the class says Family's default. What is not known is left out."""
    kind, found = type(config), {}
    theta = stated(kind, "default_theta")
    found["shape"] = shape_of(kind) or None
    found["context"] = stated(kind, "max_position_embeddings")
    rope = stated(kind, "qk_rope_head_dim")
    found["mla"] = {"nope": stated(kind, "qk_nope_head_dim"), "rope": rope} if rope else None
    if len(pairings) == 1:
        found["pairing"] = min(pairings)
    if "rope_parameters" not in row:
        bases = list(theta.values()) if isinstance(theta, dict) else [theta]
        found["base"] = max(bases)
        if len(bases) > 1:
            found["sliding_base"] = min(bases)
        found["partial"] = default_parameters(kind).get("partial_rotary_factor")
    if "tower" not in row:
        found["reads_partial"] = reads_partial(config)
    return found


def axes_of(axis):
    """Axes and sections by the coordinate of each pair, as measured: "000111222" or "012012000"."""
    counts = [axis.count(str(i)) for i in range(3)]
    if axis == "".join(str(i) * n for i, n in enumerate(counts)):
        return {"axes": "sectioned", "sections": counts}
    turns = "".join(str(i) for j in range(max(counts)) for i in range(3) if j < counts[i])
    return {"axes": "interleaved", "sections": counts} if axis == turns else {}


KINDS = {"sliding_attention": "sliding", "full_attention": "full", "linear_attention": "linear"}


def pattern_of(config):
    """The shortest run of layer types that, repeated, makes all of them."""
    types = [KINDS.get(kind) for kind in vars(config).get("layer_types") or []]
    run = next((n for n in range(1, len(types)) if all(types[i] == types[i % n] for i in range(len(types)))), 0)
    found = types[:run]
    return None if found in ([], ["full"]) or None in found else {"types": found}


def first_facts(config, ropes):
    """Fields of a row that is new; later they are written by hand."""
    found, parameters = {"pattern": pattern_of(config)}, getattr(config, "rope_parameters", None) or {}
    by_type = any(isinstance(value, dict) for value in parameters.values())
    by_base = isinstance(stated(type(config), "default_theta"), dict)
    if by_type and not by_base or parameters.get("rope_type", "default") not in ("default", "axial"):
        found["rope_parameters"] = parameters
    axis = ropes[0]["axis"] if ropes else ""
    return found | (axes_of(axis) if max(axis, default="0") == "2" else {})


def put(row, found):
    """The found values in the row, but for what is Family's default or written by hand."""
    by_hand = listed(row, "by_hand")
    for key, value in found.items():
        value = plain(value)
        if key in by_hand:
            continue
        if value is None or value == DEFAULTS.get(key):
            row.pop(key, None)
        else:
            row[key] = value


# ---- the sub-configs of a parent ----


def child_of(config):
    """The type of a sub-config, with what the parent sets in it beside the class's own defaults."""
    kind, shape = type(config), {}
    for key, name in SHAPE.items():
        own, value = stated(kind, name), vars(config).get(config.attribute_map.get(name, name))
        if key == "head_dim" and value and own is None:
            own = config.hidden_size // config.num_attention_heads
        elif key == "kv_heads" and own is None:
            own = getattr(config, "num_attention_heads", None)
        if value and own and value != own:
            shape[key] = value
    if stated(kind, "qk_rope_head_dim"):
        shape.pop("head_dim", None)
    theta, own = getattr(config, "rope_parameters", None) or {}, default_parameters(kind)
    base = theta.get("rope_theta") if theta.get("rope_theta") != own.get("rope_theta") and own else None
    found = {"type": config.model_type, "shape": shape, "base": plain(base)}
    return {key: value for key, value in found.items() if value}


def put_child(parts, name, found):
    old = parts.get(name, {})
    old = {"type": old} if isinstance(old, str) else old
    kept = {key: old[key] for key in ("merged", "by_hand") if key in old}
    by_hand = listed(old, "by_hand")
    kept |= {key: old[key] for key in by_hand if key in old}
    found = {key: value for key, value in found.items() if key not in by_hand} | kept
    parts[name] = found if len(found) > 1 else found["type"]


def update(table, config, ropes):
    """The rows of a config and of what it holds. ropes: what was measured, with the part of each."""
    def visit(part, path):
        own = [rope for rope in ropes if rope["part"] == path]
        pairings = {rope["pairing"] for rope in own}
        inner = [(name, value) for name, value in vars(part).items() if isinstance(value, PreTrainedConfig)]
        for name, value in inner:
            visit(value, f"{path}.{name}".lstrip("."))
        kind = part.model_type
        if kind and kind not in table["remote_models"] and (pairings or kind in table["models"]):
            if kind not in table["models"]:
                put(table["models"].setdefault(kind, {}), first_facts(part, own))
            row = table["models"][kind]
            put(row, facts(part, pairings, row))
        for name, value in inner:
            if kind and (value.model_type in table["models"] or value.model_type in table["children"]):
                put_child(table["children"].setdefault(kind, {}), name, child_of(value))

    visit(config, "")


def known(table):
    """The model_types of which the file says something."""
    return {name for section in ("models", "remote_models", "children", "refused", "without_rope")
            for name in table[section]}


def add_without(table, types):
    """The model_types without rotary code of which the file says nothing yet."""
    table["without_rope"] = sorted({*table["without_rope"], *(types - known(table))})


# ---- text ----


def row_text(key, value):
    """One row of a section: on one line where it fits, else its fields under the key."""
    head = f"  {json.dumps(key)}: "
    if len(head + json.dumps(value)) < WIDTH or not isinstance(value, (dict, list)):
        return head + json.dumps(value)
    if isinstance(value, list):
        return f"{head}[\n{folded(map(json.dumps, value), '    ', WIDTH)}]"
    fields = [f"{json.dumps(name)}: {json.dumps(field)}" for name, field in value.items()]
    return f"{head}{{\n{folded(fields, '    ', WIDTH)}}}"


def section_text(value):
    if isinstance(value, dict):
        return "{\n" + ",\n".join(row_text(key, value[key]) for key in sorted(value)) + "\n}"
    return f"[\n{folded(map(json.dumps, value), '  ', WIDTH)}\n]" if isinstance(value, list) else json.dumps(value)


def read():
    return json.loads(PATH.read_text())


def write(table):
    sections = (f"{json.dumps(name)}: {section_text(value)}" for name, value in table.items())
    PATH.write_text("{\n" + ",\n".join(sections) + "\n}\n")
