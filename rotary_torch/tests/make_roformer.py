"""RoFormer against transformers.

    make_roformer.py golden DIR       writes the small checkpoints and answers that roformer_test.cpp reads
    make_roformer.py parity PROGRAM   random checkpoints: `PROGRAM forward` against transformers

Needs what make_parity.py needs, and judges as it does.
"""

import json
import pathlib
import random
import sys
import tempfile

from make_parity import distance, forward, load_file, save_file, torch
from transformers import RoFormerConfig, RoFormerForCausalLM, RoFormerForMaskedLM, RoFormerForSequenceClassification
from transformers import RoFormerModel


def write_checkpoint(folder, model_class, config, dtype, seed, shard="1GB", old_names=False):
    torch.manual_seed(seed)
    model = model_class(RoFormerConfig(**config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("embed_positions.weight"):
                continue
            around = 1.0 if name.endswith("LayerNorm.weight") else 0.0
            parameter.copy_(around + 0.3 * torch.randn_like(parameter))
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    if old_names:
        path = folder / "model.safetensors"
        renamed = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for name, tensor in load_file(path).items()
        }
        save_file(renamed, path, {"format": "pt"})


def answers(folder, model_class, ids, mask):
    """What transformers gives in f32 for the stored weights: hidden, and logits where the class has such a head."""
    has_logits = model_class in (RoFormerForMaskedLM, RoFormerForCausalLM)
    model = model_class.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        trunk = model.base_model(ids, attention_mask=mask)
        made = {"hidden": trunk.last_hidden_state}
        if has_logits:
            made["logits"] = model(ids, attention_mask=mask).logits
    return made


def some_mask(generator, batch, tokens):
    """Each row all seen, padded at the right, padded at the left, or with holes."""
    mask = torch.ones(batch, tokens, dtype=torch.int64)
    for row in mask:
        kind = generator.randrange(4)
        cut = generator.randrange(tokens)
        if kind == 1:
            row[tokens - cut :] = 0
        elif kind == 2:
            row[:cut] = 0
        elif kind == 3:
            row[torch.tensor([generator.random() < 0.4 for _ in range(tokens)])] = 0
    return mask


# ---- golden ----

SMALL = dict(
    vocab_size=17,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=12,
)
GOLDEN = {
    "masked": (RoFormerForMaskedLM, {}, torch.float32, {}),
    "projected": (
        RoFormerForMaskedLM,
        dict(embedding_size=6, rotary_value=True, hidden_act="relu", type_vocab_size=3),
        torch.bfloat16,
        dict(shard="1KB"),
    ),
    "trunk": (RoFormerModel, dict(hidden_act="gelu_new"), torch.float16, dict(old_names=True)),
    "causal": (RoFormerForCausalLM, dict(is_decoder=True, tie_word_embeddings=False), torch.float32, {}),
}


def make_golden(root):
    mask = torch.tensor([[1] * 9, [1] * 6 + [0] * 3, [0] * 2 + [1] * 7, [0] * 9])
    for seed, (name, (model_class, more, dtype, how)) in enumerate(GOLDEN.items()):
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*"):
            old.unlink()
        write_checkpoint(folder, model_class, {**SMALL, **more}, dtype, seed, **how)
        (folder / "generation_config.json").unlink(missing_ok=True)
        ids = torch.randint(0, SMALL["vocab_size"], mask.shape)
        made = answers(folder, model_class, ids, mask)
        whole = {key + "_without_mask": value for key, value in answers(folder, model_class, ids, None).items()}
        save_file({"ids": ids, "mask": mask, **made, **whole}, folder / "answers.safetensors")
        for path in folder.glob("*"):
            path.chmod(0o644)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    print(f"{len(GOLDEN)} checkpoints, {size} bytes")


# ---- parity ----


def random_case(generator, longest):
    heads = generator.choice([1, 2, 3, 4])
    width = heads * 2 * generator.choice([1, 3, 8, 16])
    config = dict(
        vocab_size=generator.randrange(2, 200),
        hidden_size=width,
        num_hidden_layers=generator.randrange(1, 4),
        num_attention_heads=heads,
        intermediate_size=generator.randrange(1, 70),
        max_position_embeddings=longest,
        embedding_size=generator.choice([None, width, generator.randrange(1, 40)]),
        type_vocab_size=generator.randrange(1, 4),
        hidden_act=generator.choice(["gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh", "gelu_fast", "swish"]),
        rotary_value=generator.random() < 0.5,
        layer_norm_eps=generator.choice([1e-12, 1e-5]),
        tie_word_embeddings=generator.random() < 0.7,
        pad_token_id=0,
    )
    model_class = generator.choice(
        [RoFormerForMaskedLM, RoFormerForMaskedLM, RoFormerForCausalLM, RoFormerModel, RoFormerForSequenceClassification]
    )
    config["is_decoder"] = model_class is RoFormerForCausalLM or generator.random() < 0.2
    dtype = generator.choice([torch.float32, torch.float32, torch.float16, torch.bfloat16])
    how = dict(shard=generator.choice(["1GB", "20KB"]))
    if how["shard"] == "1GB":
        how["old_names"] = generator.random() < 0.2
    return model_class, config, dtype, how


def compare(program, folder, model_class, ids, mask):
    """In units of the tolerance."""
    ours, said = forward(program, folder, ids, mask)
    assert ours is not None, said
    assert ("classifier" in said) == (model_class is RoFormerForSequenceClassification), said
    return distance(ours, answers(folder, model_class, ids, mask))


def check_parity(program, cases=24):
    worst = 0.0
    for seed in range(cases):
        generator = random.Random(seed)
        longest = (16, 64, 600)[seed % 3]
        model_class, config, dtype, how = random_case(generator, longest)
        batch = generator.randrange(1, 4)
        tokens = generator.choice([1, generator.randrange(1, longest + 1), generator.randrange(1, longest + 1), longest])
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_checkpoint(folder, model_class, config, dtype, seed, **how)
            ids = torch.randint(0, config["vocab_size"], (batch, tokens))
            mask = some_mask(generator, batch, tokens) if generator.random() < 0.8 else None
            error = compare(program, folder, model_class, ids, mask)
        worst = max(worst, error)
        print(f"seed {seed}: {model_class.__name__} {dtype} [{batch}, {tokens}] {error:.3f} of the tolerance")
        assert error <= 1, json.dumps(config)
    print(f"{cases} checkpoints, largest difference {worst:.3f} of the tolerance")


if __name__ == "__main__":
    action, where = sys.argv[1:]
    if action == "golden":
        make_golden(pathlib.Path(where))
    elif action == "parity":
        check_parity(where)
    else:
        sys.exit(__doc__)
