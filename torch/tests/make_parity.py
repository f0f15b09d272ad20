"""The decoder families and RoFormer against transformers.

    make_parity.py golden DIR                writes the small checkpoints and answers that checkpoint_test.cpp and
                                             roformer_test.cpp read
    make_parity.py parity PROGRAM [WORD]     random checkpoints: `PROGRAM forward` against transformers; only the cases
                                             that have WORD in their name

Hidden states and logits agree within 2e-5 times max(1, the largest value), at padding too. Needs torch, transformers
and safetensors; without them it ends with 77 (skipped).
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import numpy
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TOLERANCE = 2e-5

SMALL = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
NEOX = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
GPTJ = dict(vocab_size=97, n_embd=48, n_layer=3, n_head=4, n_positions=256, rotary_dim=8, bos_token_id=1,
            eos_token_id=2)
ROFORMER = dict(vocab_size=97, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=70,
                max_position_embeddings=64, pad_token_id=0)
MASKED, OLD_NAMES = {"head": "ForMaskedLM"}, {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=64)
LONG = dict(rope_type="longrope", rope_theta=1e4, factor=4.0, original_max_position_embeddings=64,
            short_factor=[1.0 + 0.05 * i for i in range(6)], long_factor=[1.5 + 0.7 * i for i in range(6)])


def rope(kind, **more):
    return {"rope_parameters": dict({"rope_type": kind, "rope_theta": 1e4}, **more)}


# Each case: name, model_type, config, and options: the stored dtype, the shard size, the tokens, the head ("CausalLM",
# "Model", ...), and changes of the saved config.json ("json"; None removes a key).
CASES = [
    ("llama", "llama", SMALL, {}),
    ("llama-tied", "llama", dict(SMALL, tie_word_embeddings=True), {}),
    ("llama-tied-other-head", "llama", SMALL, {"json": {"tie_word_embeddings": True}}),
    ("llama-biases", "llama", dict(SMALL, attention_bias=True, mlp_bias=True), {}),
    ("llama-head-dim", "llama", dict(SMALL, head_dim=20, num_key_value_heads=1), {}),
    ("llama-gelu", "llama", dict(SMALL, hidden_act="gelu_pytorch_tanh", rms_norm_eps=1e-3), {}),
    ("llama-eps", "llama", SMALL, {"json": {"rms_norm_eps": None, "num_key_value_heads": 2, "head_dim": None}}),
    ("llama-mha", "llama", dict(SMALL, num_key_value_heads=4), {"json": {"num_key_value_heads": None}}),
    ("llama-dynamic", "llama", dict(SMALL, **rope("dynamic", factor=3.0)), {"tokens": 200}),
    ("llama-dynamic-past", "llama", dict(SMALL, max_position_embeddings=64, **rope("dynamic", factor=3.0)),
     {"tokens": 150}),
    ("llama-yarn", "llama", dict(SMALL, rope_parameters=YARN), {"tokens": 100}),
    ("llama-longrope-short", "llama", dict(SMALL, rope_parameters=LONG), {"tokens": 60}),
    ("llama-longrope-long", "llama", dict(SMALL, rope_parameters=LONG), {"tokens": 90}),
    ("llama-llama3", "llama", dict(SMALL, rope_parameters=LLAMA3), {"tokens": 120}),
    ("llama-f16", "llama", SMALL, {"dtype": torch.float16}),
    ("llama-bf16-shards", "llama", SMALL, {"dtype": torch.bfloat16, "shard": "20KB"}),
    ("llama-base", "llama", SMALL, {"head": "Model"}),
    ("llama-classifier", "llama", SMALL, {"head": "ForSequenceClassification"}),
    ("llama-answers", "llama", SMALL, {"head": "ForQuestionAnswering"}),
    ("llama-2500", "llama", dict(SMALL, max_position_embeddings=4096, rope_parameters=LLAMA3), {"tokens": 2500}),
    ("mistral", "mistral", dict(SMALL, sliding_window=None), {}),
    ("mistral-window", "mistral", dict(SMALL, sliding_window=7), {}),
    ("mistral-window-even", "mistral", dict(SMALL, sliding_window=33), {}),
    ("mistral-default-window", "mistral", SMALL, {"json": {"sliding_window": None}}),
    ("qwen2", "qwen2", SMALL, {}),
    ("qwen2-window", "qwen2", dict(SMALL, use_sliding_window=True, sliding_window=6, max_window_layers=1), {}),
    ("qwen2-window-unused", "qwen2", dict(SMALL, use_sliding_window=False, sliding_window=6, max_window_layers=1), {}),
    ("qwen2-layer-types", "qwen2",
     dict(SMALL, use_sliding_window=True, sliding_window=6,
          layer_types=["sliding_attention", "full_attention", "sliding_attention"]), {}),
    ("qwen2-old-window", "qwen2", dict(SMALL, use_sliding_window=True, sliding_window=6, max_window_layers=2),
     {"json": {"layer_types": None}}),
    ("qwen3", "qwen3", dict(SMALL, head_dim=16), {}),
    ("qwen3-bias", "qwen3", dict(SMALL, head_dim=32, attention_bias=True, tie_word_embeddings=True), {}),
    ("qwen3-window", "qwen3",
     dict(SMALL, head_dim=8, use_sliding_window=True, sliding_window=5, max_window_layers=1, rms_norm_eps=1e-5), {}),
    ("qwen3-yarn-shards", "qwen3", dict(SMALL, head_dim=16, rope_parameters=YARN), {"shard": "30KB", "tokens": 100}),
    ("qwen3-base", "qwen3", dict(SMALL, head_dim=16), {"head": "Model"}),
    ("gpt_neox", "gpt_neox", NEOX, {}),
    ("gpt_neox-sequential", "gpt_neox", dict(NEOX, use_parallel_residual=False), {}),
    ("gpt_neox-no-bias", "gpt_neox", dict(NEOX, attention_bias=False, hidden_act="gelu_new"), {}),
    ("gpt_neox-old", "gpt_neox", NEOX,
     {"json": {"rope_parameters": None, "rotary_pct": 0.5, "rotary_emb_base": 4000}}),
    ("gpt_neox-odd", "gpt_neox", dict(NEOX, hidden_size=80, **rope("default", partial_rotary_factor=0.28)), {}),
    ("gpt_neox-dynamic", "gpt_neox",
     dict(NEOX, max_position_embeddings=32, **rope("dynamic", factor=2.0, partial_rotary_factor=0.5)), {"tokens": 80}),
    ("gpt_neox-tied-f16", "gpt_neox", dict(NEOX, tie_word_embeddings=True, layer_norm_eps=1e-3),
     {"dtype": torch.float16}),
    ("gpt_neox-base", "gpt_neox", NEOX, {"head": "Model"}),
    ("gpt_neox-embed_out", "gpt_neox", NEOX, {"rename": {"lm_head.weight": "embed_out.weight"}}),
    ("gptj", "gptj", GPTJ, {}),
    ("gptj-tied", "gptj", dict(GPTJ, tie_word_embeddings=True), {}),
    ("gptj-inner", "gptj", dict(GPTJ, n_inner=60, activation_function="gelu", rotary_dim=12), {}),
    ("gptj-bf16-shards", "gptj", GPTJ, {"dtype": torch.bfloat16, "shard": "40KB"}),
    ("gptj-1500", "gptj", dict(GPTJ, n_positions=2048), {"tokens": 1500}),
    ("roformer", "roformer", ROFORMER, MASKED),
    ("roformer-untied", "roformer", dict(ROFORMER, tie_word_embeddings=False), MASKED),
    ("roformer-projected", "roformer",
     dict(ROFORMER, embedding_size=20, rotary_value=True, type_vocab_size=3, hidden_act="relu"), MASKED),
    ("roformer-untied-shards", "roformer",
     dict(ROFORMER, embedding_size=50, tie_word_embeddings=False, layer_norm_eps=1e-5), dict(MASKED, shard="20KB")),
    ("roformer-old-names", "roformer", dict(ROFORMER, hidden_act="gelu_fast"), dict(MASKED, rename=OLD_NAMES)),
    ("roformer-f16", "roformer", dict(ROFORMER, rotary_value=True, num_attention_heads=3),
     dict(MASKED, dtype=torch.float16)),
    ("roformer-causal", "roformer", dict(ROFORMER, is_decoder=True), {}),
    ("roformer-base", "roformer", dict(ROFORMER, hidden_act="gelu_new"), {"head": "Model"}),
    ("roformer-classifier", "roformer", ROFORMER, {"head": "ForSequenceClassification"}),
    ("roformer-600", "roformer", dict(ROFORMER, max_position_embeddings=600), dict(MASKED, tokens=600)),
] + [
    (f"llama-act-{act}", "llama", dict(SMALL, num_hidden_layers=1, hidden_act=act), {"tokens": 9})
    for act in ("gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_python_tanh", "gelu_accurate", "quick_gelu",
                "relu", "silu", "swish")
]  # fmt: skip

CLASSES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gpt_neox": "GPTNeoX",
           "gptj": "GPTJ", "roformer": "RoFormer"}
# Buffers that old files carry and new ones do not.
BUFFERS = {
    "llama": {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(6)},
    "gpt_neox": {"gpt_neox.layers.0.attention.bias": torch.ones(1, 1, 8, 8, dtype=torch.bool),
                 "gpt_neox.layers.0.attention.masked_bias": torch.tensor(-1e9),
                 "gpt_neox.layers.1.attention.rotary_emb.inv_freq": torch.ones(2)},
    "gptj": {"transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8, dtype=torch.bool),
             "transformer.h.0.attn.masked_bias": torch.tensor(-1e9)},
}  # fmt: skip


def class_of(model_type, head):
    return getattr(transformers, CLASSES[model_type] + head)


def write_checkpoint(folder, model_type, config, extra, seed):
    head = extra.get("head", "ForCausalLM")
    torch.manual_seed(seed)
    model = class_of(model_type, head)(getattr(transformers, CLASSES[model_type] + "Config")(**config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:  # RoFormer's table
                continue
            if ("norm" in name.lower() or ".ln_" in name) and name.endswith("weight"):
                parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
            elif parameter.dim() == 1:
                parameter.copy_(0.2 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * (1.3 / parameter.shape[1] ** 0.5))
    model.to(extra.get("dtype", torch.float32)).save_pretrained(folder, max_shard_size=extra.get("shard", "1GB"))
    single = folder / "model.safetensors"
    if single.exists():
        tensors = load_file(single)
        for old, new in extra.get("rename", {}).items():
            tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
        if head == "ForCausalLM" and not config.get("tie_word_embeddings"):
            tensors.update(BUFFERS.get(model_type, {}))
        save_file(tensors, single, {"format": "pt"})
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in extra.get("json", {}).items():
        config.pop(key, None)
        if value is not None:
            config[key] = value
    path.write_text(json.dumps(config, indent=1))


def answers(folder, model_type, head, ids, mask):
    """transformers' results in f32 for the stored weights: hidden, and logits where there is a language model."""
    model = class_of(model_type, head).from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        outputs = {"hidden": model.base_model(ids, attention_mask=mask).last_hidden_state}
        if head in ("ForCausalLM", "ForMaskedLM"):
            outputs["logits"] = model(ids, attention_mask=mask).logits
    return outputs


