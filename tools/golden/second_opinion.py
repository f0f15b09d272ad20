"""A second opinion for make_golden.py: what the installed transformers turns, found by turning.

The config is built from the file, the model's own rotary module makes cos and sin for position 1, the model's own
apply function rotates one-hot vectors, and the matrix that comes out says which elements form a pair, by which angle
(inv_freq, float32) and, axis by axis, which coordinate drives it. Nothing here knows what make_golden.py expects.
"""
import functools
import importlib
import importlib.util

import torch
from transformers import CONFIG_MAPPING

from rotations import fit

NONE = {
    "params": "params.json is Mistral's and Meta's own format; transformers reads config.json only",
    "chatglm": "transformers has no chatglm (remote code)",
    "deepseek_vl_v2": "transformers has no deepseek_vl_v2 (remote code)",
    "internlm2": "transformers has no internlm2 (remote code)",
    "kimi_k2": "transformers has no kimi_k2 (remote code derived from deepseek_v3)",
    "minimax_text_01": "transformers has no minimax_text_01 (remote code)",
    "new": "transformers has no new (remote code); its gte is another file",
    "xlm-roberta": "transformers' XLM-RoBERTa has no rotary positions (remote code)",
}

# How a part's rotary module is called, by its model_type; the others as text.
KINDS = {
    "mrope": (
        "ernie4_5_vl_moe_text glm4v_moe_text qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_vl_text "
        "qwen2_vl_text qwen3_5_text qwen3_vl_text"),
    "vision": (
        "ernie4_5_vl_moe_vision glm4v_moe qwen2_5_omni_vision_encoder qwen2_5_vl_vision qwen2_vl_vision "
        "qwen3_5 qwen3_5_vision qwen3_vl qwen3_vl_vision"),
    "dit": "qwen2_5_omni_dit",
    "complex_bthd": "llama4_text",
    "llama4_vision": "llama4_vision_model",
    "pixtral": "pixtral",
    "layered": "gemma3_text modernbert olmo3",
    "layered_one": "gemma4_text",
    "gemma4_vision": "gemma4_vision",
    "complex_bhtd": "deepseek_v2",
    "interleave": "deepseek_v3",
    "gptj": "gptj",
    "roformer": "roformer",
}
# The module, where it is not the only rotary embedding of the folder that is, or is not, for vision.
CLASSES = {
    "glm4v_moe": "Glm4vMoeVisionRotaryEmbedding",
    "gptj": "create_sinusoidal_positions",
    "pixtral": "PixtralVisionRotaryEmbedding",
    "qwen2_5_omni_dit": "Qwen2_5OmniDiTRotaryEmbedding",
    "qwen2_5_omni_talker": "Qwen2_5OmniRotaryEmbedding",
    "qwen2_5_omni_text": "Qwen2_5OmniRotaryEmbedding",
    "qwen3_5": "Qwen3_5VisionRotaryEmbedding",
    "qwen3_vl": "Qwen3VLVisionRotaryEmbedding",
    "roformer": "RoFormerSinusoidalPositionalEmbedding",
}
AXES = {"mrope": 3, "vision": 2, "pixtral": 2, "gemma4_vision": 2, "llama4_vision": 2}


def part_config(values, part, vision):
    """The config object of one part, as transformers understands the file."""
    config = CONFIG_MAPPING[values["model_type"]].from_dict(dict(values))
    if part:
        return functools.reduce(getattr, part.split("."), config)
    return config.text_config if hasattr(config, "text_config") and not vision else config


def head_size(config, kind, layer_type):
    if kind == "layered_one":  # Gemma 4's full layers have wider heads
        return config.per_layer_config[layer_type].head_dim
    if getattr(config, "qk_rope_head_dim", None):
        return config.qk_rope_head_dim
    width = getattr(config, "embed_dim", None) if kind == "vision" else None
    heads = getattr(config, "num_attention_heads", None) or config.num_heads
    return getattr(config, "head_dim", None) or (width or config.hidden_size) // heads


