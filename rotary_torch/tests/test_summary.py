"""rotary-torch summary as a program: test_summary.py PROGRAM. Needs nothing but Python."""

import json
import os
import pathlib
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


def parameters(*words):
    result = run(*words, "--json")
    expect(result.returncode == 0 and result.stderr == "", result)
    summary = json.loads(result.stdout)
    own = sum(layer["own_parameters"] for layer in summary["layers"])
    expect(own == summary["parameters"] == summary["layers"][0]["parameters"], result)
    expect(summary["bytes_f32"] == 4 * summary["parameters"], result)
    return summary["parameters"]


# The counts of every preset and of published configs: summary_test.cpp, training_test.cpp.
assert parameters("--preset", "roformer-base") == 124197968

table = run("--preset", "roformer-notebook", "--batch", 2, "--tokens", 512)
expect(table.returncode == 0, table)
for words in ("[2, 512, 32000]", "24,576,000", "2,362,368", "4,723,968", "Total params: 77,509,632"):
    expect(words in table.stdout, table)
deep = run("--preset", "roformer-notebook", "--depth", 4)
expect("Linear (qkv): 4-1 " in deep.stdout and "1,771,776" in deep.stdout, deep)

words = [program, "summary", "--preset", "smoke", "--depth", "2"]
drawn = {locale: subprocess.run(words, capture_output=True, text=True, env={**os.environ, "LC_ALL": locale})
         for locale in ("C", "C.UTF-8")}
expect(drawn["C"].stdout.isascii() and "+-" in drawn["C"].stdout and "|    `-" in drawn["C"].stdout, drawn["C"])
expect("\u251c\u2500" in drawn["C.UTF-8"].stdout, drawn["C.UTF-8"])

with tempfile.TemporaryDirectory() as name:
    config = pathlib.Path(name) / "config.json"
    llama = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32}
    llama |= {"num_hidden_layers": 32, "vocab_size": 32000, "tie_word_embeddings": False}
    config.write_text(json.dumps(llama | {"architectures": ["LlamaModel"]}))
    assert parameters(name) == 6738415616 - 4096 * 32000
    roformer = {"model_type": "roformer", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    for text, code in (
        ("{", "JSON"),
        ("[]", ""),
        ('{"model_type": "bert"}', "MODEL_TYPE"),
        ('{"model_type": 7}', ""),
        (json.dumps(roformer | {"num_attention_heads": 7}), ""),
    ):
        config.write_text(text)
        wrong = run(name)
        expect(wrong.returncode == 1 and wrong.stdout == "" and wrong.stderr.startswith(f"error: {code}"), wrong)
    config.unlink()
    wrong = run(name)
    expect(wrong.returncode == 1 and wrong.stderr.startswith("error: FILE"), wrong)

wrong = run("--preset", "gpt5")
expect(wrong.returncode == 1 and wrong.stderr.startswith("error: PRESET") and "roformer-base" in wrong.stderr, wrong)
for words in ((), ("x", "--preset", "smoke"), ("--preset", "smoke", "--batch", 0), ("--preset", "smoke", "--tokens", "x")):
    wrong = run(*words)
    expect(wrong.returncode == 2 and wrong.stdout == "", wrong)

peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
assert peak < 600_000, f"a summary took {peak} kB"
print("summary: counts, table, errors; at most", peak, "kB")
