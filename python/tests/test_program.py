"""The program rotary, and check, diagnose, extend, convert and accuracy beside what it prints."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from functools import partial

import numpy as np
import rotary
from support import CONFIGS, numbers, refused

CONFIG = CONFIGS / "deepseek-coder-6.7b.json"


def run(*words, status=0):
    done = subprocess.run([sys.executable, "-m", "rotary", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stdout


def printed(*words, status=0):
    """The JSON that a command prints, without its version, which the package's answers do not have."""
    answer = json.loads(run(*words, "--json", status=status))
    assert answer.pop("version") == 1
    return answer


def rounded(answer):
    """The answer in fewer digits, on which builds by two compilers agree, as package and program may be."""
    if isinstance(answer, dict):
        return {name: rounded(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [*map(rounded, answer)]
    return float(f"{answer:.6g}") if type(answer) is float else answer


def setUpModule():
    if subprocess.run([sys.executable, "-m", "rotary", "--version"], capture_output=True).returncode != 0:
        raise unittest.SkipTest("rotary-cli is not installed")


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.entry = rotary.config(CONFIG)[0]
        self.x = numbers((1, 6, self.entry.heads, self.entry.head_dim))
        self.y = rotary.rotate(self.x, rotary.Table(self.entry, range(100, 106)), layout="bthd", first=self.entry.first)

    def save(self, name, array):
        np.save(self.folder / name, array)
        return self.folder / name

    def test_version_and_errors(self):
        self.assertTrue(run("--version").startswith(f"rotary {rotary.__version__}\n"))
        self.assertIn("inspect", run("help"))
        self.assertIn("rotat", run("demo"))
        run("inspect", "/no/such/file", status=1)
        run("inpsect", status=2)

    def words(self, y):
        """The options of check for x, and y, as files."""
        return "--before", self.save("x.npy", self.x), "--after", self.save("y.npy", y), "--positions", "100:106"

    def test_check(self):
        _, before, _, after, *_ = words = self.words(self.y)
        expected = printed("check", CONFIG, *words)
        self.assertTrue(expected["equal"])
        for source in (CONFIG, str(CONFIG), json.loads(CONFIG.read_text())):
            self.assertEqual(rotary.check(source, self.x, self.y, positions=range(100, 106)), expected)
        self.assertEqual(rotary.check(CONFIG, before, after, positions="100:106"), expected)
        for source in (self.entry, self.entry.rope):
            self.assertTrue(rotary.check(source, self.x, self.y, positions=range(100, 106))["equal"])

    def test_check_finds_what_is_wrong(self):
        wrong = self.entry.rope.replace(pairing="interleaved")
        y = rotary.rotate(self.x, rotary.Table(wrong, range(100, 106)), layout="bthd")
        expected = printed("check", CONFIG, *self.words(y), status=1)
        got = rotary.check(CONFIG, self.x, y, positions=range(100, 106))
        self.assertEqual(rounded(got), rounded(expected))
        self.assertEqual({*got, "tensors"}, {*rotary.tools.Check.__annotations__})
        self.assertEqual({*got["diagnosis"], "tensors"}, {*rotary.tools.Diagnosis.__annotations__})
        self.assertEqual((got["equal"], got["diagnosis"]["verdict"]), (False, "pairing"))
        # A tolerance is for noise, not for another rotation.
        self.assertFalse(rotary.check(CONFIG, self.x, y, positions=range(100, 106), tolerance=1e3)["equal"])
        noisy = self.y + np.float32(1e-3) * np.random.default_rng(1).standard_normal(self.y.shape, "f4")
        for tolerance, verdict in ((None, "differs"), (0.1, "equal")):
            got = rotary.check(CONFIG, self.x, noisy, positions=range(100, 106), tolerance=tolerance)
            self.assertEqual((got["verdict"], got["diagnosis"]["verdict"]), (verdict, "noise"))

    def test_several_tensors(self):
        q, k = {"q": self.x, "k": self.x[:, :, :2]}, {"q": self.y, "k": self.y[:, :, :2]}
        got = rotary.check(CONFIG, q, k, positions=range(100, 106), layout="bthd")
        self.assertTrue(got["equal"])
        self.assertEqual(set(got["tensors"]), {"q", "k"})
        self.assertEqual({*got["tensors"]["q"]}, {*rotary.tools.TensorCheck.__annotations__})
        got = rotary.check(CONFIG, q, k, positions=range(100, 106), tensors=["q"])
        self.assertNotIn("tensors", got)
        # The rule of the program.
        words = {"positions": range(100, 106), "layout": "bthd"}
        refused(self, "TENSOR", lambda: rotary.check(CONFIG, q, k, **words, tensors=["q", "kk"]))
        self.assertEqual(rotary.check(CONFIG, q, {"q": self.y}, **words)["verdict"], "undecided")
        for check in (partial(rotary.check, CONFIG), rotary.tools.diagnose):
            got = check({**q, "hidden": self.x}, {**k, "hidden": self.x}, **words)
            self.assertEqual(set(got["tensors"]), {"q", "k"})

    def test_diagnose(self):
        before, after = self.save("x.npy", self.x), self.save("y.npy", self.y)
        for words, given in (
            ([], {}),
            (["--positions", "100:106"], {"positions": np.arange(100, 106)}),
            (["--config", CONFIG], {"config": CONFIG}),
            (["--config", CONFIG, "--layout", "bthd"], {"config": json.loads(CONFIG.read_text()), "layout": "bthd"}),
        ):
            expected = printed("diagnose", "--before", before, "--after", after, *words)
            self.assertEqual(rounded(rotary.tools.diagnose(self.x, self.y, **given)), rounded(expected))
        self.assertEqual(expected["verdict"], "offset")

    def test_extend(self):
        for words, given in (
            ([], {}),
            (["--scaling", "yarn", "--factor", "8"], {"scaling": "yarn", "factor": 8}),
            (["--scaling", "none", "--trained-length", "8192"], {"scaling": "none", "trained_length": 8192}),
        ):
            expected = printed("extend", CONFIG, "--length", "131072", *words)
            self.assertEqual(rotary.tools.extend(CONFIG, 131072, **given), expected)
            self.assertEqual({*expected}, {*rotary.tools.Extension.__annotations__})
        config = json.loads(CONFIG.read_text())
        text = rotary.tools.extend(config, 131072, scaling="yarn", output=self.folder / "longer")
        written = json.loads((self.folder / "longer" / "config.json").read_text())
        self.assertEqual(text["written"], str(self.folder / "longer" / "config.json"))
        self.assertEqual(rotary.config(written)[0].scaling.name, "yarn")
        refused(self, "VALUE", lambda: rotary.tools.extend(CONFIG, 131072, factor=0.5))
        refused(self, "FILE", lambda: rotary.tools.extend("/no/such/config.json", 131072))

    def test_convert(self):
        source = self.folder / "llama"
        source.mkdir()
        config = {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
        (source / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
        rows, header = numbers((2, 8, 8)), {}
        for i, role in enumerate("qk"):
            name = f"model.layers.0.self_attn.{role}_proj.weight"
            header[name] = {"dtype": "F32", "shape": [8, 8], "data_offsets": [256 * i, 256 * (i + 1)]}
        text = json.dumps(header).encode()
        (source / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + rows.tobytes())
        out, again = self.folder / "out", self.folder / "again"
        expected = printed("convert", source, "--to", "interleaved", "--output", out)
        got = rotary.tools.convert(source, again, to="interleaved", verify=True)
        self.assertEqual([layer["equal"] for layer in got.pop("verified")], [True])
        self.assertEqual({**got, "output": ""}, {**expected, "output": ""})
        weights = (again / "model.safetensors").read_bytes()
        self.assertEqual((out / "model.safetensors").read_bytes(), weights)
        moved = np.frombuffer(weights[-512:], np.float32).reshape(2, 8, 8)
        np.testing.assert_array_equal(moved, rows[:, [0, 2, 1, 3, 4, 6, 5, 7]])
        refused(self, "FILE", lambda: rotary.tools.convert("/no/such", again, to="half"))
        refused(self, "FORMAT", lambda: rotary.tools.convert(again / "model.safetensors", out, to="half"))
        with self.assertRaises(TypeError):
            rotary.tools.convert(source, to="interleaved")

    def test_accuracy(self):
        expected = printed("accuracy", CONFIG, "--positions", "0:64", "--tolerance", "0.01")
        self.assertEqual(rotary.tools.accuracy(CONFIG, positions=range(64), tolerance=0.01), expected)
        of_entry = rotary.tools.accuracy(self.entry, positions=range(64), tolerance=0.01)
        self.assertEqual(of_entry["ways"], expected["ways"])
        refused(self, "ROPE", lambda: rotary.tools.accuracy(CONFIG, rope=3))

    def test_errors(self):
        x, y, rope, nan = self.x, self.y, rotary.Rope(head_dim=8, pairing="half"), float("nan")
        for code, function, given, words in (
            ("SHAPE", rotary.check, (CONFIG, x, y[:, :3]), {}), ("ROPE", rotary.check, (CONFIG, x, y), {"rope": 7}),
            ("TENSOR", rotary.check, (CONFIG, {"q": x}, {"k": y}), {}),
            ("FILE", rotary.tools.diagnose, ("/no/such.npy", "/no/such.npy"), {}),
            ("DTYPE", rotary.tools.diagnose, (x.astype(int), y.astype(int)), {}),
            *(("VALUE", rotary.check, (rope, x, y), words)
              for words in ({"tolerance": -1}, {"tolerance": nan}, {"rope": -(2**63)})),
            *(("PAIRING", rotary.check, (rope, x, y), {"pairing": word}) for word in ("half", "nonsense")),
            *(("VALUE", rotary.tools.accuracy, (rope,), {"tolerance": tolerance}) for tolerance in (0, 2, nan)),
        ):  # fmt: skip
            with self.subTest(words):
                refused(self, code, lambda: function(*given, **words))  # noqa: B023
        with self.assertRaises(TypeError):
            rotary.check(CONFIG, self.x, "y.npy")
