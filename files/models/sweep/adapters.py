"""The ropes of the parts that running their model (generic.py) does not show, for sweep.py: image and audio towers,
codecs, proteins, tables and apply functions written by hand.

ADAPTERS[name](part's config, whole config) turns vectors with the model's own rotary module and apply function and
returns the records of that part, or one line that says why there is none; a part without model_type goes by its class.
What stands here is how they are called, and what only the model's forward knows: which coordinate it hands over first,
which layers turn.
"""
import math
from types import SimpleNamespace

import torch

from generic import describe, heads_of, records
from rotations import POSITION, ropes
from run import CASES, ROTARY, classes, modeling
import table

# ---- a rotary module that takes positions, and an apply function ----


def rotary_module(code, config, word=""):
    """An instance of the module's only rotary class, or of the one whose name has the word."""
    kinds = [kind for kind in classes(code) if ROTARY.search(kind.__name__) and "Embedding" in kind.__name__]
    return next(kind for kind in kinds if len(kinds) == 1 or word in kind.__name__)(config)


def turned(function, x, *angles, at=(0, 2), **how):
    """x after a function of (queries, keys, angles), which turns both alike. at: the dimensions that x lacks."""
    heads = x
    for dimension in at:
        heads = heads.unsqueeze(dimension)
    queries, keys = function(heads, heads, *angles, **how)
    if not torch.equal(queries, keys):
        raise ValueError("queries and keys turn differently")
    return queries.reshape(x.shape)


def call(name="apply_rotary_pos_emb", **how):
    return lambda code, x, tables, ids: turned(getattr(code, name), x, *tables, **how)


def call_gemma4(code, x, tables, ids):
    return code.apply_multidimensional_rope(x[None, None], *tables, ids)[0, 0]


def call_edgetam(code, x, tables, ids):
    """The self-attention's function; the cross-attention's must agree."""
    found = turned(code.apply_rotary_pos_emb_2d_self_attn, x, *tables)
    if not torch.equal(found, turned(code.apply_rotary_pos_emb_2d_cross_attn, x, *tables, *tables)):
        raise ValueError("self-attention and cross-attention turn differently")
    return found


def call_dit(code, x, tables, ids):
    return turned(code.apply_rotary_pos_emb, code.deinterleave_head_dim(x[None, :, None])[0, :, 0], *tables)


def ropes_of(code, module, size, axes=1, *, apply=call(), shape=(1, -1), column_first=False, **how):
    """shape: that of the positions of one token, as the module takes them."""
    def turn(x, position):
        ids = torch.tensor(position[::-1] if column_first else position).reshape(shape)
        return apply(code, x, module(torch.zeros(1), ids), ids)
    return ropes(turn, size, axes, buffer=module.inv_freq, amplitude=module.attention_scaling, **how)


def by_module(word="", axes=1, layout=lambda config: vars(heads_of(config)), **how):
    def adapter(config, root):
        code, layers = modeling(config), layout(config)
        module = rotary_module(code, config, word)
        found = ropes_of(code, module, layers["head_dim"], axes, **how)
        return describe(type(module).__name__, config, found, **layers)
    return adapter


