"""The cases: which rope of which file, and what is changed in the file.

The files are those of files/tests/golden/configs; what their models mean is written by hand in files/golden/models.py,
where check.py reads it. A changed file says the same in another spelling, or says more than one thing.
"""
from models import MODELS, OPENED

# The ropes of one file that are cases: a number is the rope's place there, ("long", 131072) a length of the sequence.
AS_THEY_ARE = {
    "llama-2-7b": [0], "llama-3-8b": [0], "llama-3.1-8b": [0], "llama-3.1-8b.params": [0], "llama-3.2-1b": [0],
    "llama-3.3-70b": [0], "llama-4-scout": [0], "llama-4-scout-factor-16": [0], "llama-3.2-11b-vision": [0],
    "llama-7b-dynamic": [2048, 8192], "yarn-llama-2-7b-128k": [0], "yarn-mistral-7b-128k": [0],
    "deepseek-coder-6.7b": [0], "mistral-7b-v0.3": [0], "mistral-nemo-12b": [0], "mixtral-8x7b": [0],
    "ministral-3-8b": [0], "mistral-large-3.params": [0], "mistral-small-3.1-24b": [0], "pixtral-12b": [0],
    "qwen2.5-7b": [0], "qwen2.5-7b-yarn": [0], "qwen3-8b": [0], "qwen3-30b-a3b": [0], "qwen3-next-80b-a3b": [0],
    "qwen2-vl-7b": [0], "qwen2.5-vl-7b": [0], "qwen3-vl-8b": [0], "qwen3.5-27b": [0],
    "gemma-7b": [0], "gemma-2-9b": [0], "gemma-3-1b": [0, 1], "gemma-3-27b": [0, 1], "gemma-3-4b-v5": [0, 1],
    "gemma-4-31b": [0, 1], "phi-1.5": [0], "phi-2": [0], "phi-3-mini-4k": [0], "phi-3-mini-128k": [4096, 131072],
    "phi-3-mini-128k-su": [131072], "phi-3.5-moe": [4096, 131072], "phi-4-mini": [4096, 131072], "phi-4": [0],
    "deepseek-v2-lite": [0], "deepseek-v3": [0], "kimi-k2": [0], "minicpm3-4b": [32768], "glm-4-9b-chat-hf": [0],
    "glm-4-9b-0414": [0], "glm-4.5-air": [0], "glm-4.5v": [0], "gpt-oss-20b": [0], "gpt-j-6b": [2048],
    "gpt-neox-20b": [0], "pythia-1.4b": [0], "stablelm-2-1.6b": [0], "falcon-7b": [0], "olmo-2-7b": [0],
    "olmo-3-7b": [0, 1], "command-r-v01": [0], "command-r7b": [0], "granite-3.3-8b": [0], "smollm3-3b": [0],
    "modernbert-base": [0, 1], "hunyuan-7b": [0], "minimax-m2": [0], "ernie-4.5-0.3b": [0], "apertus-8b": [0],
    "exaone-4.0-32b": [0], "afm-4.5b": [0], "internlm2.5-7b-1m": [262144, 1048576], "lfm2-1.2b": [0], "bamba-9b": [0],
}

# Keys that turn nothing, which readers want and a file that this project wrote leaves out.
WANTED = {"intermediate_size": 256, "rms_norm_eps": 1e-05, "vocab_size": 32000}
FILLED = {
    "yarn-mistral-7b-128k": WANTED, "internlm2.5-7b-1m": WANTED,
    "mistral-small-3.1-24b": {f"text_config.{key}": value for key, value in WANTED.items()},
    "lfm2-1.2b": {"vocab_size": 32000, "norm_eps": 1e-05, "conv_bias": False, "conv_L_cache": 3,
                  "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": True},
}

# name: (the file it is made of, the changes). Spellings of transformers 4 and 5 of the same model, then keys in excess.
CHANGED = {
    "llama-3.1-8b-v5": ("llama-3.1-8b", {"rope_theta": None, "rope_scaling": None, "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192}}),
    "qwen3-8b-v5": ("qwen3-8b", {"rope_theta": None, "rope_scaling": None, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1000000.0}}),
    "qwen2.5-7b-yarn-v5": ("qwen2.5-7b-yarn", {"rope_theta": None, "rope_scaling": None, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}}),
    "pythia-1.4b-v5": ("pythia-1.4b", {"rotary_pct": None, "rotary_emb_base": None, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.25}}),
    "phi-2-v5": ("phi-2", {"rope_theta": None, "partial_rotary_factor": None, "rope_scaling": None,
                           "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                               "partial_rotary_factor": 0.4}}),
    "llama-3.1-8b-type": ("llama-3.1-8b", {"rope_scaling.rope_type": None, "rope_scaling.type": "llama3"}),
    "qwen2.5-7b-yarn-both-types": ("qwen2.5-7b-yarn", {"rope_scaling.rope_type": "yarn"}),
    "llama-2-7b-linear-int": ("llama-2-7b", {"rope_scaling": {"type": "linear", "factor": 4}}),
    "qwen2.5-7b-yarn-all-keys": ("qwen2.5-7b-yarn", {"rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "beta_fast": 24, "beta_slow": 2,
        "attention_factor": 1.25, "truncate": False}}),
    "qwen3-8b-yarn-no-length": ("qwen3-8b", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
    "llama-3.1-8b-head-dim": ("llama-3.1-8b", {"head_dim": 64}),
    "qwen3-8b-partial": ("qwen3-8b", {"partial_rotary_factor": 0.5}),
}

# Files whose every key has the value of the published file, by its copy in aiconfigurator-core 0.12.0 (copies.py).
COPIED = "mixtral-8x7b qwen3-8b qwen3-30b-a3b deepseek-v3 kimi-k2".split()

# Cases that sources read in two ways; the values are the reading that comes first.
READINGS = {
    "phi-3.5-moe-at-131072": "transformers turns phimoe by short_factor at every length; the key names say long_factor",
    "qwen3-8b-partial": "transformers 5's qwen3 does not read partial_rotary_factor; a reader of the key turns half",
    "llama-3.1-8b-head-dim": "head_dim 64 stands beside hidden_size / num_attention_heads = 128; head_dim is the key",
}


def source_of(name):
    """The model's repository, and who wrote the file."""
    if name in COPIED:
        return MODELS[name][0].split(" (")[0] + "; every key as in the copy of aiconfigurator-core 0.12.0"
    return MODELS[name][0] + ("" if name in OPENED else "; written by this project in the form of that file")


def rows():
    """By id: file, config, change, rope, length, source."""
    found = {}
    for name, which in AS_THEY_ARE.items():
        for k in which:
            end = f"-at-{k}" if k > 1 else "" if len(which) == 1 else ("-a", "-b")[k]
            found[name + end] = {"file": name, "config": name, "change": FILLED.get(name, {}),
                                 "rope": k if k < 2 else 0, "length": k if k > 1 else 0,
                                 "source": source_of(name)}
    for name, (config, change) in CHANGED.items():
        found[name] = {"file": name, "config": config, "change": change, "rope": 0, "length": 0,
                       "source": source_of(config) + "; changed: " + ", ".join(change)}
    for name, row in found.items():
        row["reading"] = READINGS.get(name)
    return found


CASES = rows()
