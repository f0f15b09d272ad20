"""What the classes of diffusers turn by: runs their own rope modules and apply functions, for tests/golden/sweep.

    diffusers_ropes.py [CLASS ...]      PYTHONPATH has diffusers 0.42.1 and tools/golden

A row of "diffusers" in data/models.json says what a class's config means; this fills in its "defaults" (the class's own,
of the keys that the row names) and writes a record for each class and for the other configs of OTHERS, as sweep.py does.
The model is built on the meta device with its own config; its rope module, built again on the CPU of the same
arguments, and the function with which its attention turns q and k, are what turns here (tools/golden/rotations.py).
How each class is called is in diffusers_calls.py.
"""
import functools
import importlib
import inspect
import json
import re
import sys

import torch

import table
from diffusers_calls import CALLS, ELSEWHERE, MODEL_MAKES, PARTS, SPREAD, of_kandinsky
from rotations import record, ropes
from sweep import SWEEP, dump

import diffusers

ROPE = re.compile(r"Ro(pe|PE)|Rotary|PosEmbed|EmbedND", re.ASCII)
KEYS = ("pairing_key", "layers", "heads", "kv_heads", "head_dim", "hidden", "widths", "base_key", "stretch", "pace", "ntk")
COMMON = {"layers": "num_layers", "heads": "num_attention_heads", "head_dim": "attention_head_dim"}
# What a class makes of None, or reads beside the keys of the row.
MEANT = {"PRXTransformer2DModel": {"axes_dim": [32, 32]}, "Cosmos3OmniTransformer": {"rope_axes_dim": [24, 20, 20]}}
BESIDE = {"OmniGenTransformer2DModel": ("max_position_embeddings", "original_max_position_embeddings")}


# ---- the model and its rope ----


def rope_classes(kind):
    modules = [inspect.getmodule(kind), importlib.import_module("diffusers.models.transformers.transformer_flux")]
    return [c for m in modules for c in vars(m).values() if inspect.isclass(c) and ROPE.search(c.__name__)]


def built(kind, config):
    """The model on the meta device; its rope modules know what they were made of."""
    undo = []
    for cls in rope_classes(kind):
        own = cls.__init__

        @functools.wraps(own)
        def remembering(self, *args, own=own, **kwargs):
            own(self, *args, **kwargs)
            self.__dict__["made_of"] = (args, kwargs)
        cls.__init__ = remembering
        undo.append((cls, own))
    try:
        with torch.device("meta"):
            return kind(**config)
    finally:
        for cls, own in undo:
            cls.__init__ = own


def again(module):
    args, kwargs = module.made_of
    return type(module)(*args, **kwargs)


# Configs beside a class's defaults: other widths, heads, bases and factors.
FACTORS = {"short_factor": [1 + i / 64 for i in range(48)], "long_factor": [1 + i / 4 for i in range(48)]}
OTHERS = {
    "FluxTransformer2DModel": {"other": {"axes_dims_rope": [8, 24, 32], "attention_head_dim": 64}},
    "Flux2Transformer2DModel": {"other": {"axes_dims_rope": [0, 64, 48, 16], "rope_theta": 5000}},
    "HiDreamImageTransformer2DModel": {"i1": {"axes_dims_rope": [64, 32, 32]}},
    "ZImageTransformer2DModel": {"other": {"dim": 2304, "n_heads": 24, "n_kv_heads": 24, "axes_dims": [32, 32, 32],
                                           "rope_theta": 1000.0}},
    "HunyuanImageTransformer2DModel": {"refiner": {"rope_axes_dim": [16, 56, 56], "patch_size": [1, 1, 1]}},
    "Lumina2Transformer2DModel": {"other": {"hidden_size": 2304, "num_attention_heads": 36,
                                            "axes_dim_rope": [16, 24, 24]}},
    "WanTransformer3DModel": {"other": {"attention_head_dim": 100}},
    "CosmosTransformer3DModel": {"other": {"rope_scale": [1.0, 3.0, 4.0], "attention_head_dim": 64}},
    "CogVideoXTransformer3DModel": {"other": {"attention_head_dim": 96}},
    "AllegroTransformer3DModel": {"other": {"attention_head_dim": 48, "interpolation_scale_t": 0.5}},
    "Kandinsky6Transformer3DModel": {"other": {"axes_dims": [16, 24, 24], "scale_factor": [2.0, 3.16, 3.16],
                                               "model_dim_a": 1024, "axes_dims_a": [16, 8, 8],
                                               "audio_freqs_scaling": 2.5}},
    "StableAudioDiTModel": {"other": {"attention_head_dim": 128, "num_key_value_attention_heads": 24}},
    "MiniMaxH3Transformer3DModel": {"other": {"rope_freq_dim": 20, "rope_theta": 500.0}},
    "JoyImageEditTransformer3DModel": {"other": {"rope_dim_list": None, "hidden_size": 2304, "theta": 300}},
    "Ideogram4Transformer2DModel": {"other": {"attention_head_dim": 128}},
    "Cosmos3OmniTransformer": {"other": {"rope_axes_dim": [28, 18, 18], "rope_theta": 10000.0}},
}
MUST_SAY = {
    "OmniGenTransformer2DModel": {"rope_scaling": FACTORS | {"type": "su"}},
    "CogVideoXTransformer3DModel": {"use_rotary_positional_embeddings": True},
    "ConsisIDTransformer3DModel": {"use_rotary_positional_embeddings": True},
    "EasyAnimateTransformer3DModel": {"in_channels": 16, "out_channels": 16, "patch_size": 2},
    "LuminaNextDiT2DModel": {"num_kv_heads": 8},
    "HunyuanDiT2DModel": {"in_channels": 4, "patch_size": 2},
    "HiDreamImageTransformer2DModel": {"patch_size": 2, "caption_channels": [4096, 4096], "llama_layers": [0]},
    "BriaTransformer2DModel": {"pooled_projection_dim": 768},
}
LISTS = ("transformer_blocks", "single_transformer_blocks", "blocks", "layers", "visual_transformer_blocks",
         "double_stream_blocks", "single_stream_blocks", "double_blocks", "control_blocks", "image_blocks",
         "single_blocks", "txt_mode_blocks")


