"""How the classes of diffusers turn, for diffusers_ropes.py: for each, what makes the table of one position, and the
function with which its attention turns q and k by it."""
import ast
import inspect
import textwrap

import torch

from run import CASES

from diffusers.models import embeddings
from diffusers.models.attention_processor import StableAudioAttnProcessor2_0


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


def of_hidden_states_and_ids(rope, p):
    return rope(torch.zeros(1), torch.tensor([p]))


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


def one(function):
    """A module of one axis, which makes a table of so many tokens: the last."""
    return lambda rope, p: tuple(t[..., -1:, :] for t in function(rope, p[0] + 1))


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


of_stable_audio = one(lambda model, n: embeddings.get_1d_rotary_pos_embed(
    model.config.attention_head_dim // 2, n, use_real=True, repeat_interleave_real=False))
of_ace_step = one(lambda model, n: inspect.getmodule(type(model))._ace_step_rotary_freqs(
    n, model.head_dim, model.rope_theta, "cpu", torch.float32))


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


def of_token(rope, p):
    return rope(torch.tensor(p))[None]


def of_wan_animate_2(model, p):
    return model._rope_freqs((0, 0, 0), torch.device("cpu")), p


# ---- the calls of each class ----


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


HALF = shared(use_real_unbind_dim=-2)
QWEN = own("apply_rotary_emb_qwen", shape=(1, -1), use_real=False)
# class: tables, apply; those that are called alike stand in cases.json
CALLS = {
    "FluxTransformer2DModel": (of_ids, shared()),
    "QwenImageTransformer2DModel": (of_centred, QWEN),
    "QwenImage21Transformer2DModel": (of_tables, QWEN),
    "NucleusMoEImageTransformer2DModel": (of_centred, own("_apply_rotary_emb_nucleus", shape=(1, -1), use_real=False)),
    "HiDreamImageTransformer2DModel": (of_batched_ids, own("apply_rope", keys=True)),
    "PRXTransformer2DModel": (of_batched_ids, own("apply_rope", heads_first=True)),
    "ZImageTransformer2DModel": (of_ids, own("apply_rotary_emb", inner=True, shape=(1, 1, -1))),
    "Lumina2Transformer2DModel": (lambda rope, p: rope._get_freqs_cis(torch.tensor([[p]])), shared(use_real=False)),
    "HunyuanVideoTransformer3DModel": (of_latents, shared()),
    "HunyuanVideoFramepackTransformer3DModel": (of_frames, shared()),
    "HeliosTransformer3DModel": (of_helios, own("apply_rotary_emb_transposed")),
    "JoyImageEditTransformer3DModel": (of_joy, own("_apply_rotary_emb", keys=True, shape=(1, -1))),
    "JoyImageEditPlusTransformer3DModel": (of_joy_plus, own("_apply_rotary_emb_batched", keys=True, shape=(1, 1, -1))),
    "Kandinsky5Transformer3DModel": (of_kandinsky, own("apply_rotary", inner=True)),
    "Kandinsky6Transformer3DModel": (of_kandinsky, own("apply_rotary")),
    "WanTransformer3DModel": (of_latents, own("apply_rotary_emb", inner=True, spread=True, shape=(1, 1, 1, -1))),
    "AnyFlowTransformer3DModel": (lambda rope, p: at([rope._forward_full_frame(*whole(p), torch.device("cpu"))], p,
                                                     whole(p))[0][None, None],
                                  own("apply_rotary_emb", heads_first=True)),
    "SanaWMTransformer3DModel": (lambda rope, p: at([rope(whole(p))], p, whole(p))[0],
                                 lambda module, x, found: module._apply_rotary_emb(x.permute(0, 2, 3, 1), found)
                                 .permute(0, 3, 1, 2)),
    "WanAnimate2Transformer3DModel": (of_wan_animate_2, wan_animate_2),
    "CosmosTransformer3DModel": (of_latents, HALF),
    "CogVideoXTransformer3DModel": (of_pipeline_3d, shared()),
    "AllegroTransformer3DModel": (of_allegro, lambda _, x, found: embeddings.apply_rotary_emb_allegro(
        x.transpose(1, 2), *found).transpose(1, 2)),
    "CogView4Transformer2DModel": (of_halves, HALF),
    "HunyuanDiT2DModel": (of_pipeline_2d, shared()),
    "LuminaNextDiT2DModel": (of_lumina_next, shared(use_real=False)),
    "MiniMaxH3Transformer3DModel": (of_ids, own("_apply_rotary_emb", spread=True, shape=(1, -1))),
    "StableAudioDiTModel": (of_stable_audio, lambda _, x, found: StableAudioAttnProcessor2_0().apply_partial_rotary_emb(
        x.transpose(1, 2), found).transpose(1, 2)),
    "StableAudio3DiTModel": (lambda rope, p: rope(p[0] + 1, "cpu")[-1:], own("_apply_rotary_partial")),
    "AceStepTransformer1DModel": (of_ace_step, HALF),
    "LongCatAudioDiTTransformer": (one(lambda rope, n: rope(torch.zeros(1, n, 1))),
                                   own("_apply_rotary_emb", shape=(1, -1))),
    "MiniMaxMusic3Transformer1DModel": (one(lambda rope, n: rope(n, torch.device("cpu"))),
                                        own("_apply_partial_rotary_emb", shape=(1, -1))),
    "OmniGenTransformer2DModel": (of_hidden_states_and_ids, HALF),
    "AnimaTextConditioner": (of_hidden_states_and_ids, own("_apply_rotary_pos_emb", spread=True, shape=(1, 1, -1))),
    "Ideogram4Transformer2DModel": (of_batched_ids, halves),
    "Cosmos3OmniTransformer": (lambda rope, p: rope(torch.tensor(p).view(3, 1, 1), "cpu", torch.float32), halves),
}
CALLS |= {name: CALLS[first] for first, others in CASES["alike"].items() for name in others}
ELSEWHERE, SPREAD = CASES["elsewhere"], CASES["spread"]
PARTS = {f"{name}/{part}".rstrip("/"): how for name, held in CASES["parts"].items() for part, how in held.items()}
CALLS |= {part: (of_token, CALLS[part.partition("/")[0]][1]) for part in PARTS if part.startswith("Kandinsky")}
MODEL_MAKES = {of_pipeline_3d, of_pipeline_2d, of_allegro, of_stable_audio, of_ace_step, of_lumina_next, of_joy,
               of_joy_plus, of_wan_animate_2}
