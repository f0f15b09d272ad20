"""Rope, Frequencies, Table and positions."""

import copy
import dataclasses
import inspect
import json
import pickle
import re
import unittest

import numpy as np
import rotary
from support import CONFIGS, inv_freq, refused, rows
from rotary import _core, makers, scalings

CONFIG = CONFIGS / "deepseek-v3.json"
LLAMA3 = rotary.scalings.Llama3(factor=8, trained_length=8192)


class Values(unittest.TestCase):
    def test_fields_are_those_of_the_library(self):
        rope = rotary.Rope(head_dim=64, pairing="half")
        self.assertEqual(set(json.loads(_core._rope(rope)[1])), {field.name for field in dataclasses.fields(rope)})
        header = (CONFIGS.parents[3] / "core/include/rotary/rope.h").read_text()
        kinds = re.search(r"using Scaling =\s+std::variant<(.+)>;", header)[1].split(", ")
        self.assertEqual(kinds, [kind.__name__ for kind in scalings._scalings.values()])
        for name in kinds:
            fields = re.findall(r"^  \S+ (\w+) = (.+?);", header.split(f"struct {name} {{\n")[1].split("\n};")[0], re.M)
            value = getattr(scalings, name)()  # {} is None, or no numbers
            self.assertEqual([(n, getattr(value, n) or {}) for n in vars(value)],
                             [(n, json.loads(default) or {}) for n, default in fields])  # fmt: skip
        self.assertEqual(str(inspect.signature(rotary.scalings.Linear)), "(*, factor: 'float' = 1.0) -> None")
        with self.assertRaisesRegex(TypeError, r"Linear.__init__\(\) got an unexpected keyword argument 'base'"):
            rotary.scalings.Linear(base=2)

    def test_frozen_compares_hashes_pickles(self):
        a = rotary.Rope(head_dim=128, base=5e5, pairing="half", scaling=LLAMA3, inv_freq=np.ones(64))
        b = rotary.Rope(head_dim=128, base=5e5, pairing="half", scaling=LLAMA3, inv_freq=[1.0] * 64, rotary_dim=128)
        for value, *same in ((a, b, eval_of(a)), (LLAMA3, eval_of(LLAMA3)), (rotary.config(CONFIG),),
                             (rotary.makers.Frequencies(inv_freq(8), pairing="half", axis=[0, 1] * 2, clockwise=True),),
                             *((rotary.Table(a, positions),) for positions in (range(5), [[0, 1], [2, 3]], [0.5], 3))):
            for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value), *same):
                self.assertEqual((again, hash(again)), (value, hash(value)))
        self.assertNotEqual(a, a.replace(base=1e6))
        self.assertNotEqual(rotary.Table(a, 1), rotary.Table(a, 2))
        by_numpy = rotary.Rope(head_dim=np.int64(8), base=np.float32(100), pairing="half",
                               scaling=rotary.scalings.Linear(factor=2))
        self.assertEqual({type(by_numpy.head_dim), type(by_numpy.base), type(by_numpy.scaling.factor)}, {int, float})
        self.assertNotEqual(LLAMA3, rotary.scalings.Linear(factor=8))
        for value, name in ((a, "base"), (LLAMA3, "factor"), (rotary.config(CONFIG), "model_type"),
                            (rotary.Table(a, 1), "cos")):  # fmt: skip
            with self.assertRaises(AttributeError):
                setattr(value, name, 1.0)
            with self.assertRaises(AttributeError):
                delattr(value, name)

    def test_errors(self):
        given = {"head_dim": 6, "pairing": "half"}
        for code, wrong in (
            ("PAIRING", {"pairing": None}), ("PAIRING", {"pairing": "\ud800"}), ("SHAPE", {"rotary_dim": 5}),
            ("SHAPE", {"head_dim": 2**31 - 2}), ("SHAPE", {"head_rows": 0, "phase": [0.0] * 3}),
            ("SCALING", {"scaling": rotary.scalings.Linear(factor=0.5)}), ("VALUE", {"base": 10**400}),
        ):  # fmt: skip
            refused(self, code, lambda: rotary.Rope(**{**given, **wrong}))  # noqa: B023
        with self.assertRaises(ValueError) as caught:
            rotary.Rope(head_dim=64, pairing="halves")
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((again.code, str(again)), (caught.exception.code, str(caught.exception)))
        for wrong in (
            {"head_dim": "6"}, {"scaling": "yarn"}, {"clockwise": 1}, {"axis": "half"}, {"base": None},
            {"index": [0.9, 1.9, 2.9]}, {"index": ["0", "1", "2"]}, {"multiplier": ["1"] * 3}, {"phase": ["0"] * 3},
            {"head_rows": [1]},
        ):  # fmt: skip
            with self.subTest(wrong), self.assertRaises(TypeError):
                rotary.Rope(**{**given, **wrong})

    def test_words_of_model_cards(self):
        half = rotary.Rope(head_dim=64, base=5e5, rotary_dim=32, pairing="half")
        for words in ({"theta": 5e5}, {"rope_theta": 5e5}, {"base": 5e5, "theta": 5e5}):
            self.assertEqual(rotary.Rope(head_dim=64, pairing="neox", partial_rotary_factor=0.5, **words), half)
        yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096, "rope_theta": 5e5}
        scaled = half.replace(scaling=rotary.scalings.Yarn(factor=4, trained_length=4096))
        self.assertEqual(rotary.Rope(head_dim=64, rotary_dim=32, pairing="half", scaling=yarn), scaled)
        whole = {**yarn, "partial_rotary_factor": 0.5}
        self.assertEqual(rotary.Rope(head_dim=64, pairing="half", scaling=whole), scaled)
        self.assertEqual(scalings.read(yarn), scaled.scaling)
        far = {"rope_type": "longrope", "short_factor": [1.0] * 3, "long_factor": [2.0] * 3, "factor": 8.0}
        far["original_max_position_embeddings"] = 4096
        self.assertEqual(scalings.read(far).long_factor, (2.0,) * 3)
        for code, words in (
            ("CONFIG_MISSING", {"scaling": {"rope_type": "yarn", "factor": 4.0}}),
            ("CONFIG_MISSING", {"scaling": {name: far[name] for name in far if name != "factor"}, "rotary_dim": 6}),
            ("CONFIG_KEY", {"scaling": {**yarn, "speed": 1}}), ("CONFIG_VALUE", {"scaling": {"rope_type": "yarned"}}),
            ("VALUE", {"scaling": yarn, "base": 1e6}), ("VALUE", {"theta": 1e6, "base": 5e5}),
            ("VALUE", {"rotary_dim": 16, "partial_rotary_factor": 0.5}),
        ):  # fmt: skip
            sentence = refused(self, code, lambda: rotary.Rope(**{"head_dim": 64, "pairing": "half", **words}))
            self.assertTrue(sentence.startswith("[Rope] "), sentence)

    def test_axes(self):
        self.assertEqual(rotary.makers.interleaved_axes([2, 1, 1])[:3], (0, 1, 2))
        self.assertEqual(len(rotary.makers.ernie_axes([4, 4, 2])), 10)
        self.assertEqual(rotary.makers.axial(head_dim=8, axes=2, base=100, pairing="half").axis, (0, 0, 1, 1))
        Axis = rotary.makers.Axis
        axes = Axis(width=16, base=256), 0, 56, Axis(width=56, stretch=2)
        rope = rotary.makers.axial(head_dim=130, axes=axes, pairing="interleaved")
        self.assertEqual((rope.rotary_dim, rope.axis), (128, (0,) * 8 + (2,) * 28 + (3,) * 28))
        yarn = rotary.scalings.Yarn(factor=4, trained_length=64)
        axes = Axis(width=8, scaling=yarn), Axis(width=8, base=100, scaling=yarn)
        scaled = rotary.makers.axial(head_dim=16, axes=axes, pairing="half")
        plain = rotary.Rope(head_dim=8, pairing="half", scaling=yarn)
        self.assertEqual(scaled.attention_factor, rotary.frequencies(plain).attention_factor)
        self.assertEqual((eval_of(scaled), eval_of(axes[1])), (scaled, axes[1]))
        for wrong, words in (((8, 3), "even"), ((8, 10), "at most head_dim = 16"), ((), "[1, 256]")):
            given = {"head_dim": 16, "axes": wrong, "pairing": "half"}
            self.assertIn(words, refused(self, "SHAPE", lambda: rotary.makers.axial(**given)))


