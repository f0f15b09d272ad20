"""rotary.config on every form of a config, beside the program's inspect."""

import json
import pathlib
import pickle
import shutil
import tempfile
import unittest

import rotary
from support import CONFIGS, refused, run_python

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
         "num_hidden_layers": 3, "rope_theta": 10000.0, "max_position_embeddings": 128}  # fmt: skip


class Pretrained:
    """A config with the method of transformers.PretrainedConfig that is called."""

    def to_dict(self):
        return dict(LLAMA)


class Model:
    config = Pretrained()


class Models(unittest.TestCase):
    """A sheet of models in place of the package's."""

    def test_rows_of_ones_own(self):
        mine = {"model_type": "my_model", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
        sheet = {"schema": 1, "data": "mine-1", "extends": True,
                 "models": {"my_model": {"pairing": "interleaved", "base": 5000}}}
        with tempfile.TemporaryDirectory() as folder:
            good, bad = pathlib.Path(folder, "good.json"), pathlib.Path(folder, "bad.json")
            good.write_text(json.dumps(sheet))
            sheet["models"]["my_model"]["base"] = "5000"
            bad.write_text(json.dumps(sheet))
            own = rotary.use_models(None)
            self.addCleanup(rotary.use_models, None)
            refused(self, "MODEL_TYPE", lambda: rotary.config(mine))
            self.assertEqual(rotary.use_models(good), own + "+mine-1")
            self.assertEqual((rotary.config(mine)[0].base, rotary.config(mine)[0].pairing), (5000, "interleaved"))
            self.assertIn("models.my_model.base", refused(self, "FORMAT", lambda: rotary.use_models(str(bad))))
            code = f"import rotary; print(rotary.config({mine})[0].base)"
            self.assertEqual(run_python("-c", code, ROTARY_MODELS=str(good)), "5000.0\n")
        rotary.use_models(None)
        refused(self, "MODEL_TYPE", lambda: rotary.config(mine))

    def test_the_package_carries_the_sheet_as_a_file(self):
        """Another sheet in the package's folder is a data release: the code stays."""
        package = pathlib.Path(rotary.__file__).parent
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(package, pathlib.Path(folder, "rotary"), ignore=shutil.ignore_patterns("__pycache__"))
            path = pathlib.Path(folder, "rotary", "models.json")
            sheet = json.loads((CONFIGS.parents[2] / "models/models.json").read_text())
            sheet["data"], sheet["models"]["my_model"] = "2027.1.1", {"base": 5000}
            path.write_text(json.dumps(sheet))
            code = "import rotary; print(rotary.use_models(None), rotary.__file__)"
            printed = run_python("-c", code, PYTHONPATH=folder)
            self.assertEqual(printed.split(), ["2027.1.1", str(path.with_name("__init__.py"))])


class Config(unittest.TestCase):
    def test_entries(self):
        ropes = rotary.config(LLAMA)
        self.assertEqual((ropes.model_type, len(ropes), list(ropes)), ("llama", 1, [ropes[0]]))
        one = ropes[-1]
        self.assertEqual(one.rope, rotary.Rope(head_dim=16, base=10000.0, pairing="half"))
        self.assertEqual((one.layers, one.heads, one.kv_heads, one.first, one.context), ((0, 1, 2), 4, 2, 0, 128))
        for value, word, key in (("base", "given", "rope_theta"), ("pairing", "default", "llama")):
            self.assertEqual((one.origins[value], one.origin_kinds[value]), ((word, key), word))
        self.assertEqual([f"{part}: {text}" if part else text for part, _, text in ropes.noted], list(ropes.notes))
        self.assertIn("scaling", {kind for _, kind, _ in ropes.noted})
        self.assertEqual(one.notes, ropes.notes)
        self.assertEqual(rotary.Table(one, [1, 2]), rotary.Table(one.rope, [1, 2]))
        self.assertEqual(rotary.frequencies(one), rotary.frequencies(one.rope))
        self.assertEqual((one.head_dim, one.base, one.pairing), (16, 10000.0, "half"))
        self.assertEqual(one.scaling, rotary.scalings.Unscaled())
        self.assertIn("llama", repr(ropes))
        self.assertIn("4/2 heads of 16, half, base 10000", repr(one))

    def test_entries_and_configs_stand_for_their_rope(self):
        one = rotary.config(LLAMA)
        table, speeds = rotary.Table(one[0].rope, range(4)), rotary.frequencies(one[0].rope)
        text = json.dumps(LLAMA)
        for source in (one, one[0], one[0].rope, speeds, LLAMA, text, text.encode(), Pretrained(), Model()):
            self.assertEqual((rotary.Table(source, range(4)), rotary.frequencies(source)), (table, speeds))
        self.assertEqual(rotary.Table.between(one, range(4), LLAMA, range(4)).cos.min(), 1)
        several = rotary.config(CONFIGS / "gemma-3-27b.json")
        for layer in (0, 5, 6, 11):
            self.assertIn(layer, several.for_layer(layer).layers)
        self.assertNotEqual(several.for_layer(0).rope, several.for_layer(5).rope)
        for wrong in (lambda: several.for_layer(1000), lambda: several.for_layer(0, "audio_config"),
                      lambda: rotary.Table(several, 1), lambda: rotary.frequencies(several)):
            refused(self, "ROPE", wrong)
        for wrong in (7, None, [LLAMA], object()):
            with self.assertRaisesRegex(TypeError, r"^\[Table\] a rope must be"):
                rotary.Table(wrong, 1)
            with self.assertRaisesRegex(TypeError, "^config must be a path, a dict,"):
                rotary.config(wrong)

    def test_errors(self):
        for code, source in {
            "FILE": "/no/such/folder/config.json",
            "JSON": "{",
            "CONFIG_KEY": {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 2.0, "rope_speed": 3}},
            "MODEL_TYPE": {**LLAMA, "model_type": "llamo"},
        }.items():
            with self.subTest(code):
                sentence = refused(self, code, lambda: rotary.config(source))
                self.assertNotIn("ConfigOptions", sentence)
        self.assertIn("pairing=", sentence)
        known = rotary.config({**LLAMA, "model_type": "llamo"}, pairing="interleaved")
        self.assertEqual(known[0].pairing, "interleaved")

    def test_every_config_as_the_program_reads_it(self):
        paths = sorted(CONFIGS.glob("*.json"))
        self.assertGreater(len(paths), 50)
        for path in paths:
            ropes = rotary.config(path)
            self.assertEqual(pickle.loads(pickle.dumps(ropes)), ropes)
            for one in ropes:
                self.assertEqual(rotary.Table(one, range(3)).shape, (3, one.rotary_dim // 2), path.name)
        for path in paths[:: len(paths) // 12]:
            with self.subTest(path.name):
                ropes, printed = rotary.config(path), json.loads(run_python("-m", "rotary", "inspect", path, "--json"))
                self.assertEqual((ropes.model_type, list(ropes.notes)), (printed["model_type"], printed["notes"]))
                for one, by_program in zip(ropes, printed["ropes"], strict=True):
                    speeds = rotary.frequencies(one.rope, 0)
                    read = {"pairing": one.rope.pairing, "layers": list(one.layers), "heads": one.heads,
                            "kv_heads": one.kv_heads, "scaling": one.rope.scaling.name,
                            "inv_freq": speeds.inv_freq.tolist(), "attention_factor": speeds.attention_factor}
                    self.assertEqual(read, {name: by_program[name] for name in read})

    def test_query_scale(self):
        four = {**LLAMA, "model_type": "llama4_text", "num_hidden_layers": 4, "head_dim": 16}
        steps = [1.0, 1.0, 1.0693147182464600]  # 1 + 0.1 ln 2 in float32
        self.assertEqual(list(rotary.tools.query_scale(four, [-1, 8190, 8191], 3)), steps)
        self.assertEqual(list(rotary.tools.query_scale(four, [8191], layer=0)), [1.0])
        self.assertEqual(rotary.tools.query_scale(LLAMA, [[1, 2]]).tolist(), [[1.0, 1.0]])
        refused(self, "ROPE", lambda: rotary.tools.query_scale(four, [0]))
        refused(self, "ROPE", lambda: rotary.tools.query_scale(LLAMA, [0], 1000))
        refused(self, "POSITION", lambda: rotary.tools.query_scale(four, [0.5], 3))

    def test_rope_parameters(self):
        yarn = rotary.scalings.Yarn(factor=4, trained_length=4096)
        rope = rotary.Rope(head_dim=64, base=5e5, pairing="half", scaling=yarn)
        parameters = rotary.tools.rope_parameters(rope)
        self.assertEqual((parameters["rope_type"], parameters["factor"]), ("yarn", 4.0))
        again = rotary.config({**LLAMA, "head_dim": 64, "rope_parameters": parameters})
        self.assertEqual(again[0].rope, rope)
