"""rotary-torch generate, perplexity and summary from outside: test_generate.py ROTARY_TORCH. Standard library only."""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1)
FOLDER = tempfile.TemporaryDirectory()
ROOT = Path(FOLDER.name)
ROPE, LEARNED = ROOT / "rope", ROOT / "learned"
LLAMA = Path(__file__).parent / "golden/decoder/llama"  # from Hugging Face: no vocab.json, 19 ids


def rotary(*words, stdout=subprocess.PIPE):
    return subprocess.run([PROGRAM, *map(str, words)], stdout=stdout, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"})


def write_npy(name, rows, descr="<i8", letter="q"):
    path = ROOT / name
    shape = f"({len(rows)}, {len(rows[0])})" if isinstance(rows[0], list) else f"({len(rows)},)"
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    flat = sum(rows, []) if isinstance(rows[0], list) else rows
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"<{len(flat)}{letter}", *flat))
    return path


def read_npy(path):
    data = Path(path).read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10 : 10 + length])  # our own file
    assert header["descr"] == "<i8" and not header["fortran_order"], header
    rows, columns = header["shape"]
    values = struct.unpack(f"<{rows * columns}q", data[10 + length :])
    return [list(values[r * columns : (r + 1) * columns]) for r in range(rows)]


def setUpModule():
    for folder, position in ((ROPE, "rope"), (LEARNED, "learned")):
        done = rotary("train", "--preset", "smoke", "--steps", 20, "--position", position, "--output", folder, "--json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["version"], report["position"], report["steps"]) == (1, position, 20), report


class Case(unittest.TestCase):
    def succeed(self, *words):
        done = rotary(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refuse(self, code, *words, says=""):
        done = rotary(*words)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr.splitlines()[-1], f"^error: {code}: .*{says}")
        return done

    def misuse(self, *words):
        self.assertEqual(rotary(*words).returncode, 2, words)


class Text(Case):
    def test_the_prompt_comes_first_and_then_as_many_characters_as_asked_for(self):
        text = self.succeed("generate", ROPE, "--prompt", "the ", "--tokens", 40)
        self.assertTrue(text.startswith("the "), text)
        self.assertEqual(len(text), len("the ") + 40 + 1)
        self.assertEqual(text[-1], "\n")

    def test_greedy_text_and_greedy_ids_are_the_same(self):
        vocabulary = json.loads((ROPE / "vocab.json").read_text())
        characters = {number: character for character, number in vocabulary.items()}
        text = self.succeed("generate", ROPE, "--prompt", "the ", "--tokens", 100, "--temperature", 0)
        ids = write_npy("the.npy", [[vocabulary[c] for c in "the "]])
        self.succeed("generate", ROPE, "--ids", ids, "--output", ROOT / "greedy.npy", "--tokens", 100,
                     "--temperature", 0)
        self.assertEqual("".join(characters[i] for i in read_npy(ROOT / "greedy.npy")[0]), text[:-1])

    def test_a_window_goes_on_without_end(self):
        words = ["generate", ROPE, "--prompt", "the ", "--tokens", 300, "--seed", 1]
        sliding = self.succeed(*words, "--window", 16)
        self.assertEqual(len(sliding), 4 + 300 + 1)
        self.assertEqual(sliding[:16], self.succeed(*words)[:16])
        self.assertEqual(sliding, self.succeed(*words, "--window", 16, "--sinks", 4))
        self.assertNotEqual(sliding, self.succeed(*words, "--window", 16, "--sinks", 0))
        warned = rotary(*words, "--window", 64)
        self.assertEqual((warned.returncode, warned.stderr[:33]), (0, "warning: a window of 64 tokens ha"))
        self.assertEqual(rotary(*words, "--window", 64, "--scaling", "yarn", "--factor", 2).stderr, "")
        self.refuse("ROPE", "generate", LEARNED, "--prompt", "the ", "--window", 16, says="learned")
        self.misuse(*words, "--sinks", 4)
        self.misuse(*words, "--window", 0)

    def test_what_is_wrong_with_a_prompt_is_said(self):
        self.refuse("TEXT", "generate", ROPE, "--prompt", "the \u20ac", says="\u20ac")
        self.refuse("FILE", "generate", LLAMA, "--prompt", "the ", says="--ids")
        self.refuse("ROPE", "generate", LEARNED, "--prompt", "the ", "--scaling", "yarn", "--factor", 4)
        self.refuse("SCALING", "generate", ROPE, "--prompt", "the ", "--scaling", "yarn", "--factor", 1)
        self.refuse("FILE", "generate", ROOT / "nothing", "--prompt", "the ")
        self.refuse("VALUE", "generate", ROPE, "--prompt", "the ", "--temperature", "nan", says="temperature")

    def test_wrong_usage_exits_2(self):
        self.misuse("generate", ROPE)
        self.misuse("generate", ROPE, "--prompt", "")
        self.misuse("generate", ROPE, "--prompt", "a", "--ids", "a.npy", "--output", "b.npy")
        self.misuse("generate", ROPE, "--prompt", "a", "--output", "b.npy")
        self.misuse("generate", ROPE, "--ids", "a.npy")
        for words in (["--tokens", 0], ["--temperature", "-1"], ["--top-k", 0],
                      ["--seed", "x"], ["--scaling", "yarn"], ["--factor", 2], ["--scaling", "stretch"],
                      ["--threads", 0]):
            self.misuse("generate", ROPE, "--prompt", "a", *words)

    def test_a_full_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = rotary("generate", ROPE, "--prompt", "the ", stdout=full)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith("error: FILE: "), done.stderr)