def paddings(batch, tokens):
    """No mask; left padding; right padding; a hole in the middle; a row of nothing but padding."""
    left, right, hole, row = (torch.ones(batch, tokens, dtype=torch.long) for _ in range(4))
    row[1] = 0
    left[0, : tokens // 3] = 0
    right[1, tokens - tokens // 4 :] = 0
    hole[1, tokens // 3 : tokens // 2] = 0
    return {"": None, "left": left, "right": right, "hole": hole, "row": row}


def forward(program, folder, ids, mask):
    """The program's tensors, or None, and its output."""
    scratch = pathlib.Path(folder)
    numpy.save(scratch / "ids.npy", ids.numpy())
    command = [program, "forward", str(folder), "--input", str(scratch / "ids.npy"), "--output",
               str(scratch / "out.safetensors")]  # fmt: skip
    if mask is not None:
        numpy.save(scratch / "mask.npy", mask.numpy())
        command += ["--mask", str(scratch / "mask.npy")]
    done = subprocess.run(command, capture_output=True, text=True)
    return load_file(scratch / "out.safetensors") if done.returncode == 0 else None, done.stderr.strip()


def distance(got, expected):
    """The difference in units of the tolerance; infinite where something is not finite."""
    worst = 0.0
    for name, value in expected.items():
        if name not in got or got[name].shape != value.shape or not torch.isfinite(got[name]).all():
            return float("inf")
        largest = max(1.0, value.abs().max().item())
        worst = max(worst, (got[name] - value).abs().max().item() / (TOLERANCE * largest))
    return worst if got.keys() == expected.keys() else float("inf")


def parity(program, word):
    started, failures, worst, count = time.time(), [], 0.0, 0
    for seed, (name, model_type, config, extra) in enumerate(CASES):
        if word not in name:
            continue
        tokens = extra.get("tokens", 40)
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            write_checkpoint(folder, model_type, config, extra, seed)
            ids = torch.randint(0, config["vocab_size"], (2, tokens))
            for padding, mask in paddings(2, tokens).items():
                # Every kind of padding for each combination that masks differently: by family and by window.
                if padding in ("right", "hole", "row") and name != model_type and "window" not in name:
                    continue
                if padding and "-act-" in name:
                    continue
                expected = answers(folder, model_type, extra.get("head", "ForCausalLM"), ids, mask)
                got, output = forward(program, folder, ids, mask)
                count += 1
                far = distance(got, expected) if got else float("inf")
                if extra.get("head", "").startswith(("ForSeq", "ForQ")) and "outside the model" not in output:
                    far, got = float("inf"), None  # a head of another kind gives a warning
                worst = max(worst, far) if got else worst
                if far > 1:
                    failures.append(name)
                    print(f"FAILED {name} {padding}: {f'{far:.3g} times the tolerance' if got else output}")
    print(f"{count} comparisons, the largest difference {worst:.3f} of the tolerance, {time.time() - started:.0f} s")
    sys.exit(1 if failures or count == 0 else 0)


# The golden set: as small as may be, for machines without transformers.
TINY = dict(vocab_size=19, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64)
TINY_NEOX = {key: value for key, value in TINY.items() if key != "num_key_value_heads"}
GOLDEN = [
    ("llama", "llama", dict(TINY, attention_bias=True, rope_parameters=LLAMA3), {"dtype": torch.float16}),
    ("llama-tied-bf16", "llama", dict(TINY, tie_word_embeddings=True, head_dim=6), {"dtype": torch.bfloat16}),
    ("mistral", "mistral", dict(TINY, sliding_window=4), {"shard": "6KB"}),
    ("qwen2", "qwen2", dict(TINY, use_sliding_window=True, sliding_window=3, max_window_layers=1),
     {"dtype": torch.bfloat16}),
    ("qwen3", "qwen3", dict(TINY, head_dim=8, rope_parameters=YARN), {"dtype": torch.float16}),
    ("gpt_neox", "gpt_neox", dict(TINY_NEOX, **rope("default", partial_rotary_factor=0.5)),
     {"dtype": torch.float16}),
    ("gpt_neox-sequential", "gpt_neox", dict(TINY_NEOX, use_parallel_residual=False), {"dtype": torch.float16}),
    ("gptj", "gptj", dict(vocab_size=19, n_embd=16, n_layer=2, n_head=2, n_positions=64, rotary_dim=4, n_inner=20),
     {"dtype": torch.bfloat16}),
]  # fmt: skip
TINY_ROFORMER = dict(vocab_size=17, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
                     max_position_embeddings=12)
GOLDEN_ROFORMER = [
    ("masked", "roformer", TINY_ROFORMER, MASKED),
    ("projected", "roformer",
     dict(TINY_ROFORMER, embedding_size=6, rotary_value=True, hidden_act="relu", type_vocab_size=3),
     dict(MASKED, dtype=torch.bfloat16, shard="1KB")),
    ("trunk", "roformer", dict(TINY_ROFORMER, hidden_act="gelu_new"),
     {"head": "Model", "dtype": torch.float16, "rename": OLD_NAMES}),
    ("causal", "roformer", dict(TINY_ROFORMER, is_decoder=True, tie_word_embeddings=False), {}),
]  # fmt: skip


def golden(folder, cases, mask):
    for seed, (name, model_type, config, extra) in enumerate(cases):
        place = folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        write_checkpoint(place, model_type, config, extra, seed)
        (place / "generation_config.json").unlink(missing_ok=True)
        arrays = {"ids": torch.randint(0, config["vocab_size"], mask.shape), "left": mask}
        for prefix, seen in (("", None), ("left_", mask)):
            expected = answers(place, model_type, extra.get("head", "ForCausalLM"), arrays["ids"], seen)
            arrays.update({prefix + key: value for key, value in expected.items()})
        save_file(arrays, place / "answers.safetensors")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "golden":
        golden(pathlib.Path(sys.argv[2]) / "decoder", GOLDEN, paddings(2, 8)["left"])
        rows = [[1] * 9, [1] * 6 + [0] * 3, [0] * 2 + [1] * 7, [0] * 9]
        golden(pathlib.Path(sys.argv[2]) / "roformer", GOLDEN_ROFORMER, torch.tensor(rows))
    elif len(sys.argv) in (3, 4) and sys.argv[1] == "parity":
        parity(sys.argv[2], (sys.argv[3:] or [""])[0])
    else:
        sys.exit(__doc__)
