"""The ropes of diffusers' classes: runs their own rope modules and apply functions, for files/tests/golden/sweep.

    python files/models/sweep/diffusers_ropes.py [CLASS ...]        (needs torch, transformers and diffusers 0.42.1)

A row of "diffusers" in files/models/models.json says what a class's config means; this fills in its "defaults" (the
class's own, for the keys that the row names) and writes a record for each class and for its other configs in
cases.json, as sweep.py does. The model is built on the meta device with its own config; its rope module is built again
on the CPU with the same arguments, and rotations.py runs it and the function with which the model's attention rotates q
and k. How each class is called is in diffusers_calls.py.
"""
import contextlib
import functools
import importlib
import inspect
import json
import re
import sys

import torch

from sweep import SWEEP, first_words, write  # makes the others importable
import run
import table
from diffusers_calls import CALLS, ELSEWHERE, MODEL_MAKES, PARTS, SPREAD, of_kandinsky
from rotations import record, ropes

import diffusers

ROPE = re.compile(r"Ro(pe|PE)|Rotary|PosEmbed|EmbedND", re.ASCII)
KEYS = ("pairing_key", "layers", "heads", "kv_heads", "head_dim", "hidden", "widths", "base_key", "stretch", "pace",
        "ntk")
COMMON = {"layers": "num_layers", "heads": "num_attention_heads", "head_dim": "attention_head_dim"}


# ---- records ----


def defaults(name, row):
    signature, found = inspect.signature(getattr(diffusers, name.split("/")[0]).__init__).parameters, {}
    words = [word for key in KEYS for word in table.listed(COMMON | row, key)]
    if row.get("hidden"):
        words = [w for w in words if w != COMMON["head_dim"]]
    for word in [*words, *run.CASES["beside"].get(name, ())]:
        if word not in signature:  # a tensor's name
            continue
        value = run.CASES["meant"].get(name, {}).get(word, signature[word].default)
        if value is not None:
            found[word] = list(value) if isinstance(value, tuple) else value
    return found


class Model:
    """The model of a class on the meta device, and what a row of "diffusers" says of one of its ropes."""

    def __init__(self, key, given, row):
        self.key, self.facts = key, COMMON | row
        self.name = key.partition("/")[0]
        kind = getattr(diffusers, self.name)
        self.module = inspect.getmodule(kind)
        flux = importlib.import_module("diffusers.models.transformers.transformer_flux")
        with contextlib.ExitStack() as undo, torch.device("meta"):
            for rope in {c for m in (self.module, flux) for c in vars(m).values() if inspect.isclass(c)}:
                if ROPE.search(rope.__name__):
                    run.remember(undo, rope)
            self.model = kind(**given)
        self.config = self.model.config

    def value(self, fact):
        """The config's value under the keys of a fact; for None, the value that its class uses."""
        words, meant = table.listed(self.facts, fact), run.CASES["meant"].get(self.key, {})
        return next((v for w in words for v in (self.config.get(w), meant.get(w)) if v is not None), None)

    def rope(self):
        """Its rope module, built again on the CPU; the model itself where it makes the tables."""
        if CALLS.get(self.key, [None])[0] in MODEL_MAKES:
            return self.model
        ropes = [m for m in [*vars(self.model).values(), *self.model.modules()] if hasattr(m, "made_of")]
        module = (getattr(self.model, PARTS[self.key][0]) if self.key in PARTS else
                  next((m for m in ropes if "3D" in type(m).__name__), ropes[0]))
        args, kwargs = module.made_of
        return type(module)(*args, **kwargs)

    def axes(self):
        listed = self.value("widths")
        if isinstance(listed, (list, tuple)) and self.facts.get("laid") not in ("interleaved", "joined"):
            return len(listed)
        return max(len(table.listed({"axes": ["t", "h", "w"]} | self.facts, "axes")), 1)

    def layout(self):
        """Heads and layers: its projections and its lists of blocks."""
        blocks = PARTS[self.key][1:] if self.key in PARTS else run.CASES["blocks"]
        layers = range(sum(len(getattr(self.model, name)) for name in blocks if hasattr(self.model, name)))
        heads, hidden = self.value("heads"), self.value("hidden")
        if heads:
            head_dim = hidden // heads if hidden else self.value("head_dim")
        else:
            head_dim = sum(self.value("widths"))
            heads = hidden // head_dim
        return {"layers": layers, "heads": heads, "kv_heads": self.value("kv_heads") or heads, "head_dim": head_dim}