def eval_of(value):
    names = {**vars(rotary), **vars(scalings), **vars(makers)}
    return eval(repr(value), names)  # repr is the expression that makes it


class TheFrequencies(unittest.TestCase):
    def test_length(self):
        rope = rotary.Rope(head_dim=64, pairing="half", scaling=rotary.scalings.Dynamic(factor=2, trained_length=64))
        self.assertEqual(rotary.frequencies(rope, 64), rotary.frequencies(rope, length=10))
        self.assertNotEqual(rotary.frequencies(rope, 65), rotary.frequencies(rope, 64))
        self.assertEqual(rotary.Table(rope, range(65)), rotary.Table(rope, range(65), length=65))
        self.assertNotEqual(rotary.Table(rope, range(65)), rotary.Table(rope, range(65), 64))
        refused(self, "LENGTH", lambda: rotary.frequencies(rope))
        refused(self, "LENGTH", lambda: rotary.Table(rotary.frequencies(rope, 64), range(65), 64))
        refused(self, "PAIRING", lambda: rotary.makers.Frequencies([1.0], pairing=None))
        refused(self, "SHAPE", lambda: rotary.makers.Frequencies([1.0, 0.5], pairing="half", axis=[0]))


class TheEquation(unittest.TestCase):
    """Ropes with summed axes, phases, amplitudes and rows for each head."""

    random = np.random.default_rng(0)
    speeds, phase = random.normal(size=(2, 3, 8)), random.normal(size=(2, 8))
    places = random.integers(-50, 50, (3, 2, 5))

    def test_shapes_and_values(self):
        for heads, given, words in (
            (2, self.speeds, {}), (2, self.speeds.tolist(), {}), (1, self.speeds[0], {}),
            (2, self.speeds.ravel(), {"head_rows": 2, "summed_axes": 3}),
            (2, self.speeds[:, 0], {"head_rows": 2}),
        ):  # fmt: skip
            words |= {"pairing": "half", "inv_freq": given, "phase": self.phase[:heads]}
            rope, by_hand = rotary.Rope(head_dim=16, **words), rotary.makers.Frequencies(**words)
            self.assertEqual(rotary.frequencies(rope).inv_freq.tolist(), by_hand.inv_freq.tolist())
            summed = by_hand.summed_axes
            self.assertEqual((rope.head_rows, by_hand.head_rows, rope.summed_axes), (heads, heads, summed))
            self.assertEqual((by_hand.axes, by_hand.rotary_dim), (max(1, summed), 16))
            np.testing.assert_array_equal(by_hand.inv_freq, np.asarray(given).reshape(by_hand.inv_freq.shape))
            pickled = pickle.loads(pickle.dumps((rope, by_hand)))
            self.assertEqual((*pickled, eval_of(rope)), (rope, by_hand, rope))
            self.assertNotEqual(rope, rope.replace(phase=()))
            f, places = by_hand.inv_freq.reshape(heads, -1, 8), self.places if summed else self.places[:1]
            angles = np.einsum("abt,hai->bthi", places, f) + self.phase[:heads]
            table = rotary.Table(rope, places if summed else places[0])
            self.assertEqual(table, rotary.Table(by_hand, places if summed else places[0]))
            self.assertEqual(table.shape, (2, 5, 2, 8) if heads > 1 else (2, 5, 8))
            self.assertEqual((table.tokens, table.batch, table.head_rows, table.pairs), (5, 2, heads, 8))
            for got, exact in ((table.cos, np.cos(angles)), (table.sin, np.sin(angles))):
                self.assertLessEqual(np.abs(got - exact.reshape(table.shape)).max(), 1e-7)
            for again in (pickle.loads(pickle.dumps(table)), rotary.from_rows(table.cos, table.sin, pairing="half")):
                self.assertEqual((again.shape, again.cos.tolist()), (table.shape, table.cos.tolist()))

    def test_heads_that_only_their_phases_tell_apart(self):
        """Frequencies [pairs] with phases [head_rows, pairs]."""
        for axes, words in (
            (1, {"base": 100.0, "multiplier": [2.0] * 8}),
            (2, {"axis": [0, 1] * 4}),
            (3, {"inv_freq": self.speeds[0], "attention_factor": 1.5}),
        ):
            plain = rotary.Rope(head_dim=16, pairing="half", **words)
            row = rotary.frequencies(plain).inv_freq.ravel().tolist()
            expected = plain.replace(inv_freq=row * 2, head_rows=2, multiplier=(), phase=self.phase)
            alike, places = plain.replace(phase=self.phase), self.places[:axes] if axes > 1 else self.places[0]
            self.assertEqual((alike, rotary.Table(alike, places)), (expected, rotary.Table(expected, places)))
            self.assertEqual((pickle.loads(pickle.dumps(alike)), eval_of(alike)), (alike, alike))
        words = {"pairing": "half", "axis": [0, 1] * 4}
        alike = rotary.makers.Frequencies(inv_freq(16), phase=self.phase, **words)
        each = rotary.makers.Frequencies(np.tile(inv_freq(16), (2, 1)), head_rows=2, phase=self.phase, **words)
        self.assertEqual(alike, each)
        refused(self, "SHAPE", lambda: rotary.Rope(head_dim=18, pairing="half", phase=self.phase))

    def test_an_amplitude(self):
        xpos = rotary.scalings.XPos(scale=64, center=10, reciprocal=True)
        rope = rotary.Rope(head_dim=16, pairing="half", xpos=xpos)
        self.assertEqual((eval_of(rope), rotary.frequencies(rope).xpos), (rope, xpos))
        self.assertEqual(pickle.loads(pickle.dumps(rope)), rope)
        q, table = np.ones((30, 16), np.float32), rotary.Table(rope, range(30))
        zeta = ((2 * np.arange(8) + 0.4 * 16) / (1.4 * 16)) ** (10 / 64)
        np.testing.assert_allclose(table.cos[0], zeta, rtol=2e-7)
        for one in (table, pickle.loads(pickle.dumps(table))):
            with self.assertRaisesRegex(rotary.Error, "must have no xPos"):
                rotary.rotate_qk(q, q, one, layout="td")

    def test_refusals(self):
        words = {"pairing": "half"}
        for part, inv_freq, more in (
            ("head_rows 3", self.speeds, {"head_rows": 3}), ("one length", [[1.0, 2.0], [3.0]], {}),
            ("phase must", self.speeds, {"phase": [1.0]}), ("at least 1", [1.0, 2.0], {"head_rows": 0}),
            ("summed_axes 0", [1.0, 2.0], {"summed_axes": -1}),
        ):  # fmt: skip
            make = lambda: rotary.makers.Frequencies(inv_freq, **more, **words)  # noqa: B023, E731
            self.assertIn(part, refused(self, "SHAPE", make))
        wide, speeds = {"head_dim": 18, "inv_freq": self.speeds}, rotary.makers.Frequencies(self.speeds, **words)
        for make, part in ((lambda: rotary.Rope(**wide, **words), "9 pairs for each head but got 8"),
                           (lambda: rotary.Table(speeds, [1, 2]), "3 axes")):  # fmt: skip
            self.assertIn(part, refused(self, "SHAPE", make))


