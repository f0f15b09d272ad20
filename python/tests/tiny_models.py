"""Tiny random models of transformers, one for each model_type."""

import copy
import logging
import unittest
import warnings

try:
    import torch
    import transformers
except ImportError:
    torch = transformers = None
else:
    torch.set_num_threads(1)  # the models are tiny
    warnings.simplefilter("ignore")  # about random weights and configs
    logging.getLogger("transformers").setLevel(logging.ERROR)

needs_transformers = unittest.skipIf(transformers is None, "transformers is not installed")

VOCAB = 96

# Small sizes and the names that configs have for them. There are 4 heads of q and 2 of k, of 16 elements.
_SIZES = {
    0: "num_kv_shared_layers",
    1: "n_group topk_group first_k_dense_replace mamba_n_groups",
    2: "num_hidden_layers n_layer num_key_value_heads num_experts_per_tok index_n_heads depth",
    4: "num_attention_heads n_head num_local_experts num_experts n_routed_experts moe_num_experts "
    "mamba_n_heads num_heads",
    8: "rotary_dim mamba_d_state hidden_size_per_layer_input index_topk",
    16: "head_dim kv_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim sliding_window index_head_dim",
    24: "q_lora_rank",
    32: "moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size "
    "qk_head_dim mamba_d_head",
    64: "hidden_size d_model n_embd lm_head_dim embed_dim out_hidden_size",
    96: "intermediate_size ffn_dim",
    512: "max_position_embeddings n_positions",
}
SMALL = {name: size for size, names in _SIZES.items() for name in names.split()}
SMALL |= dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCAB)
SMALL |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
SMALL |= dict.fromkeys(("attention_dropout", "hidden_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0)

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 128}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5}
SECTIONS = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}

# The values that the config class of a model_type needs beside these sizes.
SPECIAL = {
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0}},
    "falcon_h1": {"mamba_d_ssm": 128},
    "zamba2": {"use_mem_rope": True, "layers_block_type": ["mamba", "hybrid"] * 2, "num_hidden_layers": 4},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
            "full_attention": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]},
        },
    },
    "bamba": {"attn_layer_indices": [1]},
    "dots1": {"n_shared_experts": 1},
    "gpt_neox": {"rotary_pct": 0.25},
    "hunyuan_v1_dense": {"head_dim": 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mistral4": {"head_dim": 32},
    "minicpm3": {"num_key_value_heads": 4},
    "nemotron": {"num_key_value_heads": 4},
    "deepseek_v4": {"layer_types": ["sliding_attention", "compressed_sparse_attention"], "num_hidden_layers": 2},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "position_embedding_type": "rope"},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "qwen3_5_moe_text": {"rope_parameters": MROPE, "partial_rotary_factor": 0.5},
    "qwen3_5_text": {"rope_parameters": MROPE, "partial_rotary_factor": 0.5},
    "glm4v_moe_text": {"rope_parameters": MROPE},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "zaya": {"num_experts_per_tok": 1},
}
for _name in ("glm4v_text glm_ocr_text hy_v4_vl_text paddleocr_vl_text qwen2_5_omni_text qwen2_5_vl_text "
              "qwen2_vl_text").split():  # fmt: skip
    SPECIAL[_name] = SECTIONS
LATENT = "kv_lora_rank"  # latent attention: as many heads of k as of q


def _takes(config, name):
    """Whether the class has a value of that name that may be set."""
    own = getattr(type(config), type(config).attribute_map.get(name, name), None)
    if isinstance(own, property) and own.fset is None:
        return False
    try:
        return hasattr(config, name)
    except Exception:  # the value differs by layer
        return False


def small_config(config_class, plain=None, values=None):
    """A config of the class with small sizes and otherwise its own defaults."""
    plain = config_class() if plain is None else plain
    given = {name: value for name, value in SMALL.items() if _takes(plain, name)}
    if LATENT in given and "num_key_value_heads" in given:
        given["num_key_value_heads"] = given["num_attention_heads"]
    for name, value in vars(plain).items():
        if isinstance(value, transformers.PretrainedConfig):
            given[name] = small_config(type(value), value)
    given |= SPECIAL.get(config_class.model_type, {})
    given |= values or {}
    if getattr(plain, "layer_types", None) and _takes(plain, "layer_types") and "layer_types" not in given:
        kinds = list(dict.fromkeys(plain.layer_types))
        given["layer_types"] = (kinds * 2)[: max(2, len(kinds))]
        given |= {name: len(given["layer_types"]) for name in ("num_hidden_layers", "n_layer") if name in given}
    config = config_class(**given)
    config._attn_implementation = "eager"
    return config


def tiny(config_class, model_class, seed=0, values=None):
    """A model with random weights in float32 on the CPU. values: those of its config beside the small sizes."""
    torch.manual_seed(seed)
    config = small_config(model_class.config_class or config_class, values=values)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in model_class._from_config(copy.deepcopy(config)).parameters())
    if size > 12_000_000:
        raise ValueError(f"it has {size} parameters")
    model = model_class._from_config(config).float().eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():  # with the usual 0.02 the logits would not depend on RoPE
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3 / parameter.shape[-1] ** 0.5 * 2)
    return model


def decoder_classes():
    """The model_type, config class and model class of every causal language model."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    for config_class, model_class in MODEL_FOR_CAUSAL_LM_MAPPING.items():
        first = model_class[0] if isinstance(model_class, (list, tuple)) else model_class
        yield config_class.model_type, config_class, first


def decoder(model_type):
    """A tiny model of the model_type."""
    return next(tiny(*classes) for known, *classes in decoder_classes() if known == model_type)


def ids(batch=2, tokens=24, seed=1):
    return torch.randint(2, VOCAB, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def left_padded(batch=2, tokens=12, padding=5):
    """Token ids and a mask; the first row begins with padding."""
    mask = torch.ones(batch, tokens, dtype=torch.long)
    mask[0, :padding] = 0
    return {"input_ids": ids(batch, tokens).masked_fill(mask == 0, 0), "attention_mask": mask}


def logits(model, **inputs):
    with torch.no_grad():
        return model(**inputs).logits
