"""The rows that torch's own operations make, beside those of rotary.Table and of mpmath."""

import unittest

import numpy as np
import rotary
from support import bits, refused
from torch_support import needs_torch, torch

if torch is not None:
    from rotary._torch.rows import RowMaker

WORDS = {"head_dim": 128, "base": 5e5, "pairing": "half"}
FAR = [1 + i / 9 for i in range(64)]
LONG = rotary.scalings.LongRope(short_factor=[1.0] * 64, long_factor=FAR, trained_length=4096, factor=32)
FARTHEST = 0, 131072 - 256, 2**20, 2**31 - 256  # the first of 256 positions


def unequal(source, positions, **words):
    """The number of values whose bits are not those of a rotary.Table."""
    table = rotary.Table(source, positions, **words)
    rows = RowMaker(source, words.get("angles", "exact"), words.get("rounding", "f32")).at(torch.tensor(positions))
    for one in rows:
        assert (one.dtype, one.shape) == (torch.float32, table.shape)
    return sum(int((bits(a) != bits(b.numpy())).sum()) for a, b in zip((table.cos, table.sin), rows))


@needs_torch
class Rows(unittest.TestCase):
    def test_bits_of_a_table(self):
        plain = rotary.Rope(**WORDS)
        yarn, amplitude = rotary.scalings.Yarn(factor=4, trained_length=4096), rotary.scalings.XPos(scale=512, center=9)
        for rope in (plain, plain.replace(scaling=yarn), plain.replace(scaling=LONG), plain.replace(clockwise=True),
                     plain.replace(phase=[i / 9 for i in range(64)])):  # fmt: skip
            for first in FARTHEST:
                self.assertEqual(unequal(rope, np.arange(first, first + 256)), 0)
                self.assertEqual(unequal(rope, -np.arange(first, first + 9)), 0)
            for words in ({"rounding": "f16"}, {"rounding": "bf16"}, {"angles": "float32"}):
                if not rope.phase or "rounding" in words:
                    self.assertLessEqual(unequal(rope, np.arange(131000, 131256), **words), 1)
        for far in (9, 100000):
            self.assertEqual(unequal(plain.replace(xpos=amplitude.replace(center=far)), np.arange(9000, 9256) + far), 0)
        for kind in (np.float32, np.float64):
            self.assertEqual(unequal(plain, np.linspace(-3, 50, 256).astype(kind)), 0)

    def test_dynamic_scaling_differs_in_a_last_bit_at_most(self):
        rope = rotary.Rope(**WORDS, scaling=rotary.scalings.Dynamic(factor=4, trained_length=4096))
        self.assertEqual(unequal(rope, np.arange(4096)), 0)
        self.assertEqual(unequal(rope, np.arange(9000), angles="float32"), 0)
        self.assertLess(unequal(rope, np.arange(20000, 20000 + 4096)), 100)
        table, (cos, _) = rotary.Table(rope, range(20000)), RowMaker(rope, "exact", "f32").at(torch.arange(20000))
        self.assertLess(np.abs(table.cos - cos.numpy()).max(), 1e-7)
        several = rope.replace(axis=rotary.makers.sectioned_axes([16, 24, 24]))
        self.assertLess(unequal(several, np.arange(9000).reshape(3, 3000)), 30)

    def test_axes_heads_and_phases(self):
        random = np.random.default_rng(0)
        axes = rotary.Rope(head_dim=64, pairing="half", axis=rotary.makers.interleaved_axes([16, 8, 8]))
        for shape in ((64,), (3, 64), (1, 64), (3, 2, 64)):
            self.assertEqual(unequal(axes, random.integers(0, 100000, shape)), 0)
        speeds, phase = random.normal(size=(2, 3, 8)), random.normal(size=(2, 8))
        for words in ({}, {"phase": phase}, {"attention_factor": 1.5}):
            source = rotary.makers.Frequencies(speeds, pairing="half", **words)
            for shape in ((3, 64), (3, 2, 64)):
                self.assertEqual(unequal(source, random.integers(-9999, 9999, shape)), 0)

    def test_float64(self):
        import mpmath  # torch needs it

        rope, q = rotary.RotaryEmbedding(**WORDS, layout="thd"), torch.randn(5, 2, 128, dtype=torch.float64)
        places = [0, 1, 1000, 131071, 2**30]
        table = rope.table(places, dtype=torch.float64)
        with mpmath.workprec(200):
            for row, place in enumerate(places):
                for column, speed in enumerate(rotary.frequencies(rope.rope).inv_freq):
                    angle = mpmath.mpf(place) * mpmath.mpf(float(speed))
                    self.assertLess(abs(mpmath.cos(angle) - float(table.cos[row, column])), 1e-15)
                    self.assertLess(abs(mpmath.sin(angle) - float(table.sin[row, column])), 1e-15)
        self.assertTrue(torch.equal(rope(q, positions=places), rotary.rotate(q, table, layout="thd")))

    def test_tensors_of_a_table(self):
        table = rotary.Table(rotary.Rope(**WORDS), range(5))
        for words, kind in (((), torch.float32), (("cpu", torch.bfloat16), torch.bfloat16)):
            cos, sin = table.tensors(*words)
            self.assertTrue(torch.equal(cos, torch.tensor(table.cos).to(kind)) and cos.dtype == sin.dtype == kind)
            cos.zero_()  # a copy
            self.assertEqual(table.cos[0, 0], 1)

    def test_refusals(self):
        rope = rotary.RotaryEmbedding(**WORDS, layout="thd")
        q = torch.randn(5, 2, 128, device="meta")
        places = torch.arange(5)
        axes = rotary.RotaryEmbedding(rotary.Rope(head_dim=8, pairing="half", axis=[0, 0, 1, 1]), layout="thd")
        for code, of, positions in (
            ("DTYPE", rope, places.bool()), ("DTYPE", rope, places.half()), ("DTYPE", rope, places.to(torch.cfloat)),
            ("TORCH", rope, places.double().requires_grad_()), ("SHAPE", rope, places.view(1, 1, 5)),
            ("SHAPE", axes, torch.zeros(3, 5)), ("SHAPE", axes, torch.zeros(2, 1, 1, 5)),
        ):  # fmt: skip
            refused(self, code, lambda: of(q, positions=positions))
        speeds = rotary.RotaryEmbedding(rotary.frequencies(rope.rope), layout="thd")
        refused(self, "LENGTH", lambda: speeds(q, length=9))