# ---- records ----


def defaults(name, row):
    signature, found = inspect.signature(getattr(diffusers, name.split("/")[0]).__init__).parameters, {}
    words = [word for key in KEYS for word in table.listed(COMMON | row, key)]
    if row.get("hidden"):
        words = [w for w in words if w != COMMON["head_dim"]]
    for word in [*words, *BESIDE.get(name, ())]:
        if word not in signature:  # a tensor's name
            continue
        value = MEANT.get(name, {}).get(word, signature[word].default)
        if value is not None:
            found[word] = list(value) if isinstance(value, tuple) else value
    return found


def value_of(config, keys, name):
    given = [value for key in keys for value in (config.get(key), MEANT.get(name, {}).get(key)) if value is not None]
    return given[0] if given else None


def axes_of(facts):
    return max(len(table.listed({"axes": ["t", "h", "w"]} | facts, "axes")), 1)


def swept(name, given, row):
    kind = getattr(diffusers, name.split("/")[0])
    module = inspect.getmodule(kind)
    if name in ELSEWHERE:
        module = importlib.import_module(f"diffusers.models.transformers.{ELSEWHERE[name]}")
    model = built(kind, given)
    tables, apply = CALLS[name]
    facts = COMMON | row
    parts = [getattr(m, "processor", None) for m in model.modules()]
    if name == "AceStepTransformer1DModel":
        def tables(_, p):
            found = module._ace_step_rotary_freqs(p[0] + 1, model.head_dim, model.rope_theta, "cpu", torch.float32)
            return tuple(t[-1:] for t in found)
    elif name == "StableAudioDiTModel":
        processor = next(p for p in parts if p is not None)
        def apply(_, x, found):
            return processor.apply_partial_rotary_emb(x.transpose(1, 2), found).transpose(1, 2)
    maker = model
    if tables not in MODEL_MAKES and name not in ("AceStepTransformer1DModel", "StableAudioDiTModel"):
        made = [m for m in [*vars(model).values(), *model.modules()] if hasattr(m, "made_of")]
        maker = again(getattr(model, PARTS[name][0]) if name in PARTS else
                      next((m for m in made if "3D" in type(m).__name__), made[0]))
    if name.startswith("Kandinsky6") and tables is of_kandinsky:
        tables = functools.partial(of_kandinsky, factor=tuple(model.config.scale_factor))
    axes = axes_of(facts)
    listed = value_of(model.config, table.listed(facts, "widths"), name)
    if isinstance(listed, (list, tuple)) and row.get("laid") not in ("interleaved", "joined"):
        axes = len(listed)
    heads, kv_heads, head_dim, layers = shape_of(model, facts, name)

    def turn(x, position):
        found = tables(maker, position)
        x = x[:, None, None] if x.dim() == 2 else x
        if name == "HiDreamImageTransformer2DModel" and 2 * found.shape[-3] != x.shape[-1]:  # as its attention does
            first, rest = x.chunk(2, dim=-1)
            return torch.cat([apply(module, first, found), rest], dim=-1)
        return torch.cat([apply(module, row[None], found) for row in x])

    width = None
    found = ropes(turn, head_dim, axes, width=width)
    return [record(type(maker).__name__, rope, layers=range(layers), heads=heads, kv_heads=kv_heads, head_dim=head_dim,
                   length=None) for rope in found]