def swept(model):
    tables, apply = CALLS[model.key]
    maker, layout, module = model.rope(), model.layout(), model.module
    if model.name in ELSEWHERE:
        module = importlib.import_module(f"diffusers.models.transformers.{ELSEWHERE[model.name]}")
    if model.name.startswith("Kandinsky6") and tables is of_kandinsky:
        tables = functools.partial(of_kandinsky, factor=tuple(model.config.scale_factor))

    def turn(x, position):
        found = tables(maker, position)
        x = x[:, None, None] if x.dim() == 2 else x
        if model.name == "HiDreamImageTransformer2DModel" and 2 * found.shape[-3] != x.shape[-1]:  # as it does
            first, rest = x.chunk(2, dim=-1)
            return torch.cat([apply(module, first, found), rest], dim=-1)
        return torch.cat([apply(module, row[None], found) for row in x])

    return [record(type(maker).__name__, rope, **layout) for rope in ropes(turn, layout["head_dim"], model.axes())]


def spread(model):
    """The record of a rope with frequencies for each head: the pairs of all heads in their order."""
    rope, config, axes, layout = model.rope(), model.config, model.axes(), model.layout()
    heads, head_dim, old = layout["heads"], layout["head_dim"], model.name.startswith("LTXVideo")
    words = "" if old else "split_" if config.get("rope_type") == "split" else "interleaved_"
    apply = getattr(model.module, f"apply_{words}rotary_emb")
    base = torch.tensor([rope.base_num_frames, rope.base_height, rope.base_width][:axes], dtype=torch.float32)

    def turn(x, position):
        where = ((torch.tensor(position, dtype=torch.float32) + 1) / 2 * base).view(1, axes, 1)
        found = rope(torch.zeros(1, 1, 1), video_coords=where) if old else rope(coords=where)
        return torch.cat([apply(row[None, None], found) for row in x])

    found = ropes(turn, heads * head_dim, axes, position=[0.25, -0.5, 0.75][:axes], blocks=heads, width=head_dim,
                  step=2.0 ** -13)
    whole = dict(found[0]) | {key: sum((list(r[key]) for r in found), []) for key in ("inv_freq", "vector")}
    whole["axis"] = "".join(r["axis"] for r in found)
    return [record(type(rope).__name__, whole, **layout) | {"rows": heads}]


def cases(name):
    """(file, config): the class defaults, with what the class needs, and the others."""
    needed = run.CASES["needed"].get(name, {})
    if name not in SPREAD:
        flag = next((f"+{key}" for key in needed if re.search(r"rope|rotary|kv_heads", key)), "")
        yield name + flag, needed
    for word, other in run.CASES["others"].get(name, {}).items():
        yield f"{name}+{word}", needed | other


def config_of(name, given, row):
    """The keys of a rope among those that save_config writes."""
    signature = inspect.signature(getattr(diffusers, name).__init__).parameters
    known = {key: p.default for key, p in signature.items() if p.default is not inspect.Parameter.empty} | given
    wanted = {*defaults(name, row), *given} | {key for key in known if re.search(r"rope|rotary|theta|axes", key)}
    return {"_class_name": name, "_diffusers_version": diffusers.__version__} | {
        key: known[key] for key in sorted(wanted) if key in known}


def main(names):
    sheet, failed = table.read(), 0
    rows, versions = sheet["diffusers"], {"diffusers": diffusers.__version__, "torch": torch.__version__}
    for key in [key for key in rows if not names or key.partition("/")[0] in names]:
        rows[key]["defaults"] = defaults(key, rows[key])
    for name in [key for key in rows if (key in CALLS or key in SPREAD) and (not names or key in names)]:
        parts = [name, *(key for key in PARTS if key.startswith(name + "/"))]
        for file, given in cases(name) if "/" not in name else ():
            try:
                found = [{"part": key.partition("/")[2]} | rope for key in parts
                         for rope in (spread if name in SPREAD else swept)(Model(key, given, rows[key]))]
            except Exception as error:
                print(f"{file}: {type(error).__name__}: {first_words(error, 300)}")
                failed = 1
                continue
            config = json.loads(json.dumps(config_of(name, given, rows[name])))
            record = {"model_type": name, "made": versions, "config": config, "ropes": found, "none": []}
            write(SWEEP / f"{file}.json", record)
    table.write(sheet)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
