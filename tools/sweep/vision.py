"""The ropes of more than one axis, for sweep.py: image towers, memory attention, matching models, M-RoPE text.

ADAPTERS[model_type](config of the part, root config) gives the records of rotations.record, or one line that says why
there is none. What turns is always the model's own module and apply function; what stands here is how they are called,
and what only the model's forward knows: which coordinate it hands over first, which layers turn.
"""
import math

import torch

from audio import llama_like
from generic import describe, heads_of, records
from run import modeling
from rotations import POSITION, record, ropes

# Towers whose forward makes (row, column) positions for a rotary module of its own. Most are the Qwen-VL tower; what
# differs (who comes first, in which pairing) is for the module to show.
TOWERS = """cohere_compass_vision dots3_note_vision_encoder ernie4_5_vl_moe_vision exaone4_5_vision gemma4_vision
    glm4v_moe_vision glm4v_vision glm5_next_vision glm_ocr_vision inkling2_vision kimi_k25_vision lfm3_vl_vision
    minimax_m3_vl_vision mlcd_vision_model muse_glimmer_vision muse_spark_vision paddleocr_vl_vision pixtral
    qwen2_5_omni_vision_encoder qwen2_5_vl_vision qwen2_vl_vision qwen3_5_moe_vision qwen3_5_vision
    qwen3_omni_moe_vision_encoder qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision sam3_vit_model step3p5_vision
    video_llama_3_vision""".split()
TOWER_CLASSES = ("VisionRotaryEmbedding", "ViTRotaryEmbedding", "MLCDRotaryEmbedding")

# Forwards that hand their module (column, row).
COLUMN_FIRST = {"gemma4_vision", "muse_glimmer_vision", "muse_spark_vision", "sam3_vit_model"}

# Models whose memory attention turns by the place in the feature map.
MEMORY = {"edgetam_video": "EdgeTamVideo", "sam2_video": "Sam2Video", "sam3_tracker_video": "Sam3TrackerVideo"}

# Towers that place a patch by its centre in the image.
CENTRES = {"dinov3_vit": "DINOv3ViTRopePositionEmbedding", "eomt_dinov3": "EomtDinov3RotaryEmbedding",
           "sapiens2": "Sapiens2RopePositionEmbedding"}

# Text models with time, row and column whose class default does not run as a whole.
MROPE = {"qwen3_omni_moe_text": "Qwen3OmniMoeThinkerTextRotaryEmbedding",
         "qwen4_exp_text": "Qwen4ExpTextRotaryEmbedding"}

NOTES = {
    "edgetam_video": "memory attention; keys and queries have grids of their own, object pointers do not turn",
    "ernie4_5_vl_moe_text": "the file's sections count rows, columns, time; positions are time, row, column",
    "gemma4_vision": "padding stands at -1, turned as 0",
    "inkling2_vision": "patches count from 1, the class token stands at (0, 0)",
    "llama4_vision_model": "patches count from 1, the class token stands at (0, 0)",
    "mlcd_vision_model": "the class token turns by angles of its own, learned (class_pos_emb)",
    "muse_glimmer_vision": "patches count from 1",
    "muse_spark_vision": "patches count from 1",
    "neomme": "axes are row and column; text tokens give both the same position",
    "qwen4_exp_text": "the indexer turns the first elements of its own heads by the same table",
    "sam2_video": "memory attention; object pointers do not turn",
    "sam3_tracker_video": "memory attention; object pointers do not turn",
    "sam3_vit_model": "layers without window multiply positions by window_size / patches in a row",
}

