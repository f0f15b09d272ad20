"""rotary-torch summary as a program: test_summary.py PROGRAM. Needs nothing but Python."""

import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

program = sys.argv[1]


def run(*words):
    return subprocess.run([program, "summary", *map(str, words)], capture_output=True, text=True)


def expect(condition, result):
    if not condition:
        sys.exit(f"{result.args}\n{result.stdout}\n{result.stderr}")


def summary(*words):
    result = run(*words, "--json")
    expect(result.returncode == 0 and result.stderr == "", result)
    return json.loads(result.stdout)


# The checkpoints on the hub, counted by transformers; none of them is allocated.
PUBLISHED = [
    (6738415616, dict(model_type="llama", hidden_size=4096, intermediate_size=11008, num_attention_heads=32,
                      num_hidden_layers=32, vocab_size=32000, tie_word_embeddings=False)),
    (494032768, dict(model_type="qwen2", hidden_size=896, intermediate_size=4864, num_attention_heads=14,
                     num_hidden_layers=24, num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True)),
    (6050882784, dict(model_type="gptj", n_embd=4096, n_head=16, n_layer=28, n_positions=2048, rotary_dim=64,
                      vocab_size=50400, tie_word_embeddings=False)),
    (20554567680, dict(model_type="gpt_neox", hidden_size=6144, intermediate_size=24576, num_attention_heads=64,
                       num_hidden_layers=44, rotary_pct=0.25, vocab_size=50432, tie_word_embeddings=False)),
    (7241732096, dict(model_type="mistral", hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
                      num_hidden_layers=32, num_key_value_heads=8, vocab_size=32000, tie_word_embeddings=False)),
    (596049920, dict(model_type="qwen3", hidden_size=1024, intermediate_size=3072, num_attention_heads=16,
                     num_hidden_layers=28, num_key_value_heads=8, head_dim=128, vocab_size=151936,
                     max_position_embeddings=40960, rope_theta=1000000, tie_word_embeddings=True)),
    (91801040, dict(model_type="roformer", embedding_size=128, hidden_size=768, intermediate_size=3072,
                    num_hidden_layers=12, num_attention_heads=12, vocab_size=50000)),
]  # fmt: skip

with tempfile.TemporaryDirectory() as name:
    config = pathlib.Path(name) / "config.json"
    for count, keys in PUBLISHED:
        config.write_text(json.dumps(keys))
        made = summary(name, "--tokens", 8)
        assert made["parameters"] == count, (keys, made["parameters"])
        if keys["model_type"] == "qwen3":
            table = run(name, "--tokens", 8, "--depth", 4)
            for words in (r"^Decoder +\[1, 8, 151936\] +596,049,920$", r"Linear \(qkv\) +\[1, 8, 4096\] ",
                          r"MultiHeadAttention \(attention\) +\[1, 8, 1024\] +6,291,712$", r"\(q_norm\) +-- +128$"):
                expect(re.search(words, table.stdout, re.M), table)
    config.write_text(json.dumps(PUBLISHED[0][1] | {"architectures": ["LlamaModel"]}))
    assert summary(name)["parameters"] == 6738415616 - 4096 * 32000  # no head
    for text, code in (
        ("{", "JSON"),
        ("[]", "JSON"),
        ('{"model_type": "bert"}', "MODEL_TYPE"),
        ('{"model_type": 7}', "CONFIG_VALUE"),
        (json.dumps(PUBLISHED[-1][1] | {"num_attention_heads": 7}), ""),
    ):
        config.write_text(text)
        wrong = run(name)
        expect(wrong.returncode == 1 and wrong.stdout == "" and wrong.stderr.startswith(f"error: {code}"), wrong)
    config.unlink()
    wrong = run(name)
    expect(wrong.returncode == 1 and wrong.stderr.startswith("error: FILE"), wrong)

# transformers 5.23: RoFormerForMaskedLM(RoFormerConfig()), the table's 98,304 frozen, the head's matrix shared.
base = summary("--preset", "roformer-base")
assert (base["parameters"], base["trainable_parameters"]) == (124197968, 124099664), base
table = run("--preset", "roformer-notebook", "--batch", 2, "--tokens", 512)
expect(table.returncode == 0, table)
for words in ("[2, 512, 32000]", "24,576,000", "2,362,368", "4,722,432", "Total params: 77,509,632"):
    expect(words in table.stdout, table)
deep = run("--preset", "roformer-notebook", "--depth", 4)
expect("        Linear (qkv)" in deep.stdout and "1,771,776" in deep.stdout, deep)
wrong = run("--preset", "gpt5")
expect(wrong.returncode == 1 and wrong.stderr.startswith("error: PRESET"), wrong)
for words in ((), ("x", "--preset", "smoke"), ("--preset", "smoke", "--batch", 0), ("--preset", "smoke", "--tokens", "x")):
    wrong = run(*words)
    expect(wrong.returncode == 2 and wrong.stdout == "", wrong)

peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
assert peak < 600_000, f"a summary took {peak} kB"
print("summary: counts, table, errors; at most", peak, "kB")