class TheTable(unittest.TestCase):
    rope = rotary.Rope(head_dim=64, pairing="half")

    def test_values(self):
        table = rotary.Table(self.rope, range(100))
        for got, expected in zip((table.cos, table.sin), rows(np.arange(100), inv_freq(64))):
            np.testing.assert_array_max_ulp(got, expected, 1)
        self.assertEqual((table.shape, table.pairs, table.tokens, table.batch), ((100, 32), 32, 100, 1))

    def test_forms_of_positions(self):
        expected = rotary.Table(self.rope, [3, 4, 5])
        for positions in (range(3, 6), (3, 4, 5), np.array([3, 4, 5]), np.array([3, 4, 5], np.uint8),
                          np.array([3, 9, 4, 9, 5], np.int32)[::2], np.array([3, 4, 5], np.int16), [3.0, 4.0, 5.0],
                          np.array([3, 4, 5], np.float32), memoryview(np.array([3, 4, 5])),
                          np.array([3, 4, 5], np.uint64)):
            table = rotary.Table(self.rope, positions)
            self.assertEqual(np.asarray(table.cos).tobytes(), np.asarray(expected.cos).tobytes())
            self.assertEqual(np.asarray(table.positions).tolist(), [3, 4, 5])
        self.assertEqual(rotary.Table(self.rope, np.int64(7)).cos.tolist(), rotary.Table(self.rope, [7]).cos.tolist())
        for positions, shape in ((7, (1, 32)), ([[1, 2, 3], [4, 5, 6]], (2, 3, 32)), ([[], []], (2, 0, 32)),
                                 (np.arange(6).reshape(1, 6), (1, 6, 32))):  # fmt: skip
            self.assertEqual(rotary.Table(self.rope, positions).shape, shape)
        for positions in (range(9, 0, -3), [-1, 0.5], range(5, 6, 2**70), [2**63 - 1]):
            self.assertEqual(rotary.Table(self.rope, positions).positions.tolist(), [*positions])

    def test_several_axes(self):
        rope = rotary.Rope(head_dim=64, pairing="half", axis=rotary.makers.sectioned_axes([16, 8, 8]))
        text, same = rotary.Table(rope, range(5)), rotary.Table(rope, np.stack([np.arange(5)] * 3))
        self.assertEqual(text.cos.tolist(), same.cos.tolist())
        grid = np.array([[0, 0, 0], [5, 5, 6], [1, 2, 3]])
        table = rotary.Table(rope, grid).cos
        for pair, axis in enumerate(rope.axis):
            self.assertEqual(table[:, pair].tolist(), rotary.Table(self.rope, grid[axis]).cos[:, pair].tolist())
        self.assertEqual(rotary.Table(rope, grid[:, None, :]).shape, (1, 3, 32))
        refused(self, "SHAPE", lambda: rotary.Table(rope, np.zeros((2, 5), int)))

    def test_tokens_of_a_table(self):
        axes = rotary.Rope(head_dim=64, pairing="half", axis=rotary.makers.sectioned_axes([16, 8, 8]))
        grid = np.arange(15).reshape(3, 5)
        for table in (rotary.Table(self.rope, range(100, 105)), rotary.Table(self.rope, np.arange(10.0).reshape(2, 5)),
                      rotary.Table(axes, grid), rotary.Table(axes, grid[:, None])):  # fmt: skip
            for index in (slice(1, 4), slice(None, None, 2), [4, 0], np.array([3, 3, 1]), slice(-1, None)):
                part, of = table[index], (axes if table.positions.shape[0] == 3 else self.rope)
                self.assertEqual(part, rotary.Table(of, table.positions[..., index]))
                self.assertEqual(len(part), part.tokens)
            self.assertEqual((table[2], table[-1]), (table[2:3], table[4:]))
            with self.assertRaises(TypeError):
                iter(table)
            with self.assertRaises(IndexError):
                table[[9]]
        rows = rotary.Table(self.rope, range(9))[[[1, 2, 3], [6, 7, 8]]]
        self.assertEqual(rows, rotary.Table(self.rope, [[1, 2, 3], [6, 7, 8]]))
        for positions, index in (([[0, 1], [2, 3]], [[0, 1], [1, 0]]), (range(9), [[[1, 2, 3]]])):  # no rows per head
            refused(self, "SHAPE", lambda: rotary.Table(self.rope, positions)[index])  # noqa: B023

    def test_wrong_positions(self):
        for code, *wrong in (
            ("POSITION", [2**63], range(2**63, 2**63 + 1), [float("nan")], np.array([2**64 - 1], np.uint64),
             [2**60 + 1, 0.5]),
            ("SHAPE", np.zeros((1, 2, 3, 4), int), [[1, 2], [3]], [[1], 2], [[[[1]]]]),
            ("DTYPE", np.array([True, False]), np.array([3, 4, 5], np.float16),  # float16 has no 2049
             np.datetime64(1, "s"), np.array([1], "m8[s]"), np.bytes_(b"abc")),
        ):  # fmt: skip
            for positions in wrong:
                with self.subTest(positions):
                    refused(self, code, lambda: rotary.Table(self.rope, positions))  # noqa: B023
        for bad in ("0:8", None, [True], ["a"], object(), {1: 2}):
            with self.subTest(bad), self.assertRaises(TypeError):
                rotary.Table(self.rope, bad)

    def test_values_cannot_be_written(self):
        table = rotary.Table(self.rope, range(4))
        for array in (table.cos, table.sin, table.positions, rotary.frequencies(self.rope).inv_freq):
            self.assertIs(type(array), np.ndarray)
            self.assertTrue(memoryview(array).readonly and not array.flags.writeable)
            with self.assertRaises(ValueError):
                array.flags.writeable = True

    def test_damaged_pickles(self):
        """A state that does not fit raises an ordinary error."""
        table = rotary.Table(self.rope, range(5))
        speeds = rotary.makers.Frequencies([1.0, 0.5], pairing="half", axis=[0, 1])
        of_table = {
            0: [b"", b"1", None],
            1: [b""],
            2: [(), (5,), (5, -32), (-5, -32), (1,) * 40, (5, 2**40), ("a", 32), None],
            3: ["halves", 3, None],
            4: [3, (), ("I64", (5,), b"1234"), ("I64", (-5,), b"1" * 800000), ("I64", (1,) * 40, b"12345678" * 2),
                ("?", (5,), b"1" * 40), ("I64", (2**62, 4), b""), ("I64", (3,), b"12345678" * 3),
                ("I64", (1, 1, 1, 5), b"12345678" * 5)],
            5: [1, None],
        }
        of_speeds = {0: [b"1", b"12345678", None], 1: ["x", None], 2: [b"\0", 7], 3: ["a"], 5: [b"1", b"1234"]}
        for value, wrong in ((table, of_table), (speeds, of_speeds)):
            restore, state = value.__reduce__()
            self.assertEqual(restore(*state), value)
            for place, others in wrong.items():
                for other in others:
                    with self.subTest(kind=type(value), place=place, other=other):
                        with self.assertRaises((ValueError, TypeError, KeyError, OverflowError)):
                            restore(*state[:place], other, *state[place + 1 :])

    def test_rounding_and_angles(self):
        exact = np.asarray(rotary.Table(self.rope, range(9)).cos)
        half = np.asarray(rotary.Table(self.rope, range(9), rounding="f16").cos)
        np.testing.assert_array_equal(half, exact.astype(np.float16).astype(np.float32))
        steps = np.asarray(rotary.Table(self.rope, range(9), angles="float32").cos)
        self.assertTrue(0 < np.abs(steps - exact).max() < 1e-5)
        refused(self, "VALUE", lambda: rotary.Table(self.rope, 1, angles="rough"))


