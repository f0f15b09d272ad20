"""Adapters of text models that sweep/run.py cannot watch: hand-written apply functions and tables instead of modules,
parts that only the whole model runs. For tools/sweep/sweep.py, as sweep/audio.py is.
"""
import torch

from rotations import ropes
from audio import llama_like
from generic import describe, heads_of
from run import modeling


def gptj(config, root):
    """A table of sines and cosines, and the first rotary_dim elements of a head."""
    code = modeling(config)
    width = config.rotary_dim

    def turn(x, position):
        table = code.create_sinusoidal_positions(position[0] + 1, width)[None, position]
        sin, cos = table.chunk(2, dim=-1)
        block = code.apply_rotary_pos_emb(x[None, None, :, :width], sin, cos)
        return torch.cat((block[0, 0], x[:, width:]), dim=-1)

    return describe("create_sinusoidal_positions", config, ropes(turn, heads_of(config).head_dim))


def roformer(config, root):
    code = modeling(config)
    size = heads_of(config).head_dim

    def turn(x, position):
        table = code.RoFormerSinusoidalPositionalEmbedding(position[0] + 1, size)
        weight = table.create_weight()
        angles = (table.weight if weight is None else weight)[None, None, position]
        heads = x[None, :, None, :]
        return code.RoFormerSelfAttention.apply_rotary_position_embeddings(angles, heads, heads)[0][0, :, 0, :]

    note = "v turns too" if config.rotary_value else None
    return describe("RoFormerSinusoidalPositionalEmbedding", config, ropes(turn, size), note=note)


ADAPTERS = {
    "blt_local_decoder": llama_like("BltRotaryEmbedding"),
    "blt_local_encoder": llama_like("BltRotaryEmbedding"),
    "codegen": gptj,
    "gptj": gptj,
    "hrm_text": llama_like("HrmTextRotaryEmbedding",  # two stacks run in cycles: a layer per run
                           note="layers as num_hidden_layers counts them: each run of a stack"),
    "idefics": llama_like("IdeficsRotaryEmbedding"),
    "jetmoe": llama_like("JetMoeRotaryEmbedding"),
    "roformer": roformer,
    "t5_gemma_module": llama_like("T5GemmaRotaryEmbedding"),
}

# model_type: what its class does not run without
MUST_SAY = {
    "dbrx": {"attn_config": {"clip_qkv": 8.0, "kv_n_heads": 8, "rope_theta": 10000.0}},
    "gemma4_assistant": {"text_config": {"model_type": "gemma4_text", "hidden_size_per_layer_input": 0,
                                         "vocab_size_per_layer_input": 0}},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
}

# model_type of a part: why nothing of it turns, whatever words its code has
NOT_ROTARY = {
    "glm5_next_text": "the block that other models turn stands still (NoPE)",
    "granite4_vision": "only its parts turn",
    "inkling2_text": "a learned bias by distance is added to the scores",
}
