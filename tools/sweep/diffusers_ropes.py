"""What the classes of diffusers turn by: runs their own rope modules and apply functions, for tests/golden/sweep.

    diffusers_ropes.py [CLASS ...]      PYTHONPATH has diffusers 0.42.1 and tools/golden

A row of "diffusers" in data/models.json says what a class's config means; this fills in its "defaults" (the class's own,
of the keys that the row names) and writes a record for each class and for the other configs of OTHERS, as sweep.py does.
The model is built on the meta device with its own config; its rope module, built again on the CPU of the same
arguments, and the function with which its attention turns q and k, are what turns here (tools/golden/rotations.py).
Above 400 lines because the classes build their ropes in ways that have little in common.
"""
import ast
import functools
import importlib
import inspect
import json
import re
import sys
import textwrap

import torch

import table
from rotations import record, ropes
from sweep import SWEEP, dump

import diffusers
from diffusers.models import embeddings

ROPE = re.compile(r"Ro(pe|PE)|Rotary|PosEmbed|EmbedND", re.ASCII)
KEYS = ("pairing_key", "layers", "heads", "kv_heads", "head_dim", "hidden", "widths", "base_key", "stretch", "ntk")
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


def nested(module, name, within=None):
    """A function that stands inside a method, in its module's names; it returns what its input's type is."""
    source = inspect.getsource(module)
    found = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == name
                 and n.col_offset > 0)
    names = dict(vars(module))
    text = textwrap.dedent("\n".join(source.split("\n")[found.lineno - 1:found.end_lineno]))
    exec(text.replace("torch.bfloat16", "torch.float32"), names)  # Kandinsky 5 rounds what it turned
    return names[name]


# ---- tables: of the rope and a position, what the apply function takes for that one token ----


def of_ids(rope, p):
    return rope(torch.tensor([p]))


def of_batched_ids(rope, p):
    return rope(torch.tensor([[p]]))


def at(grid, p, sizes):
    """The row of position p in tables over a grid of these sizes."""
    index = 0
    for coordinate, size in zip(p, sizes):
        index = index * size + coordinate
    return tuple(t.flatten(0, -2)[index:index + 1] for t in grid)


def whole(p):
    return [c + 1 for c in p]


def of_latents(rope, p):
    """A module that looks at the shape of latents only (ChronoEdit places two frames apart)."""
    sizes = [c + 3 for c in p]
    patch = rope.patch_size
    patch = [patch] * len(p) if isinstance(patch, int) else list(patch)
    if hasattr(rope, "patch_size_t"):
        patch[0] = rope.patch_size_t
    latents = torch.zeros(1, 1, *(s * k for s, k in zip(sizes, patch)))
    return at(rope(latents), p, sizes)


def of_frames(rope, p):
    t, h, w = whole(p)
    patch = getattr(rope, "patch_size", 1)
    return at(rope(torch.arange(t), h * patch, w * patch, "cpu"), p, (t, h, w))


def of_helios(rope, p):
    t, h, w = whole(p)
    return rope(torch.arange(t)[None], h, w, "cpu").flatten(2).transpose(1, 2)[:, -1:]