class Between(unittest.TestCase):
    plain = rotary.Rope(head_dim=64, pairing="half")

    def test_moves_keys_from_one_rope_and_place_to_another(self):
        yarn = self.plain.replace(scaling=rotary.scalings.Yarn(factor=4, trained_length=512))
        for to, factor in ((self.plain, 1.0), (yarn, rotary.frequencies(yarn).attention_factor)):
            turn = rotary.Table.between(self.plain, range(1000, 1005), rotary.frequencies(to), [3, 4, 5, 6, 70000])
            before = np.arange(1000, 1005)[:, None] * rotary.frequencies(self.plain).inv_freq
            apart = np.array([3, 4, 5, 6, 70000])[:, None] * rotary.frequencies(to).inv_freq - before
            np.testing.assert_allclose((turn.cos, turn.sin), (factor * np.cos(apart), factor * np.sin(apart)), 0, 1e-6)
            self.assertIsNone(turn.positions)
            self.assertEqual(pickle.loads(pickle.dumps(turn)), turn)
        self.assertEqual(rotary.Table.between(yarn, 7, yarn, 7).cos.tolist(), [[1.0] * 32], "the factor is a ratio")
        turn = rotary.Table.between(self.plain, np.arange(6).reshape(2, 3), self.plain, [[0] * 3] * 2)
        self.assertEqual(turn.shape, (2, 3, 32))
        other = self.plain.replace(pairing="interleaved")
        for to, places in ((self.plain, [1, 2, 3]), (other, [1, 2])):
            with self.assertRaises(rotary.Error):
                rotary.Table.between(self.plain, [1, 2], to, places)