class Ids(Case):
    def generate(self, ids, *words):
        output = ROOT / "ids_out.npy"
        self.succeed("generate", LLAMA, "--ids", ids, "--output", output, *words)
        return read_npy(output)

    def test_integers_of_every_width_continue_alike(self):
        rows = [[1, 18, 3], [4, 5, 0]]
        expected = self.generate(write_npy("i8.npy", rows), "--tokens", 40, "--temperature", 0)
        self.assertEqual([row[:3] for row in expected], rows)
        self.assertEqual([len(row) for row in expected], [43, 43])
        for descr, letter in (("|i1", "b"), ("|u1", "B"), ("<i2", "h"), ("<u2", "H"), ("<i4", "i"), ("<u4", "I"),
                              ("<u8", "Q")):
            ids = write_npy("other.npy", rows, descr, letter)
            self.assertEqual(self.generate(ids, "--tokens", 40, "--temperature", 0), expected, descr)

    def test_wrong_ids_are_refused_by_name_and_the_old_file_stays(self):
        output = ROOT / "old.npy"
        output.write_bytes(b"old")
        cases = [("SHAPE", write_npy("w1.npy", [1, 2])), ("VALUE", write_npy("w2.npy", [[1, 19]])),
                 ("VALUE", write_npy("w3.npy", [[1, -1]])), ("DTYPE", write_npy("w4.npy", [[1.0]], "<f4", "f")),
                 ("DTYPE", write_npy("w5.npy", [[True]], "|b1", "?")), ("FILE", ROOT / "none.npy"),
                 ("VALUE", write_npy("w6.npy", [[2**64 - 1]], "<u8", "Q")), ("SHAPE", write_npy("w7.npy", [[]]))]
        for code, ids in cases:
            self.refuse(code, "generate", LLAMA, "--ids", ids, "--output", output)
        self.refuse("FILE", "generate", LLAMA, "--ids", write_npy("r.npy", [[1]]), "--output", ROOT / "no" / "o.npy")
        self.assertEqual(output.read_bytes(), b"old")