def module_of(model_type):
    """The modeling file, that of the longest beginning of model_type which is a folder, and its rotary module's name."""
    folder = model_type
    while importlib.util.find_spec(f"transformers.models.{folder}") is None:
        folder = folder.rpartition("_")[0]
    code = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    if model_type in CLASSES:
        return code, CLASSES[model_type]
    (name,) = (name for name, value in vars(code).items() if name.endswith("RotaryEmbedding")
               and value.__module__ == code.__name__ and ("Vision" in name) == ("vision" in model_type))  # fmt: skip
    return code, name


class Turner:
    """One rotary module and its apply function: matrix(position) rotates the identity."""

    def __init__(self, config, layer_type):
        self.kind = next((kind for kind, types in KINDS.items() if config.model_type in types.split()), "text")
        self.code, self.name = module_of(config.model_type)
        self.config, self.layer_type = config, layer_type
        self.size = head_size(config, self.kind, layer_type)
        if self.kind not in ("gptj", "roformer"):
            self.module = getattr(self.code, self.name)(config)

    def matrix(self, position, length=None):
        """M[input, output] in double for one token at `position` (one number, or one per axis)."""
        return getattr(self, "_" + self.kind)(position, length).double()

    def _ids(self, position, length):
        return torch.tensor([[position] + ([length - 1] if length else [])])

    def _apply(self, apply, cos, sin):
        for size in (self.size, cos.shape[-1]):  # where the attention slices the block off, apply wants the block only
            eye = torch.eye(size)[None, :, None, :]
            try:
                return apply(eye, eye, cos[:, :1], sin[:, :1])[0][0, :, 0, :]
            except RuntimeError:
                continue
        raise RuntimeError(f"{self.name}: no width fits")

    def _text(self, position, length):
        cos, sin = self.module(torch.zeros(1), self._ids(position, length))
        return self._apply(self.code.apply_rotary_pos_emb, cos, sin)

    def _layered(self, position, length):
        cos, sin = self.module(torch.zeros(1), self._ids(position, length), self.layer_type)
        return self._apply(self.code.apply_rotary_pos_emb, cos, sin)

    def _layered_one(self, position, length):
        cos, sin = self.module(torch.zeros(1), self._ids(position, length), self.layer_type)
        return self._apply(lambda q, _, c, s: (self.code.apply_rotary_pos_emb(q, c, s), None), cos, sin)

    def _interleave(self, position, length):
        cos, sin = self.module(torch.zeros(1), self._ids(position, length))
        inter = getattr(self.config, "rope_interleave", True)
        code = self.code
        return self._apply(code.apply_rotary_pos_emb_interleave if inter else code.apply_rotary_pos_emb, cos, sin)

    def _mrope(self, position, length):
        cos, sin = self.module(torch.zeros(1), torch.tensor(position)[:, None, None])
        return self._apply(self.code.apply_rotary_pos_emb, cos, sin)

    def _dit(self, position, length):
        cos, sin = self.module(torch.zeros(1), self._ids(position, length))
        split = self.code.deinterleave_head_dim
        return self._apply(lambda q, k, c, s: self.code.apply_rotary_pos_emb(split(q), split(k), c, s), cos, sin)

    def _complex_bthd(self, position, length):
        eye = torch.eye(self.size)[None, None]
        return self.code.apply_rotary_emb(eye, eye, self.module(torch.zeros(1), self._ids(position, None)))[0][0, 0]

    def _complex_bhtd(self, position, length):
        eye = torch.eye(self.size)[None, :, None]
        turned = self.code.apply_rotary_emb(eye, eye, self.module(torch.zeros(1), self._ids(position, None)))
        return turned[0][0, :, 0]

    def _vision(self, position, length):
        cos, sin = self.module(torch.zeros(1), torch.tensor([position]))
        eye = torch.eye(self.size)[None]
        return self.code.apply_rotary_pos_emb_vision(eye, eye, cos, sin)[0][0]

    def _pixtral(self, position, length):
        cos, sin = self.module(torch.zeros(1), torch.tensor([position]))
        eye = torch.eye(self.size)[None, :, None, :]
        return self.code.apply_rotary_pos_emb(eye, eye, cos, sin, unsqueeze_dim=0)[0][0, :, 0, :]

    def _gemma4_vision(self, position, length):
        ids = torch.tensor([[position[::-1]]])
        cos, sin = self.module(torch.zeros(1), ids)
        return self.code.apply_multidimensional_rope(torch.eye(self.size)[None, None], cos, sin, ids)[0, 0]

    def _llama4_vision(self, position, length):
        """The table starts at (1, 1); angles from 0 are differences of its rows (row-major patches)."""
        side = self.config.image_size // self.config.patch_size
        table = self.module(torch.zeros(1))[:, 0]
        here, there = table[position[0] * side + position[1]], table[0]
        step = here.to(torch.complex128) / there.to(torch.complex128)
        step[here == there] = 1
        eye = torch.eye(self.size)[None, None]
        return self.code.vision_apply_rotary_emb(eye, eye, step.to(torch.complex64)[None])[0][0, 0]

    def _gptj(self, position, length):
        width = self.config.rotary_dim
        table = self.code.create_sinusoidal_positions(2, width)[position][None, None]
        sin, cos = torch.split(table, width // 2, dim=-1)
        return self.code.apply_rotary_pos_emb(torch.eye(width)[None, None], sin, cos)[0, 0]

    def _roformer(self, position, length):
        table = getattr(self.code, self.name)(2, self.size)
        weight = table.create_weight()
        sinusoidal = (table.weight if weight is None else weight)[position][None, None, None]
        eye = torch.eye(self.size)[None, :, None, :]
        return self.code.RoFormerSelfAttention.apply_rotary_position_embeddings(sinusoidal, eye, eye)[0][0, :, 0, :]


def look(turner, length=None):
    """What turns, by which float32 speed, driven by which axis."""
    axes = AXES.get(turner.kind, 1)
    blocks = 2 if turner.kind == "gemma4_vision" else 1

    def matrix_at(position):
        return turner.matrix(position if axes > 1 else position[0], length)

    seen = fit(matrix_at, axes, blocks=blocks)
    for rope in seen:
        rope["class"] = turner.name
        assert not rope.pop("clockwise"), "the golden files have no way to say it"
    return seen


def layers_that_turn(config, layer, kind):
    """Among the config's layers, those with the rope of `layer`, from the lists the config object holds."""
    count = getattr(config, "num_hidden_layers", None) or config.depth
    types = getattr(config, "layer_types", None) or [""] * count
    if getattr(config, "cross_attention_layers", None):
        return [i for i in range(count) if i not in config.cross_attention_layers]
    if getattr(config, "no_rope_layers", None):
        return [i for i, turns in enumerate(config.no_rope_layers) if turns]
    sliding_only = config.model_type == "cohere2" or config.model_type == "exaone4" and config.sliding_window
    if kind.startswith("layered") or sliding_only or {"linear_attention", "conv"} & set(types):
        return [i for i, name in enumerate(types) if name == types[layer]]
    return list(range(count))


def head_counts(config, layer):
    if config.model_type == "gemma4_text":
        config = config.per_layer_config[layer]
    heads = getattr(config, "num_attention_heads", None) or config.num_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    if config.model_type == "falcon":
        kv_heads = config.num_kv_heads if config.new_decoder_architecture or not config.multi_query else 1
    return heads, kv_heads


def second_opinion(values, expected):
    """transformers' answer for one expected rope of one config, or why there is none."""
    model_type = values.get("model_type", "params")
    if model_type in NONE:
        return {"none": NONE[model_type]}
    vision = "vision" in expected["part"]
    try:
        config = part_config(values, expected["part"], vision)
    except KeyError as error:
        return {"none": f"transformers refuses the file: KeyError {error}"}
    layer = expected["layers"][0]
    types = getattr(config, "layer_types", None)
    turner = Turner(config, types[layer] if types else None)
    seen = look(turner)
    answer = dict(seen[0] if len(seen) == 1 else next(s for s in seen if s["first"] == expected["first"]))
    answer["layers"] = layers_that_turn(config, layer, turner.kind)
    answer["heads"], answer["kv_heads"] = head_counts(config, layer)
    if len(seen) == 1:
        answer.pop("first")  # where the block lies in the head is the attention's, not the apply function's, to say
    if expected["lengths"]:
        answer["long"] = []
        for length in expected["lengths"]:
            there = look(turner, length)[0]
            answer["long"].append({"length": length, "attention_factor": there["attention_factor"],
                                   "inv_freq": there["inv_freq"]})
    return answer