# Files beside the default ones: shapes as published, where the class default does not run, or has no sections.
GLM_MROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}
GLM4V = {"published": {"text_config": {"rope_parameters": GLM_MROPE}}}
FLAGGED = {
    "cohere_compass": {"by_layer": {"text_config": {
        "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 8, "num_key_value_heads": 8,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"],
        "rope_parameters": {"full_attention": None, "sliding_attention": {
            "rope_type": "default", "rope_theta": 50000.0, "mrope_section": [24, 20, 20]}}}}},
    "glm46v": GLM4V,
    "glm4v": GLM4V,
    "glm4v_moe": {"published": {"text_config": {
        "head_dim": 128, "num_attention_heads": 96, "num_key_value_heads": 8, "rope_parameters": GLM_MROPE}}},
    "glm_image": GLM4V,
    "glmga": GLM4V,
    "hunyuan_vl": {"xdrope": {"text_config": {
        "head_dim": 128, "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24,
        "num_key_value_heads": 8, "rope_parameters": {
            "rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0,
            "mrope_section": [16, 16, 16, 16]}}}},
    "qwen3_omni_moe": {"published": {"thinker_config": {"text_config": {
        "head_dim": 128, "hidden_size": 2048, "num_attention_heads": 32, "num_hidden_layers": 48,
        "num_key_value_heads": 4, "rope_parameters": {
            "rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [24, 20, 20]}}}}},
}

# Parts with rope's words in their file that turn nothing, by what they do instead.
WORDS_ONLY = {
    "learned positions and a relation bias": "PPDocLayoutV2ReadingOrderConfig",
    "a bias by the sine of relative boxes": "bros",
    "convolutions": "chameleon_vqgan emu3_vqgan gemma3n_vision sapiens2_head",
    "learned positions": "cosmos3_edge_vision gemma4_unified_vision glm_image_vision granite_docling_vision "
                         "hunyuan_vl_vision idefics_vision minicpmv4_7_vision mllama_vision_model molmo2_vision "
                         "phi4_multimodal_vision unlimited_ocr_vision_encoder videoprism_vision_model",
    "decomposed relative positions": "deepseek_ocr2_sam_vision_model unlimited_ocr_sam_vision_model",
    "no positions": "edgetam_video_mask_decoder molmo2_adapter sam2_video_mask_decoder sam3_mask_decoder "
                    "sam3_tracker_video_mask_decoder",
    "random Fourier features": "edgetam_video_prompt_encoder sam2_video_prompt_encoder "
                               "sam3_tracker_video_prompt_encoder",
    "a code book": "glm_image_vqmodel",
    "latents without positions": "idefics_perciever",
    "sine positions, added": "pp_doclayout_v2 sam3_detr_encoder sam3_geometry_encoder videoprism_text_model",
    "a bias by relative boxes": "sam3_detr_decoder",
    "relative positions of its own": "xlnet",
}
NOT_ROTARY = {name: reason for reason, names in WORDS_ONLY.items() for name in names.split()}


def one(turned):
    """The queries of an apply function that turns (queries, keys), which were the same."""
    queries, keys = turned
    if not torch.equal(queries, keys):
        raise ValueError("queries and keys turn differently")
    return queries


def record_all(name, config, found, **more):
    return describe(name, config, found, **{"note": NOTES.get(config.model_type)} | more)


# ---- towers ----
def turn_vision(code, module, x, ids):
    """apply_rotary_pos_emb_vision and its kin: tokens, heads, elements."""
    return one(code.apply_rotary_pos_emb_vision(x[None], x[None], *module(torch.zeros(1), ids)))[0]


def turn_pixtral(code, module, x, ids):
    q = x[None, :, None, :]
    return one(code.apply_rotary_pos_emb(q, q, *module(torch.zeros(1), ids), unsqueeze_dim=0))[0, :, 0]


def turn_gemma4(code, module, x, ids):
    cos, sin = module(torch.zeros(1), ids[None])
    return code.apply_multidimensional_rope(x[None, None], cos, sin, ids[None])[0, 0]


def turn_sam(code, module, x, ids):
    q = x[None, :, None, :]
    return one(code.apply_rotary_pos_emb_2d(q, q, *module(torch.zeros(1), ids)))[0, :, 0]


def turn_edgetam(code, module, x, ids):
    """The self-attention's function; the cross-attention's must agree."""
    q, table = x[None, :, None, :], module(torch.zeros(1), ids)
    turned = one(code.apply_rotary_pos_emb_2d_self_attn(q, q, *table))
    if not torch.equal(turned, one(code.apply_rotary_pos_emb_2d_cross_attn(q, q, *table, *table))):
        raise ValueError("self-attention and cross-attention turn differently")
    return turned[0, :, 0]


APPLY = {"edgetam_video": turn_edgetam, "gemma4_vision": turn_gemma4, "pixtral": turn_pixtral,
         "sam2_video": turn_sam, "sam3_tracker_video": turn_sam, "sam3_vit_model": turn_sam}


def ropes_of_module(code, module, config, size, column_first, **how):
    """What a module turns that takes the positions of patches: [tokens, axes]."""
    apply = APPLY.get(config.model_type, turn_vision)

    def turn(x, position):
        return apply(code, module, x, torch.tensor([position[::-1] if column_first else position]))

    return ropes(turn, size, buffer=module.inv_freq, amplitude=module.attention_scaling, **how)


def tower(config, _root):
    code = modeling(config)
    name = next(name for name in vars(code) if name.endswith(TOWER_CLASSES))
    axes = 3 if config.model_type == "minimax_m3_vl_vision" else 2
    found = ropes_of_module(code, getattr(code, name)(config), config, heads_of(config).head_dim,
                            config.model_type in COLUMN_FIRST, axes=axes,
                            blocks=2 if config.model_type == "gemma4_vision" else None)
    return record_all(name, config, found)


def memory(config, _root):
    """Memory attention: the module's width is the model's, the positions are (column, row) of the feature map."""
    code = modeling(config)
    name = MEMORY[config.model_type] + "VisionRotaryEmbedding"
    heads = config.memory_attention_num_attention_heads
    size = config.memory_attention_hidden_size // config.memory_attention_downsample_rate // heads
    found = ropes_of_module(code, getattr(code, name)(config), config, size, True, axes=2)
    return [record(name, rope, layers=range(config.memory_attention_num_layers), heads=heads, head_dim=size,
                   note=NOTES[config.model_type]) for rope in found]


def counted_from_one(turn):
    """turn() where the model's positions begin at 1: at a 0, what lies between position 1 and position + 1."""
    def anywhere(x, position):
        if min(position) > 0:
            return turn(x, position)
        eye = torch.eye(x.shape[1])
        start, there = turn(eye, [1, 1]).double(), turn(eye, [p + 1 for p in position]).double()
        return (x.double() @ there @ start.T).float()
    return anywhere


def llama4(config, _root):
    """A table of complex numbers for the patches of one image, row by row, then the class token."""
    code = modeling(config)
    table = code.Llama4VisionRotaryEmbedding(config)(torch.zeros(1))
    side = config.image_size // config.patch_size

    def turn(x, position):
        row, column = (p - 1 for p in position)
        return one(code.vision_apply_rotary_emb(x[None, None], x[None, None], table[row * side + column][None]))[0, 0]

    found = ropes(counted_from_one(turn), heads_of(config).head_dim, 2, position=[min(p, side) for p in POSITION[:2]])
    return record_all("Llama4VisionRotaryEmbedding", config, found)


def centres(config, _root):
    """DINOv3 turns by 2 pi times the centre of a patch, -1 to 1 in the image: that product is the position."""
    name, code = CENTRES[config.model_type], modeling(config)
    module = getattr(code, name)(config).eval()
    patch = config.patch_size if isinstance(config.patch_size, int) else config.patch_size[0]

    def turn(x, position):
        own = code.get_patches_center_coordinates
        code.get_patches_center_coordinates = lambda *_, **__: torch.tensor([position]) / (2 * math.pi)
        try:
            cos, sin = module(torch.zeros(1, 1, patch, patch))
        finally:
            code.get_patches_center_coordinates = own
        return one(code.apply_rotary_pos_emb(x[:, None], x[:, None], cos, sin))[:, 0]

    found = ropes(turn, heads_of(config).head_dim, 2, buffer=module.inv_freq)
    note = "positions are 2 pi times the centres, 2 (index + 0.5) / patches - 1; class and register tokens do not turn"
    kv_heads = getattr(config, "num_key_value_heads_per_layer", None)  # Sapiens 2
    if not kv_heads:
        return record_all(name, config, found, note=note)
    return [entry for count in dict.fromkeys(kv_heads)
            for entry in record_all(name, config, found, kv_heads=count, note=note,
                                    layers=[i for i, n in enumerate(kv_heads) if n == count])]


# ---- M-RoPE ----
def turn_mrope(code, module):
    def turn(x, position):
        cos, sin = module(torch.zeros(1), torch.tensor(position)[:, None, None])
        q = x[None, :, None, :]
        return one(code.apply_rotary_pos_emb(q, q, cos, sin))[0, :, 0]
    return turn


def run_or_say(make):
    def adapter(config, root):
        try:
            return make(config, root)
        except (KeyError, RuntimeError) as error:
            return f"transformers does not run this config: {type(error).__name__} {error}"
    return adapter


def watched(config, root):
    """By running the model, with a note."""
    note = NOTES.get(config.model_type)
    return [entry | ({"note": note} if note else {}) for entry in records(config, root)]


def mrope(config, _root):
    name, code = MROPE[config.model_type], modeling(config)
    module = getattr(code, name)(config)
    found = ropes(turn_mrope(code, module), heads_of(config).head_dim, 3, buffer=module.inv_freq,
                  amplitude=module.attention_scaling)
    return record_all(name, config, found)


def hunyuan(config, _root):
    """Without sections the module does not run (5.23): one section of all pairs is what it means."""
    code = modeling(config)
    module = code.HunYuanVLRotaryEmbedding(config)
    sections = module.mrope_section
    module.mrope_section = sections or [heads_of(config).head_dim // 2]
    try:
        found = ropes(turn_mrope(code, module), heads_of(config).head_dim, len(module.mrope_section),
                      buffer=module.inv_freq, amplitude=module.attention_scaling)
    except ValueError as error:
        return (f"no rotation where the axes differ ({error}): by sections {sections} the two members of a pair "
                "listen to different axes; text tokens turn as those of hunyuan_v1_dense")
    return record_all("HunYuanVLRotaryEmbedding", config, found,
                      note="transformers runs this rope with mrope_section only")


# ---- the others ----
def efficientloftr(config, _root):
    """Turned before the heads are cut: one head of the hidden size. The map is counted from 1."""
    code = modeling(config)
    module = code.EfficientLoFTRRotaryEmbedding(config)
    size = config.hidden_size

    def turn(x, position):
        shape = [(p - 1) * config.q_aggregation_stride + config.q_aggregation_kernel_size for p in position]
        cos, sin = (table[:, -1, -1:] for table in module(torch.zeros(1, 1, *shape)))
        return one(code.apply_rotary_pos_emb(x[None, None], x[None, None], cos, sin, unsqueeze_dim=2))[0, 0]

    found = ropes(counted_from_one(turn), size, 2, buffer=module.inv_freq, amplitude=module.attention_scaling)
    return record_all("EfficientLoFTRRotaryEmbedding", config, found, layers=range(config.num_attention_layers),
                      heads=1, kv_heads=1, head_dim=size,
                      note="turns before the heads are cut, a head of the hidden size; the map counts from 1")


def vjepa2(config, _root):
    """The angles that the two members of the first pair take at frame 1."""
    code = modeling(config)
    size = config.hidden_size // config.num_attention_heads
    attention = code.VJEPA2RopeAttention(config, config.hidden_size, config.num_attention_heads)

    def turn(x, position):
        where = [torch.tensor([[[p]]]).expand(1, 1, len(x)).float() for p in position]
        return attention.apply_rotary_embeddings(x[None, None], where)[0, 0]

    try:
        ropes(turn, size, 3)
    except ValueError:
        first = turn(torch.eye(size), [1, 0, 0])[:2, :2].double()
        angles = torch.atan2(torch.stack([first[1, 0].neg(), first[0, 1]]), first.diag()).tolist()
        return ("no rotation: the two members of a pair take different angles "
                f"(x[0] by {angles[0]:.4g}, x[1] by {angles[1]:.4g} radians a frame)")
    raise ValueError("vjepa2 turns pairs now: write a record")


ADAPTERS = {name: tower for name in TOWERS} | {name: memory for name in MEMORY} | {name: centres for name in CENTRES}
ADAPTERS |= {name: run_or_say(mrope) for name in MROPE}
ADAPTERS |= {name: run_or_say(watched) for name in ("cohere_compass_text", "ernie4_5_vl_moe_text", "glm4v_moe_text",
                                                    "glm4v_text", "glm_image_text", "neomme")}
ADAPTERS |= {
    "deepseek_ocr2_encoder": llama_like("DeepseekOcr2VisionRotaryEmbedding"),
    "efficientloftr": efficientloftr,
    "hunyuan_vl_text": hunyuan,
    "lightglue": lambda _config, _root: "the angles are a learned linear map of both key point coordinates",
    "llama4_vision_model": llama4,
    "vjepa2": vjepa2,
}