class Perplexity(Case):
    @classmethod
    def setUpClass(cls):
        vocabulary = json.loads((ROPE / "vocab.json").read_text())
        letters = sorted(c for c in vocabulary if c.isalpha())
        draw = random.Random(5)
        cls.text = ROOT / "text.txt"
        cls.text.write_text("".join(draw.choice(letters) for _ in range(3000)))
        config = json.loads((ROPE / "config.json").read_text())
        cls.trained = config["max_position_embeddings"]
        cls.lengths = f"{cls.trained},{2 * cls.trained},{4 * cls.trained}"

    def test_table_and_lines_say_the_same(self):
        written = ROOT / "table.jsonl"
        out = self.succeed("perplexity", ROPE, "--text", self.text, "--length", self.lengths, "--output", written)
        self.assertTrue(out.endswith(f"wrote {written}\n"), out)
        lines = [json.loads(line) for line in written.read_text().splitlines()]
        self.assertEqual(len(lines), 15)
        self.assertEqual({line["scaling"] for line in lines}, {"none", "linear", "ntk", "dynamic", "yarn"})
        for line in lines:
            extended = line["length"] > self.trained and line["scaling"] != "none"
            self.assertEqual(line["factor"], line["length"] / self.trained if extended else 1)
            self.assertAlmostEqual(line["perplexity"], 2.718281828459045 ** line["loss"], places=6)
            self.assertIn(f"{line['loss']:.4f}", out)
        self.assertEqual(len({line["loss"] for line in lines if line["length"] == self.trained}), 1)
        self.assertGreater(len({line["loss"] for line in lines if line["length"] == 4 * self.trained}), 4)
        self.assertEqual(len({line["tokens"] for line in lines}), 1)

    def test_json_prints_the_lines_that_the_file_has(self):
        lines = ROOT / "lines.jsonl"
        out = self.succeed("perplexity", ROPE, "--text", self.text, "--length", self.trained, "--scaling", "none,yarn",
                           "--json", "--output", lines, "--tokens", 0)
        self.assertEqual(out, lines.read_text())
        self.assertEqual(len(out.splitlines()), 2)

    def test_windows_are_rows_of_their_own(self):
        words = ["perplexity", ROPE, "--text", self.text, "--length", self.lengths, "--scaling", "none", "--window",
                 self.trained, "--sinks", "0,4"]
        lines = [json.loads(line) for line in self.succeed(*words, "--json").splitlines()]
        self.assertEqual([(line.get("window"), line.get("sinks")) for line in lines],
                         [(None, None), (self.trained, 0), (self.trained, 4)] * 3)
        self.assertEqual(len({line["loss"] for line in lines[:3]}), 1, "up to its size a window hides nothing")
        self.assertEqual(len({line["loss"] for line in lines[3:]}), 6)
        out = self.succeed(*words)
        for name in ("window 32, 0 sinks", "window 32, 4 sinks"):
            self.assertEqual(out.count(name), 3)
        self.refuse("VALUE", *words[:-1], "4,32",
                    says="sinks must be from 0 to below the window's 32 tokens but got 32")
        self.refuse("ROPE", "perplexity", LEARNED, "--text", self.text, "--length", 32, "--window", 32)
        self.misuse("perplexity", ROPE, "--text", self.text, "--length", 32, "--sinks", 4)

    def test_ids_of_another_family(self):
        draw = random.Random(6)
        ids = write_npy("texts.npy", [[draw.randrange(19) for _ in range(129)] for _ in range(2)])
        out = self.succeed("perplexity", LLAMA, "--ids", ids, "--length", "32,64", "--json")
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual({line["tokens"] for line in lines}, {256})

    def test_what_cannot_be_measured_is_refused(self):
        words = ["perplexity", LEARNED, "--text", self.text, "--length"]
        self.assertEqual(len(self.succeed(*words, self.trained, "--json").splitlines()), 1)
        self.refuse("POSITION", *words, self.lengths, says="learned positions")
        self.refuse("ROPE", *words, self.trained, "--scaling", "yarn")
        self.refuse("SHAPE", "perplexity", ROPE, "--text", self.text, "--length", 100000)
        self.refuse("FILE", "perplexity", ROPE, "--text", ROOT / "none.txt", "--length", 8)
        self.refuse("FILE", "perplexity", LLAMA, "--text", self.text, "--length", 8, says="--ids")
        for wrong in (["--length", "0"], ["--length", "a"], [], ["--length", "8", "--scaling", "stretch"],
                      ["--length", "8", "--scaling", "yarn,yarn"]):
            self.misuse("perplexity", ROPE, "--text", self.text, *wrong)
        self.misuse("perplexity", LLAMA, "--length", 8)

    def test_without_a_text_the_run_own_one_is_measured_and_nothing_is_written(self):
        before = sorted(ROPE.iterdir())
        out = self.succeed("perplexity", ROPE, "--length", self.trained, "--scaling", "none", "--tokens", 256)
        self.assertIn("tokens of the text of the preset smoke; trained length", out)
        self.assertEqual(sorted(ROPE.iterdir()), before)


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