def of_centred(rope, p):
    """Qwen-Image: rows and columns are counted from the middle."""
    t, h, w = p[0] + 1, 2 * p[1] + 2, 2 * p[2] + 2
    table = rope._compute_video_freqs(t, h, w, 0)
    return table[(p[0] * h + p[1] + h // 2) * w + p[2] + w // 2][None]


def of_tables(rope, p):
    return torch.cat([rope.freqs[axis][p[axis]][None] for axis in range(3)], dim=-1)


def of_halves(rope, p):
    """CogView 4: 256 rows and columns, whatever the size."""
    size = 256 if hasattr(rope, "rope_axes_dim") else max(p) + 1
    side = size * rope.patch_size
    return at(rope(torch.empty(1, 1, side, side)), p, (size, size))


def of_pipeline_3d(model, p):
    t, h, w = whole(p)
    found = embeddings.get_3d_rotary_pos_embed(model.config.attention_head_dim, ((0, 0), (h, w)), (h, w), t)
    return at(found, p, (t, h, w))


def of_pipeline_2d(model, p):
    width, height = whole(p)
    found = embeddings.get_2d_rotary_pos_embed(model.inner_dim // model.num_heads, ((0, 0), (height, width)),
                                               (height, width), output_type="pt")
    return at(found, (p[1], p[0]), (height, width))


def of_allegro(model, p):
    t, h, w = whole(p)
    scales = tuple(getattr(model.config, f"interpolation_scale_{axis}") for axis in "thw")
    found = embeddings.get_3d_rotary_pos_embed_allegro(model.config.attention_head_dim, ((0, 0), (h, w)), (h, w), t,
                                                       interpolation_scale=scales)
    return found[:3], [torch.tensor([[c]]) for c in p]


def of_lumina_next(model, p):
    size = max(p) + 1
    return embeddings.get_2d_rotary_pos_embed_lumina(model.head_dim, size, size)[p[0], p[1]][None, None]


def of_joy(model, p):
    return at(model.get_rotary_pos_embed(whole(p))[0], p, whole(p))


def of_joy_plus(model, p):
    return at(model._get_rotary_pos_embed_for_range((0, 0, 0), whole(p)), p, whole(p))


def of_kandinsky(rope, p, factor=None):
    t, h, w = whole(p)
    pos = tuple(torch.arange(size) for size in (t, h, w))
    found = rope((1, t, h, w), pos)[0] if factor is None else rope(pos, factor)
    return found[p[0], p[1], p[2]][None, None]


def of_wan_animate_2(model, p):
    return model._rope_freqs((0, 0, 0), torch.device("cpu")), p


def one(function):
    """A module of one axis, which makes a table of so many tokens: the last."""
    return lambda rope, p: tuple(t[..., -1:, :] for t in function(rope, p[0] + 1))


# ---- what each class calls ----


def shared(**how):
    """embeddings.apply_rotary_emb, called as the class's attention calls it."""
    def turn(_, x, found):
        if not how.get("use_real", True):
            return embeddings.apply_rotary_emb(x, found, use_real=False)
        cos, sin = (t.reshape(1, -1) for t in found)
        return embeddings.apply_rotary_emb(x, (cos, sin), sequence_dim=1, **how)
    return turn


def own(name, *, spread=False, inner=False, keys=False, heads_first=False, shape=None, **how):
    """A function of the class's module: spread: takes cos and sin; keys: also takes and returns k."""
    def turn(module, x, found):
        function = nested(module, name) if inner else getattr(module, name)
        if shape:
            found = tuple(t.reshape(shape) for t in found) if isinstance(found, tuple) else found.reshape(shape)
        given = found if spread else (found,)
        x = x.transpose(1, 2) if heads_first else x
        out = function(x, x, *given) if keys else function(x, *given, **how)
        out = out[0] if keys else out
        return out.transpose(1, 2) if heads_first else out
    return turn


def halves(module, x, found):
    """As the attention of Ideogram 4 and Cosmos 3 says it in place."""
    cos, sin = (t.reshape(1, 1, 1, -1) for t in found)
    return x * cos + module._rotate_half(x) * sin


def wan_animate_2(module, x, found):
    freqs, p = found
    t, h, w = whole(p)
    grid = torch.zeros(1, t * h * w, *x.shape[2:])
    grid[:, -1] = x[:, 0]
    return module.rope_apply(grid, torch.tensor([[t, h, w]]), freqs)[:, -1:]


FLUX = (of_ids, shared())
REAL = (of_latents, shared())
COMPLEX = own("apply_rotary_emb", inner=True, shape=(1, 1, -1))
WAN = (of_latents, own("apply_rotary_emb", inner=True, spread=True, shape=(1, 1, 1, -1)))
HALF = shared(use_real_unbind_dim=-2)
JOY = own("_apply_rotary_emb", keys=True, shape=(1, -1))
QWEN = own("apply_rotary_emb_qwen", shape=(1, -1), use_real=False)
K5 = own("apply_rotary", inner=True)
# class: tables, apply, the attribute that makes tables ("" the model itself), the lists of its layers
CALLS = {
    "FluxTransformer2DModel": FLUX, "FluxControlNetModel": FLUX, "ChromaTransformer2DModel": FLUX,
    "LongCatImageTransformer2DModel": FLUX, "OvisImageTransformer2DModel": FLUX, "BriaTransformer2DModel": FLUX,
    "BriaFiboTransformer2DModel": FLUX, "Flux2Transformer2DModel": FLUX, "Flux3Transformer2DModel": FLUX,
    "Krea2Transformer2DModel": FLUX,
    "QwenImageTransformer2DModel": (of_centred, QWEN),
    "QwenImageControlNetModel": (of_centred, QWEN),
    "QwenImage21Transformer2DModel": (of_tables, QWEN),
    "NucleusMoEImageTransformer2DModel": (of_centred, own("_apply_rotary_emb_nucleus", shape=(1, -1), use_real=False)),
    "HiDreamImageTransformer2DModel": (of_batched_ids, own("apply_rope", keys=True)),
    "PRXTransformer2DModel": (of_batched_ids, own("apply_rope", heads_first=True)),
    "ZImageTransformer2DModel": (of_ids, COMPLEX), "BriaFibo2Transformer2DModel": (of_ids, COMPLEX),
    "Lumina2Transformer2DModel": (lambda rope, p: rope._get_freqs_cis(torch.tensor([[p]])), shared(use_real=False)),
    "HunyuanVideoTransformer3DModel": REAL, "HunyuanVideo15Transformer3DModel": REAL,
    "HunyuanImageTransformer2DModel": REAL, "MotifVideoTransformer3DModel": REAL,
    "HunyuanVideoFramepackTransformer3DModel": (of_frames, shared()),
    "HeliosTransformer3DModel": (of_helios, own("apply_rotary_emb_transposed")),
    "JoyImageEditTransformer3DModel": (of_joy, JOY),
    "JoyImageEditPlusTransformer3DModel": (of_joy_plus, own("_apply_rotary_emb_batched", keys=True, shape=(1, 1, -1))),
    "Kandinsky5Transformer3DModel": (of_kandinsky, K5),
    "Kandinsky6Transformer3DModel": (of_kandinsky, own("apply_rotary")),
    "Kandinsky6SRTransformer3DModel": (of_kandinsky, own("apply_rotary")),
    "WanTransformer3DModel": WAN, "WanVACETransformer3DModel": WAN, "WanAnimateTransformer3DModel": WAN,
    "SkyReelsV2Transformer3DModel": WAN, "ChronoEditTransformer3DModel": WAN, "SanaVideoTransformer3DModel": WAN,
    "AnyFlowTransformer3DModel": (lambda rope, p: at([rope._forward_full_frame(*whole(p), torch.device("cpu"))], p,
                                                     whole(p))[0][None, None],
                                  own("apply_rotary_emb", heads_first=True)),
    "SanaWMTransformer3DModel": (lambda rope, p: at([rope(whole(p))], p, whole(p))[0],
                                 lambda module, x, found: module._apply_rotary_emb(x.permute(0, 2, 3, 1), found)
                                 .permute(0, 3, 1, 2)),
    "WanAnimate2Transformer3DModel": (of_wan_animate_2, wan_animate_2),
    "CosmosTransformer3DModel": (of_latents, HALF), "CosmosControlNetModel": (of_latents, HALF),
    "CogVideoXTransformer3DModel": (of_pipeline_3d, shared()), "ConsisIDTransformer3DModel": (of_pipeline_3d, shared()),
    "EasyAnimateTransformer3DModel": (of_pipeline_3d, shared()),
    "AllegroTransformer3DModel": (of_allegro, lambda _, x, found: embeddings.apply_rotary_emb_allegro(
        x.transpose(1, 2), *found).transpose(1, 2)),
    "CogView4Transformer2DModel": (of_halves, HALF), "GlmImageTransformer2DModel": (of_halves, HALF),
    "HunyuanDiT2DModel": (of_pipeline_2d, shared()),
    "LuminaNextDiT2DModel": (of_lumina_next, shared(use_real=False)),
    "MiniMaxH3Transformer3DModel": (of_ids, own("_apply_rotary_emb", spread=True, shape=(1, -1))),
    "StableAudioDiTModel": (one(lambda model, n: embeddings.get_1d_rotary_pos_embed(
        model.config.attention_head_dim // 2, n, use_real=True, repeat_interleave_real=False)), None),
    "StableAudio3DiTModel": (lambda rope, p: rope(p[0] + 1, "cpu")[-1:], own("_apply_rotary_partial")),
    "AceStepTransformer1DModel": (None, HALF),
    "LongCatAudioDiTTransformer": (one(lambda rope, n: rope(torch.zeros(1, n, 1))), own("_apply_rotary_emb", shape=(1, -1))),
    "MiniMaxMusic3Transformer1DModel": (one(lambda rope, n: rope(n, torch.device("cpu"))),
                                        own("_apply_partial_rotary_emb", shape=(1, -1))),
    "OmniGenTransformer2DModel": (lambda rope, p: rope(torch.zeros(1), torch.tensor([p])), HALF),
    "AnimaTextConditioner": (lambda rope, p: rope(torch.zeros(1), torch.tensor([p])),
                             own("_apply_rotary_pos_emb", spread=True, shape=(1, 1, -1))),
    "Ideogram4Transformer2DModel": (of_batched_ids, halves),
    "Cosmos3OmniTransformer": (lambda rope, p: rope(torch.tensor(p).view(3, 1, 1), "cpu", torch.float32), halves),
}
CALLS["AnyFlowFARTransformer3DModel"] = CALLS["AnyFlowTransformer3DModel"]
# Classes whose apply function stands in another file.
ELSEWHERE = {"QwenImageControlNetModel": "transformer_qwenimage", "WanVACETransformer3DModel": "transformer_wan"}
# Ropes with frequencies for each head, which turn the elements of all heads at once: attribute, apply by rope_type.
# Small, as a record has the pairs of all heads.
SPREAD = {
    "LTXVideoTransformer3DModel": {
        "": ("rope", {"num_attention_heads": 4, "attention_head_dim": 32, "num_layers": 2})},
    "LTX2VideoTransformer3DModel": {part: (attribute, {
        "num_attention_heads": 4, "attention_head_dim": 32, "audio_num_attention_heads": 4, "num_layers": 2,
        "audio_attention_head_dim": 16, "cross_attention_dim": 128, "audio_cross_attention_dim": 64})
        for part, attribute in (("", "rope"), ("audio", "audio_rope"), ("cross_attention", "cross_attn_rope"))},
}
SPREAD["SanaWMLTX2RefinerTransformer3DModel"] = {"": SPREAD["LTX2VideoTransformer3DModel"][""]}
MODEL_MAKES = {of_pipeline_3d, of_pipeline_2d, of_allegro, of_lumina_next, of_joy, of_joy_plus, of_wan_animate_2}

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
    "Kandinsky6Transformer3DModel": {"other": {"axes_dims": [16, 24, 24], "scale_factor": [2.0, 3.16, 3.16]}},
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
    words = [word for key in KEYS for word in (COMMON | row).get(key, "").split()]
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
    given = config.get(keys)
    return given if given is not None else MEANT.get(name, {}).get(keys)


def swept(name, given, row):
    kind = getattr(diffusers, name)
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
        maker = again(next((m for m in made if "3D" in type(m).__name__), made[0]))
    if name.startswith("Kandinsky6"):
        tables = functools.partial(of_kandinsky, factor=tuple(model.config.scale_factor))
    axes = len((facts.get("axes", "t h w") or "p").split())
    listed = value_of(model.config, facts.get("widths", ""), name)
    if isinstance(listed, (list, tuple)) and row.get("laid") != "interleaved":
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
    axes = max(len(facts.get("axes", "t h w").split()), 1)
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
    lists = [getattr(model, name) for name in LISTS if hasattr(model, name)]
    layers = sum(len(blocks) for blocks in lists)
    read = lambda key: value_of(config, key, name)
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
                found = swept(name, given, row)
            except Exception as error:
                print(f"{file}: {type(error).__name__}: {str(error)[:300]}")
                failed += 1
                if "--raise" in sys.argv:
                    raise
                continue
            write(file, name, given, [{"part": ""} | rope for rope in found])
    table.write(sheet)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([a for a in sys.argv[1:] if not a.startswith("--")]))