def memory_layout(config):
    heads = config.memory_attention_num_attention_heads
    width = config.memory_attention_hidden_size // config.memory_attention_downsample_rate
    return {"heads": heads, "head_dim": width // heads, "layers": range(config.memory_attention_num_layers)}


# ---- parts that turn by their config, or that transformers does not run ----


def only_if(key, wanted, make=records):
    """The adapter, by default that which runs the model, where the config says that it turns."""
    def adapter(config, root):
        value = getattr(config, key)
        if value == wanted:
            return make(config, root)
        return f"no rope: {key} is false" if wanted is True else f"no rope: {key} is {value!r}, not {wanted!r}"
    return adapter


def run_or_say(make=records):
    def adapter(config, root):
        try:
            return make(config, root)
        except (KeyError, RuntimeError) as error:
            return f"transformers does not run this config: {type(error).__name__} {error}"
    return adapter


def hunyuan(config, root):
    """Without sections the module does not run (5.24): one section of all pairs is what it means."""
    code, size = modeling(config), heads_of(config).head_dim
    module = rotary_module(code, config)
    sections = module.mrope_section
    module.mrope_section = sections or [size // 2]
    try:
        found = ropes_of(code, module, size, len(module.mrope_section), shape=(-1, 1, 1))
    except ValueError as error:
        return (f"no rotation where the axes differ ({error}): by sections {sections} the two members of a pair "
                "listen to different axes; text tokens turn as those of hunyuan_v1_dense")
    return describe("HunYuanVLRotaryEmbedding", config, found)


def blocks(config, root):
    """Dory's file counts attention and MLP as a layer each."""
    still = [layer for layer in range(2 * config.num_hidden_layers) if layer % 2]
    return [entry | {"layers": [2 * layer for layer in entry["layers"]], "layers_without_rope": still}
            for entry in records(config, root)]


# ---- modules and functions of other kinds ----


def conformer(attention, heads="num_attention_heads", layers="num_hidden_layers"):
    """The hidden states turn, head by head, before they become q and k."""
    def adapter(config, root):
        code, count = modeling(config), getattr(config, heads)
        module, size = rotary_module(code, config), config.hidden_size // count

        def turn(x, position):
            one = SimpleNamespace(num_heads=len(x), head_size=size)
            states = torch.zeros(1, position[0] + 1, x.numel())
            states[0, position[0]] = x.flatten()
            return getattr(code, attention)._apply_rotary_embedding(one, states, module(states))[0, -1].view(x.shape)

        return describe(type(module).__name__, config, ropes(turn, size, buffer=module.inv_freq), heads=count,
                        head_dim=size, layers=range(getattr(config, layers)))
    return only_if("position_embeddings_type", "rotary", adapter)


def clvp(config, root):
    """The encoder turns q, k and v; the width of the block does not follow from the head's."""
    code = modeling(config)
    module = rotary_module(code, config)
    width = 2 * len(module.inv_freq)

    def turn(x, position):
        angles = module(torch.zeros(1, position[0] + 1, 1)).squeeze(0)
        block, ids = x[None, :, None, :width], torch.tensor([position])
        block = code.apply_rotary_pos_emb(block, block, block, angles.cos(), angles.sin(), ids)[0]
        return torch.cat((block[0, :, 0], x[:, width:]), dim=-1)

    return describe("ClvpRotaryPositionalEmbedding", config,
                    ropes(turn, heads_of(config).head_dim, buffer=module.inv_freq))


def esmfold2_atoms(config, root):
    """Four coordinates; pairs that are left over stand still."""
    code = modeling(config)
    module = rotary_module(code, config)

    def turn(x, position):
        where = torch.tensor(position, dtype=torch.float32)
        return turned(code.apply_rotary_pos_emb, x, *module(where[None, None, :3], where[None, None, 3], torch.float32))

    return describe("EsmFold2RotaryEmbedding", config, ropes(turn, config.head_dim, axes=4, width=config.head_dim))


def musicflamingo(config, root):
    """Audio frames turn once, after the encoder. With a frame's time stamp t, number j in its window and window w:
    angle = inv_freq * (-2 pi t) * (w / L) for the first half of the pairs, and * (2 pi j / L) for the second.
    """
    code = modeling(config)
    module = rotary_module(code, config)
    length, duration = module.max_seq_len_cached, config.audio_frame_step * 4 * 2  # a window of two frames

    def table(turns):
        """cos and sin of frame 1 in window 1, at the time stamp where 2 pi t / L is `turns`."""
        stamps = torch.tensor([[duration, turns * length / (2 * math.pi)]])
        return (part[0, 1].chunk(2) for part in module(stamps, seq_len=2))

    def turn(x, position):
        (cos, _), (sin, _) = table(-position[0])
        (_, cos_in), (_, sin_in) = table(-position[1] / (2 * math.pi))
        return code.apply_rotary_time_emb(x, torch.cat((cos, cos_in)), torch.cat((sin, sin_in)))

    found = ropes(turn, config.head_dim, axes=2, buffer=module.inv_freq, width=4 * len(module.inv_freq))
    return describe("MusicFlamingoRotaryEmbedding", config, found, layers=[0], heads=1, head_dim=config.head_dim)


def roformer(config, root):
    code, size = modeling(config), heads_of(config).head_dim

    def turn(x, position):
        table = code.RoFormerSinusoidalPositionalEmbedding(position[0] + 1, size)
        weight = table.create_weight()
        angles = (table.weight if weight is None else weight)[None, None, position]
        apply = code.RoFormerSelfAttention.apply_rotary_position_embeddings
        return turned(lambda q, k: apply(angles, q, k), x)

    return describe("RoFormerSinusoidalPositionalEmbedding", config, ropes(turn, size))


def counted_from_one(turn):
    """turn() where the model's positions begin at 1: at a 0, what lies between position 1 and position + 1."""
    def anywhere(x, position):
        if min(position) > 0:
            return turn(x, position)
        eye = torch.eye(x.shape[1])
        start, there = turn(eye, [1, 1]).double(), turn(eye, [p + 1 for p in position]).double()
        return (x.double() @ there @ start.T).float()
    return anywhere


def llama4(config, root):
    """A table of complex numbers for the patches of one image, row by row, then the class token."""
    code = modeling(config)
    table = rotary_module(code, config, "Vision")(torch.zeros(1))
    side = config.image_size // config.patch_size

    def turn(x, position):
        row, column = (p - 1 for p in position)
        return turned(code.vision_apply_rotary_emb, x, table[row * side + column][None], at=(0, 0))

    found = ropes(counted_from_one(turn), heads_of(config).head_dim, 2, position=[min(p, side) for p in POSITION[:2]])
    return describe("Llama4VisionRotaryEmbedding", config, found)


def centres(config, root):
    """DINOv3 turns by 2 pi times the centre of a patch, -1 to 1 in the image: that product is the position."""
    code = modeling(config)
    module = rotary_module(code, config).eval()
    patch = config.patch_size if isinstance(config.patch_size, int) else config.patch_size[0]

    def turn(x, position):
        own = code.get_patches_center_coordinates
        code.get_patches_center_coordinates = lambda *_, **__: torch.tensor([position]) / (2 * math.pi)
        try:
            return turned(code.apply_rotary_pos_emb, x, *module(torch.zeros(1, 1, patch, patch)), at=[1])
        finally:
            code.get_patches_center_coordinates = own

    found = ropes(turn, heads_of(config).head_dim, 2, buffer=module.inv_freq)
    by_layer = getattr(config, "num_key_value_heads_per_layer", None) or []  # Sapiens 2
    kinds = [{"kv_heads": count, "layers": [i for i, n in enumerate(by_layer) if n == count]}
             for count in dict.fromkeys(by_layer)]
    return [entry for kind in kinds or [{}] for entry in describe(type(module).__name__, config, found, **kind)]


def efficientloftr(config, root):
    """One head of the hidden size."""
    code, size = modeling(config), config.hidden_size
    module = rotary_module(code, config)

    def turn(x, position):
        shape = [(p - 1) * config.q_aggregation_stride + config.q_aggregation_kernel_size for p in position]
        tables = (table[:, -1, -1:] for table in module(torch.zeros(1, 1, *shape)))
        return turned(code.apply_rotary_pos_emb, x, *tables, at=(0, 0), unsqueeze_dim=2)

    found = ropes(counted_from_one(turn), size, 2, buffer=module.inv_freq, amplitude=module.attention_scaling)
    return describe("EfficientLoFTRRotaryEmbedding", config, found, layers=range(config.num_attention_layers), heads=1,
                    head_dim=size)


def vjepa2(config, root):
    size = config.hidden_size // config.num_attention_heads
    attention = modeling(config).VJEPA2RopeAttention(config, config.hidden_size, config.num_attention_heads)

    def turn(x, position):
        where = [torch.tensor([[[p]]]).expand(1, 1, len(x)).float() for p in position]
        return attention.apply_rotary_embeddings(x[None, None], where)[0, 0]

    try:
        return describe("VJEPA2RopeAttention", config, ropes(turn, size, 3))
    except ValueError as error:
        return f"no rotation: the two members of a pair take different angles ({error})"


# ---- the parts ----

PLANE = {"word": "Vision", "axes": 2, "apply": call("apply_rotary_pos_emb_vision", at=[0])}
SAM = PLANE | {"apply": call("apply_rotary_pos_emb_2d"), "column_first": True}
GROUPS = {"line": by_module(), "plane": by_module(**PLANE), "memory": by_module(**SAM, layout=memory_layout),
          "centres": centres, "mrope": run_or_say(by_module("Text", 3, shape=(-1, 1, 1))), "axes": run_or_say()}
ADAPTERS = {name: adapter for group, adapter in GROUPS.items() for name in CASES[group]} | {
    "EsmFold2AtomEncoderConfig": esmfold2_atoms,
    "SaProtConfig": only_if("position_embedding_type", "rotary"),
    "clvp_encoder": only_if("use_rotary_embedding", True, clvp),
    "deepseek_ocr2_encoder": by_module("Vision"),
    "dory": blocks,
    "dots3_note_audio_encoder": by_module("Audio"),
    "edgetam_video": by_module(**SAM | {"apply": call_edgetam}, layout=memory_layout),
    "efficientloftr": efficientloftr,
    "esm": only_if("position_embedding_type", "rotary"),
    "gemma4_vision": by_module(**PLANE | {"apply": call_gemma4}, shape=(1, 1, -1), column_first=True, blocks=2),
    "granitemoehybrid": only_if("position_embedding_type", "rope"),
    "hunyuan_vl_text": hunyuan,
    "lightglue": lambda config, root: "the angles are a learned linear map of both key point coordinates",
    "llama4_vision_model": llama4,
    "minimax_m3_vl_vision": by_module(**PLANE | {"axes": 3}),
    "muse_glimmer_vision": by_module(**PLANE, column_first=True),
    "muse_spark_vision": by_module(**PLANE, column_first=True),
    "musicflamingo": musicflamingo,
    "pixtral": by_module(**PLANE | {"apply": call(unsqueeze_dim=0)}),
    "qwen2_5_omni_dit": by_module("DiT", apply=call_dit),
    "roformer": roformer,
    "sam3_vit_model": by_module(**SAM),
    "seamless_m4t": conformer("SeamlessM4TConformerSelfAttention", "speech_encoder_attention_heads",
                              "speech_encoder_layers"),
    "vjepa2": vjepa2,
    "wav2vec2-bert": conformer("Wav2Vec2BertSelfAttention"),
    "wav2vec2-conformer": conformer("Wav2Vec2ConformerSelfAttention"),
    "zamba2": only_if("use_mem_rope", True),
}

NOT_ROTARY = {*CASES["still"], *table.read()["without_rope"]}