class Summary(Case):
    def counts(self, *words):
        return json.loads(self.succeed("summary", *words, "--json"))

    def shows(self, words, *rows):
        out = self.succeed("summary", *words)
        for row in rows:
            self.assertRegex(out, f"(?m){row}")

    def test_published_checkpoints_have_the_parameters_that_transformers_counts(self):
        for count, keys in PUBLISHED:
            (ROOT / "config.json").write_text(json.dumps(keys))
            self.assertEqual(self.counts(ROOT, "--tokens", 8)["parameters"], count, keys)
            if keys["model_type"] == "qwen3":
                self.shows((ROOT, "--tokens", 8, "--depth", 4), r"^Decoder +\[1, 8, 151936\] +596,049,920$",
                           r"Linear \(qkv\) +\[1, 8, 4096\] ", r"\(q_norm\) +-- +128$",
                           r"MultiHeadAttention \(attention\) +\[1, 8, 1024\] +6,291,712$")
        (ROOT / "config.json").write_text(json.dumps(PUBLISHED[0][1] | {"architectures": ["LlamaModel"]}))
        self.assertEqual(self.counts(ROOT)["parameters"], 6738415616 - 4096 * 32000)  # no head
        program = subprocess.Popen([PROGRAM, "summary", str(ROOT)], stdout=subprocess.DEVNULL)
        self.assertLess(os.wait4(program.pid, 0)[2].ru_maxrss, 600_000)  # kB: the weights take no memory

    def test_configs_that_are_none_are_refused(self):
        for text, code in (("{", "JSON"), ("[]", "JSON"), ('{"model_type": "bert"}', "MODEL_TYPE"),
                           ('{"model_type": 7}', "CONFIG_VALUE"),
                           (json.dumps(PUBLISHED[-1][1] | {"num_attention_heads": 7}), "[A-Z_]+")):
            (ROOT / "config.json").write_text(text)
            self.refuse(code, "summary", ROOT)
        (ROOT / "config.json").unlink()
        self.refuse("FILE", "summary", ROOT)
        self.refuse("PRESET", "summary", "--preset", "gpt5")
        for words in ((), ("x", "--preset", "smoke"), ("--preset", "smoke", "--batch", 0),
                      ("--preset", "smoke", "--tokens", "x")):
            self.misuse("summary", *words)

    def test_presets(self):
        # transformers 5.23: RoFormerForMaskedLM(RoFormerConfig()), the table's 98,304 frozen, the head's matrix shared.
        base = self.counts("--preset", "roformer-base")
        self.assertEqual((base["parameters"], base["trainable_parameters"]), (124197968, 124099664))
        self.shows(("--preset", "roformer-notebook", "--batch", 2, "--tokens", 512), r"\[2, 512, 32000\]",
                   "24,576,000", "2,362,368", "4,722,432", "Total params: 77,509,632")
        self.shows(("--preset", "roformer-notebook", "--depth", 4), r"        Linear \(qkv\)", "1,771,776")


class Shell(Case):
    """The behaviour that the torch commands share with the others: help, sentences, JSON errors."""

    def test_help_fits_into_100_columns_in_one_form(self):
        for command in ("train", "generate", "forward", "perplexity", "summary"):
            out = self.succeed(command, "--help")
            self.assertRegex(out, f"Usage: rotary-torch {command} (.+ )?\\[OPTIONS\\]\n")
            self.assertLessEqual(max(map(len, out.splitlines())), 100)
            for old in ("TEXT:{", "INT:INT", "REQUIRED", ":UINT"):
                self.assertNotIn(old, out)

    def test_json_says_what_the_text_says(self):
        words = ("generate", ROPE, "--prompt", "the ", "--tokens", 8)
        text = self.succeed(*words)[:-1]
        self.assertEqual(json.loads(self.succeed(*words, "--json")), {"version": 1, "prompt": "the ", "text": text})
        ids, out = write_npy("json_ids.npy", [[1, 2]]), ROOT / "json.npy"
        report = json.loads(self.succeed("generate", ROPE, "--ids", ids, "--output", out, "--tokens", 3, "--json"))
        self.assertEqual(report, {"version": 1, "output": str(out), "dtype": "I64", "shape": [1, 5]})
        out = ROOT / "json.safetensors"
        report = json.loads(self.succeed("forward", ROPE, "--input", ids, "--output", out, "--json"))
        names = [one["name"] for one in report["tensors"]]
        self.assertEqual((report["output"], names), (str(out), ["hidden", "logits"]))
        self.assertEqual(report["tensors"][0]["shape"][:2], [1, 2])

    def test_with_json_an_error_is_an_object(self):
        result = rotary("summary", ROOT / "nothing", "--json")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        line, error = result.stderr.splitlines()
        self.assertTrue(line.startswith("error: FILE: "), line)
        self.assertEqual(json.loads(error)["error"]["code"], "FILE")

    def test_quiet_prints_nothing(self):
        ids, output = write_npy("quiet.npy", [[1, 2]]), ROOT / "quiet_out.npy"
        self.assertEqual(self.succeed("generate", LLAMA, "--ids", ids, "--output", output, "--quiet"), "")
        self.assertEqual(len(read_npy(output)[0]), 102)
        trained = rotary("train", "--preset", "smoke", "--steps", 2, "--output", ROOT / "quiet_run", "-q")
        self.assertEqual((trained.returncode, trained.stdout, trained.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
