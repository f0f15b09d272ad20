"""rotary.tools.plot: the drawn values beside those of the package's functions; the command; the files."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import rotary
from support import CONFIGS, refused

try:
    from rotary.tools import plot
except ImportError as missing:
    raise unittest.SkipTest(str(missing)) from missing

LLAMA, GEMMA, QWEN_VL = (CONFIGS / f"{name}.json" for name in ("llama-3.1-8b", "gemma-3-27b", "qwen2.5-vl-7b"))
PLAIN = rotary.Rope(head_dim=16, base=10000, pairing="half")


def lines(figure):
    """The x and y of each line of the first axes, by its label."""
    return {line.get_label(): line.get_data() for line in figure.axes[0].lines}


def image(figure):
    (drawn,) = figure.axes[0].images
    return np.asarray(drawn.get_array())


class Drawn(unittest.TestCase):
    def test_wavelengths_with_the_lengths_of_the_config(self):
        (entry,) = rotary.config(LLAMA)
        drawn = lines(plot.wavelengths(LLAMA, PLAIN))
        self.assertEqual(list(drawn), ["llama-3.1-8b", "without llama3", "trained length 8192", "context 131072",
                                       "base 10000"])  # fmt: skip
        plain = rotary.frequencies(entry.rope.replace(scaling=rotary.scalings.Unscaled()))
        for label, speeds in {"llama-3.1-8b": rotary.frequencies(entry), "without llama3": plain}.items():
            np.testing.assert_allclose(drawn[label][1], 2 * np.pi / np.asarray(speeds.inv_freq), rtol=1e-15)
        self.assertEqual(set(drawn["context 131072"][1]), {131072})
        self.assertEqual(len(drawn["base 10000"][1]), 8)

        still = rotary.Rope(head_dim=4, pairing="half", inv_freq=[1.0, 0.0])
        (drawn,) = lines(plot.wavelengths(still)).values()
        np.testing.assert_array_equal(drawn[1], [2 * np.pi, np.nan])

    def test_stretch_of_a_scaling(self):
        drawn = lines(plot.stretch(PLAIN, PLAIN.replace(scaling=rotary.scalings.Linear(factor=8))))
        np.testing.assert_allclose(drawn["base 10000"][1], 1)
        np.testing.assert_allclose(drawn["linear"][1], 8)
        near, far = (lines(plot.stretch(CONFIGS / "phi-3-mini-128k.json", **words))["phi-3-mini-128k"][1].max()
                     for words in ({"length": 100}, {}))  # fmt: skip
        self.assertTrue(near < 10 and far > 60)

    def test_every_rope_of_text_or_the_one_that_is_named(self):
        for source, words, drawn in (
            (GEMMA, {}, {"gemma-3-27b, rope 0", "gemma-3-27b, rope 1"}),
            (GEMMA, {"rope": 1}, {"gemma-3-27b, rope 1"}),
            (QWEN_VL, {}, {"qwen2.5-vl-7b, rope 0"}),
            (rotary.config(QWEN_VL)[1], {}, {"base 10000"}),
        ):
            self.assertEqual(set(lines(plot.stretch(source, **words))), drawn)

    def test_a_source_is_called_by_its_folder_or_its_model_type(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text(text := LLAMA.read_text())
            name = pathlib.Path(folder).name
            for source, label in ((folder, name), (f"{folder}/config.json", name), (json.loads(text), "llama")):
                self.assertIn(label, lines(plot.stretch(source)))

    def test_table_is_the_table(self):
        table = rotary.Table(rotary.config(LLAMA), range(5, 45, 5))
        for rows, sin in ((table.cos, False), (table.sin, True)):
            figure = plot.table(LLAMA, positions=range(5, 45, 5), sin=sin)
            np.testing.assert_array_equal(image(figure), rows.T)
            self.assertEqual(figure.axes[0].images[0].get_extent(), [2.5, 42.5, 63.5, -0.5])
        self.assertEqual(image(plot.table(QWEN_VL, rope=1)).shape, (40, 128))  # two axes

    def test_decay_is_the_score_of_rotated_vectors(self):
        rope = PLAIN.replace(rotary_dim=8, scaling=rotary.scalings.Yarn(factor=4, trained_length=64))
        figure = plot.decay(rope, last=60)
        x, y = lines(figure)["yarn"]
        turned = rotary.frequencies(rope).attention_factor * rotary.Table(rope, range(1, 61)).cos
        scores = (2 * turned.sum(-1) + 8) / 16  # four pairs turn, eight elements stay
        steps = np.split(scores, x[1:] - 1)
        np.testing.assert_allclose(y, [step.mean() for step in steps], atol=1e-6)
        shaded = figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]
        self.assertAlmostEqual(shaded.min(), scores.min(), places=6)

    def test_decay_with_xpos_is_of_the_distance_alone(self):
        x, y = lines(plot.decay(PLAIN.replace(xpos=rotary.scalings.XPos(scale=512)), last=8))["base 10000"]
        q, k = (rotary.scalings.XPos(scale=512, reciprocal=each) for each in (False, True))
        ones = np.full((8, 1, 16), 0.25, np.float32)
        at = [rotary.rotate(ones, rotary.Table(PLAIN.replace(xpos=each), [place + 7] * 8 if each is k else place + 7),
                            layout="thd") for each, place in ((q, x), (k, 0))]  # fmt: skip
        np.testing.assert_allclose(y, (at[0] * at[1]).sum((1, 2)), rtol=1e-5)

    def test_patches_by_rows_and_columns(self):
        rope = rotary.makers.axial(head_dim=16, axes=2, base=100, pairing="half")
        drawn = image(plot.patches(rope, reach=3))
        self.assertEqual(drawn.shape, (7, 7))
        for row, column in ((0, 0), (2, -1), (-3, 3)):
            cos = np.asarray(rotary.Table(rope, [[row], [column]]).cos)
            self.assertAlmostEqual(drawn[3 + row, 3 + column], cos.mean(), places=6)
        text = rotary.config(QWEN_VL)[0]  # time, height, width
        cos = np.asarray(rotary.Table(text, [[0], [1], [2]]).cos)
        self.assertAlmostEqual(image(plot.patches(QWEN_VL, reach=2))[3, 4], cos.mean(), places=6)

    def test_accuracy_of_one_rope_and_of_several(self):
        study = rotary.tools.accuracy(PLAIN)
        drawn = lines(plot.accuracy(PLAIN))
        self.assertEqual(list(drawn), [f"base 10000, {way['way']}" for way in study["ways"]])
        for way in study["ways"]:
            x, y = drawn[f"base 10000, {way['way']}"]
            np.testing.assert_array_equal(x, [decade["last"] for decade in study["decades"]])
            np.testing.assert_array_equal(np.array(y, float), np.array(way["cos_sin"], float))
        self.assertEqual(list(lines(plot.accuracy(PLAIN, LLAMA))),
                         ["base 10000, float32 product", "llama-3.1-8b, float32 product"])  # fmt: skip

    def test_wrong_arguments_are_errors(self):
        dynamic = PLAIN.replace(scaling=rotary.scalings.Dynamic(factor=2, trained_length=64))
        for code, draw, source, words in (
            ("ROPE", plot.table, LLAMA, {"rope": 1}), ("FILE", plot.wavelengths, "none.json", {}),
            ("VALUE", plot.table, PLAIN, {"positions": range(0)}), ("LENGTH", plot.stretch, dynamic, {}),
            ("ROPE", plot.patches, LLAMA, {}), ("VALUE", plot.decay, PLAIN, {"last": -1}),
        ):  # fmt: skip
            refused(self, code, lambda: draw(source, **words))  # noqa: B023


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_picture_is_svg_or_png_and_the_same_bytes_each_time(self):
        for name, begin in ("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"):
            files = [self.folder / (copy + name) for copy in ("1", "2")]
            for file in files:
                plot.save(plot.wavelengths(LLAMA), file)
            one, two = (file.read_bytes() for file in files)
            self.assertTrue(one == two and one.startswith(begin))
        self.assertIn("context 131072", (self.folder / "1a.svg").read_text("utf-8"))
        self.assertEqual(len(list(self.folder.iterdir())), 4, "nothing else is left")

    def test_a_failed_write_leaves_the_old_file(self):
        (self.folder / "folder.svg").mkdir()
        for output, code in ("a.pdf", "FORMAT"), ("none/a.svg", "FILE"), ("folder.svg", "FILE"):
            refused(self, code, lambda: plot.save(plot.stretch(LLAMA), self.folder / output))  # noqa: B023
        self.assertEqual([each.name for each in self.folder.iterdir()], ["folder.svg"])

    def run_command(self, *words):
        """The exit status and standard error of the command."""
        words = [sys.executable, "-m", "rotary.tools.plot", *map(str, words)]
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_the_command_draws_every_kind(self):
        for kind in ("wavelengths", "stretch", "table", "decay", "patches", "accuracy"):
            output = self.folder / f"{kind}.svg"
            self.assertEqual(self.run_command(kind, QWEN_VL, "--output", output, "--rope", 1), (0, ""))
            self.assertIn("qwen2.5-vl-7b, rope 1", output.read_text("utf-8"))
        self.assertEqual(self.run_command("stretch", LLAMA, GEMMA, "--output", self.folder / "two.svg"), (0, ""))
        self.assertIn("gemma-3-27b, rope 0", (self.folder / "two.svg").read_text("utf-8"))

    def test_the_command_says_what_is_wrong(self):
        output = self.folder / "a.svg"
        status, stderr = self.run_command("table", self.folder / "none.json", "--output", output)
        self.assertEqual((status, stderr[:13]), (1, "error: FILE: "))
        for says, *words in (
            ("table: too many positional arguments", "table", LLAMA, GEMMA, "--output", output),
            ("unexpected keyword argument 'length'", "patches", QWEN_VL, "--output", output, "--length", 9),
            ("invalid choice: 'tabel'", "tabel", LLAMA, "--output", output), ("--output", "table", LLAMA),
        ):  # fmt: skip
            status, stderr = self.run_command(*words)
            self.assertTrue(status == 2 and says in stderr, stderr)
        self.assertFalse(output.exists())

    def test_without_matplotlib_one_sentence_says_what_to_install(self):
        code = "import sys; sys.modules['matplotlib'] = None\n"
        use = "import rotary\nassert 'plot' not in vars(rotary)\nrotary.tools.plot\n"
        run = "import runpy\nrunpy.run_module('rotary.tools.plot', run_name='__main__')\n"
        sentence = "[plot] pictures need matplotlib (pip install matplotlib) but "
        for what, begin in (use, "ImportError: "), (run, "error: "):
            done = subprocess.run([sys.executable, "-c", code + what], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("\n" + begin + sentence, "\n" + done.stderr)