def spread(name, part, given, row):
    """The record of a rope with frequencies for each head: the pairs of all heads in their order."""
    attribute, small = SPREAD[name][part]
    kind = getattr(diffusers, name)
    module, model = inspect.getmodule(kind), built(kind, small | given)
    facts = COMMON | row
    rope, config = again(getattr(model, attribute)), model.config
    heads = config[facts["heads"]]
    head_dim = config[facts["hidden"]] // heads if facts.get("hidden") else config[facts["head_dim"]]
    axes = axes_of(facts)
    split = config.get("rope_type") == "split"
    apply = getattr(module, "apply_split_rotary_emb" if split else
                    "apply_interleaved_rotary_emb" if "rope_type" in config else "apply_rotary_emb")
    base = torch.tensor([rope.base_num_frames, rope.base_height, rope.base_width][:axes], dtype=torch.float32)

    def turn(x, position):
        where = ((torch.tensor(position, dtype=torch.float32) + 1) / 2 * base).view(1, axes, 1)
        coords = {"video_coords": where} if name.startswith("LTXVideo") else {"coords": where}
        found = rope(torch.zeros(1, 1, 1), **coords) if name.startswith("LTXVideo") else rope(**coords)
        return torch.cat([apply(row[None, None], found) for row in x])

    found = ropes(turn, heads * head_dim, axes, position=[0.25, -0.5, 0.75][:axes], blocks=heads, width=head_dim,
                  step=2.0 ** -13)
    whole = dict(found[0]) | {key: sum((list(r[key]) for r in found), []) for key in ("inv_freq", "vector")}
    whole["axis"] = "".join(r["axis"] for r in found)
    return [record(type(rope).__name__, whole, layers=range(config.num_layers), heads=heads, head_dim=head_dim)
            | {"rows": heads}]


def shape_of(model, facts, name):
    """(heads, kv_heads, head_dim, layers) of the model that was built: its projections and its lists of blocks."""
    config = model.config
    blocks = PARTS[name][1:] if name in PARTS else LISTS
    lists = [getattr(model, name) for name in blocks if hasattr(model, name)]
    layers = sum(len(blocks) for blocks in lists)
    read = lambda key: value_of(config, key if isinstance(key, list) else [key], name)
    if not facts["heads"]:
        head_dim = sum(read(facts["widths"]))
        heads = read(facts["hidden"]) // head_dim
    else:
        heads = read(facts["heads"])
        head_dim = read(facts["hidden"]) // heads if facts.get("hidden") else read(facts["head_dim"])
    kv_heads = (read(facts["kv_heads"]) if facts.get("kv_heads") else None) or heads
    return heads, kv_heads, head_dim, layers


def cases(name):
    said = MUST_SAY.get(name, {})
    flag = next((f"+{key}" for key in said if re.search(r"rope|rotary|kv_heads", key)), "")
    yield name + flag, said
    for word, other in OTHERS.get(name, {}).items():
        yield f"{name}+{word}", said | other


def config_of(name, given, kind):
    """What save_config writes of the keys that a rope has to do with."""
    row = table.read()["diffusers"][name]
    signature = inspect.signature(kind.__init__).parameters
    known = {key: p.default for key, p in signature.items() if p.default is not inspect.Parameter.empty} | given
    wanted = {*defaults(name, row), *given} | {key for key in known if re.search(r"rope|rotary|theta|axes", key)}
    return {"_class_name": name, "_diffusers_version": diffusers.__version__} | {
        key: known[key] for key in sorted(wanted) if key in known}


def write(file, name, given, ropes):
    config = json.loads(json.dumps(config_of(name, given, getattr(diffusers, name))))
    made = {"diffusers": diffusers.__version__, "torch": torch.__version__}
    entry = {"model_type": name, "made": made, "config": config, "ropes": ropes, "none": []}
    (SWEEP / f"{file}.json").write_text(dump(entry) + "\n")


def main(names):
    sheet = table.read()
    failed = 0
    for name, row in sheet["diffusers"].items():
        kind, _, part = name.partition("/")
        if names and kind not in names:
            continue
        row["defaults"] = defaults(name, row)
        if part:
            continue
        if name in SPREAD:
            parts = {part: sheet["diffusers"][name + ("/" + part if part else "")] for part in SPREAD[name]}
            for word in ("small", "split") if "LTX2" in name else ("small",):
                given = SPREAD[name][""][1] | ({"rope_type": "split"} if word == "split" else {})
                write(f"{name}+{word}", name, given,
                      [{"part": part} | r for part, facts in parts.items() for r in spread(name, part, given, facts)])
            continue
        if name not in CALLS:
            continue
        for file, given in cases(name):
            try:
                found = [{"part": part} | rope for key, part in [(name, ""), *((p, p.split("/")[1]) for p in PARTS)]
                         if key.split("/")[0] == name for rope in swept(key, given, sheet["diffusers"][key])]
            except Exception as error:
                print(f"{file}: {type(error).__name__}: {str(error)[:300]}")
                failed += 1
                if "--raise" in sys.argv:
                    raise
                continue
            write(file, name, given, found)
    table.write(sheet)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([a for a in sys.argv[1:] if not a.startswith("--")]))
